// Lanes: a program with several devices has one connection for each, to a slot of its own on this
// server or that. A lane is such a connection with its batch, its answers and the order of its
// commands; what one lane's server knows (streams, modules, memory) no other lane's does.
//
// A thread is in one lane at a time. A call begins in that of its current context and follows the
// handles and addresses that it is given; where they are of two lanes, nothing is sent (batch.h),
// unless the call knows how to do it and says which lane it means.
#ifndef OUTBOARD_LANE_H
#define OUTBOARD_LANE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/device.h"

#define LANES_MAX DEVICES_MAX
// Of what no lane has for itself: contexts, libraries and their kernels.
#define LANE_ANY 0xffu

// Lanes there are: set once, at attach. With one of them nothing here costs more than a look at it.
extern int lane_count;

struct lane_thread {
  unsigned lane;
  _Bool named;       // by a handle or an address, not only by the current context
  CUresult crossed;  // another lane was named, too: what a call gets that sends something now
};
extern __thread struct lane_thread lane_thread;

static inline _Bool lanes_many(void) { return __builtin_expect(lane_count > 1, 0); }
static inline unsigned lane_here(void) { return lanes_many() ? lane_thread.lane : 0; }

// By lane, a bit for each other that was ever lent anything of it (memory/peer.h): work of theirs
// may come next that uses it, and does not wait for what was sent here. Changes under the memory
// lock.
extern _Atomic uint8_t lane_borrowers[LANES_MAX];

// Sets of lanes, a bit each. lanes_take() goes through one: for (unsigned left = set, lane;
// lanes_take(&left, &lane);)
static inline _Bool lanes_have(unsigned set, unsigned lane) { return set >> lane & 1; }
static inline _Bool lanes_take(unsigned *left, unsigned *lane) {
  if (!*left) return 0;
  *lane = (unsigned)__builtin_ctz(*left);
  *left &= *left - 1;
  return 1;
}

// A call begins: in the lane of the current context.
void lane_begin(void);
// Something of this lane was named; `otherwise` is what the call gets if it cannot be used beside
// what was named before.
static inline void lane_follow(unsigned lane, CUresult otherwise) {
  if (!lanes_many() || lane == LANE_ANY || lane >= LANES_MAX) return;
  if (lane_thread.named && lane_thread.lane != lane) {
    if (!lane_thread.crossed) lane_thread.crossed = otherwise;
    return;
  }
  lane_thread.lane = lane;
  lane_thread.named = 1;
}
// The call means this lane from now on.
static inline void lane_use(unsigned lane) {
  if (lanes_many() && lane < LANES_MAX) lane_thread = (struct lane_thread){lane, 1, 0};
}
// For a while; lane_leave(what this returned) goes back.
static inline struct lane_thread lane_enter(unsigned lane) {
  struct lane_thread before = {0};
  if (!lanes_many()) return before;
  before = lane_thread;
  lane_use(lane);
  return before;
}
static inline void lane_leave(struct lane_thread before) {
  if (lanes_many()) lane_thread = before;
}
// What a call gets that sends something although it was given things of two lanes, or 0.
CUresult lane_refusal(void);
static inline CUresult lane_crossed(void) { return lanes_many() ? lane_refusal() : CUDA_SUCCESS; }

// The lane of a device, and of a context; the device that a lane leads to.
unsigned lane_of_device(int device);
unsigned lane_of_context(uint64_t context);
int device_of_lane(unsigned lane);
// The device of the thread's lane; with one lane, which may have several, that of the current
// context.
int device_here(void);

#endif
