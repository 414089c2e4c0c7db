// Late uploads: copies to the device from pinned memory that may change before their turn comes. It
// is changed by functions of the program that streams call, by the program while a stream waits for
// a value that it writes, and by copies from the device that are still on their way. CUDA reads
// such memory when it is the copy's turn. So the server has the copy in its stream, behind a call
// of this library, which sends the bytes when the stream has come to it, and asks the driver
// nothing then: it may be busy with what waits for that stream. An older server is asked to call a
// function that copies on a stream aside; so it is where copies that wait take very much (256 MiB).
#ifndef OUTBOARD_LATE_UPLOAD_H
#define OUTBOARD_LATE_UPLOAD_H

#include "copies/copy.h"
#include "streams/pending.h"
#include "wire/answer.h"

// Whether a located copy from the program's memory has to be late: never while no such work was
// ever put on a stream and no answer is awaited, and never for a copy whose turn it is.
_Bool late_is_due_slow(const struct copy *copy);
static inline _Bool late_is_due(const struct copy *copy) {
  return (pending_seen || answers_expected(copy->session)) && !copy->in_turn &&
         late_is_due_slow(copy);
}
// Puts a late upload on the copy's stream. The program's memory has to stay until then.
// CUDA_ERROR_OUT_OF_MEMORY, or what the posting of a host function returns.
CUresult late_upload(const struct copy *copy);

#endif
