// Giving the session back while the process lives. Where the program holds nothing of it (no
// context but primary ones that it has released or reset, no memory), the server's slot and memory
// are given back, and the next call attaches anew: the program notices nothing but the time that
// takes. Where it holds anything, that would be lost, and the session stays.
#ifndef OUTBOARD_RELEASE_H
#define OUTBOARD_RELEASE_H

#include <stdint.h>

#include "cuda_driver.h"

// Releases the session; one that is released already stays so. Returns NULL, or a clause that says
// why it stays. *number becomes the session's number on its server. The library is attached. May
// wait for the server.
const char *release(uint64_t *number);
// Attaches anew, if the session is released. Returns CUDA_SUCCESS, or what the call gets for which
// that is done; the next one tries again. Why it fails is in the log. No lock may be held.
CUresult attach_again(void);

// Where OUTBOARD_RELEASE names a folder, makes it (mode 0700), and in it a Unix socket of this
// process's number, by which another process of the same user asks for a release: it sends a line
// and gets one back (release_socket.c). To be called once the library is attached. What is wrong is
// in the log, and then the session ends with the process, as ever.
void release_socket_open(void);

#endif
