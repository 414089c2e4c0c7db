#include "wire/decode.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/populate.h"

void decode_init(struct decode *decode, const struct decode_sink *sink, struct session *session) {
  decode->sink = sink;
  decode->session = session;
  decode->failure = NULL;
  decode->have = 0;
  decode->payload = NULL;
  decode->payload_run = decode->payload_left = 0;
  decode->writable = 0;
  decode->padding_left = 0;
  decode->discard = 0;
  decode->counted = 0;
}

// Shorter runs are received together and copied to where they go.
#define RUN_IN_PLACE 4096

static _Bool in_place(const struct decode *decode) {
  return decode->payload_left &&
         (decode->payload_run >= RUN_IN_PLACE || decode->payload_run == decode->payload_left);
}

// The kernel writes it, and says so where it cannot.
static _Bool try(void *to, const void *from) {
  struct iovec source = {(void *)(uintptr_t)from, 1}, target = {to, 1};
  return process_vm_writev(getpid(), &source, 1, &target, 1, 0) >= 0 || errno != EFAULT;
}

#define PAGE 4096u

// What lies between its ends: the kernel is asked for all pages at once, and for each one only
// where it does not like them. Old kernels are not asked: what cannot be written is at an end,
// nearly always.
static _Bool try_between(uint8_t *to, const uint8_t *from, uint64_t size) {
  const uintptr_t begin = (uintptr_t)to, last = (begin + size - 1) & ~(uintptr_t)(PAGE - 1);
  const uintptr_t first = (begin + PAGE) & ~(uintptr_t)(PAGE - 1);
  if (first >= last || !madvise((void *)first, last - first, MADV_POPULATE_WRITE)) return 1;
  if (!kernel_populates()) return 1;
  for (uintptr_t page = first; page < last; page += PAGE)
    if (!try((void *)page, from + (page - begin))) return 0;
  return 1;
}

_Bool decode_copy(void *to, const void *from, uint64_t size, uint64_t whole) {
  if (!size) return 1;
  const uint8_t *bytes = from;
  if (whole >= RUN_IN_PLACE &&
      (!try(to, bytes) || !try((uint8_t *)to + size - 1, bytes + size - 1) ||
       !try_between(to, bytes, size)))
    return 0;
  memcpy(to, from, size);
  return 1;
}

// Whether the next `size` bytes of the run can be written; asks for `soon` more with them. False
// also where the kernel does not tell, or not all of that can be.
static _Bool writable(struct decode *decode, uint64_t size, uint64_t soon) {
  if (decode->writable >= size) return 1;
  const uint64_t run = decode->payload_run, all = soon < run - size ? size + soon : run;
  const uintptr_t begin = (uintptr_t)decode->payload & ~(uintptr_t)(PAGE - 1);
  const uintptr_t end = (uintptr_t)decode->payload + all;
  if (madvise((void *)begin, end - begin, MADV_POPULATE_WRITE)) return 0;
  decode->writable = all;
  return 1;
}

_Bool decode_put(struct decode *decode, const void *bytes, size_t size, size_t soon) {
  size_t most;
  void *to = decode_want(decode, &most);
  if (to != decode->payload || decode->payload_run < RUN_IN_PLACE || writable(decode, size, soon)) {
    memcpy(to, bytes, size);
    return 1;
  }
  return decode_copy(to, bytes, size, decode->payload_run);
}

void decode_unwritable(struct decode *decode) {
  decode->discard = 1;
  decode->sink->unwritable(decode->session, decode->request);
}

// `size` bytes of the payload are where they go.
static void payload_arrived(struct decode *decode, uint64_t size) {
  decode->payload += size;
  decode->payload_run -= size;
  decode->writable -= size < decode->writable ? size : decode->writable;
  decode->payload_left -= size;
  decode->offset += size;
  if (decode->payload_run) return;
  decode->discard = 0;
  if (!decode->payload_left) return;
  decode->payload = decode->sink->place(decode->session, decode->request, decode->offset,
                                        decode->payload_left, &decode->payload_run);
  if (decode->payload) return;
  decode->failure = "a download part that nobody waits for any more";
  decode->payload_left = 0;
}

void *decode_want(struct decode *decode, size_t *size) {
  if (in_place(decode)) {
    *size = decode->payload_run;
    if (!decode->discard) return decode->payload;
    if (*size > DECODE_BUFFER) *size = DECODE_BUFFER;
    return decode->buffer;
  }
  *size = decode->failure ? 0 : DECODE_BUFFER - decode->have;
  return decode->buffer + decode->have;
}

// The fixed part and what is known of one frame at the start of the buffer. Returns how many bytes
// were used up, 0 when more are needed.
static size_t take_frame(struct decode *decode, const uint8_t *at, size_t have) {
  if (have < sizeof(struct wire_header)) return 0;
  const struct wire_header *header = (const struct wire_header *)at;
  uint32_t size = header->size;
  if (size < sizeof *header || size % 8 || header->flags) {
    decode->failure = "a frame with an impossible size or unknown flags";
    return 0;
  }
  if (header->op == WIRE_DATA) {
    if (size < sizeof(struct wire_data)) {
      decode->failure = "a download part that is too short";
      return 0;
    }
    if (have < sizeof(struct wire_data)) return 0;
    const struct wire_data *data = (const struct wire_data *)at;
    uint64_t room = size - sizeof *data;
    if (data->length == 0 || data->length > WIRE_BULK_MAX || data->length > room ||
        room - data->length >= 8) {
      decode->failure = "a download part whose length and size disagree";
      return 0;
    }
    decode->request = data->request;
    decode->offset = data->offset;
    decode->payload = decode->sink->place(decode->session, data->request, data->offset,
                                          data->length, &decode->payload_run);
    if (!decode->payload) {
      decode->failure = "a download part that nobody asked for";
      return 0;
    }
    decode->counted += size;
    decode->payload_left = data->length;
    decode->padding_left = (uint32_t)(room - data->length);
    return sizeof *data;
  }
  if (size > WIRE_FRAME_MAX) {
    decode->failure = "a frame that is too large";
    return 0;
  }
  if (have < size) return 0;
  switch (header->op) {
    case WIRE_REPLY:
      decode->counted += size;
      if (size < sizeof(struct wire_reply) ||
          !decode->sink->reply(decode->session, (const struct wire_reply *)at))
        decode->failure = "a reply to nothing that was asked";
      break;
    case WIRE_PLACED:
      decode->counted += size;
      if (size < sizeof(struct wire_placed) ||
          !decode->sink->placed(decode->session, (const struct wire_placed *)at))
        decode->failure = "a download part in shared memory that nobody asked for";
      break;
    case WIRE_IDLE:
      decode->sink->idle(decode->session);
      break;
    case WIRE_OUTPUT:
    case WIRE_ERRORS: {
      const struct wire_output *output = (const struct wire_output *)at;
      if (size < sizeof *output || output->length > size - sizeof *output) {
        decode->failure = "output whose length and size disagree";
        break;
      }
      decode->counted += size;
      decode->sink->output(decode->session, header->op, (const char *)(output + 1), output->length);
      break;
    }
    case WIRE_DONE:
      if (size < sizeof(struct wire_done))
        decode->failure = "a completion that is too short";
      else
        decode->sink->finished(decode->session, (const struct wire_done *)at);
      break;
    case WIRE_PASSED:
      if (size < sizeof(struct wire_passed))
        decode->failure = "a passed mark that is too short";
      else
        decode->sink->passed(decode->session, (const struct wire_passed *)at);
      break;
    case WIRE_FAULT:
      if (size < sizeof(struct wire_fault))
        decode->failure = "a fault that is too short";
      else
        decode->sink->fault(decode->session, (const struct wire_fault *)at);
      break;
    case WIRE_CALL:
      if (size < sizeof(struct wire_call))
        decode->failure = "a call that is too short";
      else if (!decode->sink->call(decode->session, (const struct wire_call *)at))
        decode->failure = "a call of a function that was never posted";
      break;
    case WIRE_END: {
      const struct wire_end *end = (const struct wire_end *)at;
      if (size < sizeof *end || end->length > size - sizeof *end)
        decode->failure = "an end whose length and size disagree";
      else
        decode->sink->end(decode->session, end->result, (const char *)(end + 1), end->length);
      break;
    }
    default:
      decode->failure = "a frame of an unknown kind";
      break;
  }
  return size;
}

void decode_got(struct decode *decode, size_t size) {
  if (in_place(decode)) {
    payload_arrived(decode, size);
    return;
  }
  decode->have += size;
  size_t at = 0;
  while (!decode->failure) {
    if (decode->payload_left) {
      // What of the payload lies in the buffer already is moved; the rest is received in place.
      size_t here = decode->have - at;
      if (here > decode->payload_run) here = decode->payload_run;
      if (!decode->discard &&
          !decode_copy(decode->payload, decode->buffer + at, here, decode->payload_run))
        decode_unwritable(decode);
      payload_arrived(decode, here);
      at += here;
      if (decode->payload_left && at < decode->have) continue;
      if (decode->payload_left) break;
    }
    if (decode->padding_left) {
      size_t skip = decode->have - at;
      if (skip > decode->padding_left) skip = decode->padding_left;
      at += skip;
      decode->padding_left -= (uint32_t)skip;
      if (decode->padding_left) break;
    }
    if (at % 8) {
      // Frames are read in place, so each must lie aligned: a payload that was received past the
      // buffer leaves its padding, of any length, in front of the next frame.
      decode->have -= at;
      memmove(decode->buffer, decode->buffer + at, decode->have);
      at = 0;
    }
    size_t used = take_frame(decode, decode->buffer + at, decode->have - at);
    if (used == 0) break;
    at += used;
  }
  decode->have -= at;
  memmove(decode->buffer, decode->buffer + at, decode->have);
}
