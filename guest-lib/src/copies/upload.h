// Copies from the program's memory to the device. Errors are those of sending (guest_lost in
// wire/enter.h), and CUDA_ERROR_INVALID_VALUE when the system finds that the source is not readable
// memory. The source has been read when these return.
#ifndef OUTBOARD_UPLOAD_H
#define OUTBOARD_UPLOAD_H

#include "copies/copy.h"

// Posts a located copy, without asking whether the stream is captured or whether the memory may
// still change (late_upload.h).
CUresult copy_upload(const struct copy *copy);
// Posts a copy of bytes in a row: through the memory shared with the server (wire/region.h), as far
// as that has room, and the rest in parts of at most WIRE_BULK_MAX bytes (a mebibyte).
CUresult upload_line(struct session *session, uint64_t destination, const void *source,
                     uint64_t bytes, uint64_t stream);

#endif
