// Threads of the library's own in the program's process.
#ifndef OUTBOARD_THREAD_H
#define OUTBOARD_THREAD_H

#include <stddef.h>

#define THREAD_STACK_OF_PROGRAM 0

// Starts a thread that nobody waits for. The program's signals are its own threads' business, so
// the thread takes none (abi_signals.h). `stack` is in bytes, or THREAD_STACK_OF_PROGRAM for as
// much as the program's threads have. Returns 0, or an errno value.
int thread_start(void *(*run)(void *), void *argument, size_t stack);

#endif
