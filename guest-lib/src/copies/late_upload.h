// Copies to the device from pinned memory that may change before their turn comes: by functions of
// the program under way, by what waits for values that the program writes, or by copies still on
// their way there. CUDA reads such memory when it is the copy's turn, so that is when it is sent: a
// function in the stream does so.
#ifndef OUTBOARD_LATE_UPLOAD_H
#define OUTBOARD_LATE_UPLOAD_H

#include "copies/box.h"

// Costs two looks while nothing of that is under way.
_Bool late_is_due(const void *source, uint64_t bytes);
CUresult late_upload(const struct box_end *to, const struct box_end *from, const struct box *box,
                     uint64_t stream);

#endif
