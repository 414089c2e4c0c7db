// The inside of modules and launches. module.c loads and unloads modules, lookup.c finds what is in
// them.
#ifndef OUTBOARD_KERNELS_INTERNAL_H
#define OUTBOARD_KERNELS_INTERNAL_H

#include <pthread.h>

#include "images/image.h"
#include "kernels/function.h"
#include "kernels/launch.h"
#include "kernels/module.h"

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
  // The program's handle for it, and what the server calls it: the same at first. A library and its
  // kernels outlive a reset of the context: `wire` is 0 then, until it is used and loaded again.
  uint64_t own, wire;
  uint64_t hash[4], size;
  // Of a library: the session whose device has this one, what it was read from, and the same
  // library on other sessions' devices, by handles that the program never sees (library.h).
  unsigned session;
  struct image image;
  uint64_t beside[SESSIONS_MAX];
  struct module *first;  // of one of those others: the program's
  // Of the compiler, for every load.
  struct wire_jit_option *options;
  uint32_t option_count;
};

// Guards the lists inside modules: loads and look-ups are rare.
extern pthread_mutex_t module_lock;

struct module *module_find(const void *handle);

// Adds a kernel to the list; NULL when there is no memory. The lock is held, here and below.
struct kernel *module_add_kernel(struct module *module, const char *name, uint32_t name_length,
                                 const struct wire_parameter *parameters, uint32_t count);

// Adds what the server tells of a variable; NULL when there is no memory.
struct global *module_add_global(struct module *module, const char *name, uint32_t name_length,
                                 uint64_t address, uint64_t size, _Bool managed);

// Loads a module, or a library, in the session that the thread is in. For a library that is one of
// a program's, and may be used on any device, `kept`: it takes the image.
struct jit;
CUresult module_load(struct image *image, int library, const struct jit *jit, _Bool kept,
                     uint64_t *out);
// The variable of a name: answered from what the load told, else asked for once.
CUresult module_find_global(struct module *module, const char *name, struct global **found);
// Ends it.
CUresult module_end(struct module *module);
// The handle of a kernel, which is made.
CUresult module_get_function(void *out, struct module *module, const char *name);

// Loads a library again after a reset; the server still has the bytes of what it loaded before.
CUresult module_revive(struct module *module);

// ---- launch_check.c, launch_attributes.c ----

// Whether the kernel can be launched so. What the driver does not tell about a kernel (the block it
// was compiled for) is checked when the launch is carried out.
CUresult launch_check(struct function *function, uint64_t wire, const struct launch_shape *shape);

struct launch_attributes {
  uint32_t count;
  struct wire_launch_attribute travel[WIRE_LAUNCH_ATTRIBUTES];
  CUevent events[2];  // recorded by the launch, or NULL
};
// Reads what a program gives; `shape` learns of what concerns it.
CUresult launch_attributes_read(const CUlaunchAttribute *given, unsigned count,
                                struct launch_attributes *attributes, struct launch_shape *shape);

// ---- occupancy.c ----

// Blocks of `threads` threads that a multiprocessor holds at once.
CUresult function_occupancy(struct function *function, uint64_t wire, int threads, size_t shared,
                            unsigned flags, int *blocks);
// Blocks of one warp, of two, ... with `shared` bytes each.
void function_add_occupancy(struct function *function, size_t shared, unsigned flags,
                            const uint8_t blocks[WIRE_OCCUPANCY_SIZES]);
void function_forget_occupancy(struct function *function);

#endif
