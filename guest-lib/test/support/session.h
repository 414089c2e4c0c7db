// A session as after attach, over a pair of sockets, with server.h at the other end.
#ifndef TEST_SESSION_H
#define TEST_SESSION_H

#include "cuda_driver.h"
#include "server.h"

// One per process: the library's state is the process's. The calling thread has the primary context
// current. `limit` is the session's device memory.
struct server *session_start(uint64_t limit, struct server_hook hook);
// `pinned`: of pinned memory that counts apart.
struct server *session_start_pinned(uint64_t limit, uint64_t pinned, struct server_hook hook);
void session_enter(void);  // for other threads: makes the primary context current

#endif
