// Where a folder calls functions of a folder that it may not know (the table in
// guest-lib/README.md), these are made known to it.
#ifndef OUTBOARD_HOOKS_H
#define OUTBOARD_HOOKS_H

// Makes all such functions known. To be called once, before a session begins.
void hooks_set(void);

#endif
