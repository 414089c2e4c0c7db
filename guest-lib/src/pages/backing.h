// The guest's side of memory that host and device share: pages at the addresses where the device
// has them, and a second view of the same pages that is always open. The library fills and reads
// pages through it while the program's own view is closed, so nobody sees half a page.
#ifndef OUTBOARD_BACKING_H
#define OUTBOARD_BACKING_H

#include <stdint.h>

// The window that ranges lie in. Costs nothing until the first is opened.
void backing_start(uint64_t window_base, uint64_t window_size);

// Zeros at [address, address + size) of the window, readable and writable for the program. Returns
// the second view, or NULL when the system refuses.
char *backing_open(uint64_t address, uint64_t size);
void backing_close(uint64_t address, uint64_t size);
// The second view of what is open at an address.
char *backing_view(uint64_t address);

// The same anywhere that is free, closed to the program.
char *backing_open_outside(uint64_t address, uint64_t size);
void backing_close_outside(char *view, uint64_t address, uint64_t size);

// Whether backing_data can tell the truth.
_Bool backing_knows_data(void);
// The first run of pages in [*begin, end) of the window that anybody has ever touched. False when
// there is none.
_Bool backing_data(uint64_t *begin, uint64_t *end);

#endif
