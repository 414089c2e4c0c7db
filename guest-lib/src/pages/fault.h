// Faults of the program on pages that are closed to it (pages.h).
#ifndef OUTBOARD_FAULT_H
#define OUTBOARD_FAULT_H

// Sees to it that faults come here first. Cheap enough to be called whenever pages are closed: the
// program may have set its own handler since.
void fault_watch(void);

#endif
