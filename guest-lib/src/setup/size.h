// Sizes as people write them: 4G, 4GB, 4 GiB, 1.5G, 512M, or bytes. Units are powers of 1024. As
// `outboard` reads them (parseBytes in monitor/src/options/values.ts); one table tests both,
// test/sizes.txt.
#ifndef OUTBOARD_SIZE_H
#define OUTBOARD_SIZE_H

#include <stddef.h>
#include <stdint.h>

#define SIZE_EXPECTED "expected a size, as in 4G, 1.5 GiB or 512MB"

// False: it is none, or none that fits.
_Bool size_read(const char *text, uint64_t *bytes);

#define SIZE_TEXT 32

// For people, rounded: "1.5 GiB". Returns `text`.
const char *size_write(uint64_t bytes, char text[SIZE_TEXT]);

#endif
