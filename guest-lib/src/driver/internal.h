// What the files that attach and release sessions know of each other (attach.c, release.c).
#ifndef OUTBOARD_DRIVER_INTERNAL_H
#define OUTBOARD_DRIVER_INTERNAL_H

#include <pthread.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "setup/config.h"
#include "setup/device_description.h"

// Addresses of this process that are held for device memory.
struct window {
  uint64_t base, size;  // size 0: none is held
};

// The devices of all sessions, in the order of the sessions that lead to them.
extern struct gathered {
  struct device all[DEVICES_MAX];
  int count;
  uint32_t driver_version;      // the oldest
  uint64_t granularity;         // the largest: what one gives memory in has to suit the others
  unsigned server;              // whose devices are being added, as the number of its first session
  char window_of[SERVER_TEXT];  // the server whose window all others have to hold, too
} gathered;
void gather_anew(void);

// What the program was told of addresses; with it, attach_session refuses any other.
extern struct window kept_window;

// Held by who attaches or releases.
extern pthread_mutex_t attach_lock;

// Connects a session to the first of the servers that answers, says Hello, waits in the queue, and
// takes the Welcome or the refusal. Within attach_waiting.
CUresult attach_session(struct session *session, const struct config *config,
                        struct window *window);
// Returns what `tries` returns; a signal of the program ends its waits. With the lock.
CUresult attach_waiting(CUresult (*tries)(void));

#endif
