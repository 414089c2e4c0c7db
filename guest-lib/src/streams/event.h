#ifndef OUTBOARD_EVENT_H
#define OUTBOARD_EVENT_H

#include <stdint.h>

#include "cuda_driver.h"
#include "wire.h"

// A handle of a new event; 0 when there are too many. The server is yet to be told; or, if it will
// not have it, the handle ends without a word.
uint64_t event_mint(unsigned flags);
void event_unmint(uint64_t handle);
// For a node of a graph, which keeps the event for itself when the program destroys it. NULL: it is
// none.
struct event;
struct event *event_keep(uint64_t handle);
void event_let_go(struct event *event);
// The graph that was just launched into `stream` records it.
void event_recorded_by_graph(struct event *event, uint64_t stream);
// Whether it is an event, and one that other processes may have, too.
_Bool event_is(CUevent handle, _Bool *shared);
// Records an event of `context` behind all work of all streams.
CUresult event_record_all(CUevent event, uint64_t context);
// Whether a launch can record it: one that takes no time.
CUresult event_check_untimed(CUevent event);
// The last command put on `stream` records it.
void event_recorded(CUevent event, uint64_t stream);
// All events are gone: a reset of the context.
void event_forget_all(void);
// Destroys the events created in a context that ends.
void event_destroy_of(uint64_t context);

#endif
