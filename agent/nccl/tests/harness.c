/* Plays NCCL for the profiler plugin: loads it as NCCL does, and calls it in NCCL's order and from
 * as many threads. The layout of the interface is written down here once more, by its documentation,
 * so that a mistake in the plugin's own is noticed.
 *
 *   harness LIBRARY VERSION ring     RANKS RANK COUNT COMPUTE_US COLLECTIVE_US [SENDING_US RECEIVING_US]
 *   harness LIBRARY VERSION tensor   RANKS RANK COUNT COMPUTE_US COLLECTIVE_US
 *   harness LIBRARY VERSION pipeline RANKS RANK COUNT COMPUTE_US MESSAGE_US
 *   harness LIBRARY VERSION sizes    RANKS RANK COUNT COMPUTE_US US_BY_RANK
 *   harness LIBRARY VERSION cost     COUNT
 *   harness LIBRARY VERSION abuse
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GROUP = 1, COLLECTIVE = 2, MESSAGE = 4, TRANSFER = 8, STEP = 16, CONTROL = 32, KERNEL = 64, GROUP_API = 256 };
enum { NOBODY = -1 };
enum { STEP_SENT = 9, STEP_WAITS = 10, STEP_RECEIVED = 11, CONTROL_IDLE = 13, TRANSFER_GOES_ON = 19, KERNEL_STOPPED = 22 };

#define DETAILS                                                                                    \
  union {                                                                                          \
    struct { uint64_t sequence; const char *function; const void *send; void *receive; size_t count; \
             int root; const char *datatype; uint8_t channels, warps; const char *algorithm, *protocol; \
             void *group; } collective;                                                            \
    struct { const char *function; void *buffer; const char *datatype; size_t count; int peer;     \
             uint8_t channels; void *group; } message;                                             \
    struct { int process; uint8_t channel; int peer, steps, chunk, sends; } transfer;              \
    struct { int step; } step;                                                                     \
    struct { uint8_t channel; uint64_t gpu_ns; } kernel;                                           \
  }

typedef struct { uint8_t type; void *parent; int rank; DETAILS; } event_4;
typedef struct { uint64_t type; void *parent; int rank; DETAILS; } event_5;
typedef union { size_t bytes; int operations; void *data; uint64_t gpu_ns; } arguments;

typedef struct {
  const char *name;
  int (*init)(void **, int *, const char *, uint64_t, int, int, int, void *);
  int (*start)(void *, void **, event_4 *);
  int (*stop)(void *);
  int (*record)(void *, int, arguments *);
  int (*finalize)(void *);
} profiler_4;

typedef struct {
  const char *name;
  int (*init)(void **, uint64_t, int *, const char *, int, int, int, void *);
  int (*start)(void *, void **, event_5 *);
  int (*stop)(void *);
  int (*record)(void *, int, arguments *);
  int (*finalize)(void *);
} profiler_5;

static int version;
static profiler_4 *four;
static profiler_5 *five;
static int mask, process;
/* What one collective or message carries. */
static const size_t BYTES = 1 << 20;
/* How long a step is on its way: from the rank before, and to the next one. */
static int on_way_us[2];

static void fail(const char *what) {
  fprintf(stderr, "harness: %s\n", what);
  exit(1);
}

static void *init(uint64_t communicator, const char *name, int ranks, int rank) {
  void *context = NULL;
  int failed = version == 4 ? four->init(&context, &mask, name, communicator, ranks, ranks, rank, NULL)
                            : five->init(&context, communicator, &mask, name, ranks, ranks, rank, NULL);
  return failed ? NULL : context;
}

static void *join(uint64_t communicator, const char *name, int ranks, int rank) {
  void *context = init(communicator, name, ranks, rank);
  if (!context) fail("init failed");
  return context;
}

/* Version 4's type is one byte, and what lies behind it is anything. */
static void *start(void *context, event_5 *event) {
  void *handle = (void *)0x5;
  if (version == 5) {
    if (five->start(context, &handle, event)) fail("start failed");
    return handle;
  }
  event_4 narrow;
  memset(&narrow, 0xaa, sizeof narrow);
  narrow.type = (uint8_t)event->type;
  memcpy(&narrow.parent, &event->parent, sizeof *event - offsetof(event_5, parent));
  if (four->start(context, &handle, &narrow)) fail("start failed");
  return handle;
}

static void stop(void *handle) {
  if (handle && (version == 4 ? four->stop : five->stop)(handle)) fail("stop failed");
}

static void record(void *handle, int state, arguments it) {
  if (handle && (version == 4 ? four->record : five->record)(handle, state, &it)) fail("record failed");
}

static void finalize(void *context) {
  if ((version == 4 ? four->finalize : five->finalize)(context)) fail("finalize failed");
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *start_collective(void *context, size_t count, uint8_t channels) {
  event_5 it = {.type = COLLECTIVE};
  it.collective.function = "AllReduce";
  it.collective.count = count;
  it.collective.datatype = "ncclFloat32";
  it.collective.channels = channels;
  it.collective.algorithm = "RING";
  it.collective.protocol = "SIMPLE";
  return start(context, &it);
}

static void *start_message(void *context, const char *function, const char *datatype, size_t count, int peer, uint8_t channels) {
  event_5 it = {.type = MESSAGE};
  it.message.function = function;
  it.message.datatype = datatype;
  it.message.count = count;
  it.message.peer = peer;
  it.message.channels = channels;
  return start(context, &it);
}

static void *start_transfer(void *context, void *parent, int of, int peer, int sends) {
  event_5 it = {.type = TRANSFER, .parent = parent};
  it.transfer.process = of;
  it.transfer.peer = peer;
  it.transfer.steps = 2;
  it.transfer.chunk = 1 << 19;
  it.transfer.sends = sends;
  return start(context, &it);
}

static void transfer(void *context, void *parent, int peer, int sends, size_t bytes, int steps) {
  void *handle = start_transfer(context, parent, process, peer, sends);
  record(handle, TRANSFER_GOES_ON, (arguments){0});
  for (int step = 0; step < steps; step++) {
    event_5 it = {.type = STEP, .parent = handle};
    it.step.step = step;
    void *part = start(context, &it);
    record(part, sends ? 8 : STEP_WAITS, (arguments){0});
    record(part, sends ? STEP_SENT : STEP_RECEIVED, (arguments){.bytes = bytes / (size_t)steps});
    if (on_way_us[sends]) usleep((useconds_t)on_way_us[sends]);
    stop(part);
  }
  stop(handle);
}

static void *start_kernel(void *context, void *parent, uint8_t channel, uint64_t gpu_ns) {
  event_5 it = {.type = KERNEL, .parent = parent};
  it.kernel.channel = channel;
  it.kernel.gpu_ns = gpu_ns;
  return start(context, &it);
}

static void stop_kernel(void *kernel, uint64_t gpu_ns) {
  record(kernel, KERNEL_STOPPED, (arguments){.gpu_ns = gpu_ns});
  stop(kernel);
}

/* What the thread that serves the network does for a collective or a message, after the program has gone on. */
struct work { void *context, *parent; int next, previous, takes_us; };

static void *proxy(void *arg) {
  struct work *it = arg;
  void *kernels[2];
  for (uint8_t channel = 0; channel < 2; channel++) kernels[channel] = start_kernel(it->context, it->parent, channel, now_ns());
  if (it->next != NOBODY) transfer(it->context, it->parent, it->next, 1, BYTES, 2);
  if (it->previous != NOBODY) transfer(it->context, it->parent, it->previous, 0, BYTES, 2);
  usleep((useconds_t)it->takes_us);
  for (uint8_t channel = 0; channel < 2; channel++) stop_kernel(kernels[channel], now_ns());
  return NULL;
}

/* From where the program hands it over until it is done. */
static void work(struct work it) {
  stop(it.parent);
  pthread_t thread;
  if (pthread_create(&thread, NULL, proxy, &it)) fail("no thread");
  pthread_join(thread, NULL);
}

static void all_reduce(void *context, int ranks, int rank, int takes_us) {
  event_5 group = {.type = GROUP};
  if (start(context, &group)) fail("a group was taken");
  void *collective = start_collective(context, BYTES / 4, 2);
  work((struct work){context, collective, (rank + 1) % ranks, (rank + ranks - 1) % ranks, takes_us});
}

static void ring(void *context, int ranks, int rank, int count, int compute_us, int collective_us) {
  for (int round = 0; round < count; round++) {
    all_reduce(context, ranks, rank, collective_us);
    usleep((useconds_t)compute_us);
  }
  finalize(context);
}

/* Each stage hands on to the next what it has from the one before. */
static void pipeline(void *context, int stages, int stage, int count, int compute_us, int message_us) {
  for (int round = 0; round < count; round++) {
    if (stage > 0) {
      void *message = start_message(context, "Recv", "ncclInt8", BYTES, stage - 1, 2);
      work((struct work){context, message, NOBODY, stage - 1, message_us});
    }
    usleep((useconds_t)compute_us);
    if (stage + 1 < stages) {
      void *message = start_message(context, "Send", "ncclInt8", BYTES, stage + 1, 2);
      work((struct work){context, message, stage + 1, NOBODY, message_us});
    }
  }
  finalize(context);
}

/* The first two ranks, the first four and so on reduce as much, in communicators of their own; whoever is in none
 * of them waits as long. */
static void sizes(int ranks, int rank, int count, int compute_us, int us_by_rank) {
  void *contexts[32] = {0};
  for (int size = 2, nth = 0; size <= ranks; size *= 2, nth++)
    if (rank < size) contexts[nth] = join(0xd0 + (uint64_t)size, "dp", size, rank);
  for (int round = 0; round < count; round++) {
    for (int size = 2, nth = 0; size <= ranks; size *= 2, nth++) {
      if (contexts[nth]) all_reduce(contexts[nth], size, rank, size * us_by_rank);
      else usleep((useconds_t)(size * us_by_rank));
    }
    usleep((useconds_t)compute_us);
  }
  for (int nth = 0; nth < 32; nth++) if (contexts[nth]) finalize(contexts[nth]);
}

/* Whether there is such a job. */
static int play(const char *mode, int ranks, int rank, int count, int compute_us, int each_us) {
  if (!strcmp(mode, "ring")) ring(join(0xfeed, "world", ranks, rank), ranks, rank, count, compute_us, each_us);
  else if (!strcmp(mode, "tensor")) ring(join(0x7e, "tp", ranks, rank), ranks, rank, count, compute_us, each_us);
  else if (!strcmp(mode, "pipeline")) pipeline(join(0x99, NULL, ranks, rank), ranks, rank, count, compute_us, each_us);
  else if (!strcmp(mode, "sizes")) sizes(ranks, rank, count, compute_us, each_us);
  else return 0;
  return 1;
}

enum { BATCH = 512, MOST_BATCHES = 1024 };

/* Two threads take turns at the same collectives, so that each finds the other's words in the other's cache. */
static struct {
  void *context, *collectives[BATCH];
  pthread_barrier_t turn;
  int batches;
  uint64_t program_ns[MOST_BATCHES], library_ns[MOST_BATCHES];
} costs;

/* What the library's thread does for them. */
static void *serve(void *arg) {
  for (int batch = 0; batch < costs.batches; batch++) {
    pthread_barrier_wait(&costs.turn);
    uint64_t before = now_ns();
    for (int nth = 0; nth < BATCH; nth++) {
      void *collective = costs.collectives[nth], *kernel = start_kernel(costs.context, collective, 0, 1000);
      transfer(costs.context, collective, 1, 1, 8, 1);
      transfer(costs.context, collective, 7, 0, 8, 1);
      stop_kernel(kernel, 2000);
    }
    costs.library_ns[batch] = now_ns() - before;
    pthread_barrier_wait(&costs.turn);
  }
  return arg;
}

static int by_size(const void *one, const void *other) {
  uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
  return (a > b) - (a < b);
}

/* Of one of them: whoever else runs on this machine makes some batches longer, and none shorter. */
static double median(uint64_t *batches) {
  qsort(batches, (size_t)costs.batches, sizeof *batches, by_size);
  return (double)batches[costs.batches / 2] / BATCH;
}

/* All the calls of an all-reduce of eight bytes: those of the program's thread, and those of the library's. The
 * clock is read once a batch. */
static void cost(int count) {
  pthread_t library;
  costs.context = init(1, NULL, 8, 0), costs.batches = (count + BATCH - 1) / BATCH;
  if (costs.batches < 1 || costs.batches > MOST_BATCHES) fail("too few, or too many");
  pthread_barrier_init(&costs.turn, NULL, 2);
  if (pthread_create(&library, NULL, serve, NULL)) fail("no thread");
  for (int batch = 0; batch < costs.batches; batch++) {
    uint64_t before = now_ns();
    for (int nth = 0; nth < BATCH; nth++) stop(costs.collectives[nth] = start_collective(costs.context, 2, 1));
    costs.program_ns[batch] = now_ns() - before;
    pthread_barrier_wait(&costs.turn), pthread_barrier_wait(&costs.turn);
    usleep(40000);
  }
  pthread_join(library, NULL);
  finalize(costs.context);
  printf("%.1f %.1f\n", median(costs.program_ns), median(costs.library_ns));
}

/* What NCCL never does, and what it does seldom. */
static void abuse(void) {
  void *context = init(7, "odd", 4, 1);
  if (init(7, "no such rank", 4, 4) || init(7, "negative", -1, 0)) fail("an impossible rank was taken");
  char name[100];
  memset(name, 'x', 98), memcpy(name + 62, "\xc3\xa9\xc3\xa9", 4), name[98] = 0;
  void *other = init(8, name, 2, 0);
  if (!other) fail("a long name");
  event_5 api = {.type = GROUP_API};
  if (version == 5 && start(context, &api)) fail("what was not asked for was taken");
  event_5 control = {.type = CONTROL};
  if (start(context, &control)) fail("control was taken");
  if (start_transfer(context, start_collective(context, 1, 0), process + 1, 2, 1)) fail("another process's transfer was taken");
  if (start_transfer(context, NULL, process, 2, 1)) fail("an orphan was taken");
  event_5 orphan = {.type = STEP};
  if (start(context, &orphan)) fail("a step of nothing was taken");
  void *collective = start_collective(context, 3, 0);
  if (start_transfer(context, collective, process, -1, 1)) fail("a negative rank was taken");
  stop(collective);
  for (int peer = 0; peer < 4; peer++) transfer(context, collective, peer, 1, 10, 1);
  stop(start_message(context, "Send", "ncclInt8", 77, 2, 0));
  event_5 strange = {.type = COLLECTIVE};
  stop(start(context, &strange));
  event_5 huge = {.type = COLLECTIVE};
  huge.collective.function = "Conjure", huge.collective.datatype = "ncclInt64", huge.collective.count = SIZE_MAX;
  stop(start(context, &huge));
  finalize(context);
  finalize(other);
  stop(collective), transfer(context, collective, 2, 1, 10, 1);
  for (uintptr_t handle = 0; handle < 4096; handle++) {
    record((void *)(handle * 0x9e3779b97f4a7c15u), (int)(handle % 30), (arguments){0});
    stop((void *)(handle * 0x9e3779b97f4a7c15u));
  }
  finalize(other);
}

int main(int argc, char **argv) {
  if (argc < 4) fail("LIBRARY VERSION MODE");
  version = atoi(argv[2]), process = getpid();
  for (int loads = 0; loads < 2; loads++) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(dlerror());
    four = dlsym(library, "ncclProfiler_v4"), five = dlsym(library, "ncclProfiler_v5");
    if (!four || !five || strcmp(five->name, "Reweave")) fail("no such profiler");
    if (argc > 10) on_way_us[1] = atoi(argv[9]), on_way_us[0] = atoi(argv[10]);
    if (argc > 4 && !strcmp(argv[3], "cost")) cost(atoi(argv[4]));
    else if (!strcmp(argv[3], "abuse")) abuse();
    else if (argc < 9 || !play(argv[3], atoi(argv[4]), atoi(argv[5]), atoi(argv[6]), atoi(argv[7]), atoi(argv[8]))) fail("no such job");
    if (mask != (COLLECTIVE | MESSAGE | TRANSFER | STEP | KERNEL)) fail("other events are asked for");
    if (dlclose(library)) fail("cannot unload");
    if (strcmp(argv[3], "abuse")) break;
  }
  return 0;
}
