// Signals and our threads in the program's process. A signal that is sent to the process lands on
// any thread that does not block it: on one of ours it would run the program's handler where it
// does not belong, or end a program whose own threads block it to wait for it. So ours block them
// all.
#ifndef ABI_SIGNALS_H
#define ABI_SIGNALS_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#ifndef __cplusplus
#include <stdbool.h>
#endif

// The set of what our threads block: all, but for what a thread's own faults raise. The kernel ends
// a process whose thread blocks such a one, and the program, or a library of ours, may have a
// handler for it.
static inline void abi_signals_ours(sigset_t *set) {
  sigfillset(set);
  sigdelset(set, SIGBUS);
  sigdelset(set, SIGFPE);
  sigdelset(set, SIGILL);
  sigdelset(set, SIGSEGV);
}

// Around making a thread, which inherits what its maker blocks: blocks what our threads block, and
// gives in `*before` what to restore.
static inline void abi_signals_block(sigset_t *before) {
  sigset_t ours;
  abi_signals_ours(&ours);
  pthread_sigmask(SIG_SETMASK, &ours, before);
}

// Makes it as abi_signals_block found it. In the same thread.
static inline void abi_signals_restore(const sigset_t *before) {
  pthread_sigmask(SIG_SETMASK, before, NULL);
}

// A call of ours may raise a signal that the program knows nothing of, and ends by: SIGPIPE for a
// line to its stderr, of which nobody reads any more; SIGXFSZ for a memory file under `ulimit -f`.
// Between hold and release, in one thread, the call fails with its errno and nothing else.
struct abi_held_signal {
  int signal;
  sigset_t before;
  bool pending;
};

static inline void abi_signal_hold(struct abi_held_signal *held, int signal) {
  sigset_t set;
  held->signal = signal;
  held->pending = sigpending(&set) == 0 && sigismember(&set, signal) == 1;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, &held->before);
}

// Leaves errno as it is.
static inline void abi_signal_release(const struct abi_held_signal *held) {
  const int error = errno;
  const struct timespec now = {0, 0};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, held->signal);
  // Not the program's own, which was there before.
  if (!held->pending)
    while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR) {
    }
  pthread_sigmask(SIG_SETMASK, &held->before, NULL);
  errno = error;
}

#endif
