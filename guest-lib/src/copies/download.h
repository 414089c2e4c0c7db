// Copies from the device to the program's memory, and when their data is there.
#ifndef OUTBOARD_DOWNLOAD_H
#define OUTBOARD_DOWNLOAD_H

#include "copies/copy.h"

// When the data of a copy from the device is in the program's memory. WAITED_FOR: when the call
// returns. DEFERRED: before a synchronisation that covers the copy returns, and before any later
// copy from that stream that is waited for does.
enum landing { LANDING_WAITED_FOR, LANDING_DEFERRED };

// Chooses how a located copy from the device lands. An asynchronous copy into memory that is pinned
// as a whole is deferred, and so is one that another copy covers; all others are waited for.
enum landing copy_landing(const struct copy *copy);

// Asks for a located copy. With LANDING_WAITED_FOR it sends the batch, waits, and returns the
// result of the copy or an error of earlier asynchronous work; with LANDING_DEFERRED it returns
// once the question is in the batch. CUDA_ERROR_OUT_OF_MEMORY when there is no memory to remember a
// deferred copy in. Both are also what guest_lost (wire/enter.h) says where nothing can be sent.
CUresult copy_download(const struct copy *copy, enum landing landing);
// Does the same for bytes in a row, of which the server places as many as fit in the memory that it
// shares with the guest (wire/region.h).
CUresult download_line(struct session *session, void *destination, uint64_t source, uint64_t bytes,
                       uint64_t stream, enum landing landing);

// To be called before the library itself reads or writes the program's memory: waits until no
// deferred copy is on its way into it. Returns an error of the work that was waited for.
CUresult download_wait_for_all(struct session *session);

#endif
