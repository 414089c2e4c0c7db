// How images get to the server: by hash, and their bytes only if it lacks them.
#ifndef OUTBOARD_IMAGE_SENDING_H
#define OUTBOARD_IMAGE_SENDING_H

#include "images/image.h"
#include "session/session.h"

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool known_images_make(struct session *session);

// Puts all bytes of the image into the batch. Returns what posting returns. Waits while other
// threads send as much as a server takes at a time: whatever it returns, image_arrived is to
// follow.
CUresult image_send(struct session *session, const struct image *image);

// The command that uses an image that was sent is answered, or will never be: others may be sent.
void image_arrived(struct session *session, const struct image *image);

// Whether to send the bytes before the command that names the image: it is small, and not known to
// be on the server. For others the server says in its answer whether it wants them.
_Bool image_goes_along(struct session *session, const struct image *image);

// Notes that the server has the image with that hash.
void image_is_known(struct session *session, const uint64_t hash[4]);

#endif
