// Libraries belong to no context: with several sessions (session.h) one is loaded on each device
// where it is used. The program's handles are those of where it was loaded first; those of the
// others are made when they are wanted, and never shown.
#ifndef OUTBOARD_LIBRARY_H
#define OUTBOARD_LIBRARY_H

#include <stdint.h>

#include "cuda_driver.h"
#include "pages/page_variables.h"
#include "pages/pages.h"
#include "session/session.h"

struct function;
struct global;
struct module;

// The library on the device of the thread's session; a module is where it is. With the modules'
// lock.
CUresult library_here(struct module **module);
// The same of a kernel. Without the lock.
CUresult library_function_here(struct function **function);
// A managed variable that the program knows is one with that of the library on other devices. With
// the lock.
CUresult library_share_beside(struct module *module, const struct global *global);
CUresult library_share_all(struct module *there);
// pages_hand_over, for work of the thread's device that may use the managed variables of the
// kernel's library, or any: they are brought first. Where the device has them elsewhere, parameters
// that name them are set to that. Without locks.
_Bool library_bring_and_hand_over(const struct function *function, unsigned char *parameters,
                                  uint32_t size);
static inline _Bool library_hand_over(const struct function *function, unsigned char *parameters,
                                      uint32_t size) {
  if (!sessions_many() || !pages_variables) return pages_hand_over();
  return library_bring_and_hand_over(function, parameters, size);
}
// The library ends: on the other devices as well. With the lock.
void library_end_beside(struct module *module);

#endif
