#include "module.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "context.h"
#include "guest_calls.h"
#include "handle.h"
#include "image.h"
#include "log.h"
#include "memory.h"

// Images up to this travel with the load; for larger ones the server is asked first whether it has
// them, which costs a round trip more when it has not.
#define SEND_UNASKED_MAX (64u << 10)

struct kernel {
  char *name;
  uint32_t index;  // the server's number for it
  uint32_t parameter_count, parameter_bytes;
  struct wire_parameter *parameters;
  uint64_t function;  // handle, once somebody asked for it; 0 before
};

struct global {
  char *name;
  uint64_t address, size;
  struct global *next;
};

struct module {
  uint64_t context;       // 0 for libraries, which belong to none
  uint32_t kernel_count;  // on the server
  uint32_t listed, room;
  struct kernel *kernels;
  struct global *globals;
};

// Guards the lists inside modules: loads and look-ups are rare.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct module *find_module(const void *handle) {
  return handle_object(WIRE_KIND_MODULE, handle_of(handle));
}

struct function *function_find(const void *handle) {
  return handle_object(WIRE_KIND_FUNCTION, handle_of(handle));
}

// ---- loading -----------------------------------------------------------------------------------

static CUresult send_image(const struct image *image) {
  for (uint64_t offset = 0; offset < image->size; offset += WIRE_BULK_MAX) {
    uint64_t part = image->size - offset < WIRE_BULK_MAX ? image->size - offset : WIRE_BULK_MAX;
    CUresult result =
        put_ModulePiece(image->hash[0], image->hash[1], image->hash[2], image->hash[3], image->size,
                        offset, part, image->bytes + offset);
    if (result) return result;
  }
  return CUDA_SUCCESS;
}

static struct kernel *add_kernel(struct module *module, const char *name, uint32_t name_length,
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
    struct kernel *kernel = add_kernel(module, (const char *)at + sizeof head + layout,
                                       head.name_length, parameters, head.parameter_count);
    if (!kernel) return 0;
    kernel->index = head.index;
    kernel->parameter_bytes = head.parameter_bytes;
    at += whole;
    size -= whole;
  }
  return 1;
}

static void free_module(struct module *module) {
  for (uint32_t i = 0; i < module->listed; i++) {
    free(module->kernels[i].name);
    free(module->kernels[i].parameters);
  }
  free(module->kernels);
  while (module->globals) {
    struct global *global = module->globals;
    module->globals = global->next;
    free(global->name);
    free(global);
  }
  free(module);
}

// Ends the module, its functions and their handles. `tell`: the server has it.
static CUresult forget_module(uint64_t handle, struct module *module, _Bool tell) {
  handle_retire(WIRE_KIND_MODULE, handle);
  for (uint32_t i = 0; i < module->listed; i++) {
    if (!module->kernels[i].function) continue;
    struct function *function = handle_retire(WIRE_KIND_FUNCTION, module->kernels[i].function);
    free(function->name);
    free(function->parameters);
    free(function);
  }
  for (struct global *g = module->globals; g; g = g->next) memory_remove_variable(g->address);
  CUresult result = tell ? put_ModuleUnload(handle) : CUDA_SUCCESS;
  for (uint32_t i = 0; i < module->listed; i++)
    if (module->kernels[i].function)
      handle_recycle(WIRE_KIND_FUNCTION, module->kernels[i].function);
  handle_recycle(WIRE_KIND_MODULE, handle);
  free_module(module);
  return result;
}

static CUresult ask_load(uint64_t handle, const struct image *image, int library,
                         struct answer *answer) {
  answer_init(answer);
  return ask_ModuleLoad(handle, image->hash[0], image->hash[1], image->hash[2], image->hash[3],
                        image->size, (uint32_t)library, answer);
}

static CUresult load(const struct image *image, int library, uint64_t *out) {
  struct module *module = calloc(1, sizeof *module);
  if (!module) return CUDA_ERROR_OUT_OF_MEMORY;
  module->context = library ? 0 : context_current_handle();
  uint64_t handle = handle_mint(WIRE_KIND_MODULE, module);
  if (!handle) {
    free(module);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUresult result = CUDA_SUCCESS;
  if (image->size <= SEND_UNASKED_MAX) result = send_image(image);
  struct answer answer;
  const struct wire_ModuleLoad_reply *reply = NULL;
  if (!result) {
    result = ask_load(handle, image, library, &answer);
    reply = answer.reply;
    if (!result && reply->state == WIRE_MODULE_WANTED) {
      answer_free(&answer);
      reply = NULL;
      result = send_image(image);
      if (!result) {
        result = ask_load(handle, image, library, &answer);
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
  _Bool loaded = reply && !answer.result && reply->state == WIRE_MODULE_LOADED;
  if (reply) answer_free(&answer);
  if (result) {
    forget_module(handle, module, loaded);
    return result;
  }
  *out = handle;
  return CUDA_SUCCESS;
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
  pthread_mutex_lock(&lock);
  struct module *module = find_module(handle);
  CUresult result =
      module ? forget_module(handle_of(handle), module, 1) : CUDA_ERROR_INVALID_HANDLE;
  pthread_mutex_unlock(&lock);
  return result;
}

static void forget(uint64_t handle, void *object, void *context) {
  struct module *module = object;
  uint64_t only = context ? *(uint64_t *)context : 0;
  if (!only || module->context == only) forget_module(handle, module, only != 0);
}

void module_forget_all(void) { handle_each(WIRE_KIND_MODULE, forget, NULL); }
void module_destroy_of(uint64_t context) { handle_each(WIRE_KIND_MODULE, forget, &context); }

// ---- look-ups ----------------------------------------------------------------------------------

// For modules with more kernels than a load's answer lists.
static struct kernel *find_remote(uint64_t handle, struct module *module, const char *name,
                                  CUresult *result) {
  struct answer answer;
  answer_init(&answer);
  *result = ask_FunctionFind(handle, name, (uint32_t)strlen(name), &answer);
  struct kernel *kernel = NULL;
  if (!*result) {
    const struct wire_FunctionFind_reply *reply = answer.reply;
    uint64_t room = reply->reply.header.size - sizeof *reply;
    const struct wire_parameter *parameters = (const void *)(reply + 1);
    uint32_t count = reply->layout_size / sizeof *parameters;
    _Bool sound = reply->layout_size <= room && reply->parameter_bytes <= WIRE_FRAME_MAX / 2;
    for (uint32_t p = 0; sound && p < count; p++)
      sound = parameters[p].offset <= reply->parameter_bytes &&
              parameters[p].size <= reply->parameter_bytes - parameters[p].offset;
    if (sound) kernel = add_kernel(module, name, (uint32_t)strlen(name), parameters, count);
    if (kernel) {
      kernel->index = reply->kernel;
      kernel->parameter_bytes = reply->parameter_bytes;
    } else {
      *result = sound ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
    }
  }
  answer_free(&answer);
  return kernel;
}

static CUresult bind(uint64_t handle, struct kernel *kernel) {
  struct function *function = calloc(1, sizeof *function);
  size_t layout = sizeof *kernel->parameters * kernel->parameter_count;
  if (function) {
    function->name = strdup(kernel->name);
    function->parameters = malloc(layout ? layout : 1);
  }
  if (!function || !function->name || !function->parameters ||
      !(kernel->function = handle_mint(WIRE_KIND_FUNCTION, function))) {
    if (function) {
      free(function->name);
      free(function->parameters);
    }
    free(function);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  function->module = handle;
  memcpy(function->parameters, kernel->parameters, layout);
  function->parameter_count = kernel->parameter_count;
  function->parameter_bytes = kernel->parameter_bytes;
  return put_FunctionGet(handle, kernel->function, kernel->index, kernel->name,
                         (uint32_t)strlen(kernel->name));
}

static CUresult get_function(void *out, const void *handle, const char *name) {
  if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
  if (strlen(name) > WIRE_FRAME_MAX / 2) return CUDA_ERROR_NOT_FOUND;
  CUresult result = CUDA_ERROR_NOT_FOUND;
  pthread_mutex_lock(&lock);
  struct module *module = find_module(handle);
  struct kernel *kernel = NULL;
  if (!module) {
    result = CUDA_ERROR_INVALID_HANDLE;
  } else {
    for (uint32_t i = 0; i < module->listed && !kernel; i++)
      if (strcmp(module->kernels[i].name, name) == 0) kernel = &module->kernels[i];
    if (!kernel && module->listed < module->kernel_count)
      kernel = find_remote(handle_of(handle), module, name, &result);
  }
  if (kernel) {
    result = kernel->function ? CUDA_SUCCESS : bind(handle_of(handle), kernel);
    if (!result) *(uint64_t *)out = kernel->function;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

static CUresult get_global(CUdeviceptr *dptr, size_t *bytes, const void *handle, const char *name) {
  if (!name || (!dptr && !bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (strlen(name) > WIRE_FRAME_MAX / 2) return CUDA_ERROR_NOT_FOUND;
  pthread_mutex_lock(&lock);
  struct module *module = find_module(handle);
  CUresult result = module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  struct global *global = module ? module->globals : NULL;
  while (global && strcmp(global->name, name) != 0) global = global->next;
  if (!result && !global) {
    struct answer answer;
    answer_init(&answer);
    result = ask_ModuleGlobal(handle_of(handle), name, (uint32_t)strlen(name), &answer);
    global = result ? NULL : calloc(1, sizeof *global);
    if (global && (global->name = strdup(name))) {
      const struct wire_ModuleGlobal_reply *reply = answer.reply;
      global->address = reply->address;
      global->size = reply->size;
      global->next = module->globals;
      module->globals = global;
      memory_add_variable(global->address, global->size);
    } else if (!result) {
      free(global);
      global = NULL;
      result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    answer_free(&answer);
  }
  if (global) {
    if (dptr) *dptr = global->address;
    if (bytes) *bytes = global->size;
  }
  pthread_mutex_unlock(&lock);
  return result;
}

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

CUresult guest_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name) {
  return get_function(hfunc, hmod, name);
}

CUresult guest_cuModuleGetFunctionCount(unsigned int *count, CUmodule mod) {
  struct module *module = find_module(mod);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = module->kernel_count;
  return CUDA_SUCCESS;
}

CUresult guest_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
                                    const char *name) {
  return get_global(dptr, bytes, hmod, name);
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

CUresult guest_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name) {
  return get_function(pKernel, library, name);
}

CUresult guest_cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib) {
  return guest_cuModuleGetFunctionCount(count, (CUmodule)lib);
}

CUresult guest_cuLibraryGetModule(CUmodule *pMod, CUlibrary library) {
  if (!pMod) return CUDA_ERROR_INVALID_VALUE;
  if (!find_module(library)) return CUDA_ERROR_INVALID_HANDLE;
  *pMod = (CUmodule)library;
  return CUDA_SUCCESS;
}

CUresult guest_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                                  const char *name) {
  return get_global(dptr, bytes, library, name);
}

CUresult guest_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                                   const char *name) {
  return get_global(dptr, bytes, library, name);
}
