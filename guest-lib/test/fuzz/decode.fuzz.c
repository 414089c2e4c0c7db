// The decoder of what the server sends, on any bytes, received in pieces of any size.
// Input: a seed for the sizes of the pieces, then the stream.
#include "wire/decode.h"

#include <stdlib.h>
#include <string.h>

static uint8_t destination[128 << 10];

static void *place(struct session *session, uint64_t request, uint64_t offset, uint64_t length,
                   uint64_t *run) {
  (void)session;

  if (request == 0 || offset > sizeof destination || length > sizeof destination - offset)
    return NULL;
  *run = length;
  if (request % 2) return destination + offset;
  // Rows of 100 bytes that lie apart.
  if (offset + length > sizeof destination / 2) return NULL;
  if (*run > 100 - offset % 100) *run = 100 - offset % 100;
  return destination + offset / 100 * 130 + offset % 100;
}

// Everything a sink is given can be read.
static volatile unsigned sum;
static void touch(const void *bytes, uint64_t size) {
  for (uint64_t i = 0; i < size; i++) sum += ((const uint8_t *)bytes)[i];
}
static _Bool placed(struct session *session, const struct wire_placed *p) {
  (void)session;

  touch(p, sizeof *p);
  return p->request != 0;
}
static _Bool reply(struct session *session, const struct wire_reply *r) {
  (void)session;

  touch(r, r->header.size);
  return r->request != 0;
}
static void idle(struct session *session) { (void)session; }
static void unwritable(struct session *session, uint64_t request) {
  (void)session;
  (void)request;
}
static void output(struct session *session, uint16_t op, const char *text, uint64_t length) {
  (void)session;

  (void)op;
  touch(text, length);
}
static void finished(struct session *session, const struct wire_done *done) {
  (void)session;
  touch(done, sizeof *done);
}
static void passed(struct session *session, const struct wire_passed *p) {
  (void)session;
  touch(p, sizeof *p);
}
static _Bool call(struct session *session, const struct wire_call *c) {
  (void)session;

  touch(c, sizeof *c);
  return c->function != 0;
}
static void fault(struct session *session, const struct wire_fault *f) {
  (void)session;
  touch(f, sizeof *f);
}
static void end(struct session *session, int32_t result, const char *sentence, uint32_t length) {
  (void)session;

  (void)result;
  touch(sentence, length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct decode_sink sink = {
      .place = place,
      .unwritable = unwritable,
      .placed = placed,
      .reply = reply,
      .idle = idle,
      .output = output,
      .finished = finished,
      .passed = passed,
      .fault = fault,
      .call = call,
      .end = end,
  };
  static struct decode decode;
  if (size < 1) return 0;
  unsigned seed = data[0];
  data++;
  size--;
  decode_init(&decode, &sink, NULL);
  while (size) {
    size_t room;
    void *to = decode_want(&decode, &room);
    if (!room) {
      if (!decode.failure) abort();  // a decoder that wants nothing more and knows no reason hangs
      break;
    }
    seed = seed * 1103515245u + 12345u;
    size_t part = seed % 3 ? 1 + (seed >> 16) % 64 : size;
    if (part > size) part = size;
    if (part > room) part = room;
    memcpy(to, data, part);
    decode_got(&decode, part);
    data += part;
    size -= part;
  }
  return 0;
}
