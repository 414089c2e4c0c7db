// What the files of this folder know of each other: modules with what is in them, and launches.
// module.c loads and unloads modules, lookup.c finds what is in them.
#ifndef OUTBOARD_KERNELS_INTERNAL_H
#define OUTBOARD_KERNELS_INTERNAL_H

#include <pthread.h>

#include "images/image.h"
#include "kernels/function.h"
#include "kernels/launch.h"
#include "kernels/module.h"
#include "session/session.h"

struct kernel {
  char *name;
  uint32_t index;  // the server's number for it
  uint32_t parameter_count, parameter_bytes;
  struct wire_parameter *parameters;
  struct wire_description *description;  // NULL: not told with the module
  uint64_t function;                     // handle, once somebody asked for it; 0 before
};

struct global {
  char *name;
  uint64_t address, size;
  _Bool managed;
  _Bool in_use;  // memory.h and pages.h know of it: the program has asked for it
  struct global *next;
};

struct module {
  uint64_t context;       // 0 for libraries, which belong to none
  uint32_t kernel_count;  // on the server
  uint32_t in_order;      // of them, the first so many are in `kernels`, in their order
  uint32_t listed;
  size_t room;
  struct kernel *kernels;
  struct global *globals;
  // The program's handle for the module, and the server's: the same at first. A library and its
  // kernels outlive a reset of the context: `wire` is 0 then, until the library is used and loaded
  // again.
  uint64_t own, wire;
  uint64_t hash[4], size;
  // The session whose device has the module. What follows is for libraries: the image that it was
  // read from, and the same library on the devices of other sessions, by handles that the program
  // never sees (library.h).
  struct session *session;
  struct image image;
  uint64_t beside[SESSIONS_MAX];
  struct module *first;  // in one of those others: the library that the program knows
  // Options of the compiler, for this load and later ones.
  struct wire_jit_option *options;
  uint32_t option_count;
};

// Guards the lists inside modules: loads and look-ups are rare.
extern pthread_mutex_t module_lock;

// Returns the module or library behind a handle of the program; NULL when it is none.
struct module *module_find(const void *handle);

// ---- module.c, lookup.c: the caller holds module_lock ------------------------------------------

// Adds a kernel, of which the server has told, to the module's list. NULL when there is no memory.
struct kernel *module_add_kernel(struct module *module, const char *name, uint32_t name_length,
                                 const struct wire_parameter *parameters, uint32_t count);

// Adds a variable, of which the server has told, to the module's list. NULL when there is no
// memory.
struct global *module_add_global(struct module *module, const char *name, uint32_t name_length,
                                 uint64_t address, uint64_t size, _Bool managed);

// Loads a module, or a library, in the session that the thread is in, and sets *out to its handle.
// `kept` is for a library of a program with several sessions: its handle is good in any of them,
// and it takes the image, whose bytes are NULL then. The result is the driver's, or
// CUDA_ERROR_OUT_OF_MEMORY, or CUDA_ERROR_UNKNOWN for an answer without sense.
struct jit;
CUresult module_load(struct image *image, int library, const struct jit *jit, _Bool kept,
                     uint64_t *out);
// Finds a module's variable by name: in what the load told, else by asking the server once, whose
// error it returns.
CUresult module_find_global(struct module *module, const char *name, struct global **found);
// Unloads a module or library, and frees it with its functions and all their handles.
CUresult module_end(struct module *module);
// Puts the handle of a kernel (8 bytes) into *out, and makes it if there is none yet.
// CUDA_ERROR_NOT_FOUND when the module has no kernel of that name.
CUresult module_get_function(void *out, struct module *module, const char *name);

// Loads a library again if a reset of the context has unloaded it; the server still has the bytes.
// CUDA_ERROR_INVALID_HANDLE when it does not.
CUresult module_revive(struct module *module);

// ---- launch_check.c, launch_attributes.c ----

// Checks whether the kernel can be launched in this shape, with the errors of cuLaunchKernel. May
// ask the server about the function, once. There is a current context. What the driver does not
// tell about a kernel (the block that it was compiled for) is checked when the launch is carried
// out.
CUresult launch_check(struct function *function, uint64_t wire, const struct launch_shape *shape);

struct launch_attributes {
  uint32_t count;
  struct wire_launch_attribute travel[WIRE_LAUNCH_ATTRIBUTES];
  CUevent events[2];  // recorded by the launch, or NULL
};
// Reads the `count` attributes of a launch into the form in which they travel; those that change
// the shape, as a cluster does, are noted in *shape, too. CUDA_ERROR_INVALID_VALUE for values that
// cannot be or too many attributes, CUDA_ERROR_NOT_SUPPORTED for those that are not served, and the
// errors of event_check_untimed.
CUresult launch_attributes_read(const CUlaunchAttribute *given, unsigned count,
                                struct launch_attributes *attributes, struct launch_shape *shape);

// ---- occupancy.c ----

// Sets *blocks to how many blocks of `threads` threads, with `shared` bytes of dynamic shared
// memory each, a multiprocessor holds at once. Asks the server where that is not known.
CUresult function_occupancy(struct session *session, struct function *function, uint64_t wire,
                            int threads, size_t shared, unsigned flags, int *blocks);
// Notes what the server has told of that: for blocks of one warp, of two, and so on, with `shared`
// bytes each.
void function_add_occupancy(struct function *function, size_t shared, unsigned flags,
                            const uint8_t blocks[WIRE_OCCUPANCY_SIZES]);
// Forgets all that is known of the function's occupancy.
void function_forget_occupancy(struct function *function);

#endif
