#include "abi_process.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

// A page that the kernel clears in every child with memory of its own. 1 in it: here.
static _Atomic(_Atomic char *) mark;

static void make(void) {
  const size_t size = (size_t)sysconf(_SC_PAGESIZE);
  void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  _Atomic char *none = NULL;
  atomic_store((_Atomic char *)page, 1);
  // Another thread may have made one meanwhile, and a kernel may know no such pages.
  if (madvise(page, size, MADV_WIPEONFORK) != 0 ||
      !atomic_compare_exchange_strong(&mark, &none, page))
    munmap(page, size);
}

void abi_process_begin(void) {
  if (!atomic_load(&mark)) make();
  _Atomic char *here = atomic_load(&mark);
  if (here) atomic_store(here, 1);
}

bool abi_process_is_child(void) {
  _Atomic char *here = atomic_load_explicit(&mark, memory_order_relaxed);
  return here && !atomic_load_explicit(here, memory_order_relaxed);
}
