#include "kernels/module.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/notice.h"
#include "guest_calls.h"
#include "images/image_sending.h"
#include "images/jit.h"
#include "kernels/expected.h"
#include "kernels/function.h"
#include "kernels/internal.h"
#include "kernels/learnt.h"
#include "kernels/library.h"
#include "kernels/reference.h"
#include "memory/variable.h"
#include "pages/page_variables.h"
#include "session/context.h"
#include "session/handle.h"
#include "setup/log.h"
#include "wire/answer.h"

pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER;

struct module *module_find(const void *handle) {
  return handle_object(WIRE_KIND_MODULE, handle_of(handle));
}

// ---- images and descriptions -------------------------------------------------------------------

// A name in an answer, which ends with its last byte.
static char *copy_name(const char *name, uint32_t length) {
  char *copy = malloc((size_t)length + 1);
  if (!copy) return NULL;
  memcpy(copy, name, length);
  copy[length] = 0;
  return copy;
}

struct kernel *module_add_kernel(struct module *module, const char *name, uint32_t name_length,
                                 const struct wire_parameter *parameters, uint32_t count) {
  if (!grow(&module->kernels, &module->room, module->listed, sizeof *module->kernels)) return NULL;
  struct kernel *kernel = &module->kernels[module->listed];
  memset(kernel, 0, sizeof *kernel);
  kernel->name = copy_name(name, name_length);
  kernel->parameters = malloc(sizeof *parameters * (count ? count : 1));
  if (!kernel->name || !kernel->parameters) {
    free(kernel->name);
    free(kernel->parameters);
    return NULL;
  }
  memcpy(kernel->parameters, parameters, sizeof *parameters * count);
  kernel->parameter_count = count;
  module->listed++;
  return kernel;
}

struct global *module_add_global(struct module *module, const char *name, uint32_t name_length,
                                 uint64_t address, uint64_t size, _Bool managed) {
  struct global *global = malloc(sizeof *global);
  if (!global) return NULL;
  *global =
      (struct global){copy_name(name, name_length), address, size, managed, 0, module->globals};
  if (!global->name) {
    free(global);
    return NULL;
  }
  return module->globals = global;
}

// The variables behind the kernels. What makes no sense is asked for when it is needed.
static void read_variables(struct module *module, const uint8_t *at, uint64_t size) {
  struct wire_variable head;
  while (size >= sizeof head) {
    memcpy(&head, at, sizeof head);
    uint64_t whole = sizeof head + (((uint64_t)head.name_length + 7) & ~7ull);
    if (whole > size || !head.name_length || !head.address) return;
    if (!module_add_global(module, (const char *)at + sizeof head, head.name_length, head.address,
                           head.size, head.managed != 0))
      return;
    at += whole;
    size -= whole;
  }
}

// The list in a load's answer. False when it makes no sense: every number in it is the server's.
static _Bool read_list(struct module *module, const uint8_t *at, uint64_t size, uint32_t listed,
                       _Bool described) {
  for (uint32_t i = 0; i < listed; i++) {
    struct wire_kernel head;
    if (size < sizeof head) return 0;
    memcpy(&head, at, sizeof head);
    uint64_t layout = (uint64_t)head.parameter_count * sizeof(struct wire_parameter);
    uint64_t description = described ? sizeof(struct wire_description) : 0;
    uint64_t fixed = sizeof head + description;
    uint64_t whole = fixed + layout + (((uint64_t)head.name_length + 7) & ~7ull);
    if (whole > size || head.parameter_bytes > WIRE_FRAME_MAX / 2) return 0;
    const struct wire_parameter *parameters = (const void *)(at + fixed);
    for (uint32_t p = 0; p < head.parameter_count; p++)
      if (parameters[p].offset > head.parameter_bytes ||
          parameters[p].size > head.parameter_bytes - parameters[p].offset)
        return 0;
    struct kernel *kernel = module_add_kernel(module, (const char *)at + fixed + layout,
                                              head.name_length, parameters, head.parameter_count);
    if (!kernel) return 0;
    if (described) {
      kernel->description = malloc(description);
      if (!kernel->description) return 0;
      memcpy(kernel->description, at + sizeof head, description);
    }
    kernel->index = head.index;
    // A kernel that the server could not tell the layout of is left out: the order ends there.
    if (head.index == module->in_order && module->listed == module->in_order + 1)
      module->in_order++;
    kernel->parameter_bytes = head.parameter_bytes;
    at += whole;
    size -= whole;
  }
  read_variables(module, at, size);
  return 1;
}

static void free_globals(struct module *module) {
  reference_forget_of(module->own);
  while (module->globals) {
    struct global *global = module->globals;
    module->globals = global->next;
    if (global->in_use) memory_remove_variable(module->session, global->address);
    free(global->name);
    free(global);
  }
}

static void free_module(struct module *module) {
  image_free(&module->image);
  for (uint32_t i = 0; i < module->listed; i++) {
    free(module->kernels[i].name);
    free(module->kernels[i].parameters);
    free(module->kernels[i].description);
  }
  free(module->kernels);
  free(module->options);
  free_globals(module);
  free(module);
}

// A handle the server knows ends; it may be the program's own.
static void retire_wire(enum wire_kind kind, uint64_t own, uint64_t wire) {
  if (wire && wire != own) handle_retire(kind, wire);
}
static void recycle_wire(enum wire_kind kind, uint64_t own, uint64_t wire) {
  if (wire && wire != own) handle_recycle(kind, wire);
}

// Ends the module, its functions and their handles. `tell`: the server has it.
static CUresult forget_module(struct module *module, _Bool tell) {
  uint64_t handle = module->own;
  if (!module->context) {
    for (const struct global *global = module->globals; global && sessions_many();
         global = global->next)
      if (global->managed && global->in_use) pages_send_home(global->address);
    library_end_beside(module);
    session_use(module->session);
  }
  handle_retire(WIRE_KIND_MODULE, handle);
  retire_wire(WIRE_KIND_MODULE, handle, module->wire);
  uint64_t wires[module->listed + 1];
  for (uint32_t i = 0; i < module->listed; i++) {
    uint64_t own = module->kernels[i].function;
    wires[i] = 0;
    if (!own) continue;
    struct function *function = handle_retire(WIRE_KIND_FUNCTION, own);
    wires[i] = function->wire;
    retire_wire(WIRE_KIND_FUNCTION, own, wires[i]);
    function_free(function);
  }
  CUresult result =
      tell && module->wire ? put_ModuleUnload(module->session, module->wire) : CUDA_SUCCESS;
  // Indices can be used again now that their end is in the batch.
  for (uint32_t i = 0; i < module->listed; i++) {
    uint64_t own = module->kernels[i].function;
    if (!own) continue;
    recycle_wire(WIRE_KIND_FUNCTION, own, wires[i]);
    handle_recycle(WIRE_KIND_FUNCTION, own);
  }
  recycle_wire(WIRE_KIND_MODULE, handle, module->wire);
  handle_recycle(WIRE_KIND_MODULE, handle);
  free_module(module);
  return result;
}

// The server has forgotten everything; the library's own handles live on.
static void detach_library(struct module *module) {
  for (uint32_t i = 0; i < module->listed; i++) {
    uint64_t own = module->kernels[i].function;
    struct function *function = own ? handle_object(WIRE_KIND_FUNCTION, own) : NULL;
    if (!function) continue;
    retire_wire(WIRE_KIND_FUNCTION, own, function->wire);
    recycle_wire(WIRE_KIND_FUNCTION, own, function->wire);
    function->wire = 0;
    function_forget_description(function);
  }
  retire_wire(WIRE_KIND_MODULE, module->own, module->wire);
  recycle_wire(WIRE_KIND_MODULE, module->own, module->wire);
  module->wire = 0;
  free_globals(module);
}

// ---- loading -----------------------------------------------------------------------------------

static CUresult ask_open(struct session *session, uint64_t wire, const struct module *module,
                         int library, struct answer *answer) {
  answer_init(answer);
  return ask_ModuleOpen(session, wire, module->hash[0], module->hash[1], module->hash[2],
                        module->hash[3], module->size, (uint32_t)library, module->options,
                        module->option_count * (uint32_t)sizeof *module->options, answer);
}

// Its bytes go first where the server is not likely to have them, and again where it says so.
static CUresult ask_for(const struct module *module, const struct image *image, int library,
                        struct answer *answer) {
  struct session *session = module->session;
  const _Bool along = image_goes_along(session, image);
  CUresult result = along ? image_send(session, image) : CUDA_SUCCESS;
  if (!result) result = ask_open(session, module->own, module, library, answer);
  if (along) image_arrived(session, image);
  const struct wire_ModuleOpen_reply *reply = answer->reply;
  if (result || reply->state != WIRE_MODULE_WANTED) return result;
  answer_free(answer);
  result = image_send(session, image);
  if (!result) result = ask_open(session, module->own, module, library, answer);
  image_arrived(session, image);
  return result;
}

static struct module *new_module(struct session *session, const struct image *image, int library,
                                 const struct jit *jit, _Bool kept) {
  struct module *module = calloc(1, sizeof *module);
  if (!module) return NULL;
  module->context = library ? 0 : context_current_handle();
  module->session = session;
  memcpy(module->hash, image->hash, sizeof module->hash);
  module->size = image->size;
  if (jit->count) {
    struct jit_options options;
    jit_read(jit, &options);
    size_t bytes = options.count * sizeof *options.travel;
    module->options = malloc(bytes ? bytes : 1);
    if (module->options) memcpy(module->options, options.travel, bytes);
    module->option_count = module->options ? options.count : 0;
  }
  module->own = kept ? handle_mint_for_any(WIRE_KIND_MODULE, module)
                     : handle_mint(session, WIRE_KIND_MODULE, module);
  if (module->own) return module;
  free(module->options);
  free(module);
  return NULL;
}

static const char no_ptx[] =
    ". It has no PTX, which runs on newer GPUs, too, and is all that a software device executes. "
    "cuBLAS, cuFFT, cuRAND and cuDNN, also inside CuPy and PyTorch, bring PTX for a device that is "
    "newer than they are: start the server with SOFTWARE_DEVICE_COMPUTE_CAPABILITY=13.0. Build a "
    "program with nvcc -gencode arch=compute_80,code=compute_80; for CuPy set "
    "CUPY_COMPILE_WITH_PTX=1, for Numba LD_PRELOAD to Outboard's keep-ptx/libnvJitLink.so.13 (CUDA "
    "12: .so.12); `outboard run` does both where its program is python itself";

// Once also to who started the program: it may only see that a library fails. Libraries that try
// one image after the other are not to fill the screen.
static void say_unfit(const struct image *image) {
  static _Atomic _Bool said;
  char held[256];
  image_describe(image, held, sizeof held);
  int device = device_here();
  char text[1280];
  snprintf(text, sizeof text,
           "no kernel of a module can run: it holds %s, and the device is of compute capability "
           "%d.%d (%s)%s",
           held, device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
           device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
           device_get(device)->name, strstr(held, "PTX") ? "" : no_ptx);
  if (atomic_exchange(&said, 1))
    log_error("%s", text);
  else
    notice(LOG_ERROR, "%s", text);
}

CUresult module_load(struct image *image, int library, const struct jit *jit, _Bool kept,
                     uint64_t *out) {
  struct session *session = session_here();
  struct module *module = new_module(session, image, library, jit, kept);
  if (!module) return CUDA_ERROR_OUT_OF_MEMORY;
  uint64_t handle = module->own;
  uint32_t index;
  struct answer asked = {0}, *answer = &asked;
  CUresult result = !jit->count && expected_take(session, image, &answer, &index)
                        ? put_ModuleTake(session, handle, index)
                        : ask_for(module, image, library, answer);
  const struct wire_ModuleOpen_reply *reply = answer->reply;
  struct jit_texts texts = {0};
  if (!result) {
    uint64_t room = reply->reply.header.size - sizeof *reply;
    uint64_t used = jit_read_texts(reply + 1, room, reply->errors_size, reply->info_size, &texts);
    _Bool sound = used <= room && reply->list_size <= room - used;
    if (sound && reply->state == WIRE_MODULE_REFUSED && reply->refused > 0) {
      result = (CUresult)reply->refused;
      if (result == CUDA_ERROR_NO_BINARY_FOR_GPU)
        say_unfit(image);
      else
        jit_say_refused(result, texts.errors);
    } else if (!sound || reply->state != WIRE_MODULE_LOADED ||
               !read_list(module, (const uint8_t *)(reply + 1) + used, reply->list_size,
                          reply->listed, reply->described != 0)) {
      log_error("the server's description of a module makes no sense");
      result = CUDA_ERROR_UNKNOWN;
    }
    module->kernel_count = reply->kernels;
    jit_report(jit, texts.errors, texts.info);
  }
  // An earlier command's error, or a description without sense, may stand beside a module that the
  // server did load.
  if (reply && !answer->result && reply->state == WIRE_MODULE_LOADED) {
    module->wire = handle;
    image_is_known(session, image->hash);
  }
  answer_free(answer);
  if (result) {
    forget_module(module, 1);
    return result;
  }
  if (kept) {
    module->image = *image;
    image->bytes = NULL;
  }
  *out = handle;
  return CUDA_SUCCESS;
}

CUresult module_end(struct module *module) { return forget_module(module, 1); }

CUresult module_revive(struct module *module) {
  if (module->wire) return CUDA_SUCCESS;
  struct thread_session before = session_switch(module->session);
  uint64_t wire = handle_mint(module->session, WIRE_KIND_MODULE, module);
  struct answer answer = {0};
  CUresult result =
      wire ? ask_open(module->session, wire, module, 1, &answer) : CUDA_ERROR_OUT_OF_MEMORY;
  const struct wire_ModuleOpen_reply *reply = answer.reply;
  if (!result && reply->state != WIRE_MODULE_LOADED) result = CUDA_ERROR_INVALID_HANDLE;
  answer_free(&answer);
  if (!result) {
    module->wire = wire;
    result = library_share_all(module);
  } else if (wire) {
    handle_retire(WIRE_KIND_MODULE, wire);
    handle_recycle(WIRE_KIND_MODULE, wire);
  }
  session_back(before);
  return result;
}

// Loads what was read, and tells the program's buffers how that went.
static CUresult load_and_free(CUresult read, struct image *image, int library,
                              const struct jit *jit, void *out) {
  if (read) {
    jit_report(jit, (struct jit_text){0}, (struct jit_text){0});
    return read;
  }
  uint64_t handle;
  CUresult result = module_load(image, library, jit, library && sessions_many(), &handle);
  image_free(image);
  if (!result) *(uint64_t *)out = handle;
  return result;
}

// ---- unloading ---------------------------------------------------------------------------------

static CUresult unload(const void *handle) {
  pthread_mutex_lock(&module_lock);
  struct module *module = module_find(handle);
  CUresult result = module ? forget_module(module, 1) : CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_unlock(&module_lock);
  return result;
}

static void forget(uint64_t handle, void *object, void *session) {
  (void)handle;  // one of two that may lead here
  struct module *module = object;
  if (module->session != session) return;
  if (module->context)
    forget_module(module, 0);
  else
    detach_library(module);
}

void module_forget_all(struct session *session) {
  expected_forget(session);
  learnt_forget(session);
  handle_each(session, WIRE_KIND_MODULE, forget, session);
}

static void destroy(uint64_t handle, void *object, void *context) {
  (void)handle;
  struct module *module = object;
  if (module->context == *(uint64_t *)context) forget_module(module, 1);
}

void module_destroy_of(struct session *session, uint64_t context) {
  handle_each(session, WIRE_KIND_MODULE, destroy, &context);
}

// What this program's devices can use. A library is loaded on each that uses it, from one image.
static struct selection usable_here(const struct jit *jit) {
  struct selection selection = {0};
  // The program may choose an architecture itself, and the driver what it makes that of.
  for (unsigned i = 0; i < jit->count; i++)
    if (jit->options[i] == CU_JIT_TARGET) return selection;
  for (int device = 0; device < device_count(); device++)
    selection_add(&selection,
                  device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                  device_attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  return selection;
}

static CUresult load_data(const void *code, int library, const struct jit *jit, void *out) {
  struct image image;
  struct selection usable = usable_here(jit);
  return load_and_free(image_read(code, &usable, &image), &image, library, jit, out);
}

static CUresult load_file(const char *path, int library, const struct jit *jit, void *out) {
  struct image image;
  struct selection usable = usable_here(jit);
  return load_and_free(image_read_file(path, &usable, &image), &image, library, jit, out);
}

// ---- entry points: modules ---------------------------------------------------------------------

static const struct jit no_jit;

CUresult guest_cuModuleLoadData(CUmodule *module, const void *image) {
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  return load_data(image, 0, &no_jit, module);
}

CUresult guest_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                                  CUjit_option *options, void **optionValues) {
  if (!module || (numOptions && (!options || !optionValues))) return CUDA_ERROR_INVALID_VALUE;
  struct jit jit = jit_begin(numOptions, options, optionValues);
  return load_data(image, 0, &jit, module);
}

CUresult guest_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
  return guest_cuModuleLoadData(module, fatCubin);
}

CUresult guest_cuModuleLoad(CUmodule *module, const char *fname) {
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  return load_file(fname, 0, &no_jit, module);
}

CUresult guest_cuModuleUnload(CUmodule hmod) { return unload(hmod); }

CUresult guest_cuModuleGetFunctionCount(unsigned int *count, CUmodule mod) {
  struct module *module = module_find(mod);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = module->kernel_count;
  return CUDA_SUCCESS;
}

// ---- entry points: libraries -------------------------------------------------------------------

CUresult guest_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                                 void **jitOptionsValues, unsigned int numJitOptions,
                                 CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                 unsigned int numLibraryOptions) {
  (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
  if (!library || (numJitOptions && (!jitOptions || !jitOptionsValues)))
    return CUDA_ERROR_INVALID_VALUE;
  struct jit jit = jit_begin(numJitOptions, jitOptions, jitOptionsValues);
  return load_data(code, 1, &jit, library);
}

CUresult guest_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
                                     CUjit_option *jitOptions, void **jitOptionsValues,
                                     unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                     void **libraryOptionValues, unsigned int numLibraryOptions) {
  (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
  if (!library || (numJitOptions && (!jitOptions || !jitOptionsValues)))
    return CUDA_ERROR_INVALID_VALUE;
  struct jit jit = jit_begin(numJitOptions, jitOptions, jitOptionsValues);
  return load_file(fileName, 1, &jit, library);
}

CUresult guest_cuLibraryUnload(CUlibrary library) { return unload(library); }

CUresult guest_cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib) {
  return guest_cuModuleGetFunctionCount(count, (CUmodule)lib);
}

CUresult guest_cuLibraryGetModule(CUmodule *pMod, CUlibrary library) {
  if (!pMod) return CUDA_ERROR_INVALID_VALUE;
  if (!module_find(library)) return CUDA_ERROR_INVALID_HANDLE;
  *pMod = (CUmodule)library;
  return CUDA_SUCCESS;
}
