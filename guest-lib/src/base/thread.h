// Threads of the library's own in the program's process.
#ifndef OUTBOARD_THREAD_H
#define OUTBOARD_THREAD_H

// Starts a thread that nobody waits for. The program's signals are its own threads' business, so
// the thread takes none (abi_signals.h). Its stack is as large as those of the program's threads:
// what the program and its libraries keep for each thread lies in it, however much that is. Returns
// 0, or an errno value.
int thread_start(void *(*run)(void *), void *argument);

#endif
