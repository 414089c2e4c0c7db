// Decoding of what the server sends, without a socket: the caller asks where the next bytes shall
// go and says how many arrived. Download payload goes straight to the program's memory. Any bytes
// at all are safe input; nonsense sets a sticky failure.
#ifndef OUTBOARD_DECODE_H
#define OUTBOARD_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

#define DECODE_BUFFER (2 * WIRE_FRAME_MAX)

struct decode_sink {
  // Where the payload of download `request` at `offset` goes, of which `length` bytes are left, or
  // NULL when there is none such or it would not fit: the stream is then beyond repair. `*run`: how
  // many of them go there; the next ones are asked for then.
  void *(*place)(uint64_t request, uint64_t offset, uint64_t length, uint64_t *run);
  // It cannot go there: what is left of the run is thrown away.
  void (*unwritable)(uint64_t request);
  // A part of a download lies in shared memory. False: nobody asked for it, or it is not there.
  _Bool (*placed)(const struct wire_placed *placed);
  // A whole reply frame. False: it answers nothing that was asked.
  _Bool (*reply)(const struct wire_reply *reply);
  void (*idle)(void);
  void (*output)(uint16_t op, const char *text, uint64_t length);
  void (*finished)(const struct wire_done *done);
  void (*fault)(const struct wire_fault *fault);
  // A stream has come to a function of the program. False: there is none such.
  _Bool (*call)(const struct wire_call *call);
  void (*end)(int32_t result, const char *sentence, uint32_t length);
};

struct decode {
  const struct decode_sink *sink;
  const char *failure;       // sticky: a sentence, or NULL
  size_t have;               // bytes in buffer, from the start
  uint8_t *payload;          // where the next bytes of the current download part go
  uint64_t payload_run;      // how many of them
  uint64_t payload_left;     // of the part, the run among them
  uint64_t request, offset;  // what they are of
  _Bool discard;             // the rest of the run goes nowhere
  uint32_t padding_left;
  uint64_t counted;  // bytes of replies, downloads and output seen
  uint8_t buffer[DECODE_BUFFER] __attribute__((aligned(8)));
};

void decode_init(struct decode *decode, const struct decode_sink *sink);
// Where the next bytes go, and how many are welcome (at least 1 unless failed).
void *decode_want(struct decode *decode, size_t *size);
// `size` bytes have been put there.
void decode_got(struct decode *decode, size_t size);
// Nothing can be put there, which is the program's memory.
void decode_unwritable(struct decode *decode);

// Copies to the program's memory, which may end before the copy does, as the whole or as part of
// `whole` bytes. False: it does, and not all was copied. A few bytes are taken to be in order.
_Bool decode_copy(void *to, const void *from, uint64_t size, uint64_t whole);

#endif
