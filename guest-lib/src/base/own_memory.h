// The program's own memory, which it may close or unmap at any time, also while a device has it.
// What the library does there through these functions does not end the process.
#ifndef OUTBOARD_OWN_MEMORY_H
#define OUTBOARD_OWN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

// Calls `touch`, which reads or writes such memory and takes no lock. False when that came to
// memory which cannot be touched; `touch` ends there. The handler of faults is in place
// (pages/fault.h).
_Bool own_reach(void (*touch)(void *), void *data);
// To be called by the handler for each fault. It does not return from one that `touch` has caused.
void own_fault(void);

// Read and write past the memory's protection, as a device does; they are slower. False when the
// memory is gone, or cannot be written by anybody.
_Bool own_read(const void *from, void *to, size_t size);
_Bool own_write(void *to, const void *from, size_t size);

// Whether [begin, end) is mapped, and its first and last page can be read, or written `to_write`.
_Bool own_is_open(uintptr_t begin, uintptr_t end, _Bool to_write);

// Whether anything is mapped in [begin, end), which is not empty and lies where programs can have
// memory. It takes 50 ms for a GiB.
_Bool own_is_there(uintptr_t begin, uintptr_t end);

#endif
