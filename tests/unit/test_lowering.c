/* The helpers of the lowering, each held against a plain definition of what it promises, on random small inputs. Cases
 * of the suite see them only through whole operations, whose shapes seldom come to where a helper's edges are: bindings
 * that are exactly as large as they may be, grids that are full, more launches than a segment has. */
#include "gpu_device.h"
#include "lower_matmul.h"
#include "lowering.h"

/* ---- launches ---- */

typedef struct scene {
    pco_device device;
    pco_tensor tensors[3];
    pco_node node;
    pco_part part;
    pco_place places[3], workspace;
    pco_buffer *buffers[3];
    pco_plan plan;
    pco_error err;
    gpu_list list;
    gpu_lowering gpu;
} scene;

static char two_memories[2];

/* fill of y: whatever it is, it has one buffer, constants and parameters. */
static void scene_make(scene *s)
{
    *s = (scene){.device = gpu_device(NULL, 32, 32, 0), .list = {.host = &GUARDED}};
    s->tensors[0] = (pco_tensor){
        .kind = PCO_KIND_OUTPUT, .rank = 1, .alias = PCO_NONE, .shape = {9000}, .bytes = 36000, .name = "y"};
    s->tensors[1] = (pco_tensor){.rank = 1, .alias = 0, .shape = {9000}, .bytes = 36000, .name = "alias"};
    s->tensors[2] = (pco_tensor){.rank = 1, .alias = PCO_NONE, .shape = {9000}, .bytes = 36000, .name = "x"};
    s->node =
        (pco_node){.op = PCO_OP_FILL, .n_outputs = 1, .outputs = {0}, .n_inputs = 1, .inputs = {2}, .name = "fill"};
    s->part =
        (pco_part){.size = sizeof s->part, .n_tensors = 3, .n_nodes = 1, .tensors = s->tensors, .nodes = &s->node};
    s->buffers[0] = s->buffers[1] = (pco_buffer *)(void *)&two_memories[0];
    s->buffers[2] = (pco_buffer *)(void *)&two_memories[1];
    s->places[0] = (pco_place){0, 64, 36000}, s->places[1] = (pco_place){.buffer = PCO_NONE},
    s->places[2] = (pco_place){2, 64, 36000};
    s->workspace = (pco_place){1, 128, 4096};
    s->plan = (pco_plan){.size = sizeof s->plan,
                         .n_buffers = 3,
                         .buffers = s->buffers,
                         .tensors = s->places,
                         .workspaces = &s->workspace};
    s->gpu = (gpu_lowering){.device = &s->device.gpu,
                            .host = &GUARDED,
                            .limits = &s->device.gpu.limits,
                            .part = &s->part,
                            .node = &s->node,
                            .node_index = 0,
                            .binding = s->device.gpu.limits.max_binding,
                            .plan = &s->plan,
                            .list = &s->list,
                            .err = &s->err};
}

static void scene_clear(scene *s)
{
    if (s->list.dispatches) guarded_release(NULL, s->list.dispatches);
    if (s->list.ranges) guarded_release(NULL, s->list.ranges);
}

static void scene_begin(scene *s, pco_gpu_dispatch *d)
{
    gpu_begin(&s->gpu, d, GPU_KERNEL_fill, 32, 1, 1);
    gpu_set_specs(&s->gpu, d, fill, .per = 1);
    gpu_set_params(&s->gpu, d, fill, .n_words = 1);
}

/* Operands by their numbers: none behind those that the node has, and none where it says so. */
static void test_operands(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        scene_make(&s);
        s.node.n_inputs = draw(PCO_MAX_INPUTS + 1), s.node.n_outputs = draw(PCO_MAX_OUTPUTS + 1);
        for (uint32_t i = 0; i < PCO_MAX_INPUTS; i++) s.node.inputs[i] = draw(4) ? draw(3) : PCO_NONE;
        for (uint32_t i = 0; i < PCO_MAX_OUTPUTS; i++) s.node.outputs[i] = draw(4) ? draw(3) : PCO_NONE;
        for (uint32_t i = 0; i < PCO_MAX_INPUTS + 4; i++) {
            const uint32_t input = i < s.node.n_inputs ? s.node.inputs[i] : PCO_NONE,
                           output = i < s.node.n_outputs ? s.node.outputs[i] : PCO_NONE;
            assert_true(gpu_input_index(&s.gpu, i) == input && gpu_output_index(&s.gpu, i) == output);
            assert_ptr_equal(gpu_input(&s.gpu, i), input == PCO_NONE ? NULL : &s.tensors[input]);
            assert_ptr_equal(gpu_output(&s.gpu, i), output == PCO_NONE ? NULL : &s.tensors[output]);
        }
        pco_tensor x = {.rank = draw(PCO_MAX_RANK + 1)};
        uint64_t count = 1, part = 1;
        const uint32_t first = draw(PCO_MAX_RANK + 1), end = draw(PCO_MAX_RANK + 2);
        for (uint32_t d = 0; d < PCO_MAX_RANK; d++) {
            x.shape[d] = 2 + draw(4);
            if (d < x.rank) count *= (uint64_t)x.shape[d];
            if (d >= first && d < end) part *= (uint64_t)x.shape[d];
        }
        assert_true(gpu_count(&x) == count && gpu_product(&x, first, end) == part);
        scene_clear(&s);
    }
    scene s;
    unsigned char given[40], room[33];
    scene_make(&s);
    memset(given, 0x11, sizeof given);
    for (uint32_t bytes = 0; bytes <= sizeof given; bytes++) { /* of an older or newer caller's struct */
        memset(room, 0xee, sizeof room);
        s.node.attrs = given, s.node.attrs_size = bytes;
        assert_ptr_equal(gpu_attrs(&s.gpu, room, 32), room);
        for (uint32_t i = 0; i < 32; i++) assert_int_equal(room[i], i < bytes ? 0x11 : 0);
        assert_int_equal(room[32], 0xee);
    }
    s.node.attrs = NULL;
    gpu_attrs(&s.gpu, room, 32);
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(room[i], 0);
    assert_true(gpu_element_bytes(PCO_I32) == 4 && gpu_element_bytes(PCO_BF16) == 2 &&
                gpu_element_bytes(PCO_Q4_0) == 0);
    assert_int_equal(gpu_lanes(PCO_Q4_0), 1);
}

/* What a device cannot launch is refused: each limit, exactly. */
static void test_limits(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        pco_gpu_dispatch d;
        scene_make(&s);
        pco_gpu_limits *limits = &s.device.gpu.limits;
        const uint32_t x = 1 + draw(9), y = 1 + draw(4), z = 1 + draw(4), width = draw(2) * (1 + draw(8));
        for (int i = 0; i < 3; i++) limits->max_local[i] = 1 + draw(10);
        limits->max_workgroup = 1 + draw(80), limits->max_bindings = 2 + draw(5),
        limits->subgroups_settable = 1 + draw(9);
        if (draw(4) == 0) limits->needs_met = 0;
        const uint32_t kernel = draw(3) ? GPU_KERNEL_norm_subgroup : GPU_KERNEL_where;
        const pco_gpu_kernel *row = &pco_gpu_kernels[kernel];
        s.gpu.width = width, s.gpu.node_index = (uint32_t)n;
        gpu_begin(&s.gpu, &d, kernel, x, y, z);
        const uint32_t size = x * y * z, needed = row->needs ? width : 0;
        const int allowed = x <= limits->max_local[0] && y <= limits->max_local[1] && z <= limits->max_local[2] &&
                            size <= limits->max_workgroup && row->n_bindings <= limits->max_bindings &&
                            !(row->needs & ~limits->needs_met) &&
                            (!needed || size <= needed * limits->subgroups_settable);
        assert_int_equal(s.gpu.status, allowed ? PCO_OK : PCO_ERROR_UNSUPPORTED);
        assert_true(d.kernel == kernel && d.width == needed && d.node == (uint32_t)n && d.n_specs == row->n_specs);
        assert_true(d.n_bindings == row->n_bindings && d.n_params == row->n_params);
        assert_true(d.specs[0] == (int32_t)x && d.specs[1] == (int32_t)y && d.specs[2] == (int32_t)z &&
                    d.specs[3] == 0);
        limits->max_local[0] = 1 + draw(300);
        const uint32_t wanted = 1 + draw(300), got = gpu_workgroup(&s.gpu, wanted);
        const uint32_t most =
            limits->max_local[0] < limits->max_workgroup ? limits->max_local[0] : limits->max_workgroup;
        assert_true(got && !(got & (got - 1)) && got <= wanted && got <= most && (got * 2 > wanted || got * 2 > most));
        scene_clear(&s);
    }
}

/* The source in one piece is all pieces, one behind another. */
static uint32_t check_joined(const pco_gpu_device *device, uint32_t kernel)
{
    const pco_gpu_code *pieces = pco_gpu_source_of(device, kernel);
    size_t bytes, at = 0;
    uint32_t n = 0;
    char *text = pco_gpu_source_text(device, kernel, &bytes);
    for (; pieces && pieces[n].data; at += pieces[n++].bytes) {
        assert_true(at + pieces[n].bytes <= bytes);
        assert_memory_equal(text + at, pieces[n].data, pieces[n].bytes);
    }
    assert_true(at == bytes && text[bytes] == 0);
    device->host->release(device->host->user, text);
    return n;
}

/* Numbers behind the table are of kernels that a device has made, and behind those of none. */
static void test_made(void **state)
{
    (void)state;
    static pco_gpu_made one, other;
    scene s;
    uint32_t pieces = 0;
    scene_make(&s);
    s.device.gpu.made[0] = &one;
    s.device.gpu.made[1] = &other;
    s.device.gpu.n_made = 1;
    for (uint32_t i = 0; i < pco_gpu_n_kernels; i++) {
        assert_ptr_equal(pco_gpu_row(&s.device.gpu, i), &pco_gpu_kernels[i]);
        assert_ptr_equal(pco_gpu_code_of(&s.device.gpu, i), &pco_gpu_codes[i]);
        assert_ptr_equal(pco_gpu_source_of(&s.device.gpu, i), pco_gpu_sources[i]);
        const uint32_t n = check_joined(&s.device.gpu, i);
        if (n > pieces) pieces = n;
    }
    assert_in_range(pieces, 3, PCO_GPU_MOST_PIECES);
    assert_ptr_equal(pco_gpu_row(&s.device.gpu, pco_gpu_n_kernels), &one.row);
    assert_null(pco_gpu_row(&s.device.gpu, pco_gpu_n_kernels + 1));
    assert_null(pco_gpu_row(&s.device.gpu, PCO_NONE));
    s.device.gpu.n_made = 0;
    assert_null(pco_gpu_row(&s.device.gpu, pco_gpu_n_kernels));
    scene_clear(&s);
}

/* A driver that compiles: to its source and the number of bytes that it had in front, unless that begins with a dot. */
static pco_status made_compile(pco_gpu_device *device, const char *name, const pco_gpu_code *source, pco_gpu_code *code,
                               pco_error *why)
{
    const char *text = source->data;
    if (*text == '.') {
        snprintf(why->message, sizeof why->message, "%s: a dot", name);
        return PCO_ERROR_INVALID;
    }
    char *compiled = device->host->allocate(device->host->user, source->bytes + 1, 1);
    compiled[0] = (char)source->bytes;
    memcpy(compiled + 1, text, source->bytes);
    *code = (pco_gpu_code){compiled, source->bytes + 1};
    return PCO_OK;
}

static pco_gpu_code made_source(const char *text)
{
    char *copy = guarded_allocate(NULL, strlen(text) + 1, 1);
    return (pco_gpu_code){strcpy(copy, text), strlen(text) + 1};
}

static void *made_no_memory(void *user, size_t bytes, size_t alignment)
{
    (void)user, (void)bytes, (void)alignment;
    return NULL;
}

static void check_made(pco_gpu_device *device, uint32_t n, int compiles)
{
    char text[32], name[32];
    const uint32_t kernel = pco_gpu_n_kernels + n;
    const pco_gpu_kernel *row = pco_gpu_row(device, kernel);
    const pco_gpu_code *code = pco_gpu_code_of(device, kernel), *source = pco_gpu_source_of(device, kernel);
    snprintf(text, sizeof text, "%ssource %u", n == 3 ? "." : "", n);
    snprintf(name, sizeof name, "made_%u", n);
    assert_int_equal(pco_gpu_find_made(device, 1000 + 7 * n), kernel);
    assert_string_equal(row->name, name);
    assert_true(row->n_specs == n && row->n_bindings == 2 && row->file && row->defines);
    assert_string_equal(source->data, text);
    assert_true(source->bytes == strlen(text) + 1 && source[1].data == NULL);
    size_t bytes;
    char *whole = pco_gpu_source_text(device, kernel, &bytes);
    assert_true(bytes == source->bytes && whole[bytes] == 0 && memcmp(whole, source->data, bytes) == 0);
    device->host->release(device->host->user, whole);
    if (!compiles) assert_true(!code->data && code->bytes == 0);
    if (compiles && n != 3) {
        assert_true(code->bytes == source->bytes + 1 && *(const char *)code->data == (char)source->bytes);
        assert_string_equal((const char *)code->data + 1, text);
    }
    assert_int_equal(device->made[n]->status, compiles && n == 3 ? PCO_ERROR_INVALID : PCO_OK);
    assert_string_equal(device->made[n]->why, compiles && n == 3 ? "made_3: a dot" : "");
}

/* As many kernels as there is room for are made, each found by its key, and no other; what a refused one came with is
 * released, and so is all when they are forgotten. With a driver that compiles, one that does not, and none. */
static void test_making(void **state)
{
    (void)state;
    const pco_gpu_driver compiler = {.compile = made_compile}, other = {.compile = NULL};
    const pco_gpu_driver *const drivers[] = {&compiler, &other, NULL};
    for (int i = 0; i < 3; i++) {
        static pco_device device;
        pco_error why;
        pco_host none = GUARDED;
        const int before = guarded_pieces;
        uint32_t kernel = 0;
        char name[32], text[32];
        device = gpu_device(NULL, 32, 32, 0);
        pco_gpu_device *gpu = &device.gpu;
        gpu->driver = drivers[i];
        gpu->host = &GUARDED;
        assert_int_equal(pco_gpu_find_made(gpu, 1000), PCO_NONE);
        for (uint32_t n = 0; n < PCO_GPU_MOST_MADE; n++) {
            const pco_gpu_kernel row = {.n_specs = n, .n_bindings = 2};
            snprintf(name, sizeof name, "made_%u", n);
            snprintf(text, sizeof text, "%ssource %u", n == 3 ? "." : "", n);
            check_ok(pco_gpu_make(gpu, name, 1000 + 7 * n, &row, made_source(text), &kernel, &err));
            assert_int_equal(kernel, pco_gpu_n_kernels + n);
            assert_null(pco_gpu_row(gpu, kernel + 1));
            assert_int_equal(pco_gpu_find_made(gpu, 1000 + 7 * n + 7), PCO_NONE);
        }
        for (uint32_t n = 0; n < PCO_GPU_MOST_MADE; n++) check_made(gpu, n, i == 0);
        const pco_gpu_kernel row = {.n_bindings = 1};
        pco_error *const told[] = {&why, NULL};
        for (int j = 0; j < 2; j++)
            assert_int_equal(pco_gpu_make(gpu, "more", 5, &row, made_source("x"), &kernel, told[j]),
                             PCO_ERROR_UNSUPPORTED);
        assert_string_equal(why.message, "no room is left for kernel more");
        pco_gpu_forget_made(gpu);
        assert_true(gpu->n_made == 0 && guarded_pieces == before);
        none.allocate = made_no_memory;
        gpu->host = &none;
        check_fails(pco_gpu_make(gpu, "one", 5, &row, made_source("x"), &kernel, &err), PCO_ERROR_OUT_OF_HOST_MEMORY,
                    "no memory for kernel one");
        assert_true(gpu->n_made == 0 && guarded_pieces == before);
    }
}

/* A binding that a launch has no use for sees what another does, read only: one that the kernel declares for reading
 * what is read, the other what is written, if there is such a one. Names of another kernel's buffers, constants and
 * parameters are no names. */
static void test_names(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 64; n++) {
        scene s;
        pco_gpu_dispatch d;
        scene_make(&s);
        s.plan.workspaces = &s.workspace;
        gpu_begin(&s.gpu, &d, GPU_KERNEL_where, 32, 1, 1);
        if (n & 32) gpu_set_specs(&s.gpu, &d, where, .x = 5, .b_step = 7);
        gpu_set_params(&s.gpu, &d, where, .n_all = 9, .b_stride = {0, 0, 0, 0, 0, 8});
        if (!(n & 32)) gpu_set_specs(&s.gpu, &d, where, .x = 5, .b_step = 7);
        assert_true(d.specs[3] == 5 && d.specs[d.n_specs - 1] == 7 && d.specs[d.n_specs] == 0);
        assert_true(d.params[0] == 9 && d.params[d.n_params - 1] == 8);
        d.bindings[4] =
            (pco_gpu_binding){.buffer = 1, .write = 1, .offset = 0, .bytes = n & 16 ? 64 : 0}; /* not counted */
        static const uint32_t BUFFERS[4] = {GPU_where_c, GPU_where_a, GPU_where_b, GPU_where_y};
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(gpu_has_buffer(&d, BUFFERS[i]));
            if (n >> i & 1) gpu_bind_elements(&s.gpu, &d, BUFFERS[i], i & 1 ? 0 : 2, i * 3, 4 + i, i == 3 && n & 16);
        }
        const pco_gpu_dispatch before = d;
        const pco_status status = gpu_emit(&s.gpu, &d, 1);
        assert_int_equal(status, n & 15 ? PCO_OK : PCO_ERROR_INTERNAL);
        if (!status) assert_memory_equal(&s.list.dispatches[0].bindings[4], &before.bindings[4], sizeof *d.bindings);
        for (uint32_t i = 0; i < 4 && !status; i++) {
            const pco_gpu_binding *got = &s.list.dispatches[0].bindings[i];
            const gpu_range *range = &s.list.ranges[0][i];
            const uint32_t like = i == 3; /* y alone is declared for writing */
            uint32_t from = i;
            for (uint32_t k = 0; k < 8 && !(n >> i & 1); k++) { /* those of the same kind first */
                if (!before.bindings[k % 4].bytes || (k < 4 && before.bindings[k].write != like)) continue;
                from = k % 4;
                break;
            }
            assert_true(got->offset == before.bindings[from].offset && got->bytes == before.bindings[from].bytes &&
                        got->buffer == before.bindings[from].buffer);
            assert_int_equal(got->write, from == i ? before.bindings[i].write : 0);
            assert_int_equal(range->end > range->first, from == i);
        }
        scene_clear(&s);
    }
    for (int wrong = 0; wrong < 7; wrong++) {
        scene s;
        pco_gpu_dispatch d;
        scene_make(&s);
        gpu_begin(&s.gpu, &d, GPU_KERNEL_fill, 32, 1, 1);
        assert_false(gpu_has_buffer(&d, GPU_iota_y));
        if (wrong != 0) gpu_set_specs(&s.gpu, &d, fill, .per = 1);
        if (wrong != 1) gpu_set_params(&s.gpu, &d, fill, .n_words = 1);
        if (wrong == 2) gpu_set_specs(&s.gpu, &d, where, .per = 1);
        if (wrong == 3) gpu_set_params(&s.gpu, &d, where, .n = 1);
        if (wrong == 4) gpu_bind_elements(&s.gpu, &d, GPU_iota_y, 0, 0, 4, 1);
        if (wrong == 5) gpu_bind_again(&s.gpu, &d, GPU_fill_y, GPU_iota_y);
        if (wrong == 6) {
            gpu_begin(&s.gpu, &d, GPU_KERNEL_where, 32, 1, 1);
            gpu_set_specs(&s.gpu, &d, where, .x = 5);
            gpu_set_params(&s.gpu, &d, where, .n_all = 9);
            gpu_bind_elements(&s.gpu, &d, GPU_where_c, 2, 0, 4, 1); /* which it only reads */
            gpu_bind_elements(&s.gpu, &d, GPU_where_y, 0, 0, 4, 1);
        } else {
            gpu_bind_elements(&s.gpu, &d, GPU_fill_y, 0, 0, 4, 1);
        }
        assert_int_equal(gpu_emit(&s.gpu, &d, 1), PCO_ERROR_INTERNAL);
        assert_int_equal(s.list.count, 0);
        scene_clear(&s);
    }
}

/* A window begins where a binding may, ends with a whole word, and no larger one is bound than there has to be. */
static void test_bindings(void **state)
{
    static const uint32_t TYPES[] = {PCO_F32, PCO_F16, PCO_BOOL};
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        pco_gpu_dispatch d;
        const uint32_t type = TYPES[draw(3)], bytes = gpu_element_bytes(type), alias = draw(2), write = draw(2),
                       lanes = 4 / bytes;
        const uint64_t first = draw(1600), count = draw(900), align = UINT64_C(4) << draw(7);
        scene_make(&s);
        for (int t = 0; t < 2; t++) s.tensors[t].dtype = type;
        assert_int_equal(gpu_lanes(type), lanes);
        s.device.gpu.limits.offset_alignment = (uint32_t)align;
        s.places[0].offset = draw(200) * 4;
        s.gpu.binding = 16 + draw(4000);
        scene_begin(&s, &d);
        const uint32_t at = gpu_bind_elements(&s.gpu, &d, GPU_fill_y, alias, first, count, (int)write);
        const pco_gpu_binding *got = &d.bindings[0];
        const uint64_t begin = s.places[0].offset + first * bytes, end = (begin + count * bytes + 3) / 4 * 4;
        if (!count) {
            assert_true(s.gpu.status == PCO_OK && at == 0 && got->bytes == 0);
        } else if (end - begin / align * align > s.gpu.binding) {
            assert_int_equal(s.gpu.status, PCO_ERROR_UNSUPPORTED);
        } else {
            const gpu_range *range = &s.gpu.building[0];
            assert_int_equal(s.gpu.status, PCO_OK);
            assert_int_equal(got->offset, begin / align * align);
            assert_int_equal(got->offset + got->bytes, end);
            assert_int_equal(got->offset + at * bytes, begin);
            assert_true(got->write == write && got->buffer == 0);
            assert_true(range->buffer == 0 && range->write == write && range->first == begin / 4 * 4 &&
                        range->end == end);
        }
        scene_clear(&s);
    }
}

/* Kernels count in 32 bits with a sign, whatever a device binds; and what has no memory is named. */
static void test_refused_bindings(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        scene s;
        pco_gpu_dispatch d;
        scene_make(&s);
        s.device.gpu.limits.offset_alignment = 64;
        s.gpu.binding = UINT64_C(1) << 40;
        scene_begin(&s, &d);
        if (i > 3) s.places[0].buffer = s.places[2].buffer = PCO_NONE;
        const uint64_t bytes = (UINT64_C(1) << (i == 2 ? 32 : 31)) + 4 * (i == 1);
        if (i % 2 || i == 2)
            gpu_bind_write(&s.gpu, &d, GPU_fill_y, 0, 0, bytes);
        else
            gpu_bind_read(&s.gpu, &d, GPU_fill_y, i == 4 ? 2 : 0, 0, bytes);
        assert_int_equal(s.gpu.status, i > 3 ? PCO_ERROR_INTERNAL : i == 1 || i == 2 ? PCO_ERROR_UNSUPPORTED : PCO_OK);
        if (s.gpu.status) assert_int_equal(strncmp(s.err.message, i == 4 ? "x " : "y ", 2), 0);
        scene_clear(&s);
    }
}

/* A node's workspace is as large as the last byte of it that it binds, and what the plan does not give is not bound. */
static void test_workspaces(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        uint64_t most = 0;
        scene_make(&s);
        if (n % 2) s.gpu.plan = NULL;
        for (int i = 0; i < 3 && !s.gpu.status; i++) {
            pco_gpu_dispatch d;
            const uint64_t first = draw(1200) * 4, bytes = 4 + draw(300) * 4;
            scene_begin(&s, &d);
            const uint32_t at = gpu_bind_workspace(&s.gpu, &d, GPU_fill_y, first, bytes, n % 3);
            if (first + bytes > most) most = first + bytes;
            assert_int_equal(s.gpu.workspace, most);
            if (s.gpu.plan && first + bytes > 4096) {
                assert_int_equal(s.gpu.status, PCO_ERROR_INTERNAL);
                continue;
            }
            assert_int_equal(s.gpu.status, PCO_OK);
            assert_int_equal(d.bindings[0].offset + at, (s.gpu.plan ? 128 : 0) + first);
            assert_int_equal(d.bindings[0].buffer, s.gpu.plan ? 1 : s.part.n_tensors);
            assert_int_equal(d.bindings[0].write, n % 3 != 0);
        }
        scene_clear(&s);
    }
}

/* Do tensors lie in the same memory? Two names may be one; an alias lies where its root does. */
static void test_same_memory(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        scene_make(&s);
        const uint64_t x = draw(60) * 4, y = draw(60) * 4, i = draw(20), k = draw(20);
        const uint32_t alias = draw(2), other = draw(3), type = draw(2) ? PCO_F16 : PCO_F32;
        s.places[0] = (pco_place){0, y, 4 + draw(20) * 4};
        s.places[2] = (pco_place){other, x, 4 + draw(20) * 4};
        for (int t = 0; t < 3; t++) s.tensors[t].dtype = type;
        const int same = other < 2 && x < y + s.places[0].bytes && y < x + s.places[2].bytes;
        assert_int_equal(!!gpu_same_memory(&s.gpu, alias, 2), same);
        assert_int_equal(!!gpu_same_memory(&s.gpu, 2, alias), same);
        const uint64_t bytes = gpu_element_bytes(type);
        assert_int_equal(!!gpu_same_element(&s.gpu, alias, i, 2, k), same && y + i * bytes == x + k * bytes);
        s.tensors[2].dtype = PCO_BF16;
        s.tensors[2].bytes = 0;
        assert_int_equal(gpu_same_element(&s.gpu, alias, i, 2, i), 0);
        s.gpu.plan = NULL;
        assert_true(gpu_same_memory(&s.gpu, 0, 1) && gpu_same_memory(&s.gpu, 1, 0) &&
                    !gpu_same_memory(&s.gpu, alias, 2));
        s.gpu.plan = &s.plan;
        s.places[2] = (pco_place){.buffer = PCO_NONE, .offset = y, .bytes = 64};
        assert_false(gpu_same_memory(&s.gpu, alias, 2) || gpu_same_memory(&s.gpu, 2, alias));
        s.gpu.plan = NULL;
        assert_int_equal(gpu_same_element(&s.gpu, 0, i, 1, i), 0);
    }
}

/* As many workgroups as were asked for, and at most a last row of them more; refused where the grid is too small. */
static void test_grids(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < TRIES; n++) {
        scene s;
        pco_gpu_dispatch d;
        uint32_t most[3];
        const uint64_t groups = draw(80);
        scene_make(&s);
        for (int i = 0; i < 3; i++) s.device.gpu.limits.max_groups[i] = most[i] = 1 + draw(6);
        scene_begin(&s, &d);
        gpu_bind_elements(&s.gpu, &d, GPU_fill_y, 0, 0, 5, 1);
        for (uint32_t none = 0; none < 3; none++) { /* of nothing in one dimension there is nothing */
            check_ok(gpu_emit_grid(&s.gpu, &d, none != 0, none != 1, none != 2));
            assert_int_equal(s.list.count, 0);
        }
        const uint64_t planes = (groups + most[0] - 1) / most[0], rows = (planes + most[1] - 1) / most[1];
        const pco_status status = gpu_emit(&s.gpu, &d, groups);
        if (rows > most[2]) {
            assert_int_equal(status, PCO_ERROR_UNSUPPORTED);
        } else {
            assert_int_equal(status, PCO_OK);
            assert_int_equal(s.list.count, groups != 0);
        }
        if (s.list.count) {
            const uint32_t *grid = s.list.dispatches[0].groups;
            for (int i = 0; i < 3; i++) assert_in_range(grid[i], 1, most[i]);
            assert_true((uint64_t)grid[0] * grid[1] * grid[2] >= groups);
            assert_true((uint64_t)(grid[0] - 1) * grid[1] * grid[2] < groups);
        }
        scene_clear(&s);
    }
}

/* A list of many launches keeps them all, and their bytes. */
static void test_many_launches(void **state)
{
    (void)state;
    scene s;
    scene_make(&s);
    for (uint32_t i = 0; i < 300; i++) {
        pco_gpu_dispatch d;
        gpu_begin(&s.gpu, &d, GPU_KERNEL_fill, 32, 1, 1);
        gpu_set_specs(&s.gpu, &d, fill, .per = 1);
        gpu_set_params(&s.gpu, &d, fill, .n_words = i);
        gpu_bind_elements(&s.gpu, &d, GPU_fill_y, 0, i, 5, 1);
        assert_int_equal(gpu_emit(&s.gpu, &d, 1 + i), PCO_OK);
    }
    assert_int_equal(s.list.count, 300);
    for (uint32_t i = 0; i < 300; i++) {
        assert_true(s.list.dispatches[i].params[0] == i && s.list.dispatches[i].groups[0] == 1 + i);
        assert_int_equal(s.list.ranges[i][0].first, 64 + i * 4);
    }
    scene_clear(&s);
}

/* Elements that fit, wherever in a binding's unit the tensor begins: as many as possible, but of whole 1024s or fours.
 */
static void test_windows(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        scene s;
        scene_make(&s);
        const uint64_t bytes = 1 + draw(40), align = UINT64_C(4) << draw(7),
                       binding = n % 16 ? 1 + draw(draw(2) ? 200 : 100000) : UINT64_C(1) << (30 + draw(5));
        s.device.gpu.limits.offset_alignment = (uint32_t)align;
        s.gpu.binding = binding;
        const uint64_t seen = binding < UINT64_C(1) << 31 ? binding : UINT64_C(1) << 31; /* 31 bits and a sign */
        uint64_t fit = seen > align ? (seen - align) / bytes : 0;
        fit -= fit % (fit >= 1024 ? 1024 : fit >= 4 ? 4 : 1);
        assert_int_equal(gpu_window(&s.gpu, bytes), fit);
    }
}

/* What a program says of its launches: segments, of which those up to a node are counted, and each launch as it is. */
static pco_status told_describe(pco_gpu_device *device, const pco_gpu_dispatch *dispatch, pco_dispatch_info *info,
                                pco_error *err)
{
    (void)device, (void)dispatch, (void)info, (void)err;
    return PCO_OK;
}

static uint32_t told_per;

static pco_status told_record(pco_gpu_device *device, const pco_plan *plan, const pco_gpu_dispatch *list,
                              uint32_t count, uint32_t per_segment, pco_gpu_recording **recording, pco_error *err)
{
    (void)device, (void)plan, (void)list, (void)count, (void)recording, (void)err;
    told_per = per_segment;
    return PCO_OK;
}

static void told_discard(pco_gpu_device *device, pco_gpu_recording *recording) { (void)device, (void)recording; }

static void test_programs(void **state)
{
    static const pco_gpu_driver DRIVER = {.describe = told_describe, .record = told_record, .discard = told_discard};
    const pco_program_api *api = &pco_gpu_program_api;
    (void)state;
    scene s;
    scene_make(&s);
    s.device = gpu_device(&DRIVER, 32, 32, 0);
    s.node.n_inputs = 0;
    pco_node_proposal wish = {.variant = PCO_NONE};
    const pco_proposal proposal = {.size = sizeof proposal, .nodes = &wish};
    pco_program *prepared = NULL;
    check_ok(api->prepare(&s.device, &s.part, &proposal, &s.plan, &prepared, &err));
    api->destroy(&s.device, prepared);
    assert_true(told_per > 1);
    pco_gpu_dispatch *launches = calloc(4 * told_per, sizeof *launches);
    for (uint32_t count = 0; count < 4 * told_per; count++) {
        pco_program program = {.n_dispatches = count, .dispatches = launches};
        launches[count].node = count / 5;
        assert_int_equal(api->segments(&program), (count + told_per - 1) / told_per);
        const uint32_t node = draw(count / 5 + 2), until = (node + 1) * 5 < count ? (node + 1) * 5 : count;
        assert_int_equal(api->segments_until(&program, node), (until + told_per - 1) / told_per);
    }
    for (uint32_t n = 0; n < TRIES; n++) {
        pco_gpu_dispatch *d = launches;
        unsigned char *raw = (unsigned char *)d;
        for (size_t i = 0; i < sizeof *d; i++) raw[i] = (unsigned char)draw(256);
        d->kernel = draw(pco_gpu_n_kernels), d->n_specs = 3 + draw(PCO_GPU_MAX_SPECS - 2);
        d->n_params = draw(PCO_GPU_MAX_PARAMS + 1), d->n_bindings = draw(PCO_GPU_MAX_BINDINGS + 1);
        pco_program program = {.n_dispatches = 1, .dispatches = launches};
        pco_dispatch_info info = {.size = sizeof info};
        check_ok(api->describe(&s.device, &program, 0, &info, &err));
        assert_string_equal(info.kernel, pco_gpu_kernels[d->kernel].name);
        assert_true(info.node == d->node && info.barrier_before == d->barrier_before);
        assert_true(info.n_specs == d->n_specs && info.n_bindings == d->n_bindings);
        assert_memory_equal(info.specs, d->specs, d->n_specs * sizeof *d->specs);
        assert_memory_equal(info.params, d->params, d->n_params * sizeof *d->params);
        assert_memory_equal(info.groups, d->groups, sizeof d->groups);
        assert_memory_equal(info.workgroup, d->specs, sizeof info.workgroup);
        for (uint32_t i = 0; i < d->n_bindings; i++)
            assert_true(
                info.bindings[i].buffer == d->bindings[i].buffer && info.bindings[i].write == d->bindings[i].write &&
                info.bindings[i].offset == d->bindings[i].offset && info.bindings[i].bytes == d->bindings[i].bytes);
        check_fails(api->describe(&s.device, &program, 1, &info, &err), PCO_ERROR_NOT_FOUND, "launch 1 of 1");
    }
    free(launches);
}

/* Machine code by a number each: equal where kernel, subgroups and constants are, and nowhere else. A node names each
 * that it needs once, in the order of its launches, as many as there is room for. */
enum { MOST_CODES = 64, CODE_WORDS = PCO_GPU_MAX_SPECS + 2 };
typedef struct codes {
    uint32_t n, words[MOST_CODES][CODE_WORDS];
    uint64_t numbers[MOST_CODES];
} codes;

static uint32_t code_of(codes *all, const pco_gpu_dispatch *d)
{
    uint32_t words[CODE_WORDS] = {d->kernel, d->width}, i = 0;
    memcpy(words + 2, d->specs, d->n_specs * sizeof *d->specs);
    while (i < all->n && memcmp(all->words[i], words, sizeof words)) i++;
    assert_true(i < MOST_CODES);
    if (i == all->n) memcpy(all->words[all->n++], words, sizeof words);
    return i;
}

static void test_pipelines(void **state)
{
    static const uint32_t OPS[] = {PCO_OP_FILL, PCO_OP_NEG, PCO_OP_ADD}, TYPES[] = {PCO_F32, PCO_F16};
    static codes all;
    uint32_t several = 0;
    (void)state;
    for (int n = 0; n < TRIES / 10; n++) {
        scene s;
        codes own = {0};
        uint64_t got[8];
        scene_make(&s);
        const uint32_t type = TYPES[draw(2)], capacity = draw(8);
        s.node.op = OPS[draw(3)], s.node.n_inputs = s.node.op == PCO_OP_FILL ? 0 : s.node.op == PCO_OP_NEG ? 1 : 2;
        s.node.inputs[1] = 2, s.node.variant = PCO_NONE;
        for (int t = 0; t < 3; t++) s.tensors[t].shape[0] = 1 + draw(9000), s.tensors[t].dtype = type;
        s.tensors[2].shape[0] = s.tensors[0].shape[0];
        s.part.window = s.gpu.binding = 256 + draw(20000);
        s.gpu.plan = NULL;
        check_ok(gpu_find_lowerer(&s.node, NULL)->lower(&s.gpu) ? PCO_ERROR_INTERNAL : PCO_OK);
        for (uint32_t i = 0; i < s.list.count; i++) code_of(&own, &s.list.dispatches[i]);
        memset(got, 0, sizeof got);
        const uint32_t named = pco_gpu_program_api.pipelines(&s.device, &s.part, 0, got, capacity);
        assert_int_equal(named, own.n);
        several += own.n > 1;
        for (uint32_t i = 0; i < 8; i++) {
            if (i >= own.n || i >= capacity) {
                assert_int_equal(got[i], 0);
                continue;
            }
            pco_gpu_dispatch d = {.kernel = own.words[i][0], .width = own.words[i][1], .n_specs = PCO_GPU_MAX_SPECS};
            memcpy(d.specs, own.words[i] + 2, sizeof d.specs);
            const uint32_t known = all.n, code = code_of(&all, &d);
            if (code == known) all.numbers[code] = got[i];
            assert_true(all.numbers[code] == got[i]);
            for (uint32_t other = 0; other < all.n; other++) assert_true(other == code || all.numbers[other] != got[i]);
        }
        scene_clear(&s);
    }
    assert_true(several > 0 && all.n > 3);
}

/* Times of launches become those of nodes, in their order; what there is no room for is counted. */
static void test_timings(void **state)
{
    (void)state;
    for (int n = 0; n < TRIES; n++) {
        pco_timing out[6] = {{0}};
        uint64_t expected[16] = {0};
        uint32_t node = draw(3), nodes = 0, numbers[16];
        pco_gpu_timings timings = {.out = out, .capacity = draw(6)};
        for (uint32_t i = draw(12); i > 0; i--) {
            const uint64_t time = draw(1000);
            if (!nodes || numbers[nodes - 1] != node) numbers[nodes++] = node;
            expected[nodes - 1] += time;
            pco_gpu_add_timing(&timings, node, time);
            node += draw(2) * (1 + draw(2));
        }
        assert_int_equal(timings.n, nodes);
        for (uint32_t i = 0; i < 6; i++) {
            const int there = i < nodes && i < timings.capacity;
            assert_true(out[i].node == (there ? numbers[i] : 0) && out[i].nanoseconds == (there ? expected[i] : 0));
        }
    }
}

/* Stream-k: no more groups than the tunable says; the kernel, which knows how many there are, finds as many blocks for
 * each as the lowerer has counted; and a tile has as many shares as there is room for, or one less. */
static void test_shares(void **state)
{
    (void)state;
    scene s;
    scene_make(&s);
    for (int n = 0; n < TRIES; n++) {
        const gpu_matmul p = {
            .m = 1 + draw(16), .k = 1 + draw(draw(2) ? 300 : 9000), .n = 1 + draw(draw(2) ? 90 : 5000)};
        const gpu_matmul_kernel kernel = {.columns = 2 + 2 * draw(2)};
        const gpu_matmul_shares shares = gpu_matmul_stream(&s.gpu, &p, &kernel);
        const uint64_t blocks = (p.k + 63) / 64, tiles = (p.n + kernel.columns - 1) / kernel.columns,
                       all = tiles * blocks;
        uint64_t most = 0;
        assert_true(shares.groups > 0 && shares.groups <= 64 && shares.groups * shares.blocks >= all);
        assert_true((shares.groups - 1) * shares.blocks < all);
        assert_int_equal((all + shares.groups - 1) / shares.groups, shares.blocks);
        for (uint64_t tile = 0; tile < tiles; tile++) {
            const uint64_t first = tile * blocks / shares.blocks, last = ((tile + 1) * blocks - 1) / shares.blocks;
            if (last - first + 1 > most) most = last - first + 1;
        }
        assert_true(most == shares.parts || most + 1 == shares.parts);
    }
    scene_clear(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bindings), cmocka_unit_test(test_workspaces),    cmocka_unit_test(test_same_memory),
        cmocka_unit_test(test_grids),    cmocka_unit_test(test_many_launches), cmocka_unit_test(test_windows),
        cmocka_unit_test(test_programs), cmocka_unit_test(test_timings),       cmocka_unit_test(test_operands),
        cmocka_unit_test(test_limits),   cmocka_unit_test(test_names),         cmocka_unit_test(test_made),
        cmocka_unit_test(test_making),   cmocka_unit_test(test_pipelines),     cmocka_unit_test(test_refused_bindings),
        cmocka_unit_test(test_shares)};
    return cmocka_run_group_tests_name("lowering", tests, NULL, NULL);
}
