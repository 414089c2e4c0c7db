// How images get to the server: by hash, and their bytes only if it lacks them.
#ifndef OUTBOARD_IMAGE_SENDING_H
#define OUTBOARD_IMAGE_SENDING_H

#include "images/image.h"

// Puts the whole image into the batch.
CUresult image_send(const struct image *image);

// Whether its bytes had better travel with the command that names it: small, and not known to be on
// the server. Of others the server says whether it wants them.
_Bool image_goes_along(const struct image *image);

// The server has the image with that hash.
void image_is_known(const uint64_t hash[4]);

#endif
