// Modules and kernels: how images travel, and what a server's description of them may be.
#include "kernels/module.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "guest_calls.h"
#include "images/image.h"
#include "images/image_sending.h"
#include "kernels/expected.h"
#include "log_capture.h"
#include "memory/memory_range.h"
#include "session.h"

#define MIB (1ull << 20)

static const char ptx[] = ".version 8.0\n.target sm_52\n.address_size 64\n";

// ---- the server's side: what it answers next ---------------------------------------------------

static uint32_t state_answer = WIRE_MODULE_LOADED;
static int wanted_times;  // answers WANTED that often first
static int32_t load_result, load_async;
static uint32_t kernels_answer, listed_answer, list_size_answer;
static uint8_t list[4096];
static uint32_t list_size;
static _Bool lie;  // list_size_answer instead of the true size

static uint8_t *received;  // the image in pieces
static uint64_t received_bytes;
static struct wire_FunctionGet last_bind;
static char last_bind_name[64];
static struct wire_Launch last_launch;
static uint8_t last_parameters[256];
static struct wire_ModuleTake last_take;
static uint64_t unloaded;
static uint32_t find_bytes = 8, find_layout = 8;

static void add_kernel(const char *name, uint32_t index, uint32_t bytes, uint32_t count,
                       const struct wire_parameter *parameters) {
  struct wire_kernel head = {(uint32_t)strlen(name), count, bytes, index};
  memcpy(list + list_size, &head, sizeof head);
  list_size += sizeof head;
  if (count) memcpy(list + list_size, parameters, count * sizeof *parameters);
  list_size += (uint32_t)(count * sizeof *parameters);
  memcpy(list + list_size, name, strlen(name));
  list_size = wire_round_up(list_size + (uint32_t)strlen(name));
  listed_answer++;
  kernels_answer++;
}

static void add_variable(const char *name, uint64_t address, uint64_t size) {
  struct wire_variable head = {address, size, 0, (uint32_t)strlen(name)};
  memcpy(list + list_size, &head, sizeof head);
  memcpy(list + list_size + sizeof head, name, strlen(name));
  list_size += sizeof head + wire_round_up((uint32_t)strlen(name));
}

static void answer_open(struct server *server, const struct wire_ModuleOpen *q) {
  if (load_result) {
    server_reply(server, q->request.request, load_result, load_async);
    return;
  }
  struct {
    struct wire_ModuleOpen_reply reply;
    uint8_t list[sizeof list];
  } answer = {0};
  answer.reply.reply.request = q->request.request;
  answer.reply.reply.async = load_async;
  answer.reply.state = wanted_times ? WIRE_MODULE_WANTED : state_answer;
  if (wanted_times) wanted_times--;
  answer.reply.kernels = kernels_answer;
  answer.reply.listed = listed_answer;
  answer.reply.list_size = lie ? list_size_answer : list_size;
  memcpy(answer.list, list, list_size);
  answer.reply.reply.header = (struct wire_header){
      WIRE_REPLY, 0, (uint32_t)(sizeof answer.reply + wire_round_up(list_size))};
  server_send(server, &answer, answer.reply.reply.header.size);
}

static _Bool serve(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  switch (h->op) {
    case WIRE_ModulePiece: {
      const struct wire_ModulePiece *q = (const void *)h;
      CHECK(q->length <= WIRE_BULK_MAX && q->offset + q->length <= q->total);
      if (!received) received = malloc(q->total);
      memcpy(received + q->offset, q + 1, q->length);
      received_bytes += q->length;
      return 1;
    }
    case WIRE_ModuleOpen:
      answer_open(server, (const void *)h);
      return 1;
    case WIRE_ModuleTake:
      last_take = *(const struct wire_ModuleTake *)h;
      return 1;
    case WIRE_ModuleUnload:
      unloaded = ((const struct wire_ModuleUnload *)h)->module;
      return 1;
    case WIRE_FunctionGet:
      last_bind = *(const struct wire_FunctionGet *)h;
      memset(last_bind_name, 0, sizeof last_bind_name);
      memcpy(last_bind_name, (const struct wire_FunctionGet *)h + 1, last_bind.name_size);
      return 1;
    case WIRE_FunctionFind: {
      const struct wire_FunctionFind *q = (const void *)h;
      if (memcmp(q + 1, "hidden", 6) != 0) {
        server_reply(server, q->request.request, CUDA_ERROR_NOT_FOUND, 0);
        return 1;
      }
      struct {
        struct wire_FunctionFind_reply reply;
        struct wire_parameter parameter;
      } answer = {.parameter = {0, 8}};
      answer.reply.reply.header = (struct wire_header){WIRE_REPLY, 0, sizeof answer};
      answer.reply.reply.request = q->request.request;
      answer.reply.kernel = 77;
      answer.reply.parameter_bytes = find_bytes;
      answer.reply.layout_size = find_layout;
      server_send(server, &answer, sizeof answer);
      return 1;
    }
    case WIRE_ModuleGlobal: {
      const struct wire_ModuleGlobal *q = (const void *)h;
      if (memcmp(q + 1, "variable", 8) != 0) {
        server_reply(server, q->request.request, CUDA_ERROR_NOT_FOUND, 0);
        return 1;
      }
      struct wire_ModuleGlobal_reply answer = {.address = 0x7f0000001000, .size = 40};
      answer.reply.header = (struct wire_header){WIRE_REPLY, 0, sizeof answer};
      answer.reply.request = q->request.request;
      server_send(server, &answer, sizeof answer);
      return 1;
    }
    case WIRE_Launch:
      last_launch = *(const struct wire_Launch *)h;
      CHECK(last_launch.parameters_size <= sizeof last_parameters);
      memcpy(last_parameters, (const struct wire_Launch *)h + 1, last_launch.parameters_size);
      return 1;
    default:
      return 0;
  }
}

static struct server *start(void) {
  static const struct wire_parameter parameters[] = {{0, 8}, {8, 4}, {16, 8}};
  add_kernel("first", 3, 24, 3, parameters);
  add_kernel("second", 4, 0, 0, parameters);
  return session_start(64 * MIB, (struct server_hook){serve, NULL});
}

static CUmodule load(void) {
  CUmodule module;
  assert_int_equal(cuModuleLoadData(&module, ptx), CUDA_SUCCESS);
  return module;
}

static CUfunction function_of(CUmodule module, const char *name) {
  CUfunction function;
  assert_int_equal(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
  return function;
}

// ---- what the server loads unasked
// ---------------------------------------------------------------

// The Welcome told of the PTX above.
static struct server *start_expecting(void) {
  struct server *server = start();
  struct image image;
  assert_int_equal(image_read(ptx, NULL, &image), CUDA_SUCCESS);
  static outboard_Welcome welcome;
  welcome.expected_count = 2;
  for (int i = 0; i < 2; i++) {
    outboard_ExpectedModule *one = &welcome.expected[i];
    one->hash.size = sizeof image.hash;
    memcpy(one->hash.bytes, image.hash, sizeof image.hash);
    // Another image first.
    one->hash.bytes[0] ^= (uint8_t)(i == 0);
    one->size = image.size;
  }
  image_free(&image);
  assert_true(expected_told(session_here(), &welcome));
  expected_start(session_here());
  return server;
}

static void tell(struct server *server, uint64_t request, uint32_t size) {
  struct wire_ModuleOpen ask = {.request.request = request};
  if (!size) return answer_open(server, &ask);
  struct wire_ModuleOpen_reply reply = {.state = WIRE_MODULE_LOADED};
  reply.reply.header = (struct wire_header){WIRE_REPLY, 0, size};
  reply.reply.request = request;
  server_send(server, &reply, size);
}

static void an_expected_module_is_taken(void **state) {
  (void)state;
  struct server *server = start_expecting();
  tell(server, WIRE_EXPECTED, 0);
  tell(server, WIRE_EXPECTED + 1, 0);
  CUmodule module = load();
  function_of(module, "second");
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_ModulePiece), 0);
  assert_int_equal(server_count(server, WIRE_ModuleOpen), 0);
  assert_int_equal(last_take.module, (uint64_t)(uintptr_t)module);
  assert_int_equal(last_take.index, 1);
  assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
  // Once.
  load();
  assert_int_equal(server_count(server, WIRE_ModuleOpen), 1);
}

static void what_could_not_be_loaded_is_asked_for(void **state) {
  (void)state;
  struct server *server = start_expecting();
  state_answer = WIRE_MODULE_WANTED;
  tell(server, WIRE_EXPECTED + 1, 0);
  state_answer = WIRE_MODULE_LOADED;
  load();
  assert_int_equal(server_count(server, WIRE_ModuleTake), 0);
  assert_int_equal(server_count(server, WIRE_ModuleOpen), 1);
  // The other answer comes late, and nobody minds.
  tell(server, WIRE_EXPECTED, 0);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}

static void an_answer_too_short_to_be_one(void **state) {
  (void)state;
  struct server *server = start_expecting();
  tell(server, WIRE_EXPECTED + 1, sizeof(struct wire_reply));
  load();
  assert_int_equal(server_count(server, WIRE_ModuleTake), 0);
  assert_int_equal(server_count(server, WIRE_ModuleOpen), 1);
}

static void a_reset_forgets_what_is_expected(void **state) {
  (void)state;
  struct server *server = start_expecting();
  tell(server, WIRE_EXPECTED + 1, 0);
  expected_forget(session_here());
  load();
  assert_int_equal(server_count(server, WIRE_ModuleTake), 0);
  assert_int_equal(server_count(server, WIRE_ModuleOpen), 1);
}

// ---- loading -----------------------------------------------------------------------------------

static void small_images_travel_with_the_load(void **state) {
  (void)state;
  struct server *server = start();
  load();
  assert_int_equal(server_count(server, WIRE_ModulePiece), 1);
  assert_int_equal(server_count(server, WIRE_ModuleOpen), 1);
  struct image image;
  assert_int_equal(image_read(ptx, NULL, &image), CUDA_SUCCESS);
  assert_int_equal(received_bytes, image.size);
  assert_memory_equal(received, image.bytes, image.size);
  image_free(&image);
}

static void large_images_travel_when_they_are_wanted(void **state) {
  (void)state;
  struct server *server = start();
  const size_t size = 3 * MIB + 5;
  char *text = malloc(size + 1);
  memset(text, ' ', size);
  memcpy(text, ptx, strlen(ptx));
  text[size] = 0;
  CUmodule module;
  assert_int_equal(cuModuleLoadData(&module, text), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_ModulePiece), 0);
  wanted_times = 1;
  assert_int_equal(cuModuleLoadData(&module, text), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_ModulePiece), 4);
  assert_int_equal(server_count(server, WIRE_ModuleOpen), 3);
  assert_memory_equal(received + sizeof(struct wire_image_part), text, size + 1);
  free(text);
  free(received);
}

static void a_server_that_wants_it_for_ever(void **state) {
  (void)state;
  struct server *server = start();
  wanted_times = 1000;
  CUmodule module;
  assert_int_equal(cuModuleLoadData(&module, ptx), CUDA_ERROR_UNKNOWN);
  assert_int_equal(server_count(server, WIRE_ModuleOpen), 2);
}

static void errors_pass_through(void **state) {
  (void)state;
  struct server *server = start();
  static const int32_t errors[] = {CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_PTX,
                                   CUDA_ERROR_INVALID_IMAGE};
  CUmodule module = (CUmodule)0x5555;
  for (int i = 0; i < 3; i++) {
    load_result = errors[i];
    assert_int_equal(cuModuleLoadData(&module, ptx), errors[i]);
    assert_ptr_equal(module, (CUmodule)0x5555);
  }
  assert_int_equal(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuModuleLoadData(NULL, ptx), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuModuleLoadData(&module, "\1\2\3\4"), CUDA_ERROR_INVALID_IMAGE);
  assert_int_equal(cuModuleLoad(&module, "/no/such/file"), CUDA_ERROR_FILE_NOT_FOUND);
  assert_int_equal(server_count(server, WIRE_ModuleUnload), 0);
}

// The load itself went well, but the program is told of something else: the server must not keep a
// module under a handle that is free again here.
static void an_earlier_error_beside_a_load(void **state) {
  (void)state;
  struct server *server = start();
  load_async = CUDA_ERROR_NOT_PERMITTED;
  CUmodule module;
  assert_int_equal(cuModuleLoadData(&module, ptx), CUDA_ERROR_NOT_PERMITTED);
  load_async = 0;
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_ModuleUnload), 1);
  load();
}

struct lie {
  const char *what;
  uint32_t listed, list_size, name_length, count, bytes, offset, size;
};

// Every number in a description is the server's, and none is trusted.
static void descriptions_without_sense(void **state) {
  (void)state;
  static const struct lie lies[] = {
      {"more kernels than described", 2, 32, 5, 1, 8, 0, 8},
      {"very many kernels", UINT32_MAX, 32, 5, 1, 8, 0, 8},
      {"a list longer than its frame", 1, 4096, 5, 1, 8, 0, 8},
      {"a list of the largest size", 1, UINT32_MAX, 5, 1, 8, 0, 8},
      {"a name longer than the list", 1, 32, 9, 1, 8, 0, 8},
      {"a name of the largest length", 1, 32, UINT32_MAX, 1, 8, 0, 8},
      {"more parameters than described", 1, 32, 5, 2, 8, 0, 8},
      {"very many parameters", 1, 32, 5, UINT32_MAX, 8, 0, 8},
      {"a parameter past the end", 1, 32, 5, 1, 8, 4, 8},
      {"a parameter that begins past the end", 1, 32, 5, 1, 8, 9, 0},
      {"a parameter whose end wraps", 1, 32, 5, 1, 8, UINT32_MAX, 8},
      {"parameters larger than a frame", 1, 32, 5, 1, UINT32_MAX, 0, 8},
      {"a list cut short", 1, 15, 5, 1, 8, 0, 8},
  };
  struct server *server = session_start(64 * MIB, (struct server_hook){serve, NULL});
  log_capture("error");
  lie = 1;
  for (unsigned i = 0; i < sizeof lies / sizeof *lies; i++) {
    const struct lie *l = &lies[i];
    list_size = 0;
    add_kernel("cheat", 1, 8, 1, &(struct wire_parameter){l->offset, l->size});
    struct wire_kernel head = {l->name_length, l->count, l->bytes, 1};
    memcpy(list, &head, sizeof head);
    listed_answer = kernels_answer = l->listed;
    list_size_answer = l->list_size;
    CUmodule module;
    CUresult result = cuModuleLoadData(&module, ptx);
    if (result != CUDA_ERROR_UNKNOWN) fail_msg("%s: %d", l->what, (int)result);
    assert_non_null(strstr(log_captured(), "description of a module makes no sense"));
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(server_count(server, WIRE_ModuleUnload), i + 1);
  }
}

// ---- kernels -----------------------------------------------------------------------------------

static void kernels_are_found_in_the_list(void **state) {
  (void)state;
  struct server *server = start();
  CUmodule module = load();
  CUfunction function = function_of(module, "first");
  assert_ptr_equal(function_of(module, "first"), function);
  unsigned count;
  assert_int_equal(cuModuleGetFunctionCount(&count, module), CUDA_SUCCESS);
  assert_int_equal(count, 2);
  CUfunction none;
  assert_int_equal(cuModuleGetFunction(&none, module, "third"), CUDA_ERROR_NOT_FOUND);
  assert_int_equal(cuModuleGetFunction(&none, module, "firs"), CUDA_ERROR_NOT_FOUND);
  assert_int_equal(cuModuleGetFunction(&none, (CUmodule)function, "first"),
                   CUDA_ERROR_INVALID_HANDLE);
  const char *name;
  CUmodule back;
  size_t offset, size;
  assert_int_equal(cuFuncGetName(&name, function), CUDA_SUCCESS);
  assert_string_equal(name, "first");
  assert_int_equal(cuFuncGetModule(&back, function), CUDA_SUCCESS);
  assert_ptr_equal(back, module);
  assert_int_equal(cuFuncGetParamInfo(function, 2, &offset, &size), CUDA_SUCCESS);
  assert_int_equal(offset, 16);
  assert_int_equal(size, 8);
  assert_int_equal(cuFuncGetParamInfo(function, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_FunctionGet), 1);
  assert_int_equal(server_count(server, WIRE_FunctionFind), 0);
  assert_int_equal(last_bind.module, (uint64_t)(uintptr_t)module);
  assert_int_equal(last_bind.function, (uint64_t)(uintptr_t)function);
  assert_int_equal(last_bind.kernel, 3);
  assert_string_equal(last_bind_name, "first");
}

static void kernels_are_enumerated(void **state) {
  (void)state;
  struct server *server = session_start(64 * MIB, (struct server_hook){serve, NULL});
  add_kernel("first", 0, 0, 0, NULL);
  add_kernel("second", 1, 0, 0, NULL);
  CUmodule module = load();
  CUfunction functions[3] = {0}, second = function_of(module, "second");
  assert_int_equal(cuModuleEnumerateFunctions(functions, 1, module), CUDA_SUCCESS);
  assert_null(functions[1]);
  assert_int_equal(cuModuleEnumerateFunctions(functions, 3, module), CUDA_SUCCESS);
  assert_ptr_equal(functions[0], function_of(module, "first"));
  assert_ptr_equal(functions[1], second);
  assert_null(functions[2]);
  assert_int_equal(cuModuleEnumerateFunctions(NULL, 3, module), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuModuleEnumerateFunctions(functions, 0, module), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuModuleEnumerateFunctions(functions, 1, NULL), CUDA_ERROR_INVALID_HANDLE);
  CUlibrary library;
  CUkernel kernels[2];
  assert_int_equal(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
  assert_int_equal(cuLibraryEnumerateKernels(kernels, 2, library), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_FunctionFind), 0);
  // More than the server lists.
  kernels_answer = 500;
  module = load();
  assert_int_equal(cuModuleEnumerateFunctions(functions, 2, module), CUDA_SUCCESS);
  assert_int_equal(cuModuleEnumerateFunctions(functions, 3, module), CUDA_ERROR_NOT_SUPPORTED);
}

static void kernels_beyond_the_list_are_asked_for(void **state) {
  (void)state;
  struct server *server = start();
  kernels_answer = 500;
  CUmodule module = load();
  CUfunction function = function_of(module, "hidden"), none;
  size_t offset, size;
  assert_int_equal(cuFuncGetParamInfo(function, 0, &offset, &size), CUDA_SUCCESS);
  assert_int_equal(size, 8);
  assert_ptr_equal(function_of(module, "hidden"), function);
  assert_int_equal(server_count(server, WIRE_FunctionFind), 1);
  assert_int_equal(cuModuleGetFunction(&none, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  // Answers without sense.
  find_layout = 4096;
  assert_int_equal(cuModuleGetFunction(&none, module, "hidden2"), CUDA_ERROR_UNKNOWN);
  find_layout = 8;
  find_bytes = 7;
  assert_int_equal(cuModuleGetFunction(&none, module, "hidden2"), CUDA_ERROR_UNKNOWN);
  find_bytes = UINT32_MAX;
  assert_int_equal(cuModuleGetFunction(&none, module, "hidden2"), CUDA_ERROR_UNKNOWN);
}

static void launches_are_packed(void **state) {
  (void)state;
  struct server *server = start();
  CUmodule module = load();
  CUfunction first = function_of(module, "first"), second = function_of(module, "second");
  uint64_t a = 0x1111111111111111, c = 0x3333333333333333;
  uint32_t b = 0x22222222;
  void *parameters[] = {&a, &b, &c};
  assert_int_equal(cuLaunchKernel(first, 4, 5, 6, 7, 8, 9, 100, NULL, parameters, NULL),
                   CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  const struct wire_Launch *q = &last_launch;
  assert_int_equal(q->function, (uint64_t)(uintptr_t)first);
  assert_int_equal(q->grid_x * 100 + q->grid_y * 10 + q->grid_z, 456);
  assert_int_equal(q->block_x * 100 + q->block_y * 10 + q->block_z, 789);
  assert_int_equal(q->shared, 100);
  assert_int_equal(q->cooperative, 0);
  assert_int_equal(q->parameters_size, 24);
  struct {
    uint64_t a;
    uint32_t b, pad;
    uint64_t c;
  } packed = {a, b, 0, c};
  assert_memory_equal(last_parameters, &packed, 24);

  // In one buffer, as long as the kernel's parameters or longer.
  for (size_t size = 24; size <= 28; size += 4) {
    uint8_t buffer[32];
    memset(buffer, 9, sizeof buffer);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    assert_int_equal(cuLaunchKernel(first, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra), CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(last_launch.parameters_size, 24);
    assert_int_equal(last_parameters[19], 9);
    assert_int_equal(last_parameters[23], 9);
    assert_int_equal(cuLaunchKernel(first, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, extra),
                     CUDA_ERROR_INVALID_VALUE);
  }
  assert_int_equal(cuLaunchKernel(second, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_SUCCESS);

  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  uint64_t launched = server_count(server, WIRE_Launch);
  void *missing[] = {&a, NULL, &c};
  void *odd[] = {(void *)7, NULL, CU_LAUNCH_PARAM_END};
  uint8_t buffer[32] = {0};
  size_t short_size = 20;
  void *endless[] = {CU_LAUNCH_PARAM_END};
  void *too_short[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
                       &short_size, CU_LAUNCH_PARAM_END};
  const struct {
    CUresult expected;
    CUfunction function;
    unsigned shape[6], shared;
    void **parameters, **extra;
  } bad[] = {
      {CUDA_ERROR_INVALID_VALUE, first, {0, 1, 1, 1, 1, 1}, 0, parameters, NULL},
      {CUDA_ERROR_INVALID_VALUE, first, {1, 1, 1, 1, 1, 0}, 0, parameters, NULL},
      {CUDA_ERROR_INVALID_VALUE, first, {65536, 1, 1, 1, 1, 1}, 0, parameters, NULL},
      {CUDA_ERROR_INVALID_VALUE, first, {1, 1, 1, 1025, 1, 1}, 0, parameters, NULL},
      {CUDA_ERROR_INVALID_VALUE, first, {1, 1, 1, 64, 64, 1}, 0, parameters, NULL},
      {CUDA_ERROR_INVALID_VALUE, first, {1, 1, 1, 1, 1, 1}, 49153, parameters, NULL},
      {CUDA_ERROR_INVALID_VALUE, first, {1, 1, 1, 1, 1, 1}, 0, NULL, NULL},
      {CUDA_ERROR_INVALID_VALUE, first, {1, 1, 1, 1, 1, 1}, 0, missing, NULL},
      {CUDA_ERROR_INVALID_VALUE, first, {1, 1, 1, 1, 1, 1}, 0, NULL, odd},
      {CUDA_ERROR_INVALID_VALUE, first, {1, 1, 1, 1, 1, 1}, 0, NULL, endless},
      {CUDA_ERROR_INVALID_VALUE, first, {1, 1, 1, 1, 1, 1}, 0, NULL, too_short},
      {CUDA_ERROR_INVALID_HANDLE, NULL, {1, 1, 1, 1, 1, 1}, 0, parameters, NULL},
      {CUDA_ERROR_INVALID_HANDLE, (CUfunction)module, {1, 1, 1, 1, 1, 1}, 0, parameters, NULL},
  };
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
    const unsigned *s = bad[i].shape;
    CUresult result = cuLaunchKernel(bad[i].function, s[0], s[1], s[2], s[3], s[4], s[5],
                                     bad[i].shared, NULL, bad[i].parameters, bad[i].extra);
    if (result != bad[i].expected) fail_msg("bad launch %u: %d", i, (int)result);
  }
  assert_int_equal(cuLaunchKernel(first, 1, 1, 1, 1, 1, 1, 0, (CUstream)0x99, parameters, NULL),
                   CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_Launch), launched);
}

// ---- variables and ends ------------------------------------------------------------------------

static void variables(void **state) {
  (void)state;
  struct server *server = start();
  CUmodule module = load();
  CUdeviceptr address;
  size_t size;
  assert_int_equal(cuModuleGetGlobal_v2(&address, NULL, module, "variable"), CUDA_SUCCESS);
  assert_int_equal(cuModuleGetGlobal_v2(NULL, &size, module, "variable"), CUDA_SUCCESS);
  assert_int_equal(address, 0x7f0000001000);
  assert_int_equal(size, 40);
  assert_int_equal(server_count(server, WIRE_ModuleGlobal), 1);
  assert_int_equal(memory_check(address, 40), CUDA_SUCCESS);
  assert_int_equal(memory_check(address, 41), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuModuleGetGlobal_v2(&address, &size, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  assert_int_equal(cuModuleGetGlobal_v2(NULL, NULL, module, "variable"), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
  assert_int_equal(memory_check(address, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuModuleGetGlobal_v2(&address, &size, module, "variable"),
                   CUDA_ERROR_INVALID_HANDLE);
}

static void variables_that_come_with_the_load(void **state) {
  (void)state;
  struct server *server = start();
  add_variable("told", 0x7f0000002000, 48);
  add_variable("told too", 0x7f0000003000, 8);
  // What is no whole variable is passed over.
  list_size += 16;
  CUmodule module = load();
  CUdeviceptr address;
  size_t size;
  // Nobody has asked for it yet.
  CUmemorytype type;
  assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x7f0000002000),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuModuleGetGlobal_v2(&address, &size, module, "told"), CUDA_SUCCESS);
  assert_int_equal(address, 0x7f0000002000);
  assert_int_equal(size, 48);
  assert_int_equal(cuModuleGetGlobal_v2(&address, &size, module, "told too"), CUDA_SUCCESS);
  assert_int_equal(address, 0x7f0000003000);
  assert_int_equal(server_count(server, WIRE_ModuleGlobal), 0);
  assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x7f0000002000),
                   CUDA_SUCCESS);
  assert_int_equal(cuModuleGetGlobal_v2(&address, &size, module, "variable"), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_ModuleGlobal), 1);
  assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
  assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x7f0000002000),
                   CUDA_ERROR_INVALID_VALUE);
}

static void unloading_ends_the_kernels(void **state) {
  (void)state;
  struct server *server = start();
  CUmodule module = load();
  CUfunction first = function_of(module, "first");
  assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
  assert_int_equal(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  const char *name;
  assert_int_equal(cuFuncGetName(&name, first), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuLaunchKernel(first, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
                   CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(unloaded, (uint64_t)(uintptr_t)module);
  assert_int_equal(server_count(server, WIRE_ModuleUnload), 1);
}

// A library's handles outlive a reset of the context, a module's do not.
static void libraries_outlive_a_reset(void **state) {
  (void)state;
  struct server *server = start();
  CUmodule module = load();
  CUlibrary library;
  CUkernel kernel, again;
  assert_int_equal(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS);
  assert_int_equal(cuLibraryGetKernel(&kernel, library, "second"), CUDA_SUCCESS);
  assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  session_enter();
  CUfunction function;
  assert_int_equal(cuModuleGetFunction(&function, module, "first"), CUDA_ERROR_INVALID_HANDLE);
  uint64_t loads = server_count(server, WIRE_ModuleOpen);
  assert_int_equal(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
                   CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_ModuleOpen), loads + 1);
  assert_int_equal(last_launch.function, last_bind.function);
  assert_string_equal(last_bind_name, "second");
  assert_int_equal(cuLibraryGetKernel(&again, library, "second"), CUDA_SUCCESS);
  assert_ptr_equal(again, kernel);
  assert_int_equal(cuLibraryUnload(library), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(unloaded, last_bind.module);
}

// ---- many images at a time ---------------------------------------------------------------------

static _Bool take_pieces(struct server *server, const struct wire_header *h, void *context) {
  (void)server, (void)context;
  return h->op == WIRE_ModulePiece;
}

static _Atomic int sender;  // its number, once it runs
static _Atomic _Bool sent;

static void *send_one_more(void *image) {
  session_enter();
  sender = gettid();
  CHECK(image_send(session_here(), image) == CUDA_SUCCESS);
  sent = 1;
  image_arrived(session_here(), image);
  return NULL;
}

// Whether a thread of this process sleeps, as it does while it waits for another.
static _Bool sleeps(int thread) {
  char path[64], text[256] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  FILE *file = fopen(path, "r");
  if (!file) return 0;
  const size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  const char *name_end = size ? strrchr(text, ')') : NULL;
  return name_end && name_end[1] == ' ' && name_end[2] == 'S';
}

static void expect_to_wait(struct image *one_more, struct image *before) {
  sender = 0;
  sent = 0;
  pthread_t thread;
  pthread_create(&thread, NULL, send_one_more, one_more);
  while (!sender || (!sent && !sleeps(sender))) sched_yield();
  assert_false(sent);
  image_arrived(session_here(), before);
  pthread_join(thread, NULL);
  assert_true(sent);
}

static void images_wait_while_enough_are_under_way(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){take_pieces, NULL});
  uint8_t bytes[64] = "an image";
  struct image small = {.bytes = bytes, .size = sizeof bytes};
  for (int i = 0; i < WIRE_IMAGES_COMING; i++)
    assert_int_equal(image_send(session_here(), &small), CUDA_SUCCESS);
  expect_to_wait(&small, &small);
  for (int i = 1; i < WIRE_IMAGES_COMING; i++) image_arrived(session_here(), &small);
}

// However large one is, it goes when it is alone.
static void large_images_go_one_by_one(void **state) {
  (void)state;
  session_start(64 * MIB, (struct server_hook){take_pieces, NULL});
  const uint64_t size = WIRE_IMAGE_MAX - 32;
  uint8_t *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_ptr_not_equal(bytes, MAP_FAILED);
  struct image large = {.bytes = bytes, .size = size}, small = {.bytes = bytes, .size = 64};
  assert_int_equal(image_send(session_here(), &large), CUDA_SUCCESS);
  expect_to_wait(&small, &large);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_expected_module_is_taken),
      cmocka_unit_test(what_could_not_be_loaded_is_asked_for),
      cmocka_unit_test(an_answer_too_short_to_be_one),
      cmocka_unit_test(a_reset_forgets_what_is_expected),
      cmocka_unit_test(small_images_travel_with_the_load),
      cmocka_unit_test(large_images_travel_when_they_are_wanted),
      cmocka_unit_test(a_server_that_wants_it_for_ever),
      cmocka_unit_test(errors_pass_through),
      cmocka_unit_test(an_earlier_error_beside_a_load),
      cmocka_unit_test(descriptions_without_sense),
      cmocka_unit_test(kernels_are_found_in_the_list),
      cmocka_unit_test(kernels_are_enumerated),
      cmocka_unit_test(kernels_beyond_the_list_are_asked_for),
      cmocka_unit_test(launches_are_packed),
      cmocka_unit_test(variables),
      cmocka_unit_test(variables_that_come_with_the_load),
      cmocka_unit_test(unloading_ends_the_kernels),
      cmocka_unit_test(libraries_outlive_a_reset),
      cmocka_unit_test(images_wait_while_enough_are_under_way),
      cmocka_unit_test(large_images_go_one_by_one),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
