#include "door.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/notice.h"

static const struct companion_table *table;
static _Atomic _Bool child;

static struct {
  CUresult (*init)(unsigned flags);
  CUresult (*get_current)(CUcontext *context);
  CUresult (*set_current)(CUcontext context);
  CUresult (*get_flags)(unsigned *flags);
  CUresult (*retain)(CUcontext *context, CUdevice device);
  CUresult (*copy)(const CUDA_MEMCPY2D *copy);
  CUresult (*copy_async)(const CUDA_MEMCPY2D *copy, CUstream stream);
} driver;

static void in_child(void) { atomic_store(&child, 1); }

static void find(void) {
  log_open();
  notice_open();
  // Whatever is loaded is what the program's runtime calls, too.
  void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) library = dlopen("libcuda.so.1", RTLD_LAZY);
  CUresult (*get_table)(const void **, const CUuuid *) = NULL;
  if (library) {
    get_table = (CUresult(*)(const void **, const CUuuid *))dlsym(library, "cuGetExportTable");
    *(void **)&driver.init = dlsym(library, "cuInit");
    *(void **)&driver.get_current = dlsym(library, "cuCtxGetCurrent");
    *(void **)&driver.set_current = dlsym(library, "cuCtxSetCurrent");
    *(void **)&driver.get_flags = dlsym(library, "cuCtxGetFlags");
    *(void **)&driver.retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&driver.copy = dlsym(library, "cuMemcpy2DUnaligned_v2");
    *(void **)&driver.copy_async = dlsym(library, "cuMemcpy2DAsync_v2");
  }
  const CUuuid id = COMPANION_TABLE;
  const void *found = NULL;
  const _Bool whole =
      driver.init && driver.get_current && driver.set_current && driver.get_flags && driver.retain;
  if (get_table && whole && get_table(&found, &id) == CUDA_SUCCESS) table = found;
  if (table && table->size < sizeof *table) table = NULL;
  if (!table)
    notice(LOG_ERROR,
           "cuBLAS is not served: libcuda.so.1 of this process is not that of this release of "
           "Outboard. Run the program with `outboard run`, or with --libraries=guest");
  pthread_atfork(NULL, NULL, in_child);
}

const struct companion_table *door(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find);
  return table;
}

_Bool door_is_child(void) { return atomic_load_explicit(&child, memory_order_relaxed); }

CUresult door_context(void) {
  CUcontext context = NULL;
  unsigned flags;
  CUresult result = driver.init(0);
  if (!result) result = driver.get_current(&context);
  if (result) return result;
  // One that was reset is there again when somebody takes it.
  if (context && driver.get_flags(&flags) == CUDA_SUCCESS) return CUDA_SUCCESS;
  result = driver.retain(&context, 0);
  return result ? result : driver.set_current(context);
}

CUresult door_copy(const CUDA_MEMCPY2D *copy, CUstream stream, _Bool async) {
  if (!door() || door_is_child()) return CUDA_ERROR_NOT_INITIALIZED;
  const CUresult result = door_context();
  if (result) return result;
  return async ? driver.copy_async(copy, stream) : driver.copy(copy);
}

uint64_t door_era(void) {
  if (!door() || door_is_child()) return 0;
  const uint64_t era = table->remote_era();
  // A thread that has made no call of the CUDA runtime yet has no context until it makes one.
  return era || door_context() ? era : table->remote_era();
}

static _Bool measures;

static void find_measures(void) { measures = getenv("OUTBOARD_ABLATION") != NULL; }

void door_descriptor(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_measures);
  // Descriptors are made before there is a session, too, and in children.
  if (measures && door() && !door_is_child()) table->remote_descriptor();
}

void door_say_unserved(void) {
  notice(
      LOG_ERROR,
      "the server has no cuBLAS for its sessions. Start it with `outboard serve --libraries auto`, "
      "or run the program with --libraries=guest");
}

void door_say_captured(const char *function) {
  static _Atomic _Bool said;
  if (atomic_exchange(&said, 1)) return;
  log_warn(
      "%s in a stream that is captured is not served: the program gets "
      "CUBLAS_STATUS_NOT_SUPPORTED (said once). --libraries=guest captures calls of cuBLAS",
      function);
}
