// What each design decision saves is measured by doing without it (bench/ablation). For measuring
// only: nothing here makes a program right or wrong.
//
//   OUTBOARD_ABLATION=batching,local,handles,deferred,modules,region,posted,descriptors
//
// batching     every command leaves by itself
// local        a call that the guest answers alone asks the server all the same
// handles      a call that mints a handle or an address waits until the server has made it
// deferred     a copy into pinned memory waits for its bytes
// modules      a module's bytes are sent although the server has them, and none is expected
// region       no memory is shared with a server on the same machine
// posted       a call whose result is known beforehand waits until the server has taken it up
// descriptors  a call about a descriptor of cuBLASLt, which the guest keeps, asks the server
#ifndef OUTBOARD_ABLATION_H
#define OUTBOARD_ABLATION_H

enum {
  ABLATE_BATCHING = 1,
  ABLATE_LOCAL = 2,
  ABLATE_HANDLES = 4,
  ABLATE_DEFERRED = 8,
  ABLATE_MODULES = 16,
  ABLATE_REGION = 32,
  ABLATE_POSTED = 64,
  ABLATE_DESCRIPTORS = 128,
};

extern unsigned ablation;

static inline _Bool ablated(unsigned what) { return __builtin_expect(ablation & what, 0) != 0; }

// Reads the environment into `ablation`. True when anything is left out.
_Bool ablation_decide(void);
// Says in the log what was not understood of the variable.
void ablation_report(void);

#endif
