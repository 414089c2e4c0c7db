// What lower folders call of higher ones is made known to them.
#ifndef OUTBOARD_HOOKS_H
#define OUTBOARD_HOOKS_H

// To be called before a session begins.
void hooks_set(void);

#endif
