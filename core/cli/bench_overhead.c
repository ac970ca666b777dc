/* What a run costs the host: a graph of 200 small nodes, whose arithmetic takes next to nothing, beside the same graph
 * in PyTorch (eager) and in onnxruntime, where a Python that has them is named. They run in turn, in one process each.
 * And, where that Python has the package portico, what the first call of a function takes in a process of its own. */
#include "cli/bench.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OVERHEAD_SIZE = 16,
    OVERHEAD_LAYERS = 50,
    OVERHEAD_NODES = 4,
    OVERHEAD_TURN = 20,
    OVERHEAD_MOST = 400,
    OVERHEAD_FIRST = 5
};

/* A line "torch" or "onnxruntime" is answered by the seconds of a turn, or by "-" and why there are none; "first
 * DEVICE" by those of the first call, and what it took of processors. */
static const char OVERHEAD_PYTHON[] =
    "import os, subprocess, sys, time\n"
    "size, layers, turn, threads = map(int, sys.argv[1:5])\n"
    "def torch_job():\n"
    "    import torch\n"
    "    torch.set_num_threads(threads)\n"
    "    x, w = torch.full((size, size), 0.25), torch.full((size, size), 0.01)\n"
    "    @torch.inference_mode()\n"
    "    def run():\n"
    "        y = x\n"
    "        for _ in range(layers):\n"
    "            y = torch.softmax(torch.tanh((y @ w) * w), -1)\n"
    "        return y\n"
    "    return run, torch.__version__\n"
    "def onnx_job():\n"
    "    import numpy, onnx, onnxruntime\n"
    "    from onnx import TensorProto, helper, numpy_helper\n"
    "    nodes, at = [], 'x'\n"
    "    for i in range(layers):\n"
    "        for op, more in (('MatMul', ['w']), ('Mul', ['w']), ('Tanh', []), ('Softmax', [])):\n"
    "            last = i == layers - 1 and op == 'Softmax'\n"
    "            name = 'y' if last else f'{op}{i}'\n"
    "            nodes.append(helper.make_node(op, [at] + more, [name]))\n"
    "            at = name\n"
    "    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [size, size]) for n in 'xy']\n"
    "    w = numpy_helper.from_array(numpy.full((size, size), 0.01, numpy.float32), 'w')\n"
    "    graph = helper.make_graph(nodes, 'g', info[:1], info[1:], [w])\n"
    "    model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8)\n"
    "    options = onnxruntime.SessionOptions()\n"
    "    options.intra_op_num_threads = threads\n"
    "    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ['CPUExecutionProvider'])\n"
    "    x = numpy.full((size, size), 0.25, numpy.float32)\n"
    "    return lambda: session.run(['y'], {'x': x}), onnxruntime.__version__\n"
    "FIRST = '''\n"
    "import time, portico\n"
    "@portico.function\n"
    "def f(x, w):\n"
    "    return portico.softmax(portico.tanh(x @ w) * w, -1)\n"
    "x = portico.full((16, 16), 0.25)\n"
    "start, used = time.perf_counter(), time.process_time()\n"
    "f(x, x).numpy()\n"
    "print(time.perf_counter() - start, f'{time.process_time() - used:.3f}')\n"
    "'''\n"
    "def first(device):\n"
    "    made = subprocess.run([sys.executable, '-c', FIRST], env={**os.environ, 'PORTICO_BACKEND': device},\n"
    "                          capture_output=True, text=True)\n"
    "    if made.returncode: raise RuntimeError(made.stderr.strip().splitlines()[-1])\n"
    "    return made.stdout.strip()\n"
    "jobs = {}\n"
    "for line in sys.stdin:\n"
    "    name = line.strip()\n"
    "    try:\n"
    "        if name.startswith('first '):\n"
    "            print(first(name[6:]), flush=True)\n"
    "            continue\n"
    "        if name not in jobs:\n"
    "            jobs[name] = {'torch': torch_job, 'onnxruntime': onnx_job}[name]()\n"
    "            jobs[name][0]()\n"
    "        run, version = jobs[name]\n"
    "        start = time.perf_counter()\n"
    "        for _ in range(turn): run()\n"
    "        print((time.perf_counter() - start) / turn, version, flush=True)\n"
    "    except Exception as error:\n"
    "        print('-', str(error).replace('\\n', ' ')[:200], flush=True)\n";

/* ---- the other process ---- */

typedef struct overhead_peer {
    pid_t pid;
    FILE *to, *from;
} overhead_peer;

static int overhead_start(overhead_peer *peer, const char *python, uint32_t threads)
{
    int in[2], out[2];
    char numbers[4][16];
    const int values[] = {OVERHEAD_SIZE, OVERHEAD_LAYERS, OVERHEAD_TURN, (int)threads};
    for (int i = 0; i < 4; i++) snprintf(numbers[i], sizeof numbers[i], "%d", values[i]);
    if (pipe(in)) return 0;
    if (pipe(out)) {
        close(in[0]), close(in[1]);
        return 0;
    }
    peer->pid = fork();
    if (peer->pid == 0) {
        dup2(in[0], 0), dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execlp(python, python, "-c", OVERHEAD_PYTHON, numbers[0], numbers[1], numbers[2], numbers[3], (char *)NULL);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    peer->to = fdopen(in[1], "w"), peer->from = fdopen(out[0], "r");
    return peer->pid > 0 && peer->to && peer->from;
}

static void overhead_end(overhead_peer *peer)
{
    if (peer->to) fclose(peer->to);
    if (peer->from) fclose(peer->from);
    if (peer->pid > 0)
        while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR) continue;
}

/* Seconds of a run in a turn of the other process; 0 and why: there are none. `about`: its version, or why. */
static double overhead_ask(overhead_peer *peer, const char *name, char *about, size_t size)
{
    char line[320] = "";
    snprintf(about, size, "the process ended");
    if (fprintf(peer->to, "%s\n", name) < 0 || fflush(peer->to) || !fgets(line, sizeof line, peer->from)) return 0;
    line[strcspn(line, "\n")] = 0;
    const char *words = strchr(line, ' ');
    snprintf(about, size, "%s", words ? words + 1 : "");
    return line[0] == '-' ? 0 : strtod(line, NULL);
}

/* ---- this one ---- */

static pco_graph *overhead_graph(void)
{
    const int64_t square[] = {OVERHEAD_SIZE, OVERHEAD_SIZE};
    float weights[OVERHEAD_SIZE * OVERHEAD_SIZE];
    for (int i = 0; i < OVERHEAD_SIZE * OVERHEAD_SIZE; i++) weights[i] = 0.01F;
    pco_graph *graph = pco_graph_create();
    uint32_t y = pco_graph_input(graph, "x", PCO_F32, 2, square);
    const uint32_t w = pco_graph_constant_copy(graph, "w", PCO_F32, 2, square, weights);
    for (int i = 0; i < OVERHEAD_LAYERS; i++)
        y = pco_softmax(graph, pco_tanh(graph, pco_mul(graph, pco_matmul(graph, y, w, 0, 0), w)), -1);
    pco_graph_output(graph, y, "y");
    return graph;
}

/* Written, run and read, as the others take and give their arrays. */
static pco_status overhead_turn(pco_executable *executable, double *seconds, pco_error *err)
{
    float data[OVERHEAD_SIZE * OVERHEAD_SIZE];
    for (int i = 0; i < OVERHEAD_SIZE * OVERHEAD_SIZE; i++) data[i] = 0.25F;
    const uint32_t x = pco_executable_tensor(executable, "x"), y = pco_executable_tensor(executable, "y");
    pco_status status = PCO_OK;
    const double start = pco_seconds();
    for (int i = 0; i < OVERHEAD_TURN && !status; i++) {
        status = pco_executable_write(executable, x, data, sizeof data, err);
        if (!status) status = pco_executable_run(executable, err);
        if (!status) status = pco_executable_read(executable, y, data, sizeof data, err);
        for (int k = 0; k < OVERHEAD_SIZE * OVERHEAD_SIZE; k++) data[k] = 0.25F;
    }
    *seconds = (pco_seconds() - start) / OVERHEAD_TURN;
    return status;
}

static const char *const OVERHEAD_PEERS[] = {"torch", "onnxruntime"};
enum { OVERHEAD_N_PEERS = 2 };

/* Turns of all, one after the other, as long as there is time; medians. */
static pco_status overhead_measure(pco_executable *executable, overhead_peer *peer, double seconds, double *own,
                                   double *others, char about[][256], int *turns, pco_error *err)
{
    static const size_t ROOM = OVERHEAD_MOST * sizeof(double);
    double *times[1 + OVERHEAD_N_PEERS] = {malloc(ROOM), malloc(ROOM), malloc(ROOM)};
    pco_status status = times[0] && times[1] && times[2] ? PCO_OK : PCO_ERROR_OUT_OF_HOST_MEMORY;
    double first;
    int n = 0, there[OVERHEAD_N_PEERS];
    for (int i = 0; i < OVERHEAD_N_PEERS && !status; i++)
        there[i] = peer && overhead_ask(peer, OVERHEAD_PEERS[i], about[i], sizeof about[i]) > 0;
    if (!status) status = overhead_turn(executable, &first, err);
    const double start = pco_seconds();
    while (!status && n < OVERHEAD_MOST && (n < 5 || pco_seconds() - start < seconds) && !cli_interrupted()) {
        status = overhead_turn(executable, &times[0][n], err);
        for (int i = 0; i < OVERHEAD_N_PEERS; i++)
            if (there[i]) times[1 + i][n] = overhead_ask(peer, OVERHEAD_PEERS[i], about[i], sizeof about[i]);
        n++;
    }
    *own = status ? 0 : bench_median(times[0], n);
    for (int i = 0; i < OVERHEAD_N_PEERS; i++) others[i] = status || !there[i] ? 0 : bench_median(times[1 + i], n);
    *turns = n;
    for (int i = 0; i <= OVERHEAD_N_PEERS; i++) free(times[i]);
    return status;
}

/* Medians of the first call of a Python function in a process of its own, after one that fills the cache. `text` gets
 * them, or nothing. */
static void overhead_first(overhead_peer *peer, const char *device, char *text, size_t size)
{
    double seconds[OVERHEAD_FIRST], processor[OVERHEAD_FIRST];
    char line[80], about[256];
    snprintf(line, sizeof line, "first %.60s", device);
    *text = 0;
    for (int i = -1; i < OVERHEAD_FIRST; i++) {
        const double found = overhead_ask(peer, line, about, sizeof about);
        if (found <= 0) {
            cli_note("a function in Python: %s\n", about);
            return;
        }
        if (i >= 0) seconds[i] = found, processor[i] = strtod(about, NULL);
    }
    snprintf(text, size, "first call in Python %.3f s, %.3f s of processors", bench_median(seconds, OVERHEAD_FIRST),
             bench_median(processor, OVERHEAD_FIRST));
}

static pco_status overhead_device(pco_registry *registry, const char *device, overhead_peer *peer, double seconds,
                                  bench_figure *figure, pco_error *err)
{
    pco_session *session = NULL;
    pco_executable *executable = NULL;
    pco_graph *graph = overhead_graph();
    double own = 0, others[OVERHEAD_N_PEERS] = {0};
    char about[OVERHEAD_N_PEERS][256] = {"", ""}, first[96] = "";
    pco_status status = pco_registry_open(registry, device, &session, err);
    if (!status) status = pco_executable_create(session, graph, NULL, &executable, err);
    if (!status) status = overhead_measure(executable, peer, seconds, &own, others, about, &figure->repetitions, err);
    if (!status && peer) overhead_first(peer, pco_session_device_id(session), first, sizeof first);
    pco_executable_destroy(executable);
    pco_session_close(session);
    pco_graph_destroy(graph);
    if (status) return status;
    figure->milliseconds = 1e3 * own;
    figure->rate = 1e6 * own / (OVERHEAD_LAYERS * OVERHEAD_NODES), figure->unit = "us/node";
    size_t used = 0;
    for (int i = 0; i < OVERHEAD_N_PEERS && peer; i++) {
        if (others[i] > 0)
            used += (size_t)snprintf(figure->peer + used, sizeof figure->peer - used, "%s%s %.20s %.3f ms (%.2f x)",
                                     used ? ", " : "", OVERHEAD_PEERS[i], about[i], 1e3 * others[i], others[i] / own);
        else
            cli_note("%s: %s\n", OVERHEAD_PEERS[i], about[i]);
        if (others[i] > 0 && (figure->ratio == 0 || others[i] / own < figure->ratio)) figure->ratio = others[i] / own;
        if (used >= sizeof figure->peer) used = sizeof figure->peer - 1;
    }
    if (*first) snprintf(figure->peer + used, sizeof figure->peer - used, "%s%s", used ? ", " : "", first);
    return PCO_OK;
}

void bench_overhead(pco_registry *registry, const char *device, const char *python, double seconds,
                    bench_figure *figure)
{
    overhead_peer peer = {0};
    pco_error err = {""};
    *figure = (bench_figure){.unit = ""};
    snprintf(figure->name, sizeof figure->name, "200 nodes");
    void (*before)(int) = signal(SIGPIPE, SIG_IGN); /* a peer that ends is no end of this process */
    const int beside = python && overhead_start(&peer, python, pco_registry_config(registry)->threads);
    if (overhead_device(registry, device, beside ? &peer : NULL, seconds, figure, &err))
        bench_refuse(figure, "200 nodes", &err);
    overhead_end(&peer);
    signal(SIGPIPE, before);
}
