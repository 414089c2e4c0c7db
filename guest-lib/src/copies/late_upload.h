// Late uploads: copies to the device from pinned memory that may change before their turn comes. It
// is changed by functions of the program that streams call, by the program while a stream waits for
// a value that it writes, and by copies from the device that are still on their way. CUDA reads
// such memory when it is the copy's turn. So a function is put into the stream, which sends the
// data when the stream has come to it.
#ifndef OUTBOARD_LATE_UPLOAD_H
#define OUTBOARD_LATE_UPLOAD_H

#include "copies/box.h"

// Whether an upload of these bytes has to be late. Cheap, two loads, while no such work was ever
// put on a stream and no answer is awaited.
_Bool late_is_due(const void *source, uint64_t bytes);
// Puts a late upload on `stream`. The ends are located (box_locate), and `from` is the program's
// memory, which has to stay until then. CUDA_ERROR_OUT_OF_MEMORY, or what the posting of a host
// function returns.
CUresult late_upload(const struct box_end *to, const struct box_end *from, const struct box *box,
                     uint64_t stream);

#endif
