// Copies of bytes in a row between the program's memory and the device, for the files that make
// larger copies of them. The entry points for such copies are in copy.c, too.
//
// Device addresses and streams are as on the wire, lengths in bytes. All is about the session that
// the thread is in (session.h). The caller has checked device ranges (memory_check) and whether the
// stream is captured. Errors: what guest_lost (wire/enter.h) says where nothing can be sent, and
// what is said with each function.
#ifndef OUTBOARD_COPY_H
#define OUTBOARD_COPY_H

#include <stdint.h>

#include "cuda_driver.h"

// When the data of a copy from the device is in the program's memory. WAITED_FOR: when the call
// returns. DEFERRED: before a synchronisation that covers the copy returns, and before any later
// copy from that stream that is waited for does.
enum landing { LANDING_WAITED_FOR, LANDING_DEFERRED };

// Chooses how a copy of so many bytes to `destination` lands. An asynchronous copy into memory that
// is pinned as a whole is deferred; all others are waited for.
enum landing copy_landing(const void *destination, uint64_t bytes, _Bool async);

// Posts a copy to the device, in parts of at most WIRE_BULK_MAX bytes (a mebibyte), or through the
// memory shared with the server (wire/region.h). The source has been read when this returns.
// CUDA_ERROR_INVALID_VALUE when the system finds that it is not readable memory.
CUresult copy_upload(uint64_t destination, const void *source, uint64_t bytes, uint64_t stream);
// Asks for a copy from the device. With LANDING_WAITED_FOR it sends the batch, waits, and returns
// the result of the copy or an error of earlier asynchronous work; with LANDING_DEFERRED it returns
// once the question is in the batch. CUDA_ERROR_OUT_OF_MEMORY when there is no memory to remember a
// deferred copy in.
CUresult copy_download(void *destination, uint64_t source, uint64_t bytes, uint64_t stream,
                       enum landing landing);

// To be called at the end of a synchronous copy on `stream`. Such a copy is only posted; this waits
// for the stream where that can be noticed: where the device reaches pinned memory of the host, or
// where other devices use memory of this one. Returns an error of the work that was waited for.
CUresult copy_finish(uint64_t stream);

// To be called before the library itself reads or writes the program's memory: waits until no
// deferred copy is on its way into it. Returns an error of the work that was waited for.
CUresult copy_wait_for_downloads(void);
// To be called before a copy from host to host that belongs to a stream: waits for the stream, too,
// where work under way may change the program's memory (streams/pending.h).
CUresult copy_wait_for_host(uint64_t stream);

#endif
