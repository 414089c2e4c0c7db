// Decodes what the server sends, and knows no socket: the caller asks where the next bytes shall go
// (decode_want), receives them there and says how many arrived (decode_got). Payload of downloads
// goes straight to the program's memory. Any bytes at all are safe input; nonsense sets a failure
// that stays.
#ifndef OUTBOARD_DECODE_H
#define OUTBOARD_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

struct session;

#define DECODE_BUFFER (2 * WIRE_FRAME_MAX)

// Whom the decoder tells what has come. All members are set. A function that returns NULL or false
// says that the server has sent nonsense, and the decoder fails.
struct decode_sink {
  // Returns where the payload of download `request` from byte `offset` on goes, of which `length`
  // bytes are left. Sets *run to how many of these go there; for those behind, it is asked again.
  // NULL: nobody asked for this download, or the payload would not fit.
  void *(*place)(struct session *session, uint64_t request, uint64_t offset, uint64_t length,
                 uint64_t *run);
  // The memory that `place` returned cannot be written: what is left of the run is thrown away.
  void (*unwritable)(struct session *session, uint64_t request);
  // A part of a download lies in shared memory. False: nobody asked for it, or it is not there.
  _Bool (*placed)(struct session *session, const struct wire_placed *placed);
  // A whole reply frame has come. False: it answers nothing that was asked.
  _Bool (*reply)(struct session *session, const struct wire_reply *reply);
  // The server is idle: it has taken up all it was sent.
  void (*idle)(struct session *session);
  // Kernels have printed: WIRE_OUTPUT by printf, WIRE_ERRORS by assertions.
  void (*output)(struct session *session, uint16_t op, const char *text, uint64_t length);
  // A stream or an event that was asked about is done.
  void (*finished)(struct session *session, const struct wire_done *done);
  // A stream has come beyond a mark.
  void (*passed)(struct session *session, const struct wire_passed *passed);
  // A posted command has failed.
  void (*fault)(struct session *session, const struct wire_fault *fault);
  // A stream has come to a function of the program. False: there is no such function.
  _Bool (*call)(struct session *session, const struct wire_call *call);
  // The server has ended the session, and says why.
  void (*end)(struct session *session, int32_t result, const char *sentence, uint32_t length);
};

struct decode {
  const struct decode_sink *sink;
  struct session *session;   // whose bytes these are: told to the sink
  const char *failure;       // sticky: a sentence, or NULL
  size_t have;               // bytes in buffer, from the start
  uint8_t *payload;          // where the next bytes of the current download part go
  uint64_t payload_run;      // how many of them
  uint64_t payload_left;     // of the part, the run among them
  uint64_t request, offset;  // what they are of
  uint64_t writable;         // of the run, what decode_put has asked about
  _Bool discard;             // the rest of the run goes nowhere
  uint32_t padding_left;
  uint64_t counted;  // bytes of replies, downloads and output seen
  uint8_t buffer[DECODE_BUFFER] __attribute__((aligned(8)));
};

// Prepares a decoder, before anything else; the sink stays as long as the decoder.
void decode_init(struct decode *decode, const struct decode_sink *sink, struct session *session);
// Returns where the next bytes are to be put, and how many at most: at least 1, and 0 after a
// failure.
void *decode_want(struct decode *decode, size_t *size);
// Puts `size` bytes there, at most those that decode_want has asked for. `soon` says how many bytes
// follow at once, so that the kernel is asked once whether all of these can be written. False: it
// is memory of the program that cannot be written, and not all was put there.
_Bool decode_put(struct decode *decode, const void *bytes, size_t size, size_t soon);
// Takes up `size` bytes that the caller has put there, and tells the sink what is complete.
void decode_got(struct decode *decode, size_t size);
// To be called in place of decode_got when nothing could be put there, because it is memory of the
// program that cannot be written.
void decode_unwritable(struct decode *decode);

// Copies `size` bytes, which are all or a part of a piece of `whole` bytes, to the program's
// memory, which may turn out not to be writable. False: it is not, and not all was copied. Where
// the piece is small, the memory is taken to be writable.
_Bool decode_copy(void *to, const void *from, uint64_t size, uint64_t whole);

#endif
