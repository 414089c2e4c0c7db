// Copies of bytes in a row, for those that are made of them.
#ifndef OUTBOARD_COPY_H
#define OUTBOARD_COPY_H

#include <stdint.h>

#include "cuda_driver.h"

// When what comes from the device is there. DEFERRED: before the synchronisation that covers it,
// and before any later copy from that stream that is waited for.
enum landing { LANDING_WAITED_FOR, LANDING_DEFERRED };

// What a call promises: an asynchronous one may write pinned memory behind the program's back.
enum landing copy_landing(const void *destination, uint64_t bytes, _Bool async);

CUresult copy_upload(uint64_t destination, const void *source, uint64_t bytes, uint64_t stream);
CUresult copy_download(void *destination, uint64_t source, uint64_t bytes, uint64_t stream,
                       enum landing landing);

// The end of a copy that is waited for, whether it was or not.
CUresult copy_finish(uint64_t stream);

// Before host memory is read or written here: waits for what is on its way into it.
CUresult copy_wait_for_downloads(void);
// The same for a copy from host to host on a stream, which may have to wait for functions, too.
CUresult copy_wait_for_host(uint64_t stream);

#endif
