// Faults of the program on pages that are closed to it (pages.h).
#ifndef OUTBOARD_FAULT_H
#define OUTBOARD_FAULT_H

// Sees to it that faults come here first. To be called whenever pages are closed, as the program
// may have set a handler of its own since; it is cheap.
void fault_watch(void);

#endif
