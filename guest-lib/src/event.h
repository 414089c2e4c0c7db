#ifndef OUTBOARD_EVENT_H
#define OUTBOARD_EVENT_H

#include <stdint.h>

#include "wire.h"

// The server says that an event asked about is done.
void event_finished(const struct wire_done *done);
// All events are gone: a reset of the context.
void event_forget_all(void);
// Destroys the events created in a context that ends.
void event_destroy_of(uint64_t context);

#endif
