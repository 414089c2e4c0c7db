// Any bytes are safe input to the image readers, as long as the limit is honest. Every byte that a
// reader says belongs to an entry is read, so that a wrong bound shows.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "abi_fatbin.h"

static volatile uint8_t sink;

static void touch(const void *from, size_t size) {
  const uint8_t *bytes = from;
  uint8_t sum = 0;
  for (size_t i = 0; i < size; i++) sum ^= bytes[i];
  sink = sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  size_t length = abi_image_size(data, size);
  if (length > size) abort();
  touch(data, length);
  struct abi_fatbin_reader reader;
  if (!abi_fatbin_open(&reader, data, size)) return 0;
  struct abi_fatbin_entry entry;
  for (size_t entries = 0; abi_fatbin_next(&reader, &entry); entries++) {
    if (entries > size / 64) abort();  // each takes 64 bytes at least
    touch(entry.payload, entry.payload_size);
    if (entry.compressed_size > entry.payload_size) abort();
    if (entry.name) touch(entry.name, entry.name_length);
  }
  return 0;
}
