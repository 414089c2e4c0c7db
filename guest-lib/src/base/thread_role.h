// What the calling thread is in the middle of, for calls that must not wait then.
#ifndef OUTBOARD_THREAD_ROLE_H
#define OUTBOARD_THREAD_ROLE_H

struct thread_role {
  _Bool in_function;  // it runs a function of the program, in which CUDA may not be used
  _Bool awaited;      // a stream may be waiting for what it does: it must not wait for streams
};
extern __thread struct thread_role thread_role;

#endif
