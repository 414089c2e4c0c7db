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
  // What the entry point fills in.
  struct box_end to, from;
  struct box box;
  uint64_t stream;
  _Bool async;  // the call returns before the copy is done
  // By the call's name, one end is the host's or both are devices', and both are rows: that of
  // cuMemcpyHtoD, say. copy_resolve clears it where the host's end turns out to be memory that a
  // device reaches, too.
  _Bool ends_known;
  // One of several copies of one call, and not the last: the call waits at the last one.
  _Bool covered;
  // Its turn in its stream has come already, as for a step of a copy between two devices. What the
  // host has now is copied: it is never a late upload (late_upload.h).
  _Bool in_turn;

  // What copy_resolve finds out beside the places of the ends.
  struct session *session;  // the thread's, whose stream it is
  _Bool line;               // all of it is one run of bytes at both ends
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
// stream is captured. Otherwise a copy to the device is posted, after it was asked for by hash
// where there is an upload cache, and is waited for where the program could notice; one from the
// device is waited for or deferred (copy_landing in download.h); one between places of the host is
// made here, when nothing is on its way there any more.
CUresult copy_route(const struct copy *copy);

#endif
