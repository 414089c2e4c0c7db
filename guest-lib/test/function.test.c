// Functions: what is known of them without asking, how launches are checked with it, occupancy, and
// the compiler's messages.
#include "kernels/function.h"

#include <elf.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/notice.h"
#include "base/stats.h"
#include "check.h"
#include "guest_calls.h"
#include "log_capture.h"
#include "session.h"

#define MIB (1ull << 20)

static const char ptx[] = ".version 8.0\n.target sm_52\n.address_size 64\n";

// ---- the server's side -------------------------------------------------------------------------

static uint32_t described = 1;
static struct wire_description description;
static int32_t refused, refusal = CUDA_ERROR_NOT_SUPPORTED;
static const char *errors = "", *info = "";
static struct wire_ModuleOpen last_open;
static struct wire_jit_option last_options[WIRE_JIT_OPTIONS];
static struct wire_FunctionSet last_set;
static struct wire_Launch last_launch;
static struct wire_LaunchWith last_with;
static uint8_t last_tail[40000];
static uint32_t lie_about_description, lie_about_blocks, lie_about_text;

static void append(uint8_t *to, uint32_t *at, const void *bytes, uint32_t size) {
  memcpy(to + *at, bytes, size);
  *at = wire_round_up(*at + size);
}

// One kernel: "kernel", with a parameter of 8 bytes; or one of 20000 bytes: "large".
static void answer_open(struct server *server, const struct wire_ModuleOpen *q) {
  last_open = *q;
  memcpy(last_options, q + 1, q->options_size);
  struct {
    struct wire_ModuleOpen_reply reply;
    uint8_t tail[4096];
  } answer = {0};
  uint32_t size = 0;
  answer.reply.state = refused ? WIRE_MODULE_REFUSED : WIRE_MODULE_LOADED;
  answer.reply.refused = refused;
  answer.reply.errors_size = (uint32_t)strlen(errors) + lie_about_text;
  answer.reply.info_size = (uint32_t)strlen(info);
  append(answer.tail, &size, errors, (uint32_t)strlen(errors));
  append(answer.tail, &size, info, (uint32_t)strlen(info));
  uint32_t list = size;
  static const char *const names[] = {"kernel", "large"};
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t bytes = i ? 20000 : 8;
    struct wire_kernel head = {(uint32_t)strlen(names[i]), 1, bytes, i};
    struct wire_parameter parameter = {0, bytes};
    append(answer.tail, &size, &head, sizeof head);
    if (described) append(answer.tail, &size, &description, sizeof description);
    append(answer.tail, &size, &parameter, sizeof parameter);
    append(answer.tail, &size, names[i], (uint32_t)strlen(names[i]));
  }
  answer.reply.kernels = answer.reply.listed = 2;
  answer.reply.described = described;
  answer.reply.list_size = size - list;
  answer.reply.reply.request = q->request.request;
  answer.reply.reply.header =
      (struct wire_header){WIRE_REPLY, 0, (uint32_t)(sizeof answer.reply + size)};
  server_send(server, &answer, answer.reply.reply.header.size);
}

static _Bool serve(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  switch (h->op) {
    case WIRE_ModuleOpen:
      answer_open(server, (const void *)h);
      return 1;
    case WIRE_FunctionSet:
      last_set = *(const struct wire_FunctionSet *)h;
      return 0;
    case WIRE_cuFuncSetAttribute: {
      const struct wire_cuFuncSetAttribute *q = (const void *)h;
      int32_t result = q->attrib < CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
                           ? CUDA_ERROR_INVALID_VALUE
                           : CUDA_SUCCESS;
      server_reply(server, q->request.request, result, 0);
      return 1;
    }
    case WIRE_cuFuncGetAttribute:
      server_reply(server, ((const struct wire_request *)h)->request, refusal, 0);
      return 1;
    case WIRE_FunctionDescribe:
    case WIRE_Occupancies:
      if (lie_about_description || lie_about_blocks) {
        struct wire_FunctionDescribe_reply answer = {
            .description_size =
                h->op == WIRE_Occupancies ? lie_about_blocks : lie_about_description};
        answer.reply.header = (struct wire_header){WIRE_REPLY, 0, sizeof answer};
        answer.reply.request = ((const struct wire_request *)h)->request;
        server_send(server, &answer, sizeof answer);
        return 1;
      }
      return 0;
    case WIRE_OccupancyClusters: {
      struct wire_OccupancyClusters_reply answer = {
          .clusters = ((const struct wire_OccupancyClusters *)h)->most ? 16 : 5};
      answer.reply.header = (struct wire_header){WIRE_REPLY, 0, sizeof answer};
      answer.reply.request = ((const struct wire_request *)h)->request;
      server_send(server, &answer, sizeof answer);
      return 1;
    }
    case WIRE_Launch:
      last_launch = *(const struct wire_Launch *)h;
      memcpy(last_tail, (const struct wire_Launch *)h + 1, last_launch.parameters_size);
      return 0;
    case WIRE_LaunchWith:
      last_with = *(const struct wire_LaunchWith *)h;
      memcpy(last_tail, (const struct wire_LaunchWith *)h + 1, last_with.attributes_size);
      return 0;
    default:
      return 0;
  }
}

static struct server *start(void) {
  server_describe(&description);
  return session_start(64 * MIB, (struct server_hook){serve, NULL});
}

static CUfunction load(const char *name) {
  CUmodule module;
  CUfunction function;
  assert_int_equal(cuModuleLoadData(&module, ptx), CUDA_SUCCESS);
  assert_int_equal(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
  return function;
}

static uint64_t round_trips(void) { return atomic_load(&guest_stats->round_trips); }

static uint64_t argument = 7;
static void *arguments[] = {&argument};
static CUresult launch(CUfunction function, unsigned grid, unsigned block, unsigned shared) {
  return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, NULL, arguments, NULL);
}

// ---- attributes --------------------------------------------------------------------------------

static void what_came_with_the_module_is_not_asked_for(void **state) {
  (void)state;
  start();
  CUfunction function = load("kernel");
  uint64_t before = round_trips();
  int value, grid, block;
  assert_int_equal(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function), CUDA_SUCCESS);
  assert_int_equal(value, 32);
  assert_int_equal(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuKernelGetAttribute(&value, 0, (CUkernel)function, 0), CUDA_SUCCESS);
  assert_int_equal(value, 1024);
  assert_int_equal(cuFuncLoad(function), CUDA_SUCCESS);
  assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 100, 0),
                   CUDA_SUCCESS);
  assert_int_equal(value, 8);
  assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 1025, 0),
                   CUDA_SUCCESS);
  assert_int_equal(value, 0);
  assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 0, 0),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, 0),
                   CUDA_SUCCESS);
  assert_int_equal(block, 1024);
  assert_int_equal(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, 100),
                   CUDA_SUCCESS);
  assert_int_equal(block, 64);  // 16 blocks: more threads than 8 of 100 or 10 of 96
  assert_int_equal(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, -1),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(round_trips(), before);
}

static void setting_what_is_known_to_be_right_is_posted(void **state) {
  (void)state;
  struct server *server = start();
  description.attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = 1024;
  CUfunction function = load("kernel");
  uint64_t before = round_trips();
  int value;
  const CUfunction_attribute dynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  assert_int_equal(cuFuncSetAttribute(function, dynamic, 49152), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuFuncSetAttribute(function, dynamic, -1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuFuncSetAttribute(function, dynamic, 49152 - 1024), CUDA_SUCCESS);
  assert_int_equal(cuFuncGetAttribute(&value, dynamic, function), CUDA_SUCCESS);
  assert_int_equal(value, 49152 - 1024);
  assert_int_equal(
      cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101),
      CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuFuncSetCacheConfig(function, 4), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_L1), CUDA_SUCCESS);
  assert_int_equal(round_trips(), before);
  // What only the driver knows is asked.
  assert_int_equal(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 1),
                   CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2),
                   CUDA_SUCCESS);
  assert_int_equal(cuFuncSetAttribute(function, 77, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(round_trips(), before + 2);
  assert_int_equal(server_count(server, WIRE_FunctionSet), 1);
  assert_int_equal(last_set.attribute, dynamic);
  assert_int_equal(last_set.value, 49152 - 1024);
}

static void functions_of_large_modules_are_described_once(void **state) {
  (void)state;
  struct server *server = start();
  described = 0;
  CUfunction function = load("kernel");
  uint64_t before = round_trips();
  assert_int_equal(launch(function, 1, 256, 0), CUDA_SUCCESS);  // fits whatever the kernel is
  assert_int_equal(round_trips(), before);
  assert_int_equal(launch(function, 1, 512, 0), CUDA_SUCCESS);
  assert_int_equal(launch(function, 1, 64, 100), CUDA_SUCCESS);
  int value;
  assert_int_equal(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function), CUDA_SUCCESS);
  assert_int_equal(round_trips(), before + 1);
  assert_int_equal(server_count(server, WIRE_FunctionDescribe), 1);
}

static void a_kernel_that_nothing_is_known_of(void **state) {
  (void)state;
  start();
  memset(&description, 0, sizeof description);
  CUfunction function = load("kernel");
  int value;
  // The driver says why.
  assert_int_equal(launch(function, 1, 1, 0), CUDA_ERROR_NOT_SUPPORTED);
  assert_int_equal(cuFuncLoad(function), CUDA_ERROR_NOT_SUPPORTED);
  assert_int_equal(cuFuncGetAttribute(&value, 0, function), CUDA_ERROR_NOT_SUPPORTED);
  assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 1, 0),
                   CUDA_ERROR_NOT_SUPPORTED);
}

static void a_refused_attribute_is_asked_for_once(void **state) {
  (void)state;
  struct server *server = start();
  CUfunction function = load("kernel"), other = load("large");
  const CUfunction_attribute node_update = CU_FUNC_ATTRIBUTE_DEVICE_NODE_UPDATE_SUPPORTED;
  const CUfunction_attribute memory_mode = CU_FUNC_ATTRIBUTE_SHARED_MEMORY_MODE;
  int value = 77;
  for (int i = 0; i < 3; i++) {
    refusal = CUDA_ERROR_NOT_SUPPORTED;
    assert_int_equal(cuKernelGetAttribute(&value, node_update, (CUkernel)function, 0),
                     CUDA_ERROR_NOT_SUPPORTED);
    refusal = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(cuFuncGetAttribute(&value, memory_mode, function), CUDA_ERROR_INVALID_VALUE);
  }
  assert_int_equal(value, 77);
  assert_int_equal(server_count(server, WIRE_cuFuncGetAttribute), 2);
  // Each function by itself.
  assert_int_equal(cuFuncGetAttribute(&value, memory_mode, other), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(server_count(server, WIRE_cuFuncGetAttribute), 3);
  // What is of the moment is not remembered.
  const CUfunction_attribute newer = (CUfunction_attribute)20;
  refusal = CUDA_ERROR_OUT_OF_MEMORY;
  assert_int_equal(cuFuncGetAttribute(&value, newer, function), CUDA_ERROR_OUT_OF_MEMORY);
  refusal = CUDA_ERROR_NOT_SUPPORTED;
  assert_int_equal(cuFuncGetAttribute(&value, newer, function), CUDA_ERROR_NOT_SUPPORTED);
  assert_int_equal(server_count(server, WIRE_cuFuncGetAttribute), 5);
  // An attribute that was set may change what others read.
  assert_int_equal(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2),
                   CUDA_SUCCESS);
  assert_int_equal(cuFuncGetAttribute(&value, newer, function), CUDA_ERROR_NOT_SUPPORTED);
  assert_int_equal(server_count(server, WIRE_cuFuncGetAttribute), 6);
}

static void answers_without_sense(void **state) {
  (void)state;
  start();
  int value;
  CUfunction function = load("kernel");
  lie_about_description = lie_about_blocks = 104;
  assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 32, 10),
                   CUDA_ERROR_UNKNOWN);
  lie_about_blocks = 32;
  assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function, 32, 10),
                   CUDA_ERROR_UNKNOWN);
  described = 0;
  function = load("kernel");
  assert_int_equal(cuFuncGetAttribute(&value, 0, function), CUDA_ERROR_UNKNOWN);
  lie_about_description = 8;
  assert_int_equal(cuFuncGetAttribute(&value, 0, function), CUDA_ERROR_UNKNOWN);
  CUmodule module;
  log_capture("error");
  lie_about_text = UINT32_MAX;
  assert_int_equal(cuModuleLoadData(&module, ptx), CUDA_ERROR_UNKNOWN);
  lie_about_text = 100000;
  assert_int_equal(cuModuleLoadData(&module, ptx), CUDA_ERROR_UNKNOWN);
  lie_about_text = 0;
  refused = -5;
  assert_int_equal(cuModuleLoadData(&module, ptx), CUDA_ERROR_UNKNOWN);
  // More threads than any block has.
  refused = lie_about_description = lie_about_blocks = 0;
  described = 1;
  description.attributes[0] = INT32_MAX;
  function = load("kernel");
  int grid, block;
  assert_int_equal(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, NULL, 0, 0),
                   CUDA_SUCCESS);
  assert_in_range(block, 0, 1024);
}

// ---- launches ----------------------------------------------------------------------------------

static void launches_are_checked(void **state) {
  (void)state;
  struct server *server = start();
  description.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 64;
  CUfunction function = load("kernel");
  uint64_t before = round_trips();
  assert_int_equal(launch(function, 1, 64, 49152), CUDA_SUCCESS);
  assert_int_equal(launch(function, 1, 65, 0), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  description.attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 1000;
  function = load("kernel");
  assert_int_equal(launch(function, 1, 1, 1001), CUDA_ERROR_INVALID_VALUE);
  // Of a device with no multiprocessors, nothing can be resident.
  assert_int_equal(cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments),
                   CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  assert_int_equal(round_trips(), before + 1);  // the load
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_Launch), 1);
}

static void parameters_may_be_large(void **state) {
  (void)state;
  start();
  CUfunction function = load("large");
  static uint8_t large[20000];
  for (unsigned i = 0; i < sizeof large; i++) large[i] = (uint8_t)(i * 7);
  void *parameters[] = {large};
  assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL),
                   CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(last_launch.parameters_size, sizeof large);
  assert_memory_equal(last_tail, large, sizeof large);
}

// Machine code for other GPUs: told to who started the program, once, with what to do.
static void an_unfit_image_is_told_once(void **state) {
  (void)state;
  start();
  char folder[] = "/tmp/outboard-notices-XXXXXX";
  assert_non_null(mkdtemp(folder));
  setenv("OUTBOARD_NOTICES", folder, 1);
  notice_open();
  int before = dup(2), said = memfd_create("said", MFD_CLOEXEC);
  assert_true(before >= 0 && said >= 0);
  dup2(said, 2);
  Elf64_Ehdr code = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB}};
  CUmodule module;
  refused = CUDA_ERROR_NO_BINARY_FOR_GPU;
  CUresult results[3];
  for (int i = 0; i < 3; i++) {
    code.e_flags = (Elf64_Word)i / 2;
    results[i] = cuModuleLoadData(&module, &code);
  }
  char text[4096];
  ssize_t size = pread(said, text, sizeof text - 1, 0);
  dup2(before, 2);
  text[size > 0 ? size : 0] = 0;
  char called[64];
  snprintf(called, sizeof called, "rm -r %s", folder);
  assert_int_equal(system(called), 0);
  for (int i = 0; i < 3; i++) assert_int_equal(results[i], CUDA_ERROR_NO_BINARY_FOR_GPU);
  const char begin[] = "outboard: no kernel of a module can run: it holds machine code, and";
  assert_int_equal(strncmp(text, begin, strlen(begin)), 0);
  assert_non_null(strstr(text, "It has no PTX"));
  assert_non_null(strstr(text, "cuBLAS, cuFFT, cuRAND"));
  assert_non_null(strstr(text, "SOFTWARE_DEVICE_COMPUTE_CAPABILITY=13.0"));
  assert_non_null(strstr(text, "CUPY_COMPILE_WITH_PTX=1"));
  assert_non_null(strstr(text, "LD_PRELOAD to Outboard's keep-ptx/libnvJitLink.so.13"));
  assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void attributes_of_launches(void **state) {
  (void)state;
  struct server *server = start();
  CUfunction function = load("kernel");
  CUevent event, timed;
  assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  assert_int_equal(cuEventCreate(&timed, 0), CUDA_SUCCESS);
  CUlaunchAttribute attributes[4] = {{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY},
                                     {.id = CU_LAUNCH_ATTRIBUTE_IGNORE},
                                     {.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT},
                                     {.id = CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING}};
  attributes[0].value.priority = -3;
  attributes[2].value.launchCompletionEvent.event = event;
  CUlaunchConfig config = {.gridDimX = 4,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = 1,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .attrs = attributes,
                           .numAttrs = 4};
  attributes[3].value.nvlinkUtilCentricScheduling = 1;
  assert_int_equal(cuLaunchKernelEx(&config, function, arguments, NULL), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  const struct wire_launch_attribute *travelled = (const void *)last_tail;
  assert_int_equal(last_with.attributes_size, 2 * sizeof *travelled);
  assert_int_equal(travelled[0].id, CU_LAUNCH_ATTRIBUTE_PRIORITY);
  assert_int_equal((int32_t)travelled[0].value[0], -3);
  assert_int_equal(travelled[1].value[0], (uint64_t)(uintptr_t)event);
  attributes[2].value.launchCompletionEvent.event = timed;
  assert_int_equal(cuLaunchKernelEx(&config, function, arguments, NULL), CUDA_ERROR_NOT_SUPPORTED);
  attributes[2].value.launchCompletionEvent.event = (CUevent)function;
  assert_int_equal(cuLaunchKernelEx(&config, function, arguments, NULL), CUDA_ERROR_INVALID_HANDLE);

  config.numAttrs = 1;
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  const struct {
    unsigned x, y, z;
    CUresult expected;
  } clusters[] = {{1, 1, 1, CUDA_SUCCESS},
                  {0, 1, 1, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                  {9, 1, 1, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                  {UINT32_MAX, UINT32_MAX, UINT32_MAX, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                  // The device's compute capability is none.
                  {2, 1, 1, CUDA_ERROR_NOT_SUPPORTED}};
  for (unsigned i = 0; i < sizeof clusters / sizeof *clusters; i++) {
    attributes[0].value.clusterDim.x = clusters[i].x;
    attributes[0].value.clusterDim.y = clusters[i].y;
    attributes[0].value.clusterDim.z = clusters[i].z;
    CUresult result = cuLaunchKernelEx(&config, function, arguments, NULL);
    if (result != clusters[i].expected) fail_msg("cluster %u: %d", i, (int)result);
  }
  int count;
  attributes[0].value.clusterDim.x = attributes[0].value.clusterDim.y =
      attributes[0].value.clusterDim.z = 1;
  assert_int_equal(cuOccupancyMaxActiveClusters(&count, function, &config), CUDA_SUCCESS);
  assert_int_equal(count, 5);
  assert_int_equal(cuOccupancyMaxPotentialClusterSize(&count, function, &config), CUDA_SUCCESS);
  assert_int_equal(count, 16);
  assert_int_equal(cuOccupancyMaxActiveClusters(&count, function, NULL), CUDA_ERROR_INVALID_VALUE);
  // An attribute that would change what the launch means is not left out silently.
  log_capture("warn");
  attributes[0].id = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
  assert_int_equal(cuLaunchKernelEx(&config, function, arguments, NULL), CUDA_ERROR_NOT_SUPPORTED);
  assert_non_null(strstr(log_captured(), "is not served"));
  attributes[0].id = (CUlaunchAttributeID)99;
  assert_int_equal(cuLaunchKernelEx(&config, function, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
  config.attrs = NULL;
  assert_int_equal(cuLaunchKernelEx(&config, function, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
  static CUlaunchAttribute many[17];
  for (unsigned i = 0; i < 17; i++) many[i].id = CU_LAUNCH_ATTRIBUTE_PRIORITY;
  config.attrs = many;
  config.numAttrs = 17;
  assert_int_equal(cuLaunchKernelEx(&config, function, arguments, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_LaunchWith), 2);
}

static void staged_launches(void **state) {
  (void)state;
  struct server *server = start();
  CUfunction function = load("kernel");
  assert_int_equal(cuLaunch(function), CUDA_ERROR_INVALID_VALUE);  // no shape yet
  assert_int_equal(cuFuncSetBlockShape(function, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuFuncSetBlockShape(function, 8, 2, 1), CUDA_SUCCESS);
  assert_int_equal(cuFuncSetSharedSize(function, 128), CUDA_SUCCESS);
  assert_int_equal(cuParamSetSize(function, 40000), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuParamSetv(function, 32760, &argument, 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuParamSetv(function, -4, &argument, 8), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuParamSetSize(function, 8), CUDA_SUCCESS);
  assert_int_equal(cuParamSeti(function, 0, 0x11223344), CUDA_SUCCESS);
  assert_int_equal(cuParamSetf(function, 4, 1.0f), CUDA_SUCCESS);
  assert_int_equal(cuLaunchGrid(function, 0, 3), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuLaunchGrid(function, 5, 3), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_Launch), 1);
  assert_int_equal(last_launch.grid_x * 100 + last_launch.grid_y * 10 + last_launch.grid_z, 531);
  assert_int_equal(last_launch.block_x * 100 + last_launch.block_y * 10 + last_launch.block_z, 821);
  assert_int_equal(last_launch.shared, 128);
  uint64_t parameters;
  memcpy(&parameters, last_tail, 8);
  assert_true(parameters == 0x3f80000011223344);
  assert_int_equal(cuLaunch((CUfunction)8), CUDA_ERROR_INVALID_HANDLE);
}

// ---- occupancy ---------------------------------------------------------------------------------

static size_t by_threads(int threads) { return (size_t)threads * 100; }
static size_t same(int threads) { return (void)threads, 100; }

static void occupancy_is_asked_once(void **state) {
  (void)state;
  struct server *server = start();
  CUfunction function = load("kernel");
  uint64_t before = round_trips();
  int blocks, grid;
  for (int threads = 32; threads <= 1024; threads += 32)
    assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, 16384),
                     CUDA_SUCCESS);
  assert_int_equal(blocks, 1);
  assert_int_equal(round_trips(), before + 1);
  assert_int_equal(
      cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, 32, 16384, 1),
      CUDA_SUCCESS);
  assert_int_equal(blocks, 3);
  assert_int_equal(round_trips(), before + 2);
  // What sizes need is asked together.
  assert_int_equal(cuOccupancyMaxPotentialBlockSize(&grid, &blocks, function, by_threads, 0, 0),
                   CUDA_SUCCESS);
  assert_int_equal(round_trips(), before + 3);
  assert_int_equal(cuOccupancyMaxPotentialBlockSize(&grid, &blocks, function, same, 0, 0),
                   CUDA_SUCCESS);
  assert_int_equal(cuOccupancyMaxPotentialBlockSize(&grid, &blocks, function, NULL, 100, 64),
                   CUDA_SUCCESS);
  assert_int_equal(round_trips(), before + 4);
  for (unsigned i = 0; i < 40; i++)
    assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 32, 1000 + i),
                     CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_Occupancies), 44);
  // A preference may change it.
  assert_int_equal(
      cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50),
      CUDA_SUCCESS);
  assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 32, 1039),
                   CUDA_SUCCESS);
  assert_int_equal(server_count(server, WIRE_Occupancies), 45);
}

// ---- the compiler's messages -------------------------------------------------------------------

static void messages_of_the_compiler(void **state) {
  (void)state;
  start();
  CUmodule module;
  char error_log[8] = "before", info_log[64] = "before";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_MAX_REGISTERS,    CU_JIT_WALL_TIME};
  void *values[] = {
      error_log, (void *)sizeof error_log, info_log, (void *)sizeof info_log, (void *)24, NULL};
  refused = CUDA_ERROR_INVALID_PTX;
  errors = "line 3: nonsense";
  assert_int_equal(cuModuleLoadDataEx(&module, ptx, 6, options, values), CUDA_ERROR_INVALID_PTX);
  assert_string_equal(error_log, "line 3:");
  assert_int_equal((uintptr_t)values[1], 7);
  assert_string_equal(info_log, "");
  assert_int_equal((uintptr_t)values[3], 0);
  // Numbers and room travel, addresses do not.
  assert_int_equal(last_open.options_size, 3 * sizeof *last_options);
  assert_int_equal(last_options[0].option, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  assert_int_equal(last_options[0].value, 8);
  assert_int_equal(last_options[2].option, CU_JIT_MAX_REGISTERS);
  assert_int_equal(last_options[2].value, 24);
  refused = 0;
  errors = "";
  info = "24 registers";
  values[1] = (void *)sizeof error_log;
  values[3] = (void *)sizeof info_log;
  assert_int_equal(cuModuleLoadDataEx(&module, ptx, 6, options, values), CUDA_SUCCESS);
  assert_string_equal(error_log, "");
  assert_string_equal(info_log, "24 registers");
  assert_int_equal((uintptr_t)values[3], 12);
  assert_int_equal(cuModuleLoadDataEx(&module, ptx, 1, NULL, values), CUDA_ERROR_INVALID_VALUE);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_came_with_the_module_is_not_asked_for),
      cmocka_unit_test(setting_what_is_known_to_be_right_is_posted),
      cmocka_unit_test(functions_of_large_modules_are_described_once),
      cmocka_unit_test(a_kernel_that_nothing_is_known_of),
      cmocka_unit_test(a_refused_attribute_is_asked_for_once),
      cmocka_unit_test(answers_without_sense),
      cmocka_unit_test(launches_are_checked),
      cmocka_unit_test(parameters_may_be_large),
      cmocka_unit_test(an_unfit_image_is_told_once),
      cmocka_unit_test(attributes_of_launches),
      cmocka_unit_test(staged_launches),
      cmocka_unit_test(occupancy_is_asked_once),
      cmocka_unit_test(messages_of_the_compiler),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
