// The program's own memory, which it may close or unmap at any time, also while a device has it:
// what the library does there ends no process.
#ifndef OUTBOARD_OWN_MEMORY_H
#define OUTBOARD_OWN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

// Does what touches it. False when that came to memory that is not there to be touched; whatever
// came before it is done. The calls of fault.h must be in effect.
_Bool own_reach(void (*touch)(void *), void *data);
// By the handler of faults: one of those, which does not come back then.
void own_fault(void);

// Slower, and past its protection, as a device goes. False when it is gone, or nobody's to write.
_Bool own_read(const void *from, void *to, size_t size);
_Bool own_write(void *to, const void *from, size_t size);

// Whether [begin, end) is mapped, and at its ends readable, or writable too.
_Bool own_is_open(uintptr_t begin, uintptr_t end, _Bool to_write);

#endif
