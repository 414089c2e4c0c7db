// Functions of the program that streams call: cuLaunchHostFunc, cuStreamAddCallback, and host nodes
// of graphs. They run one after the other, in the order in which streams come to them, on a thread
// that is made for the first. While any may come it sees to it that somebody reads the socket.
#ifndef OUTBOARD_HOST_FUNCTION_H
#define OUTBOARD_HOST_FUNCTION_H

#include <stdint.h>

#include "cuda_driver.h"
#include "wire.h"

// For host nodes of graphs, and for functions launched into a stream that is being captured: the
// number under which the server's node calls the function (HostFunctions::node there, or a
// HostFunction command with WIRE_FUNCTION_KEPT), again and again, until the context is reset. The
// same function with the same data has the same number. 0: no memory or no thread for it.
uint64_t host_function_keep(CUhostFn function, void *data);
// Has a stream call one of the library's own, which changes nothing of the program's memory.
CUresult host_function_post(uint64_t stream, CUhostFn function, void *data);
// One that no launch under way will call any more, and that nobody else may have kept.
void host_function_drop(uint64_t number);
// To be called after command `sequence`, the launch of a graph that has host nodes, was posted.
void host_function_expect(uint64_t sequence);

// A step of this library's own in a stream of the thread's session: once the stream has come to it,
// `take` is called on that thread, and the stream waits until host_step_done, then or later. It is
// also called when the context has failed: what waits for it may be another session's.
struct host_step_call {
  unsigned session;
  uint64_t number;
};
CUresult host_step(uint64_t stream, void (*take)(void *data, struct host_step_call call),
                   void *data);
void host_step_done(struct host_step_call call);

// Whether streams may still call some.
_Bool host_functions_may_come(void);
// Before a reset of the context: waits until the functions that streams have come to have returned.
void host_function_drain(void);
// After it: no function will be called any more.
void host_function_forget_all(void);

#endif
