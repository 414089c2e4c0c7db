// What sessions of a function have learnt of libraries, as the next one is told (Welcome.learnt):
// in the results of the answer one after the other, each a struct learnt_call with the results of
// that call behind it, padded to 8 bytes. A guest knows them by the key that it gave with
// LibraryAsk, where it depends on nothing that another session has otherwise.
#ifndef WIRE_LEARNT_CALLS_H
#define WIRE_LEARNT_CALLS_H

#include <stdint.h>

struct learnt_call {
  uint64_t key;
  int32_t status;
  uint32_t size;  // bytes of results; none: the call starts work, and has succeeded
};

enum {
  // Of all of them together. It has to fit into a socket that perhaps nobody reads.
  LEARNT_BYTES_MOST = 32 << 10,
  // Of results of one.
  LEARNT_RESULTS_MOST = 4096
};

#endif
