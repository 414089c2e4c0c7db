// Arrays, and copies of boxes, of the server of tests.
#ifndef TEST_BOXES_H
#define TEST_BOXES_H

#include "server.h"

// True when the frame is a round trip. Frames of other kinds are nothing to it.
_Bool boxes_carry_out(struct server *server, const struct wire_header *frame);

// Arrays that there are now, levels not counted; and what lies in one, row behind row.
unsigned boxes_arrays(void);
uint8_t *boxes_array(uint64_t handle);

#endif
