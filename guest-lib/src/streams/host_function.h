// Functions of the program that streams call: cuLaunchHostFunc, cuStreamAddCallback, and host nodes
// of graphs. They run one after the other, in the order in which streams come to them, on a thread
// that is made for the first. While any may come it sees to it that somebody reads the socket.
#ifndef OUTBOARD_HOST_FUNCTION_H
#define OUTBOARD_HOST_FUNCTION_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"

// Keeps a function that the nodes of graphs call, and returns the number under which the server
// calls it, again and again, until the context is reset (HostFunctions::node in the executor, or a
// HostFunction command with WIRE_FUNCTION_KEPT). The same function with the same data has the same
// number. 0 when there is no memory or no thread for it.
uint64_t host_function_keep(CUhostFn function, void *data);
// Has a stream of `session` call a function of this library, once. The function changes
// nothing of the program's memory. CUDA_ERROR_OUT_OF_MEMORY when there is no memory or no thread.
CUresult host_function_post(struct session *session, uint64_t stream, CUhostFn function,
                            void *data);
// Ends a kept function that no launch under way will call any more, and that nobody else may have
// kept.
void host_function_drop(uint64_t number);
// To be called after command `sequence`, the launch of a graph that has host nodes, was posted:
// until it is done, functions may come.
void host_function_expect(struct session *session, uint64_t sequence);

// A step is a function of this library in a stream of `session`. Once the stream has
// come to it, `take` is called on the thread of functions, and the stream waits until somebody
// calls host_step_done with the same `call`, in `take` or later, in any thread; that brings the
// thread into the step's session. `take` is called, too, when the context has failed, as another
// session may wait for what it does. CUDA_ERROR_OUT_OF_MEMORY as above.
struct host_step_call {
  struct session *session;
  uint64_t number;
  CUresult status;  // that the server tells of it
};
CUresult host_step(struct session *session, uint64_t stream,
                   void (*take)(void *data, struct host_step_call call), void *data);
void host_step_done(struct host_step_call call);

// Posts a command by which a stream of `session` comes to a step: `put` does so, with the number
// under which it is to call it. Nothing is noted as pending (streams/pending.h).
CUresult host_step_put(struct session *session,
                       void (*take)(void *data, struct host_step_call call), void *data,
                       CUresult (*put)(uint64_t number, void *data));

// Whether streams of any session may still call functions.
_Bool host_functions_may_come(void);
// To be called before a reset of the context: waits until the functions that streams have come to
// have returned.
void host_function_drain(void);
// To be called after it: forgets the session's functions, which will not be called any more.
void host_function_forget_all(struct session *session);

#endif
