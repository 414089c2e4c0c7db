#include "module.h"

#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "context.h"
#include "guest_calls.h"
#include "handle.h"
#include "image.h"
#include "log.h"
#include "memory.h"
#include "module_parts.h"
#include "stats.h"

// Images up to this travel with the load; for larger ones the server is asked first whether it has
// them, which costs a round trip more when it has not.
#define SEND_UNASKED_MAX (64u << 10)

pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER;

struct module *module_find(const void *handle) {
  return handle_object(WIRE_KIND_MODULE, handle_of(handle));
}

// ---- images and descriptions -------------------------------------------------------------------

static CUresult send_image(const struct image *image) {
  for (uint64_t offset = 0; offset < image->size; offset += WIRE_BULK_MAX) {
    uint64_t part = image->size - offset < WIRE_BULK_MAX ? image->size - offset : WIRE_BULK_MAX;
    CUresult result =
        put_ModulePiece(image->hash[0], image->hash[1], image->hash[2], image->hash[3], image->size,
                        offset, part, image->bytes + offset);
    if (result) return result;
    stats_add(&guest_stats->image_bytes,
              sizeof(struct wire_ModulePiece) + wire_round_up((uint32_t)part));
  }
  return CUDA_SUCCESS;
}

struct kernel *module_add_kernel(struct module *module, const char *name, uint32_t name_length,
                                 const struct wire_parameter *parameters, uint32_t count) {
  if (module->listed == module->room) {
    uint32_t wanted = module->room ? module->room * 2 : 8;
    struct kernel *grown = realloc(module->kernels, wanted * sizeof *grown);
    if (!grown) return NULL;
    module->kernels = grown;
    module->room = wanted;
  }
  struct kernel *kernel = &module->kernels[module->listed];
  memset(kernel, 0, sizeof *kernel);
  kernel->name = strndup(name, name_length);
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

// The list in a load's answer. False when it makes no sense: every number in it is the server's.
static _Bool read_list(struct module *module, const uint8_t *at, uint64_t size, uint32_t listed) {
  for (uint32_t i = 0; i < listed; i++) {
    struct wire_kernel head;
    if (size < sizeof head) return 0;
    memcpy(&head, at, sizeof head);
    uint64_t layout = (uint64_t)head.parameter_count * sizeof(struct wire_parameter);
    uint64_t whole = sizeof head + layout + (((uint64_t)head.name_length + 7) & ~7ull);
    if (whole > size || head.parameter_bytes > WIRE_FRAME_MAX / 2) return 0;
    const struct wire_parameter *parameters = (const void *)(at + sizeof head);
    for (uint32_t p = 0; p < head.parameter_count; p++)
      if (parameters[p].offset > head.parameter_bytes ||
          parameters[p].size > head.parameter_bytes - parameters[p].offset)
        return 0;
    struct kernel *kernel = module_add_kernel(module, (const char *)at + sizeof head + layout,
                                              head.name_length, parameters, head.parameter_count);
    if (!kernel) return 0;
    kernel->index = head.index;
    kernel->parameter_bytes = head.parameter_bytes;
    at += whole;
    size -= whole;
  }
  return 1;
}

static void free_globals(struct module *module) {
  while (module->globals) {
    struct global *global = module->globals;
    module->globals = global->next;
    memory_remove_variable(global->address);
    free(global->name);
    free(global);
  }
}

static void free_module(struct module *module) {
  for (uint32_t i = 0; i < module->listed; i++) {
    free(module->kernels[i].name);
    free(module->kernels[i].parameters);
  }
  free(module->kernels);
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
    free(function->name);
    free(function->parameters);
    free(function);
  }
  CUresult result = tell && module->wire ? put_ModuleUnload(module->wire) : CUDA_SUCCESS;
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
    function->attributes_known = 0;
  }
  retire_wire(WIRE_KIND_MODULE, module->own, module->wire);
  recycle_wire(WIRE_KIND_MODULE, module->own, module->wire);
  module->wire = 0;
  free_globals(module);
}

// ---- loading -----------------------------------------------------------------------------------

static CUresult ask_load(uint64_t wire, const uint64_t hash[4], uint64_t size, int library,
                         struct answer *answer) {
  answer_init(answer);
  return ask_ModuleLoad(wire, hash[0], hash[1], hash[2], hash[3], size, (uint32_t)library, answer);
}

static CUresult load(const struct image *image, int library, uint64_t *out) {
  struct module *module = calloc(1, sizeof *module);
  if (!module) return CUDA_ERROR_OUT_OF_MEMORY;
  module->context = library ? 0 : context_current_handle();
  memcpy(module->hash, image->hash, sizeof module->hash);
  module->size = image->size;
  uint64_t handle = module->own = handle_mint(WIRE_KIND_MODULE, module);
  if (!handle) {
    free(module);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUresult result = CUDA_SUCCESS;
  if (image->size <= SEND_UNASKED_MAX) result = send_image(image);
  struct answer answer;
  const struct wire_ModuleLoad_reply *reply = NULL;
  if (!result) {
    result = ask_load(handle, image->hash, image->size, library, &answer);
    reply = answer.reply;
    if (!result && reply->state == WIRE_MODULE_WANTED) {
      answer_free(&answer);
      reply = NULL;
      result = send_image(image);
      if (!result) {
        result = ask_load(handle, image->hash, image->size, library, &answer);
        reply = answer.reply;
      }
    }
  }
  if (!result) {
    uint64_t room = reply->reply.header.size - sizeof *reply;
    if (reply->state != WIRE_MODULE_LOADED || reply->list_size > room ||
        !read_list(module, (const uint8_t *)(reply + 1), reply->list_size, reply->listed)) {
      log_error("the server's description of a module makes no sense");
      result = CUDA_ERROR_UNKNOWN;
    }
    module->kernel_count = reply->kernels;
  }
  // An earlier command's error, or a description without sense, may stand beside a module that the
  // server did load.
  if (reply && !answer.result && reply->state == WIRE_MODULE_LOADED) module->wire = handle;
  if (reply) answer_free(&answer);
  if (result) {
    forget_module(module, 1);
    return result;
  }
  *out = handle;
  return CUDA_SUCCESS;
}

CUresult module_revive(struct module *module) {
  if (module->wire) return CUDA_SUCCESS;
  uint64_t wire = handle_mint(WIRE_KIND_MODULE, module);
  if (!wire) return CUDA_ERROR_OUT_OF_MEMORY;
  struct answer answer;
  CUresult result = ask_load(wire, module->hash, module->size, 1, &answer);
  const struct wire_ModuleLoad_reply *reply = answer.reply;
  if (!result && reply->state != WIRE_MODULE_LOADED) result = CUDA_ERROR_INVALID_HANDLE;
  answer_free(&answer);
  if (result) {
    handle_retire(WIRE_KIND_MODULE, wire);
    handle_recycle(WIRE_KIND_MODULE, wire);
  } else {
    module->wire = wire;
  }
  return result;
}

static CUresult load_and_free(CUresult read, struct image *image, int library, void *out) {
  if (read) return read;
  uint64_t handle;
  CUresult result = load(image, library, &handle);
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

static void forget(uint64_t handle, void *object, void *context) {
  (void)handle;  // one of two that may lead here
  struct module *module = object;
  uint64_t only = context ? *(uint64_t *)context : 0;
  if (only && module->context != only) return;
  if (only || module->context)
    forget_module(module, only != 0);
  else
    detach_library(module);
}

void module_forget_all(void) { handle_each(WIRE_KIND_MODULE, forget, NULL); }
void module_destroy_of(uint64_t context) { handle_each(WIRE_KIND_MODULE, forget, &context); }

// ---- entry points: modules ---------------------------------------------------------------------

CUresult guest_cuModuleLoadData(CUmodule *module, const void *image) {
  struct image read;
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  return load_and_free(image_read(image, &read), &read, 0, module);
}

// The server compiles; its messages are in the server's log, so the program's buffers stay empty.
static void empty_jit_logs(unsigned count, CUjit_option *options, void **values) {
  for (unsigned i = 0; i < count; i++) {
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
      case CU_JIT_ERROR_LOG_BUFFER:
        if (values[i]) *(char *)values[i] = 0;
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        values[i] = NULL;  // the option's value becomes the bytes written
        break;
      default:
        break;
    }
  }
}

CUresult guest_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                                  CUjit_option *options, void **optionValues) {
  if (numOptions && (!options || !optionValues)) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = guest_cuModuleLoadData(module, image);
  empty_jit_logs(numOptions, options, optionValues);
  return result;
}

CUresult guest_cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
  return guest_cuModuleLoadData(module, fatCubin);
}

CUresult guest_cuModuleLoad(CUmodule *module, const char *fname) {
  struct image read;
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  return load_and_free(image_read_file(fname, &read), &read, 0, module);
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
  struct image read;
  if (!library || (numJitOptions && (!jitOptions || !jitOptionsValues)))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = load_and_free(image_read(code, &read), &read, 1, library);
  empty_jit_logs(numJitOptions, jitOptions, jitOptionsValues);
  return result;
}

CUresult guest_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
                                     CUjit_option *jitOptions, void **jitOptionsValues,
                                     unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                     void **libraryOptionValues, unsigned int numLibraryOptions) {
  (void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
  struct image read;
  if (!library || (numJitOptions && (!jitOptions || !jitOptionsValues)))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = load_and_free(image_read_file(fileName, &read), &read, 1, library);
  empty_jit_logs(numJitOptions, jitOptions, jitOptionsValues);
  return result;
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
