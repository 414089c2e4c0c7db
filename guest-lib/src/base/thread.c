#include "base/thread.h"

#include <pthread.h>

#include "abi_signals.h"

int thread_start(void *(*run)(void *), void *argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t before;
  abi_signals_block(&before);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, run, argument);
  abi_signals_restore(&before);
  pthread_attr_destroy(&attributes);
  return error;
}
