// Events. The entry points are in event.c; here is what other files do with events. Functions that
// are given no session are about the one that the thread is in. Streams are as on the wire.
#ifndef OUTBOARD_EVENT_H
#define OUTBOARD_EVENT_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"

// Mints the handle of a new event in the current context; 0 when there are too many. The caller
// tells the server of it, or calls event_unmint when the server will not have it.
uint64_t event_mint(struct session *session, unsigned flags);
// Ends an event of which the server has not been told.
void event_unmint(uint64_t handle);
// Keeps an event for a node of a graph until event_let_go, even when the program destroys it. NULL
// when the handle is none of an event.
struct event;
struct event *event_keep(uint64_t handle);
void event_let_go(struct event *event);
// Notes that the last command put on `stream` records the event: it does so itself, or launches a
// graph that does.
void event_note_recorded(struct event *event, uint64_t stream);
// Whether the handle is one of an event; *shared says whether other processes may have that, too.
_Bool event_is(CUevent handle, _Bool *shared);
// Posts that an event of `context` is recorded behind all work of all streams.
// CUDA_ERROR_INVALID_HANDLE when it is no event, or one of another context.
CUresult event_record_all(CUevent event, uint64_t context);
// Checks whether a launch can record the event, which takes one without timing:
// CUDA_ERROR_NOT_SUPPORTED for one with timing, CUDA_ERROR_INVALID_HANDLE for no event.
CUresult event_check_untimed(CUevent event);
// Does the same for an event of the program, if it is one.
void event_recorded(CUevent event, uint64_t stream);
// Ends all events of the session after a reset of the context. The server has none of them any
// more.
void event_forget_all(struct session *session);
// Destroys the events that were created in a context of the session, which ends.
void event_destroy_of(struct session *session, uint64_t context);

#endif
