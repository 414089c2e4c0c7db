#include "session.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

// Older C libraries have these in libdl, which whoever has loaded this library has loaded as well.
// Weak, in case nobody has.
#pragma weak dlopen
#pragma weak dlsym

// Held while the dynamic linker is at work for us: a child forked meanwhile could not use it any
// more.
static pthread_mutex_t linking = PTHREAD_MUTEX_INITIALIZER;

static void hold(void) { pthread_mutex_lock(&linking); }
static void release(void) { pthread_mutex_unlock(&linking); }

void session_prepare(void) { pthread_atfork(hold, release, release); }

typedef CUresult (*get_export_table)(const void **, const CUuuid *);

// NULL where no libcuda.so.1 is loaded that knows of us. Nothing is loaded here.
static const struct companion_table *find(void) {
  if (!dlopen || !dlsym) return NULL;
  void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return NULL;
  get_export_table get = (get_export_table)dlsym(library, "cuGetExportTable");
  const void *table = NULL;
  const CUuuid id = COMPANION_TABLE;
  return get && !get(&table, &id) ? table : NULL;
}

// How many libraries were ever loaded.
static int count_loaded(struct dl_phdr_info *first, size_t size, void *loaded) {
  (void)size;
  *(unsigned long long *)loaded = first->dlpi_adds;
  return 1;
}

unsigned session_find(struct companion_device devices[DEVICES_SHOWN]) {
  static const struct companion_table *table;
  static unsigned long long searched_at;
  if (!table) {
    // A search that finds nothing looks through folders, so there is one only after a dlopen.
    unsigned long long loaded = 0;
    hold();
    dl_iterate_phdr(count_loaded, &loaded);
    if (loaded != searched_at) table = find();
    searched_at = loaded;
    release();
  }
  if (!table || table->size < sizeof *table) return 0;
  unsigned count = table->devices(devices, DEVICES_SHOWN);
  return count < DEVICES_SHOWN ? count : DEVICES_SHOWN;
}
