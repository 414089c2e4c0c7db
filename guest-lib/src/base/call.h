// What proto/api says of the calls: tables by a call's number, generated with the entry points.
#ifndef OUTBOARD_CALL_H
#define OUTBOARD_CALL_H

extern const char *const call_names[];

enum call_trait { CALL_IS_LOCAL = 1, CALL_WAITS = 2, CALL_MINTS = 4, CALL_STARTS_WORK = 8 };
extern const unsigned char call_traits[];

#endif
