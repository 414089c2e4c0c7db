#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

int thread_start(void *(*run)(void *), void *argument, size_t stack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack) pthread_attr_setstacksize(&attributes, stack);
  sigset_t theirs, before;
  sigfillset(&theirs);
  sigdelset(&theirs, SIGSEGV);
  pthread_sigmask(SIG_SETMASK, &theirs, &before);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}
