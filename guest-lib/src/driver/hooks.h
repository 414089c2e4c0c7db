// Where a folder calls functions of a folder that it may not know (the table in
// guest-lib/README.md), these are made known to it; and what the folders keep for each session is
// made.
#ifndef OUTBOARD_HOOKS_H
#define OUTBOARD_HOOKS_H

// Makes all such functions known. To be called once, before a session begins.
void hooks_set(void);

// Makes what all folders keep for the first `count` sessions, where it is not there yet; it stays
// until the process ends. To be called before a session's connection is opened. False when there is
// no memory.
_Bool sessions_make(unsigned count);

#endif
