// The guest's side of memory that host and device share: pages at the addresses where the device
// has them, and a second view of the same pages that is always open. The library fills and reads
// pages through it while the program's own view is closed, so nobody sees half a page.
#ifndef OUTBOARD_BACKING_H
#define OUTBOARD_BACKING_H

#include <stdint.h>

// Notes which window ranges lie in. It costs nothing until the first is opened.
void backing_start(uint64_t window_base, uint64_t window_size);

// Puts pages of zeros at [address, address + size) of the window, readable and writable for the
// program. Returns their second view, or NULL when the system refuses. Addresses and sizes here are
// whole pages, in bytes.
char *backing_open(uint64_t address, uint64_t size);
// Takes those pages away, and what is in them.
void backing_close(uint64_t address, uint64_t size);
// Returns the second view of what is open at an address of the window.
char *backing_view(uint64_t address);

// Puts pages of zeros, closed to the program, at addresses outside the window. Returns their second
// view, or NULL when something of the program's is there, or the system refuses.
char *backing_open_outside(uint64_t address, uint64_t size);
// Takes those pages away, whose second view is `view`.
void backing_close_outside(char *view, uint64_t address, uint64_t size);

// Whether backing_data can be asked: not any more once the program has closed the file behind all
// pages.
_Bool backing_knows_data(void);
// Sets *begin and *end to the first run of pages in [*begin, *end) of the window that anybody has
// ever touched. False when there is none.
_Bool backing_data(uint64_t *begin, uint64_t *end);

#endif
