#include "base/own_memory.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "base/populate.h"

static __thread _Bool reaching;
static __thread sigjmp_buf unreachable;

_Bool own_reach(void (*touch)(void *), void *data) {
  if (sigsetjmp(unreachable, 0)) return 0;
  reaching = 1;
  atomic_signal_fence(memory_order_seq_cst);
  touch(data);
  atomic_signal_fence(memory_order_seq_cst);
  reaching = 0;
  return 1;
}

void own_fault(void) {
  if (!reaching) return;
  reaching = 0;
  // Leaving a handler this way leaves its signal blocked.
  sigset_t fault;
  sigemptyset(&fault);
  sigaddset(&fault, SIGSEGV);
  pthread_sigmask(SIG_UNBLOCK, &fault, NULL);
  siglongjmp(unreachable, 1);
}

static int open_own(int flags) {
  return descriptor_above(open("/proc/self/mem", flags | O_CLOEXEC));
}

_Bool own_read(const void *from, void *to, size_t size) {
  int memory = open_own(O_RDONLY);
  if (memory < 0) return 0;
  ssize_t got = pread(memory, to, size, (off_t)(uintptr_t)from);
  close(memory);
  return got == (ssize_t)size;
}

_Bool own_write(void *to, const void *from, size_t size) {
  int memory = open_own(O_RDWR);
  if (memory < 0) return 0;
  ssize_t put = pwrite(memory, from, size, (off_t)(uintptr_t)to);
  close(memory);
  return put == (ssize_t)size;
}

// Nothing is mapped to find out: another thread of the program may map something there meanwhile,
// which would be lost with that. The kernel says of a page that is not mapped that there is no
// memory, but of several pages only whether all are mapped.
_Bool own_is_there(uintptr_t begin, uintptr_t end) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t last = (end - 1) - (end - 1) % page;
  unsigned char resident;
  for (uintptr_t at = begin - begin % page; at <= last; at += page)
    if (!mincore((void *)at, page, &resident)) return 1;
  return 0;
}

// A mapping has one protection nearly always, so its ends are asked for. The kernels that are not
// able to say take the program's word.
_Bool own_is_open(uintptr_t begin, uintptr_t end, _Bool to_write) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t first = begin - begin % page, last = (end - 1) - (end - 1) % page;
  // The call writes nothing back, and finds the holes.
  if (msync((void *)first, end - first, MS_ASYNC) != 0) return 0;
  const int advice = to_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  return (!madvise((void *)first, page, advice) && !madvise((void *)last, page, advice)) ||
         !kernel_populates();
}
