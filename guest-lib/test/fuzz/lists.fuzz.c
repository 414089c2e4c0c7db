// What the server tells of modules, kernels, variables and links, in any bytes: the lists in
// answers, which the library reads by numbers that the server wrote. A session for all runs:
// nonsense in an answer ends none. Input: for each answer two bytes, the length of what follows;
// when there is no more, answers are errors.
#include <string.h>

#include "check.h"
#include "cuda_driver.h"
#include "session.h"
#include "setup/log.h"

static struct {
  const uint8_t *at;
  size_t left;
} input;

enum { ANSWER_MOST = 16 << 10 };

// Bytes of the input as the answer, at least as long as that of any command has to be.
static void answer(struct server *server, uint64_t request, size_t least) {
  static _Alignas(8) uint8_t frame[sizeof(struct wire_reply) + ANSWER_MOST + 256];
  if (input.left < 2) {
    server_reply(server, request, CUDA_ERROR_NOT_FOUND, 0);
    return;
  }
  size_t length = (size_t)(input.at[0] | input.at[1] << 8) % ANSWER_MOST;
  input.at += 2;
  input.left -= 2;
  if (length > input.left) length = input.left;
  struct wire_reply *reply = (void *)frame;
  const size_t size = length > least - sizeof *reply ? length : least - sizeof *reply;
  memset(frame, 0, sizeof *reply + size + 8);
  memcpy(frame + sizeof *reply, input.at, length);
  input.at += length;
  input.left -= length;
  *reply = (struct wire_reply){
      {WIRE_REPLY, 0, wire_round_up((uint32_t)(sizeof *reply + size))}, request, 0, 0};
  server_send(server, frame, reply->header.size);
}

static _Bool serve(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  const uint64_t request = ((const struct wire_request *)h)->request;
  switch (h->op) {
#define ANSWER(name)                                             \
  case WIRE_##name:                                              \
    answer(server, request, sizeof(struct wire_##name##_reply)); \
    return 1;
    ANSWER(ModuleOpen)
    ANSWER(ModuleGlobal)
    ANSWER(FunctionFind)
    ANSWER(FunctionDescribe)
    ANSWER(Occupancies)
    ANSWER(OccupancyClusters)
    ANSWER(ReferenceGet)
    ANSWER(LinkAdd)
    ANSWER(LinkComplete)
    ANSWER(cuFuncGetAttribute)
#undef ANSWER
    case WIRE_LinkFetch:
      server_reply(server, request, CUDA_ERROR_UNKNOWN, 0);
      return 1;
    default:
      return 0;
  }
}

static const char text[] = ".version 8.0\n.target sm_52\n.address_size 64\n";

static void use_function(CUfunction function) {
  const char *name;
  size_t offset, size;
  int blocks, value;
  void *none[64] = {0};
  static uint64_t parameter[64];
  for (int i = 0; i < 64; i++) none[i] = &parameter[i];
  cuFuncGetName(&name, function);
  for (size_t i = 0; i < 70; i += 23) cuFuncGetParamInfo(function, i, &offset, &size);
  cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
  cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 96, 0);
  cuFuncGetParamInfo(function, 63, &offset, &size);
  (void)none;
}

static void use_module(void) {
  CUmodule module;
  if (cuModuleLoadData(&module, text)) return;
  CUfunction functions[4];
  unsigned count = 0;
  CUdeviceptr address;
  size_t bytes;
  CUtexref reference;
  cuModuleGetFunctionCount(&count, module);
  if (!cuModuleEnumerateFunctions(functions, 4, module) && count) use_function(functions[0]);
  CUfunction named;
  if (!cuModuleGetFunction(&named, module, "kernel")) use_function(named);
  cuModuleGetGlobal_v2(&address, &bytes, module, "variable");
  cuModuleGetTexRef(&reference, module, "texture");
  cuModuleUnload(module);
}

static void use_link(void) {
  static char info[256], errors[256];
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {info, (void *)sizeof info, errors, (void *)sizeof errors};
  CUlinkState link;
  void *image;
  size_t size;
  if (cuLinkCreate_v2(4, options, values, &link)) return;
  cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)text, sizeof text, "text", 0, NULL, NULL);
  cuLinkComplete(link, &image, &size);
  cuLinkDestroy(link);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct server *server;
  if (!server) server = session_start(64ull << 20, (struct server_hook){serve, NULL});
  if (!size) return 0;
  const _Bool link = data[0] & 1;
  input.at = data + 1;
  input.left = size - 1;
  if (link)
    use_link();
  else
    use_module();
  // An error that an answer brought is told here.
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  return 0;
}
