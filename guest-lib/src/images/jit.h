// Options of the compiler that programs give when they load or link: what of them travels, and what
// comes back into the program's buffers.
#ifndef OUTBOARD_JIT_H
#define OUTBOARD_JIT_H

#include <stdint.h>

#include "cuda_driver.h"
#include "wire.h"

struct jit {
  unsigned count;
  CUjit_option *options;
  void **values;  // the program's; results are written there
  uint64_t began_ns;
  uint64_t spent_ns;  // of a link, in the steps so far
};

struct jit jit_begin(unsigned count, CUjit_option *options, void **values);
// A link's begins with each step, where the one before ended.
void jit_go_on(struct jit *jit);
void jit_pause(struct jit *jit);

struct jit_options {
  uint32_t count;
  struct wire_jit_option travel[WIRE_JIT_OPTIONS];
};
void jit_read(const struct jit *jit, struct jit_options *options);

// Texts end where they end: no zero needs to follow.
struct jit_text {
  const char *start;
  uint32_t length;
};
struct jit_texts {
  struct jit_text errors, info;
};
// What was said, in the tail of an answer: padded to 8 each. Returns how much of it that is; more
// than `room` when it makes no sense, for every number in it is the server's.
uint64_t jit_read_texts(const void *tail, uint64_t room, uint32_t errors, uint32_t info,
                        struct jit_texts *texts);

// Says in the log why an image was refused.
void jit_say_refused(CUresult result, struct jit_text errors);

void jit_report(const struct jit *jit, struct jit_text errors, struct jit_text info);

#endif
