// A copy as every entry point describes it: two ends, the box that moves between them, and the
// stream that it belongs to. Entry points fill a struct copy and call copy_make.
//
// Device addresses and streams are as on the wire, lengths in bytes.
#ifndef OUTBOARD_COPY_H
#define OUTBOARD_COPY_H

#include <stdint.h>

#include "copies/box.h"
#include "cuda_driver.h"
#include "session/session.h"

struct copy {
  struct box_end to, from;
  struct box box;
  uint64_t stream;
  _Bool async;  // the call returns before the copy is done, as far as CUDA's does
  // A row, of which the name of the call says which end is the host's and which is a device's, as
  // that of cuMemcpyHtoD does. copy_resolve clears it when the host's is memory that a device
  // reaches, too.
  _Bool named;
  // The same call makes another copy behind this one, and waits for both there.
  _Bool covered;

  // It is made for a stream that has come to it: what the host has is what is to be copied.
  _Bool in_turn;

  // What copy_resolve finds out beside the places of the ends.
  struct session *session;  // whose stream it is: that of the thread
  _Bool line;               // one run of bytes at both ends
  _Bool across;    // it goes from device to device, or to one that is not its stream's (resolve.h)
  uint64_t bytes;  // without gaps; 0: the copy is empty
  // If it goes across: the sessions that have the ends, NULL for the host; and the session
  // whose device reaches both, NULL if none does.
  struct session *to_session, *from_session, *by;
};

// Makes a copy whose ends, box, stream and flags are filled in, as CUDA would: checks it and finds
// out what its ends are (resolve.h), then sends it on its way. Returns the first error of a check,
// then that of sending (guest_lost in wire/enter.h) or of the work that was waited for.
CUresult copy_make(struct copy *copy);

// The second half of it, for a copy that copy_resolve has looked at. It becomes a node where its
// stream is captured. Otherwise a copy to the device is posted; one from the device is waited for
// or deferred (copy_landing in download.h); one between places of the host is made here, when
// nothing is on its way there any more.
CUresult copy_route(const struct copy *copy);

#endif
