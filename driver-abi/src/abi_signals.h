// Signals and our threads in the program's process. A signal that is sent to the process lands on
// any thread that does not block it: on one of ours it would run the program's handler where it
// does not belong, or end a program whose own threads block it to wait for it. So ours block them
// all.
#ifndef ABI_SIGNALS_H
#define ABI_SIGNALS_H

#include <pthread.h>
#include <signal.h>

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

#endif
