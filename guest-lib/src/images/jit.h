// Options of the compiler that programs give when they load modules or link: what of them travels,
// and what comes back into the program's buffers.
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

// Returns the options of a call, which stay the program's, and begins to measure how long it takes.
struct jit jit_begin(unsigned count, CUjit_option *options, void **values);
// Go on measuring at the beginning of a step of a link, and stop at its end.
void jit_go_on(struct jit *jit);
void jit_pause(struct jit *jit);

struct jit_options {
  uint32_t count;
  struct wire_jit_option travel[WIRE_JIT_OPTIONS];
};
// Sets *options to those that the server is told of.
void jit_read(const struct jit *jit, struct jit_options *options);

// What the compiler has said. No zero needs to follow the text.
struct jit_text {
  const char *start;
  uint32_t length;
};
struct jit_texts {
  struct jit_text errors, info;
};
// Sets *texts to the two texts in the tail of an answer, `errors` and `info` bytes long and each
// padded to 8, which stay there. Returns how many bytes of the tail they take; more than its `room`
// when the server's numbers make no sense.
uint64_t jit_read_texts(const void *tail, uint64_t room, uint32_t errors, uint32_t info,
                        struct jit_texts *texts);

// Says in the log why an image was refused.
void jit_say_refused(CUresult result, struct jit_text errors);

// Writes the texts into the buffers that the program gave for them, and the time that the call took
// where it asked for that.
void jit_report(const struct jit *jit, struct jit_text errors, struct jit_text info);

#endif
