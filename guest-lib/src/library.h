// Libraries belong to no context: with several lanes (lane.h) one is loaded on each device where it
// is used. The program's handles are those of where it was loaded first; those of the others are
// made when they are wanted, and never shown.
#ifndef OUTBOARD_LIBRARY_H
#define OUTBOARD_LIBRARY_H

#include "module_parts.h"

// The library on the device of the thread's lane; a module is where it is. With the modules' lock.
CUresult library_here(struct module **module);
// The same of a kernel. Without the lock.
CUresult library_function_here(struct function **function);
// The library ends: on the other devices as well. With the lock.
void library_end_beside(struct module *module);

#endif
