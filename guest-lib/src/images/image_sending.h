// How images get to the server: by hash, and their bytes only if it lacks them.
#ifndef OUTBOARD_IMAGE_SENDING_H
#define OUTBOARD_IMAGE_SENDING_H

#include "images/image.h"
#include "session/session.h"

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool known_images_make(struct session *session);

// Puts the whole image into the batch.
CUresult image_send(struct session *session, const struct image *image);

// Whether its bytes had better travel with the command that names it: small, and not known to be on
// the server. Of others the server says whether it wants them.
_Bool image_goes_along(struct session *session, const struct image *image);

// The server has the image with that hash.
void image_is_known(struct session *session, const uint64_t hash[4]);

#endif
