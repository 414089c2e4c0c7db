// Copies between two places of the program's memory, which the library makes itself.
#ifndef OUTBOARD_ON_HOST_H
#define OUTBOARD_ON_HOST_H

#include "copies/copy.h"

// Makes a located copy, after downloads that are on their way into one of its ends; and after the
// work of its stream, where work under way may change the program's memory (streams/pending.h).
// Returns an error of what was waited for.
CUresult copy_on_host(const struct copy *copy);
// Moves the bytes at once. The caller has seen to it that nothing is on its way to either end.
void box_on_host(const struct box_end *to, const struct box_end *from, const struct box *box);

#endif
