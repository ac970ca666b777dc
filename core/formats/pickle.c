#include "formats/pickle.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PICKLE_NO   UINT32_MAX
#define PICKLE_MARK (UINT32_MAX - 1)
enum { PICKLE_SMALL = 256, PICKLE_SHOWN = 80, PICKLE_MOST = 64 << 20 };

/* Where the shared nodes are: small integers first, so that they cost nothing each time. */
enum { NODE_NONE = PICKLE_SMALL, NODE_FALSE, NODE_TRUE, NODE_FLOAT, NODE_EMPTY_TUPLE, NODE_SHARED };

typedef struct pickle_reader {
    const unsigned char *data;
    size_t size, at;
    const char *label;
    const char *const *globals;
    uint32_t n_globals;
    pco_pickle *pickle;
    uint32_t *stack, *memo; /* memo: nodes + 1; 0 for none */
    uint32_t depth, most_depth, n_memo, most_memo;
    pco_status status;
    pco_error *err;
} pickle_reader;

#define PICKLE_FAIL(r, code, ...) \
    do { \
        if (!(r)->status) (r)->status = pco_fail((r)->err, (code), __VA_ARGS__); \
    } while (0)

static void pickle_bad(pickle_reader *r, const char *what)
{
    PICKLE_FAIL(r, PCO_ERROR_FORMAT, "%s: the pickle is damaged: %s (byte %zu of it)", r->label, what, r->at);
}

/* The next bytes; zeros after an error. */
static const unsigned char *pickle_take(pickle_reader *r, size_t bytes)
{
    static const unsigned char zeros[8];
    if (!r->status && bytes <= r->size - r->at) {
        r->at += bytes;
        return r->data + r->at - bytes;
    }
    pickle_bad(r, "it is cut off");
    return zeros;
}

static uint64_t pickle_number(pickle_reader *r, size_t bytes)
{
    const unsigned char *p = pickle_take(r, bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)p[i] << (8 * i);
    return value;
}

static void pickle_push(pickle_reader *r, uint32_t node)
{
    if (r->status) return;
    if (r->depth == r->most_depth)
        pickle_bad(r, "it stacks more than it is long");
    else
        r->stack[r->depth++] = node;
}

/* The topmost value, which is no mark. */
static uint32_t pickle_pop(pickle_reader *r)
{
    if (!r->status && r->depth && r->stack[r->depth - 1] != PICKLE_MARK) return r->stack[--r->depth];
    pickle_bad(r, "a value is missing");
    return NODE_NONE;
}

static uint32_t pickle_top(pickle_reader *r)
{
    const uint32_t top = pickle_pop(r);
    if (!r->status) r->depth++;
    return top;
}

static uint32_t pickle_node(pickle_reader *r, pco_pickle_kind kind)
{
    pco_pickle *p = r->pickle;
    if (r->status) return NODE_NONE;
    if (p->n_nodes == p->most_nodes) {
        pickle_bad(r, "it has more values than bytes for them");
        return NODE_NONE;
    }
    p->nodes[p->n_nodes] = (pco_pickle_node){.kind = (uint8_t)kind};
    if (kind >= PCO_PICKLE_TUPLE && kind <= PCO_PICKLE_CALL)
        p->nodes[p->n_nodes].is.cells.first = p->nodes[p->n_nodes].is.cells.last = PICKLE_NO;
    return p->n_nodes++;
}

static void pickle_append(pickle_reader *r, uint32_t to, uint32_t item)
{
    pco_pickle *p = r->pickle;
    if (r->status) return;
    if (p->n_cells == p->most_cells) {
        pickle_bad(r, "it has more items than bytes for them");
        return;
    }
    pco_pickle_node *node = &p->nodes[to];
    p->cells[p->n_cells] = (pco_pickle_cell){item, PICKLE_NO};
    if (node->is.cells.last == PICKLE_NO)
        node->is.cells.first = p->n_cells;
    else
        p->cells[node->is.cells.last].next = p->n_cells;
    node->is.cells.last = p->n_cells++;
    node->size++;
}

/* Moves what stands above the last mark behind the items of `to`, and takes the mark away. */
static void pickle_collect(pickle_reader *r, uint32_t to)
{
    uint32_t mark = r->depth;
    while (mark && r->stack[mark - 1] != PICKLE_MARK) mark--;
    if (!mark) pickle_bad(r, "a mark is missing");
    for (uint32_t i = mark; !r->status && i < r->depth; i++) pickle_append(r, to, r->stack[i]);
    if (!r->status) r->depth = mark - 1;
}

/* What an APPEND or SETITEM is for: an OrderedDict() is a call that takes items too. */
static uint32_t pickle_container(pickle_reader *r, uint32_t node, pco_pickle_kind kind)
{
    const pco_pickle_kind is = (pco_pickle_kind)r->pickle->nodes[node].kind;
    if (!r->status && is != kind) pickle_bad(r, "an item is given to what takes none");
    return node;
}

/* The container below the mark. */
static void pickle_extend(pickle_reader *r, pco_pickle_kind kind)
{
    uint32_t mark = r->depth;
    while (mark && r->stack[mark - 1] != PICKLE_MARK) mark--;
    if (mark < 2 || r->stack[mark - 2] == PICKLE_MARK) {
        pickle_bad(r, "a list or dict is missing");
        return;
    }
    const uint32_t to = pickle_container(r, r->stack[mark - 2], kind);
    if (!r->status && kind == PCO_PICKLE_DICT && (r->depth - mark) % 2) pickle_bad(r, "a value is missing");
    if (!r->status) pickle_collect(r, to);
}

static void pickle_tuple(pickle_reader *r, uint32_t count)
{
    const uint32_t tuple = pickle_node(r, PCO_PICKLE_TUPLE);
    for (uint32_t i = 0; i < count; i++)
        if (!r->status && (r->depth < count || r->stack[r->depth - count + i] == PICKLE_MARK))
            pickle_bad(r, "a value is missing");
    for (uint32_t i = 0; !r->status && i < count; i++) pickle_append(r, tuple, r->stack[r->depth - count + i]);
    if (!r->status) r->depth -= count;
    pickle_push(r, tuple);
}

static void pickle_text(pickle_reader *r, uint64_t size)
{
    const unsigned char *text = size < UINT32_MAX ? pickle_take(r, (size_t)size) : pickle_take(r, SIZE_MAX);
    const uint32_t node = pickle_node(r, PCO_PICKLE_TEXT);
    if (r->status) return;
    r->pickle->nodes[node].size = (uint32_t)size;
    r->pickle->nodes[node].is.text = (const char *)text;
    pickle_push(r, node);
}

static void pickle_integer(pickle_reader *r, int64_t value)
{
    if (value >= 0 && value < PICKLE_SMALL) {
        pickle_push(r, (uint32_t)value);
        return;
    }
    const uint32_t node = pickle_node(r, PCO_PICKLE_INT);
    if (!r->status) r->pickle->nodes[node].is.number = value;
    pickle_push(r, node);
}

/* LONG1: two's complement, little-endian. Longer ones than 8 bytes, as the magic number, keep their low 8. */
static void pickle_long(pickle_reader *r)
{
    const size_t size = (size_t)pickle_number(r, 1);
    const unsigned char *p = pickle_take(r, size);
    uint64_t value = 0;
    if (r->status) return;
    for (size_t i = 0; i < size && i < 8; i++) value |= (uint64_t)p[i] << (8 * i);
    if (size && size < 8 && p[size - 1] & 0x80) value |= UINT64_MAX << (8 * size);
    pickle_integer(r, (int64_t)value);
}

/* A name that is known, as "module name". */
static void pickle_global(pickle_reader *r, const char *module, size_t module_size, const char *name, size_t name_size)
{
    if (r->status) return;
    for (uint32_t i = 0; i < r->n_globals; i++) {
        const char *known = r->globals[i];
        if (strlen(known) != module_size + 1 + name_size || memcmp(known, module, module_size) != 0 ||
            known[module_size] != ' ' || memcmp(known + module_size + 1, name, name_size) != 0)
            continue;
        const uint32_t node = pickle_node(r, PCO_PICKLE_GLOBAL);
        if (!r->status) r->pickle->nodes[node].is.number = i;
        pickle_push(r, node);
        return;
    }
    char shown[2][PICKLE_SHOWN];
    for (int part = 0; part < 2; part++) {
        const char *from = part ? name : module;
        size_t size = part ? name_size : module_size;
        if (size >= PICKLE_SHOWN) size = PICKLE_SHOWN - 1;
        for (size_t i = 0; i < size; i++) shown[part][i] = from[i] > ' ' && from[i] < 0x7f ? from[i] : '?';
        shown[part][size] = 0;
    }
    PICKLE_FAIL(r, PCO_ERROR_UNSUPPORTED,
                "%s: the pickle wants '%s.%s', which is no tensor's; Portico executes nothing that a file says. Save "
                "the tensors alone (torch.save(model.state_dict(), ...)), or as safetensors",
                r->label, shown[0], shown[1]);
}

static void pickle_global_lines(pickle_reader *r)
{
    const char *lines[2];
    size_t sizes[2];
    for (int i = 0; i < 2; i++) {
        const unsigned char *begin = r->data + r->at, *end = memchr(begin, '\n', r->size - r->at);
        if (!end) {
            pickle_bad(r, "it is cut off");
            return;
        }
        lines[i] = (const char *)begin;
        sizes[i] = (size_t)(end - begin);
        r->at += sizes[i] + 1;
    }
    pickle_global(r, lines[0], sizes[0], lines[1], sizes[1]);
}

static void pickle_stack_global(pickle_reader *r)
{
    const uint32_t name = pickle_pop(r), module = pickle_pop(r);
    if (r->status) return;
    const pco_pickle_node *a = &r->pickle->nodes[module], *b = &r->pickle->nodes[name];
    if (a->kind != PCO_PICKLE_TEXT || b->kind != PCO_PICKLE_TEXT)
        pickle_bad(r, "a name is no text");
    else
        pickle_global(r, a->is.text, a->size, b->is.text, b->size);
}

static void pickle_call(pickle_reader *r)
{
    const uint32_t arguments = pickle_pop(r), callee = pickle_pop(r);
    if (r->status) return;
    const pco_pickle *p = r->pickle;
    if (p->nodes[callee].kind != PCO_PICKLE_GLOBAL || p->nodes[arguments].kind != PCO_PICKLE_TUPLE) {
        pickle_bad(r, "what is called is no name");
        return;
    }
    /* the first global is the dict that keeps its order, which comes without items */
    if (p->nodes[callee].is.number == 0) {
        pickle_push(r, pickle_node(r, PCO_PICKLE_DICT));
        return;
    }
    const uint32_t call = pickle_node(r, PCO_PICKLE_CALL);
    pickle_append(r, call, callee);
    pickle_append(r, call, arguments);
    pickle_push(r, call);
}

static void pickle_remember(pickle_reader *r, uint64_t index)
{
    const uint32_t top = pickle_top(r);
    if (r->status) return;
    if (index >= r->most_memo) {
        pickle_bad(r, "it remembers more than it has");
        return;
    }
    r->memo[index] = top + 1;
    if (index >= r->n_memo) r->n_memo = (uint32_t)index + 1;
}

static void pickle_recall(pickle_reader *r, uint64_t index)
{
    if (r->status) return;
    if (index >= r->most_memo || !r->memo[index])
        pickle_bad(r, "it recalls what it does not remember");
    else
        pickle_push(r, r->memo[index] - 1);
}

static void pickle_set(pickle_reader *r)
{
    const uint32_t value = pickle_pop(r), key = pickle_pop(r);
    const uint32_t dict = pickle_container(r, pickle_top(r), PCO_PICKLE_DICT);
    pickle_append(r, dict, key);
    pickle_append(r, dict, value);
}

static void pickle_unknown(pickle_reader *r, unsigned opcode)
{
    static const struct {
        unsigned char opcode;
        const char *name;
    } names[] = {{'i', "INST"},          {'o', "OBJ"},
                 {0x81, "NEWOBJ"},       {0x92, "NEWOBJ_EX"},
                 {0x82, "EXT1"},         {0x83, "EXT2"},
                 {0x84, "EXT4"},         {'P', "PERSID"},
                 {'I', "INT"},           {'L', "LONG"},
                 {'F', "FLOAT"},         {'S', "STRING"},
                 {'V', "UNICODE"},       {'p', "PUT"},
                 {'g', "GET"},           {'B', "BINBYTES"},
                 {'2', "DUP"},           {0x8b, "LONG4"},
                 {0x8f, "EMPTY_SET"},    {0x90, "ADDITEMS"},
                 {0x91, "FROZENSET"},    {0x8d, "BINUNICODE8"},
                 {0x8e, "BINBYTES8"},    {0x96, "BYTEARRAY8"},
                 {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"},
                 {'C', "SHORT_BINBYTES"}};
    const char *name = "an opcode";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].opcode == opcode) name = names[i].name;
    PICKLE_FAIL(r, PCO_ERROR_UNSUPPORTED,
                "%s: the pickle has %s (0x%02x), which tensors do not need; Portico reads tensors only", r->label, name,
                opcode);
}

/* Opcodes that make containers and calls; 0 for another. */
static int pickle_compound(pickle_reader *r, unsigned opcode)
{
    uint32_t node;
    switch (opcode) {
    case ')': pickle_push(r, NODE_EMPTY_TUPLE); return 1;
    case 0x85:
    case 0x86:
    case 0x87: pickle_tuple(r, opcode - 0x84); return 1;
    case ']': pickle_push(r, pickle_node(r, PCO_PICKLE_LIST)); return 1;
    case '}': pickle_push(r, pickle_node(r, PCO_PICKLE_DICT)); return 1;
    case 't':
    case 'l':
    case 'd':
        node = pickle_node(r, opcode == 't' ? PCO_PICKLE_TUPLE : opcode == 'l' ? PCO_PICKLE_LIST : PCO_PICKLE_DICT);
        pickle_collect(r, node);
        if (!r->status && opcode == 'd' && r->pickle->nodes[node].size % 2) pickle_bad(r, "a value is missing");
        pickle_push(r, node);
        return 1;
    case 'a':
        node = pickle_pop(r);
        pickle_append(r, pickle_container(r, pickle_top(r), PCO_PICKLE_LIST), node);
        return 1;
    case 'e': pickle_extend(r, PCO_PICKLE_LIST); return 1;
    case 's': pickle_set(r); return 1;
    case 'u': pickle_extend(r, PCO_PICKLE_DICT); return 1;
    case 'R': pickle_call(r); return 1;
    case 'b': /* attributes of an object, such as the versions of a state dict's modules */
        pickle_pop(r);
        pickle_top(r);
        return 1;
    case 'Q': {
        const uint32_t id = pickle_pop(r);
        node = pickle_node(r, PCO_PICKLE_PERSISTENT);
        if (!r->status) r->pickle->nodes[node].is.number = id;
        pickle_push(r, node);
        return 1;
    }
    default: return 0;
    }
}

/* Opcodes of plain values, names and the memo. */
static void pickle_step(pickle_reader *r, unsigned opcode)
{
    switch (opcode) {
    case 0x80: pickle_take(r, 1); return;
    case 0x95: pickle_take(r, 8); return;
    case '(': pickle_push(r, PICKLE_MARK); return;
    case '0': pickle_pop(r); return;
    case 'N': pickle_push(r, NODE_NONE); return;
    case 0x88: pickle_push(r, NODE_TRUE); return;
    case 0x89: pickle_push(r, NODE_FALSE); return;
    case 'G':
        pickle_take(r, 8);
        pickle_push(r, NODE_FLOAT);
        return;
    case 'J': pickle_integer(r, (int32_t)pickle_number(r, 4)); return;
    case 'K': pickle_integer(r, (int64_t)pickle_number(r, 1)); return;
    case 'M': pickle_integer(r, (int64_t)pickle_number(r, 2)); return;
    case 0x8a: pickle_long(r); return;
    case 'X':
    case 'T': pickle_text(r, pickle_number(r, 4)); return;
    case 0x8c:
    case 'U': pickle_text(r, pickle_number(r, 1)); return;
    case 'c': pickle_global_lines(r); return;
    case 0x93: pickle_stack_global(r); return;
    case 'q': pickle_remember(r, pickle_number(r, 1)); return;
    case 'r': pickle_remember(r, pickle_number(r, 4)); return;
    case 0x94: pickle_remember(r, r->n_memo); return;
    case 'h': pickle_recall(r, pickle_number(r, 1)); return;
    case 'j': pickle_recall(r, pickle_number(r, 4)); return;
    default: pickle_unknown(r, opcode);
    }
}

static int pickle_allocate(pickle_reader *r)
{
    pco_pickle *p = r->pickle;
    const size_t size = r->size;
    p->most_nodes = (uint32_t)(size / 4) + NODE_SHARED + 64;
    p->most_cells = (uint32_t)(size / 4) + 64;
    r->most_depth = (uint32_t)(size / 8) + 64;
    r->most_memo = (uint32_t)(size / 4) + 256;
    p->nodes = malloc(p->most_nodes * sizeof *p->nodes);
    p->cells = malloc(p->most_cells * sizeof *p->cells);
    r->stack = malloc(r->most_depth * sizeof *r->stack);
    r->memo = calloc(r->most_memo, sizeof *r->memo);
    if (!p->nodes || !p->cells || !r->stack || !r->memo) return 0;
    for (uint32_t i = 0; i < NODE_SHARED; i++) p->nodes[i] = (pco_pickle_node){.kind = PCO_PICKLE_INT, .is.number = i};
    p->nodes[NODE_NONE].kind = PCO_PICKLE_NONE;
    p->nodes[NODE_FALSE].kind = p->nodes[NODE_TRUE].kind = PCO_PICKLE_BOOL;
    p->nodes[NODE_FLOAT].kind = PCO_PICKLE_FLOAT;
    p->nodes[NODE_EMPTY_TUPLE].kind = PCO_PICKLE_TUPLE;
    p->nodes[NODE_EMPTY_TUPLE].is.cells.first = p->nodes[NODE_EMPTY_TUPLE].is.cells.last = PICKLE_NO;
    p->n_nodes = NODE_SHARED;
    return 1;
}

pco_status pco_pickle_read(const void *data, size_t size, const char *label, const char *const *globals, uint32_t n,
                           pco_pickle *pickle, pco_error *err)
{
    pickle_reader r = {.data = data,
                       .size = size < PICKLE_MOST ? size : PICKLE_MOST, /* names and shapes take less */
                       .label = label,
                       .globals = globals,
                       .n_globals = n,
                       .pickle = pickle,
                       .err = err};
    *pickle = (pco_pickle){0};
    if (!pickle_allocate(&r)) {
        r.status = pco_fail(err, PCO_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %s", label);
    } else {
        for (;;) {
            const unsigned opcode = *pickle_take(&r, 1);
            if (r.status || opcode == '.') break;
            if (!pickle_compound(&r, opcode)) pickle_step(&r, opcode);
        }
        pickle->root = pickle_pop(&r);
        pickle->used = r.at;
    }
    free(r.stack);
    free(r.memo);
    return r.status;
}

void pco_pickle_release(pco_pickle *pickle)
{
    free(pickle->nodes);
    free(pickle->cells);
    *pickle = (pco_pickle){0};
}

uint32_t pco_pickle_item(const pco_pickle *pickle, uint32_t node, uint32_t index)
{
    const pco_pickle_node *from = node < pickle->n_nodes ? &pickle->nodes[node] : NULL;
    if (!from || from->kind < PCO_PICKLE_TUPLE || from->kind > PCO_PICKLE_CALL || index >= from->size) return PICKLE_NO;
    uint32_t cell = from->is.cells.first;
    while (index--) cell = pickle->cells[cell].next;
    return pickle->cells[cell].node;
}

int64_t pco_pickle_size(const pco_pickle *pickle, uint32_t node)
{
    if (node >= pickle->n_nodes || pickle->nodes[node].kind != PCO_PICKLE_INT) return -1;
    const int64_t number = pickle->nodes[node].is.number;
    return number < 0 ? -1 : number;
}
