// Libraries on several devices. They belong to no context: with several sessions (session.h) a
// library is loaded on each device where it is used. The program's handles are those of the device
// where it was loaded first; those of the others are made when they are wanted, and never shown to
// the program. With one session nothing here does anything.
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

// Sets *module, a library that the program knows, to the same library on the device of the thread's
// session, and loads it there if need be. Leaves a module that is no library as it is. module_lock
// is held. The errors are those of module_load.
CUresult library_here(struct module **module);
// Does the same for a kernel. module_lock is not held.
CUresult library_function_here(struct function **function);
// Makes a managed variable that the program knows one with the same variable of the library on all
// other devices where that is loaded. module_lock is held.
CUresult library_share_beside(struct module *module, const struct global *global);
// Does so with all such variables for a library that has just been loaded on another device.
CUresult library_share_all(struct module *there);
// To be called before work is put on a stream of the session: does what pages_hand_over
// (pages/pages.h) does and returns what that returns. Managed variables of the kernel's library, or
// of all libraries where `function` is NULL, are brought to the device first. Where the device has
// one at another address, parameters that name it are changed to that. No lock may be held.
_Bool library_bring_and_hand_over(struct session *session, const struct function *function,
                                  unsigned char *parameters, uint32_t size);
// The same, and cheap where there is one session or no managed variable in use.
static inline _Bool library_hand_over(struct session *session, const struct function *function,
                                      unsigned char *parameters, uint32_t size) {
  if (!sessions_many() || !pages_variables) return pages_hand_over(session);
  return library_bring_and_hand_over(session, function, parameters, size);
}
// Ends the library on all other devices where it is loaded. module_lock is held.
void library_end_beside(struct module *module);

#endif
