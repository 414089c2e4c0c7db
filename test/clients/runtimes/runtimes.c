// runtimes [--per-thread] [PATH...]: what programs do with the CUDA runtime, with each of the given
// libcudart and the one it was linked with, then with all of them together in one process.
// Says every result; the test compares what it says natively and remoted.
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels.h"
#include "runtime.h"

enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2, DEVICE_TO_DEVICE = 3, NON_BLOCKING = 1 };
enum { COUNT = 1000, MOST = 16 };

struct loaded {
  struct runtime runtime;
  struct fatbin fatbin;
  struct fatbin_wrapper wrapper;
  void **registered;
  char key;       // its address stands for the kernel, as a stub of nvcc does
  char step_key;  // and for the variable
  int *values;    // of the part with all together
};

static struct loaded all[MOST];
static int loaded_count;
static char said_of_threads[MOST][4000];
static __thread char *aside;  // what a thread says is printed when all are done

static void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (aside)
    aside += vsprintf(aside, format, arguments);
  else
    vprintf(format, arguments);
  va_end(arguments);
}

#define CALL(runtime, name, ...)                                                             \
  do {                                                                                       \
    const int call_result = (runtime)->name(__VA_ARGS__);                                    \
    say("%s " #name ": %s\n", (runtime)->name_of, (runtime)->cudaGetErrorName(call_result)); \
  } while (0)

static void count_calls(void *counter) { ++*(int *)counter; }

static void register_code(struct loaded *l) {
  const struct runtime *r = &l->runtime;
  fatbin_make(&l->fatbin, &l->wrapper);
  l->registered = r->__cudaRegisterFatBinary(&l->wrapper);
  r->__cudaRegisterFunction(l->registered, &l->key, (char *)"scale", "scale", -1, NULL, NULL, NULL,
                            NULL, NULL);
  r->__cudaRegisterVar(l->registered, &l->step_key, (char *)"step", "step", 0, 4, 0, 0);
  r->__cudaRegisterFatBinaryEnd(l->registered);
}

static void device(const struct runtime *r) {
  int version = 0, driver = 0, devices = 0, major = 0;
  CALL(r, cudaRuntimeGetVersion, &version);
  CALL(r, cudaDriverGetVersion, &driver);
  CALL(r, cudaGetDeviceCount, &devices);
  CALL(r, cudaDeviceGetAttribute, &major, 75, 0);
  say("version %d on %d, %d device, %d.x\n", version, driver, devices, major);
  static _Thread_local char properties[8192];  // larger than that of any version
  CALL(r, cudaGetDeviceProperties, properties, 0);
  say("%s\n", properties);
  CALL(r, cudaSetDevice, 0);
  CALL(r, cudaSetDevice, 99);
  say("%s\n", r->cudaGetErrorString(r->cudaGetLastError()));
}

static void check(const char *what, const int *values, int factor, int step) {
  int wrong = 0;
  for (int i = 0; i < COUNT; i++) wrong += values[i] != i * factor + step;
  say("%s: %d wrong, the last is %d\n", what, wrong, values[COUNT - 1]);
}

static void kernels_and_copies(struct loaded *l) {
  const struct runtime *r = &l->runtime;
  int *memory, values[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = i;
  CALL(r, cudaMalloc, (void **)&memory, sizeof values);
  CALL(r, cudaMemcpy, memory, values, sizeof values, HOST_TO_DEVICE);
  int factor = 3, count = COUNT, step = 1;
  void *arguments[] = {&memory, &factor, &count};
  CALL(r, cudaLaunchKernel, &l->key, (dim3){8, 1, 1}, (dim3){128, 1, 1}, arguments, 0, NULL);
  CALL(r, cudaMemcpy, values, memory, sizeof values, DEVICE_TO_HOST);
  check("cudaLaunchKernel", values, 3, 1);
  step = -1;
  CALL(r, cudaMemcpyToSymbol, &l->step_key, &step, sizeof step, 0, HOST_TO_DEVICE);
  void *address = NULL;
  CALL(r, cudaGetSymbolAddress, &address, &l->step_key);
  say("the variable has an address: %d\n", address != NULL);
  launch_config config = {{8, 1, 1}, {128, 1, 1}, 0, NULL, NULL, 0};
  factor = 1;
  CALL(r, cudaLaunchKernelExC, &config, &l->key, arguments);
  CALL(r, cudaDeviceSynchronize);
  CALL(r, cudaMemcpy, values, memory, sizeof values, DEVICE_TO_HOST);
  check("cudaLaunchKernelExC", values, 3, 0);
  step = 1;
  CALL(r, cudaMemcpyToSymbol, &l->step_key, &step, sizeof step, 0, HOST_TO_DEVICE);
  CALL(r, cudaMemset, memory, 0, sizeof values);
  CALL(r, cudaMemcpy, values, memory, sizeof values, DEVICE_TO_HOST);
  say("%d %d\n", values[0], values[COUNT - 1]);

  size_t attributes[64] = {0};
  CALL(r, cudaFuncGetAttributes, attributes, &l->key);
  int blocks = 0;
  CALL(r, cudaOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, &l->key, 128, 0);
  say("%d threads at most, %d blocks\n", (int)attributes[3], blocks);

  // What is wrong is said as it always was.
  static char no_kernel;
  CALL(r, cudaLaunchKernel, &no_kernel, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, NULL);
  CALL(r, cudaLaunchKernel, &l->key, (dim3){1, 1, 1}, (dim3){4096, 1, 1}, arguments, 0, NULL);
  CALL(r, cudaGetLastError);
  CALL(r, cudaGetLastError);
  CALL(r, cudaMalloc, (void **)&address, (size_t)1 << 46);
  CALL(r, cudaGetLastError);
  CALL(r, cudaFree, memory);
}

static void streams_and_graphs(struct loaded *l) {
  const struct runtime *r = &l->runtime;
  void *stream, *other, *begin, *end, *graph, *exec;
  int *memory, *pinned, *late, calls = 0;
  CALL(r, cudaStreamCreateWithFlags, &stream, NON_BLOCKING);
  CALL(r, cudaStreamCreateWithFlags, &other, 0);
  CALL(r, cudaEventCreate, &begin);
  CALL(r, cudaEventCreate, &end);
  CALL(r, cudaMalloc, (void **)&memory, COUNT * sizeof *memory);
  CALL(r, cudaMallocHost, (void **)&pinned, COUNT * sizeof *pinned);
  for (int i = 0; i < COUNT; i++) pinned[i] = i;
  int factor = 5, count = COUNT;
  void *arguments[] = {&memory, &factor, &count};
  CALL(r, cudaEventRecord, begin, stream);
  CALL(r, cudaMemcpyAsync, memory, pinned, COUNT * sizeof *memory, HOST_TO_DEVICE, stream);
  CALL(r, cudaLaunchKernel, &l->key, (dim3){8, 1, 1}, (dim3){128, 1, 1}, arguments, 0, stream);
  CALL(r, cudaLaunchHostFunc, stream, count_calls, &calls);
  CALL(r, cudaEventRecord, end, stream);
  CALL(r, cudaStreamWaitEvent, other, end, 0);
  CALL(r, cudaMemcpyAsync, pinned, memory, COUNT * sizeof *memory, DEVICE_TO_HOST, other);
  CALL(r, cudaStreamSynchronize, other);
  say("%d %d, %d call\n", pinned[0], pinned[COUNT - 1], calls);
  CALL(r, cudaEventSynchronize, end);
  CALL(r, cudaEventQuery, end);
  CALL(r, cudaStreamQuery, stream);
  float milliseconds = -1;
  CALL(r, cudaEventElapsedTime, &milliseconds, begin, end);
  say("time passed: %d\n", milliseconds >= 0);

  CALL(r, cudaMallocAsync, (void **)&late, 4096, stream);
  CALL(r, cudaMemsetAsync, late, 1, 4096, stream);
  CALL(r, cudaMemcpyAsync, pinned, late, 4000, DEVICE_TO_HOST, stream);
  CALL(r, cudaFreeAsync, late, stream);
  CALL(r, cudaStreamSynchronize, stream);
  say("%x\n", (unsigned)pinned[999]);

  CALL(r, cudaStreamBeginCapture, stream, 1);
  CALL(r, cudaMemsetAsync, memory, 0, COUNT * sizeof *memory, stream);
  CALL(r, cudaLaunchKernel, &l->key, (dim3){8, 1, 1}, (dim3){128, 1, 1}, arguments, 0, stream);
  CALL(r, cudaLaunchKernel, &l->key, (dim3){8, 1, 1}, (dim3){128, 1, 1}, arguments, 0, stream);
  CALL(r, cudaMemcpyAsync, pinned, memory, COUNT * sizeof *memory, DEVICE_TO_HOST, stream);
  CALL(r, cudaStreamEndCapture, stream, &graph);
  size_t nodes = 0;
  CALL(r, cudaGraphGetNodes, graph, NULL, &nodes);
  CALL(r, cudaGraphInstantiateWithFlags, &exec, graph, 0);
  CALL(r, cudaGraphLaunch, exec, stream);
  CALL(r, cudaGraphLaunch, exec, stream);
  CALL(r, cudaStreamSynchronize, stream);
  say("%zu nodes, %d %d\n", nodes, pinned[0], pinned[COUNT - 1]);
  CALL(r, cudaGraphExecDestroy, exec);
  CALL(r, cudaGraphDestroy, graph);
  CALL(r, cudaEventDestroy, begin);
  CALL(r, cudaEventDestroy, end);
  CALL(r, cudaStreamDestroy, other);
  CALL(r, cudaStreamDestroy, stream);
  CALL(r, cudaFreeHost, pinned);
  CALL(r, cudaFree, memory);
}

// The driver's functions, as the runtime finds them.
static void driver(const struct runtime *r) {
  static const char *const names[] = {"cuMemAlloc",  "cuCtxGetCurrent", "cuStreamGetCaptureInfo",
                                      "cuInit",      "cuMemcpyHtoD",    "cuGraphInstantiate",
                                      "cuNoSuchCall"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *function = NULL;
    int status = -1;
    CALL(r, cudaGetDriverEntryPoint, names[i], &function, 0, &status);
    say("%s is there: %d\n", names[i], function != NULL);
  }
  void *current = NULL, *get = NULL;
  r->cudaGetDriverEntryPoint("cuCtxGetCurrent", &get, 0, NULL);
  int (*get_current)(void **);
  *(void **)&get_current = get;
  const int result = get ? get_current(&current) : -1;
  say("%d, there is a context: %d\n", result, current != NULL);
}

static void exercise(struct loaded *l) {
  device(&l->runtime);
  kernels_and_copies(l);
  streams_and_graphs(l);
  driver(&l->runtime);
}

static void *exercise_aside(void *argument) {
  struct loaded *l = argument;
  aside = said_of_threads[l - all];
  streams_and_graphs(l);
  return NULL;
}

// All share the primary context: memory of one is memory of the others.
static void together(void) {
  int *memory, values[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = 0;
  const struct runtime *first = &all[0].runtime;
  CALL(first, cudaMalloc, (void **)&memory, sizeof values);
  CALL(first, cudaMemcpy, memory, values, sizeof values, HOST_TO_DEVICE);
  for (int i = 0; i < loaded_count; i++) {
    int factor = 2, count = COUNT;
    void *arguments[] = {&memory, &factor, &count};
    CALL(&all[i].runtime, cudaLaunchKernel, &all[i].key, (dim3){8, 1, 1}, (dim3){128, 1, 1},
         arguments, 0, NULL);
    CALL(&all[i].runtime, cudaStreamSynchronize, NULL);
  }
  const struct runtime *last = &all[loaded_count - 1].runtime;
  CALL(last, cudaMemcpy, values, memory, sizeof values, DEVICE_TO_HOST);
  say("all together: %d %d\n", values[0], values[COUNT - 1]);
  CALL(last, cudaFree, memory);

  pthread_t threads[MOST];
  for (int i = 0; i < loaded_count; i++) pthread_create(&threads[i], NULL, exercise_aside, &all[i]);
  for (int i = 0; i < loaded_count; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < loaded_count; i++) fputs(said_of_threads[i], stdout);
}

int main(int count, char **arguments) {
  int per_thread = count > 1 && strcmp(arguments[1], "--per-thread") == 0;
  static char names[MOST][16];
  if (runtime_linked(&all[0].runtime, per_thread)) loaded_count++;
  for (int i = 1 + per_thread; i < count && loaded_count < MOST; i++)
    runtime_load(&all[loaded_count++].runtime, arguments[i], per_thread);
  for (int i = 0; i < loaded_count; i++) {
    snprintf(names[i], sizeof names[i], "[%d]", i);
    all[i].runtime.name_of = names[i];
    register_code(&all[i]);
    exercise(&all[i]);
  }
  if (loaded_count > 1) together();
  for (int i = 0; i < loaded_count; i++)
    all[i].runtime.__cudaUnregisterFatBinary(all[i].registered);
  return 0;
}
