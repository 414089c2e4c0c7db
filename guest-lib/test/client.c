// A program that uses the driver API directly, linked to libcuda.so.1 as any such program is. It
// does what its argument says and prints each CUresult by name, one line per call.
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_driver.h"

static const char *name_of(CUresult result) {
  const char *name;
  return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "?";
}

static CUresult say(const char *what, CUresult result) {
  printf("%s %s\n", what, name_of(result));
  fflush(stdout);
  return result;
}
#define SAY(call, arguments) say(#call, call arguments)

static CUcontext context;
static CUdeviceptr memory;

// A session that is really used. 0 when all went well.
static int session(void) {
  unsigned char bytes[1000], back[1000];
  for (int i = 0; i < 1000; i++) bytes[i] = (unsigned char)(i * 7);
  if (SAY(cuInit, (0)) || SAY(cuDevicePrimaryCtxRetain, (&context, 0)) ||
      SAY(cuCtxSetCurrent, (context)) || SAY(cuMemAlloc_v2, (&memory, 1000)) ||
      SAY(cuMemcpyHtoD_v2, (memory, bytes, 1000)) || SAY(cuMemcpyDtoH_v2, (back, memory, 1000)))
    return 1;
  puts(memcmp(bytes, back, 1000) == 0 ? "data same" : "data different");
  return 0;
}

static void wait_for_line(const char *ready) {
  char line[64];
  puts(ready);
  fflush(stdout);
  if (!fgets(line, sizeof line, stdin)) exit(3);
}

// ---- what it can do ----------------------------------------------------------------------------

static void init(void) {
  int count = -1, version = 0;
  const CUresult result = SAY(cuInit, (0));
  SAY(cuDeviceGetCount, (&count));
  // Without a session it would ask the server once more.
  if (!result) SAY(cuDriverGetVersion, (&version));
  printf("devices %d version %d\n", count, version);
}

static volatile sig_atomic_t ticks, told_to_end;
static void tick(int signal) {
  (void)signal;
  ticks++;
  if (write(STDERR_FILENO, ".", 1) != 1) _exit(4);
}
static void end(int signal) { told_to_end = signal; }

// As an interpreter: its handlers only set a flag, and none asks for calls to be restarted. A timer
// ticks on, and a child ends, while cuInit waits. Each tick is a dot on stderr.
static void init_with_signals(void) {
  struct sigaction ticking = {.sa_handler = tick}, ending = {.sa_handler = end};
  sigaction(SIGALRM, &ticking, NULL);
  sigaction(SIGCHLD, &ticking, NULL);
  sigaction(SIGINT, &ending, NULL);
  sigaction(SIGTERM, &ending, NULL);
  if (fork() == 0) {
    usleep(20000);
    _exit(0);
  }
  struct itimerval often = {.it_interval = {.tv_usec = 5000}, .it_value = {.tv_usec = 5000}};
  setitimer(ITIMER_REAL, &often, NULL);
  SAY(cuInit, (0));
  printf("ticks %s, told to end by %d\n", ticks >= 3 ? "some" : "none", (int)told_to_end);
}

static void before_init(void) {
  int count;
  CUdeviceptr address;
  SAY(cuDeviceGetCount, (&count));
  SAY(cuMemAlloc_v2, (&address, 1));
  SAY(cuInit, (1));
}

static void forks(void) {
  if (session()) return;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    unsigned char byte;
    CUdeviceptr address;
    SAY(cuInit, (0));
    SAY(cuMemAlloc_v2, (&address, 1));
    SAY(cuMemcpyDtoH_v2, (&byte, memory, 1));
    SAY(cuCtxSynchronize, ());
    SAY(cuMemFree_v2, (memory));
    exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("child %d\n", status);
  unsigned char byte = 0;
  SAY(cuMemcpyDtoH_v2, (&byte, memory + 1, 1));
  printf("byte %d\n", byte);
}

// Forked before the first call: the child has a session of its own.
static void forks_first(void) {
  pid_t child = fork();
  if (child == 0) exit(session());
  int status;
  waitpid(child, &status, 0);
  printf("child %d\n", status);
  session();
}

// Forked while another thread is in cuInit.
static void *init_in_thread(void *result) {
  *(CUresult *)result = cuInit(0);
  return NULL;
}

static void forks_in_init(void) {
  pthread_t thread;
  CUresult result;
  pthread_create(&thread, NULL, init_in_thread, &result);
  wait_for_line("ready");
  pid_t child = fork();
  if (child == 0) {
    SAY(cuInit, (0));
    exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  printf("child %d\n", status);
  wait_for_line("and then");
  pthread_join(thread, NULL);
  say("cuInit", result);
}

static void ends_with_work_open(void) {
  if (session()) return;
  CUstream stream;
  SAY(cuStreamCreate, (&stream, 0));
  for (int i = 0; i < 1000; i++) cuMemsetD8Async(memory, 1, 1000, stream);
}

static void unsupported(void) {
  if (session()) return;
  // Parts of a device, and dumps of it: no device of ours has them.
  CUgreenCtx part;
  bool dump;
  size_t size = sizeof dump;
  SAY(cuGreenCtxCreate, (&part, NULL, 0, 0));
  SAY(cuGreenCtxCreate, (&part, NULL, 0, 0));
  SAY(cuCoredumpGetAttribute, (CU_COREDUMP_ENABLE_ON_EXCEPTION, &dump, &size));
  void *function = (void *)1;
  CUdriverProcAddressQueryResult status;
  SAY(cuGetProcAddress_v2, ("cuCoredumpGetAttribute", &function, 13000, 0, &status));
  puts(function ? "found" : "not found");
}

static void server_dies(void) {
  if (session()) return;
  wait_for_line("ready");
  unsigned char byte;
  CUdeviceptr address;
  SAY(cuMemcpyDtoH_v2, (&byte, memory, 1));
  SAY(cuMemAlloc_v2, (&address, 1));
  SAY(cuCtxSynchronize, ());
  SAY(cuInit, (0));
}

// Work that nobody waits for: the first leaves at once, the others once the server has done that.
static void works_unasked(void) {
  if (session()) return;
  wait_for_line("ready");
  for (int i = 0; i < 3; i++) {
    SAY(cuMemsetD8Async, (memory, 1, 1000, NULL));
    usleep(20000);
  }
  wait_for_line("posted");
}

static void never(void *data) { puts((const char *)data); }

// A function that the server is to have called.
static void awaits_a_call(void) {
  if (session()) return;
  wait_for_line("ready");
  SAY(cuLaunchHostFunc, (NULL, never, "called"));
  wait_for_line("posted");
}

static void takes_much(void) {
  enum { MUCH = 64 << 20 };
  CUdeviceptr much;
  void *to = malloc(MUCH);
  if (session() || !to || SAY(cuMemAlloc_v2, (&much, MUCH))) return;
  puts("ready");
  fflush(stdout);
  CUresult result = CUDA_SUCCESS;
  while (!result) result = cuMemcpyDtoH_v2(to, much, MUCH);
  printf("cuMemcpyDtoH_v2 %s\n", name_of(result));
  free(to);
}

static void graph_takes_much(void) {
  CUgraph graph;
  CUgraphNode node;
  CUgraphExec exec;
  CUDA_MEM_ALLOC_NODE_PARAMS much = {
      .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
      .bytesize = 64 << 20,
  };
  if (session() || SAY(cuGraphCreate, (&graph, 0)) ||
      SAY(cuGraphAddMemAllocNode, (&node, graph, NULL, 0, &much)) ||
      SAY(cuGraphInstantiateWithFlags, (&exec, graph, 0)))
    return;
  SAY(cuGraphLaunch, (exec, NULL));
}

static void tries_again(void) {
  SAY(cuInit, (0));
  wait_for_line("ready");
  session();
}

// What it holds of its session at each line that it prints, and that it goes on all the same.
static void releases(void) {
  if (session()) return;
  wait_for_line("held");
  SAY(cuDevicePrimaryCtxRelease_v2, (0));
  wait_for_line("let go");
  if (session()) return;
  SAY(cuDevicePrimaryCtxReset_v2, (0));
  wait_for_line("reset");
  SAY(cuMemAlloc_v2, (&memory, 1000));
  CUcontext created;
  SAY(cuDevicePrimaryCtxRelease_v2, (0));
  SAY(cuCtxCreate_v2, (&created, 0, 0));
  wait_for_line("created");
  SAY(cuMemAlloc_v2, (&memory, 1000));
  SAY(cuMemsetD8_v2, (memory, 9, 1000));
  SAY(cuCtxDestroy_v2, (created));
  CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
  CUmemGenericAllocationHandle physical;
  SAY(cuMemCreate, (&physical, 2 << 20, &kind, 0));
  wait_for_line("physical");
  SAY(cuMemRelease, (physical));
  wait_for_line("nothing");
  session();
}

static void threads(void) {
  pthread_t ids[8];
  CUresult results[8];
  for (int i = 0; i < 8; i++) pthread_create(&ids[i], NULL, init_in_thread, &results[i]);
  for (int i = 0; i < 8; i++) {
    pthread_join(ids[i], NULL);
    say("cuInit", results[i]);
  }
  session();
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } all[] = {
      {"init", init},
      {"init-with-signals", init_with_signals},
      {"before-init", before_init},
      {"forks", forks},
      {"forks-first", forks_first},
      {"forks-in-init", forks_in_init},
      {"ends-with-work-open", ends_with_work_open},
      {"unsupported", unsupported},
      {"server-dies", server_dies},
      {"works-unasked", works_unasked},
      {"awaits-a-call", awaits_a_call},
      {"takes-much", takes_much},
      {"graph-takes-much", graph_takes_much},
      {"tries-again", tries_again},
      {"releases", releases},
      {"threads", threads},
  };
  for (unsigned i = 0; argc == 2 && i < sizeof all / sizeof *all; i++)
    if (strcmp(argv[1], all[i].name) == 0) {
      all[i].run();
      return 0;
    }
  if (argc == 2 && strcmp(argv[1], "session") == 0) return session();
  fprintf(stderr, "what shall I do?\n");
  return 2;
}
