#include "pages/fault.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "base/own_memory.h"
#include "pages/pages.h"
#include "setup/log.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
// The handler that SIGSEGV had before ours. It is written with the lock held; handlers read it
// without.
static struct sigaction before;
// The address that a handler returns to when the kernel has called it.
static void *_Atomic restorer;

// Whether the access was a write, where the machine tells.
static _Bool is_write(const void *context, _Bool *write) {
#if defined(__x86_64__)
  unsigned long long error = ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR];
  *write = (error & 2) != 0;
  return 1;
#else
  (void)context;
  *write = 0;
  return 0;
#endif
}

static void die(int signal) {
  struct sigaction standard = {.sa_handler = SIG_DFL};
  sigaction(signal, &standard, NULL);
}

// Calls the program's own handler, or has the process end, which it does when the access is
// repeated.
static void pass_on(int signal, siginfo_t *info, void *context, _Bool nested) {
  struct sigaction next = before;
  _Bool sent = info->si_code <= 0;
  _Bool handled =
      next.sa_flags & SA_SIGINFO || (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN);
  if (handled && !nested) {
    if (next.sa_flags & SA_RESETHAND) die(signal);
    if (next.sa_flags & SA_SIGINFO)
      next.sa_sigaction(signal, info, context);
    else
      next.sa_handler(signal);
  } else if (handled || !sent || next.sa_handler == SIG_DFL) {
    die(signal);
    if (sent) raise(signal);
  }
}

// The program's handler may call ours, if it found ours in place, and ours was put before it again.
// A fault that comes this way is known to neither.
static void on_fault(int signal, siginfo_t *info, void *context) {
  if (info->si_code > 0) own_fault();
  int error = errno;
  void *caller = __builtin_return_address(0);
  if (!restorer) restorer = caller;
  _Bool nested = caller != restorer;
  _Bool write, known = is_write(context, &write);
  if (nested || info->si_code <= 0 ||
      !pages_fault((uint64_t)(uintptr_t)info->si_addr, known, write))
    pass_on(signal, info, context, nested);
  errno = error;
}

void fault_watch(void) {
  struct sigaction now;
  if (sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
      now.sa_sigaction == on_fault)
    return;
  pthread_mutex_lock(&lock);
  struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&ours.sa_mask);
  before = now;
  if (sigaction(SIGSEGV, &ours, NULL) != 0) log_error("no handler for faults: %s", strerror(errno));
  pthread_mutex_unlock(&lock);
}
