#include "formats/torch_file.h"

#include "base/error.h"
#include "base/utf8.h"
#include "formats/pickle.h"
#include "formats/zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TORCH_DEPTH = 16, TORCH_NAME = 512, TORCH_COPIES = 4 };
enum { TORCH_DICT, TORCH_TENSOR_V2, TORCH_TENSOR, TORCH_PARAMETER, TORCH_SIZE, TORCH_STORAGES };

static const char *const torch_globals[] = {
    "collections OrderedDict",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_parameter",
    "torch Size",
    "torch FloatStorage",
    "torch HalfStorage",
    "torch BFloat16Storage",
    "torch IntStorage",
    "torch BoolStorage",
    "torch DoubleStorage",
    "torch LongStorage",
    "torch ShortStorage",
    "torch CharStorage",
    "torch ByteStorage",
};
enum { TORCH_GLOBALS = sizeof torch_globals / sizeof *torch_globals };

/* Of the storages, from TORCH_STORAGES on. */
static const struct {
    const char *name;
    int32_t dtype;
    uint32_t bytes;
} torch_types[] = {{"F32", PCO_F32, 4},   {"F16", PCO_F16, 2}, {"BF16", PCO_BF16, 2}, {"I32", PCO_I32, 4},
                   {"BOOL", PCO_BOOL, 1}, {"F64", -1, 8},      {"I64", -1, 8},        {"I16", -1, 2},
                   {"I8", -1, 1},         {"U8", -1, 1}};

/* What several tensors may lie in. */
typedef struct torch_storage {
    const char *key; /* [size] */
    uint32_t size, type;
    const unsigned char *data;
    uint64_t bytes;
} torch_storage;

typedef struct torch_reader {
    const unsigned char *data;
    size_t size;
    const char *label;
    pco_pickle pickle;
    torch_storage *storages; /* sorted by key */
    uint32_t n_storages;
    pco_weights *weights;
    uint64_t copied; /* bytes of tensors that do not lie in order */
    uint64_t most_tensors;
    pco_status status;
    pco_error *err;
} torch_reader;

#define TORCH_FAIL(r, code, ...) \
    do { \
        if (!(r)->status) (r)->status = pco_fail((r)->err, (code), __VA_ARGS__); \
    } while (0)

int pco_torch_is(const void *data, size_t size)
{
    const unsigned char *p = data;
    if (size < 4) return 0;
    return memcmp(p, "PK\3\4", 4) == 0 || (p[0] == 0x80 && p[1] >= 2 && p[1] <= 5);
}

/* ---- storages ----------------------------------------------------------------------------------------- */

static int torch_compare(const void *a, const void *b)
{
    const torch_storage *x = a, *y = b;
    const int order = memcmp(x->key, y->key, x->size < y->size ? x->size : y->size);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static torch_storage *torch_find(const torch_reader *r, const char *key, uint32_t size)
{
    const torch_storage wanted = {.key = key, .size = size};
    return r->n_storages ? bsearch(&wanted, r->storages, r->n_storages, sizeof wanted, torch_compare) : NULL;
}

static const pco_pickle_node *torch_node(const torch_reader *r, uint32_t node)
{
    return node < r->pickle.n_nodes ? &r->pickle.nodes[node] : &r->pickle.nodes[256]; /* none */
}

/* The id ('storage', type, key, location, elements[, view]) as a storage; 0 for something else. */
static int torch_read_id(const torch_reader *r, uint32_t id, torch_storage *storage)
{
    const pco_pickle *p = &r->pickle;
    const pco_pickle_node *word = torch_node(r, pco_pickle_item(p, id, 0)),
                          *type = torch_node(r, pco_pickle_item(p, id, 1)),
                          *key = torch_node(r, pco_pickle_item(p, id, 2)),
                          *view = torch_node(r, pco_pickle_item(p, id, 5));
    if (word->kind != PCO_PICKLE_TEXT || word->size != 7 || memcmp(word->is.text, "storage", 7) != 0) return 0;
    if (type->kind != PCO_PICKLE_GLOBAL || type->is.number < TORCH_STORAGES || key->kind != PCO_PICKLE_TEXT) return 0;
    if (view->kind != PCO_PICKLE_NONE) return 0;
    *storage =
        (torch_storage){.key = key->is.text, .size = key->size, .type = (uint32_t)(type->is.number - TORCH_STORAGES)};
    return 1;
}

/* All ids of the pickle, each once. */
static void torch_list_storages(torch_reader *r)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->pickle.n_nodes; i++) count += r->pickle.nodes[i].kind == PCO_PICKLE_PERSISTENT;
    r->storages = malloc((count + 1) * sizeof *r->storages);
    if (!r->storages) TORCH_FAIL(r, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", r->label);
    for (uint32_t i = 0; i < r->pickle.n_nodes && !r->status; i++) {
        if (r->pickle.nodes[i].kind != PCO_PICKLE_PERSISTENT) continue;
        if (torch_read_id(r, (uint32_t)r->pickle.nodes[i].is.number, &r->storages[r->n_storages]))
            r->n_storages++;
        else
            TORCH_FAIL(r, PCO_ERROR_UNSUPPORTED, "%s: a tensor's storage is of a kind that Portico does not read",
                       r->label);
    }
    if (r->status) return;
    qsort(r->storages, r->n_storages, sizeof *r->storages, torch_compare);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->n_storages; i++) {
        if (kept && torch_compare(&r->storages[kept - 1], &r->storages[i]) == 0) {
            if (r->storages[kept - 1].type != r->storages[i].type)
                TORCH_FAIL(r, PCO_ERROR_FORMAT, "%s: a storage has two types", r->label);
            continue;
        }
        r->storages[kept++] = r->storages[i];
    }
    r->n_storages = kept;
}

/* ---- tensors ------------------------------------------------------------------------------------------ */

/* A shape or a stride; 0 for something else. */
static int torch_sizes(const torch_reader *r, uint32_t tuple, uint32_t *rank, int64_t sizes[PCO_MAX_RANK])
{
    const pco_pickle_node *node = torch_node(r, tuple);
    if (node->kind == PCO_PICKLE_CALL &&
        torch_node(r, pco_pickle_item(&r->pickle, tuple, 0))->is.number == TORCH_SIZE) {
        tuple = pco_pickle_item(&r->pickle, pco_pickle_item(&r->pickle, tuple, 1), 0);
        node = torch_node(r, tuple);
    }
    if (node->kind != PCO_PICKLE_TUPLE || node->size > PCO_MAX_RANK) return 0;
    *rank = node->size;
    for (uint32_t i = 0; i < node->size; i++)
        if ((sizes[i] = pco_pickle_size(&r->pickle, pco_pickle_item(&r->pickle, tuple, i))) < 0) return 0;
    return 1;
}

typedef struct torch_view {
    const torch_storage *storage;
    int64_t offset, shape[PCO_MAX_RANK], stride[PCO_MAX_RANK];
    uint32_t rank;
    uint64_t elements;
    int ordered; /* the elements lie one behind the other */
} torch_view;

/* Elements, and whether all of them are in the storage; 0 otherwise. */
static int torch_check_view(torch_view *view)
{
    const uint32_t item = torch_types[view->storage->type].bytes;
    const uint64_t there = view->storage->bytes / item;
    uint64_t last = (uint64_t)view->offset, dense = 1;
    view->elements = 1;
    view->ordered = 1;
    for (uint32_t i = view->rank; i-- > 0;) {
        const uint64_t size = (uint64_t)view->shape[i], stride = (uint64_t)view->stride[i];
        uint64_t reach;
        if (size > 1 && stride != dense) view->ordered = 0;
        if (__builtin_mul_overflow(view->elements, size, &view->elements)) return 0;
        dense = view->elements;
        if (size && (__builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last)))
            return 0;
    }
    if (view->elements == 0) return 1;
    return last < there && view->elements <= UINT64_MAX / 16;
}

/* The tensor that a call makes; 0 for another call. */
static int torch_read_view(const torch_reader *r, uint32_t call, torch_view *view)
{
    const pco_pickle *p = &r->pickle;
    torch_storage id;
    for (int depth = 0; depth < 4; depth++) {
        const pco_pickle_node *callee = torch_node(r, pco_pickle_item(p, call, 0));
        const uint32_t arguments = pco_pickle_item(p, call, 1);
        if (torch_node(r, call)->kind != PCO_PICKLE_CALL) return 0;
        if (callee->is.number == TORCH_PARAMETER) {
            call = pco_pickle_item(p, arguments, 0);
            continue;
        }
        if (callee->is.number != TORCH_TENSOR && callee->is.number != TORCH_TENSOR_V2) return 0;
        const pco_pickle_node *storage = torch_node(r, pco_pickle_item(p, arguments, 0));
        uint32_t rank;
        view->offset = pco_pickle_size(p, pco_pickle_item(p, arguments, 1));
        if (storage->kind != PCO_PICKLE_PERSISTENT || view->offset < 0 ||
            !torch_sizes(r, pco_pickle_item(p, arguments, 2), &view->rank, view->shape) ||
            !torch_sizes(r, pco_pickle_item(p, arguments, 3), &rank, view->stride) || rank != view->rank ||
            !torch_read_id(r, (uint32_t)storage->is.number, &id))
            return 0;
        view->storage = torch_find(r, id.key, id.size);
        return view->storage && view->storage->data;
    }
    return 0;
}

static void torch_gather(const torch_view *view, unsigned char *to)
{
    const uint32_t item = torch_types[view->storage->type].bytes;
    int64_t index[PCO_MAX_RANK] = {0};
    for (uint64_t i = 0; i < view->elements; i++, to += item) {
        int64_t at = view->offset;
        for (uint32_t k = 0; k < view->rank; k++) at += index[k] * view->stride[k];
        memcpy(to, view->storage->data + (uint64_t)at * item, item);
        for (uint32_t k = view->rank; k-- > 0 && ++index[k] == view->shape[k];) index[k] = 0;
    }
}

/* Room for one more copy. It is reserved once, for as much as copies may take; what is not used costs nothing. */
static int torch_room(torch_reader *r, uint64_t bytes)
{
    pco_map *copies = &r->weights->copies;
    const size_t most = r->size < SIZE_MAX / 8 ? TORCH_COPIES * r->size + 4096 : 0;
    if (!copies->data && most) {
        void *room = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (room != MAP_FAILED) *copies = (pco_map){room, most};
        if (room == MAP_FAILED) TORCH_FAIL(r, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", r->label);
    }
    if (!r->status && bytes > copies->size - r->copied)
        TORCH_FAIL(r, PCO_ERROR_FORMAT, "%s: its tensors say that they are far larger than the file", r->label);
    return !r->status;
}

static void torch_add(torch_reader *r, const char *name, uint32_t call)
{
    torch_view view;
    if (r->status) return;
    if (!torch_read_view(r, call, &view) || !torch_check_view(&view)) {
        TORCH_FAIL(r, PCO_ERROR_FORMAT, "%s: tensor '%.200s' does not fit its storage, or is none that Portico reads",
                   r->label, name);
        return;
    }
    const uint32_t item = torch_types[view.storage->type].bytes;
    pco_weight weight = {.type_name = torch_types[view.storage->type].name,
                         .dtype = torch_types[view.storage->type].dtype,
                         .rank = view.rank,
                         .bytes = view.elements * item,
                         .data = view.storage->data + (view.elements ? (uint64_t)view.offset * item : 0)};
    memcpy(weight.shape, view.shape, view.rank * sizeof *view.shape);
    if (!view.ordered && view.elements) {
        const uint64_t room = (weight.bytes + 15) & ~(uint64_t)15;
        if (!torch_room(r, room)) return;
        unsigned char *copy = (unsigned char *)r->weights->copies.data + r->copied;
        r->copied += room;
        torch_gather(&view, copy);
        weight.data = copy;
    }
    if (r->weights->count >= r->most_tensors)
        TORCH_FAIL(r, PCO_ERROR_FORMAT, "%s: it has more tensors than bytes for them", r->label);
    else
        r->status = pco_weights_add(r->weights, &weight, name, strlen(name), r->err);
}

/* Does something that a dict may hold make a tensor? */
static int torch_is_tensor(const torch_reader *r, uint32_t node)
{
    const pco_pickle_node *callee = torch_node(r, pco_pickle_item(&r->pickle, node, 0));
    return torch_node(r, node)->kind == PCO_PICKLE_CALL && callee->kind == PCO_PICKLE_GLOBAL &&
           callee->is.number != TORCH_SIZE;
}

/* The tensors of a dict and of those in it; each dict once, as a pickle may hold it in itself. */
static void torch_walk(torch_reader *r, uint32_t dict, const char *prefix, int depth)
{
    pco_pickle_node *node = dict < r->pickle.n_nodes ? &r->pickle.nodes[dict] : NULL;
    char name[TORCH_NAME];
    if (!node || node->kind != PCO_PICKLE_DICT || node->seen || depth == TORCH_DEPTH) return;
    node->seen = 1;
    for (uint32_t cell = node->is.cells.first; cell != UINT32_MAX && !r->status;) {
        const pco_pickle_cell *key = &r->pickle.cells[cell], *value = &r->pickle.cells[key->next];
        const pco_pickle_node *text = torch_node(r, key->node);
        cell = value->next;
        if (text->kind != PCO_PICKLE_TEXT) continue; /* an optimizer's states have numbers */
        const int tensor = torch_is_tensor(r, value->node);
        const int size = snprintf(name, sizeof name, "%s%.*s", prefix, (int)text->size, text->is.text);
        if (size < 0 || size + 2 > TORCH_NAME || strlen(name) != (size_t)size ||
            pco_utf8_check(name, (size_t)size) < (size_t)size) {
            TORCH_FAIL(r, PCO_ERROR_FORMAT, "%s: the name of a tensor is longer than %d bytes, or no text", r->label,
                       TORCH_NAME);
        } else if (tensor) {
            torch_add(r, name, value->node);
        } else {
            strcat(name, ".");
            torch_walk(r, value->node, name, depth + 1);
        }
    }
}

/* ---- the two kinds of files --------------------------------------------------------------------------- */

static void torch_read_pickle(torch_reader *r, const void *data, size_t size)
{
    pco_pickle_release(&r->pickle);
    if (!r->status) r->status = pco_pickle_read(data, size, r->label, torch_globals, TORCH_GLOBALS, &r->pickle, r->err);
}

/* ROOT/data.pkl, ROOT/data/KEY for each storage, ROOT/byteorder where it is little or big. */
static void torch_read_zip(torch_reader *r)
{
    static const char pickle[] = "data.pkl", order[] = "byteorder";
    pco_zip zip;
    char name[TORCH_NAME];
    const pco_zip_entry *main = NULL;
    r->status = pco_zip_read(r->data, r->size, r->label, &zip, r->err);
    if (r->status) return;
    for (uint32_t i = 0; i < zip.count && !main; i++) {
        const pco_zip_entry *entry = &zip.entries[i];
        const size_t tail = sizeof pickle - 1;
        if (entry->name_size < tail || entry->name_size > TORCH_NAME / 2) continue;
        if (memcmp(entry->name + entry->name_size - tail, pickle, tail) == 0) main = entry;
    }
    if (!main) TORCH_FAIL(r, PCO_ERROR_FORMAT, "%s is a zip archive without data.pkl, and so not PyTorch's", r->label);
    const int root = main ? (int)(main->name_size - (sizeof pickle - 1)) : 0;
    if (main) {
        const int size = snprintf(name, sizeof name, "%.*s%s", root, main->name, order);
        const pco_zip_entry *entry = pco_zip_find(&zip, name, (size_t)size);
        if (entry && entry->size == 3 && memcmp(entry->data, "big", 3) == 0)
            TORCH_FAIL(r, PCO_ERROR_UNSUPPORTED, "%s was written on a big-endian machine, which Portico does not read",
                       r->label);
        torch_read_pickle(r, main->data, (size_t)main->size);
        if (!r->status) r->most_tensors = 16 + main->size / 16;
    }
    if (!r->status) torch_list_storages(r);
    for (uint32_t i = 0; i < r->n_storages && !r->status; i++) {
        torch_storage *storage = &r->storages[i];
        const int size =
            snprintf(name, sizeof name, "%.*sdata/%.*s", root, main->name, (int)storage->size, storage->key);
        const pco_zip_entry *entry = size < TORCH_NAME ? pco_zip_find(&zip, name, (size_t)size) : NULL;
        if (!entry) TORCH_FAIL(r, PCO_ERROR_FORMAT, "%s has no '%.200s'; it is damaged", r->label, name);
        if (!entry) break;
        storage->data = entry->data;
        storage->bytes = entry->size;
    }
    free(zip.entries);
}

/* Three pickles of no interest (a number, a version, the machine's sizes), the tensors, the list of keys; then for
 * each key its number of elements, 8 bytes, and these. */
static void torch_read_legacy(torch_reader *r)
{
    size_t at = 0;
    pco_pickle keys = {0};
    for (int i = 0; i < 4 && !r->status; i++) {
        torch_read_pickle(r, r->data + at, r->size - at);
        if (i == 0 && !r->status && torch_node(r, r->pickle.root)->is.number != (int64_t)0xa86a20f9469cfc6cULL)
            TORCH_FAIL(r, PCO_ERROR_FORMAT, "%s is a pickle, and not one that torch.save wrote", r->label);
        at += r->pickle.used;
    }
    if (!r->status) torch_list_storages(r);
    if (!r->status) r->most_tensors = 16 + r->pickle.used / 16;
    if (!r->status)
        r->status = pco_pickle_read(r->data + at, r->size - at, r->label, torch_globals, TORCH_GLOBALS, &keys, r->err);
    at += keys.used;
    const pco_pickle_node *list = r->status ? NULL : &keys.nodes[keys.root];
    if (list && list->kind != PCO_PICKLE_LIST)
        TORCH_FAIL(r, PCO_ERROR_FORMAT, "%s has no list of storages; it is damaged", r->label);
    for (uint32_t cell = r->status ? UINT32_MAX : list->is.cells.first; cell != UINT32_MAX && !r->status;
         cell = keys.cells[cell].next) {
        const pco_pickle_node *key = &keys.nodes[keys.cells[cell].node];
        torch_storage *storage = key->kind == PCO_PICKLE_TEXT ? torch_find(r, key->is.text, key->size) : NULL;
        uint64_t elements = 0;
        if (storage && r->size - at >= 8)
            for (int i = 0; i < 8; i++) elements |= (uint64_t)r->data[at + (size_t)i] << (8 * i);
        if (!storage || r->size - at < 8 || elements > (r->size - at - 8) / torch_types[storage->type].bytes) {
            TORCH_FAIL(r, PCO_ERROR_FORMAT, "%s is cut off or damaged, at byte %zu", r->label, at);
            break;
        }
        storage->data = r->data + at + 8;
        storage->bytes = elements * torch_types[storage->type].bytes;
        at += 8 + (size_t)storage->bytes;
    }
    pco_pickle_release(&keys);
}

pco_status pco_torch_parse(const void *data, size_t size, const char *label, pco_weights **weights, pco_error *err)
{
    torch_reader r = {.data = data, .size = size, .label = label, .err = err};
    *weights = NULL;
    if (!pco_torch_is(data, size)) return pco_fail(err, PCO_ERROR_FORMAT, "%s is no file that torch.save wrote", label);
    r.weights = pco_weights_create(label);
    if (!r.weights) return pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", label);
    if (r.data[0] == 'P')
        torch_read_zip(&r);
    else
        torch_read_legacy(&r);
    if (!r.status) torch_walk(&r, r.pickle.root, "", 0);
    if (!r.status && r.weights->count == 0)
        TORCH_FAIL(&r, PCO_ERROR_FORMAT, "%s has no dict of tensors (torch.save(model.state_dict(), ...))", label);
    if (!r.status) r.status = pco_weights_index(r.weights, err);
    pco_pickle_release(&r.pickle);
    free(r.storages);
    if (r.status)
        pco_weights_close(r.weights);
    else
        *weights = r.weights;
    return r.status;
}

pco_status pco_torch_open(const char *path, pco_weights **weights, pco_error *err)
{
    return pco_weights_open_mapped(path, pco_torch_parse, weights, err);
}
