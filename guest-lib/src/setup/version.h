// The version of the servers' driver, for programs that ask for it before they have a session: a
// CUDA runtime does so before cuInit, and so does a program that then forks its workers.
#ifndef OUTBOARD_SETUP_VERSION_H
#define OUTBOARD_SETUP_VERSION_H

// Asks the servers that the environment names, on connections of their own that take no slot and
// wait in no queue, once in a process; a child that is forked later knows what its parent knew.
// Returns the oldest version that any of those says that the program would have GPUs of (12080 is
// CUDA 12.8). 0 where none is named, none answers within a second, or CUDA_VISIBLE_DEVICES is
// empty, so that no server is needed. Nothing is said in the log: the program may not want any GPU.
// Any thread.
int version_of_servers(void);

#endif
