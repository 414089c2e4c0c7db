// What kernels may keep in memory has the same value in every process that makes the same in the
// same order: addresses of variables and allocations, values of texture and surface objects. The
// test runs itself, on either of two devices, and compares what is said.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "support.h"

namespace {

CUtexObject texture_over(CUdeviceptr data) {
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {data, CU_AD_FORMAT_UNSIGNED_INT32, 1, 256};
  CUDA_TEXTURE_DESC settings = {};
  CUtexObject texture;
  OK(cuTexObjectCreate(&texture, &resource, &settings, nullptr));
  return texture;
}

CUsurfObject surface() {
  CUDA_ARRAY3D_DESCRIPTOR shape = {64, 64,  0, CU_AD_FORMAT_UNSIGNED_INT32,
                                   1,  0x02};  // CUDA_ARRAY3D_SURFACE_LDST
  CUarray array;
  OK(cuArray3DCreate_v2(&array, &shape));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUsurfObject made;
  OK(cuSurfObjectCreate(&made, &resource));
  return made;
}

void say(const char *what, unsigned long long value) { printf("%s 0x%llx\n", what, value); }

void say_variables(CUmodule module) {
  for (const char *name : {"counter", "table"}) {
    CUdeviceptr at;
    size_t size;
    OK(cuModuleGetGlobal_v2(&at, &size, module, name));
    say(name, at);
  }
}

// Slabs for small pieces and pieces of its own, all of it freed in the order in which it was made,
// and the other way.
void use_and_free() {
  for (const bool backwards : {false, true}) {
    CUdeviceptr pieces[8];
    for (int i = 0; i < 8; i++) OK(cuMemAlloc_v2(&pieces[i], i == 4 ? 9 << 20 : 700 << 10));
    for (int i = 0; i < 8; i++) OK(cuMemFree_v2(pieces[backwards ? 7 - i : i]));
  }
}

// `otherwise`: makes, between all that is compared, what no kernel holds, and before it what is not
// there any more.
int one_process(int device, bool otherwise) {
  OK(cuInit(0));
  if (otherwise) mmap(nullptr, 1 << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUcontext context;
  OK(cuDevicePrimaryCtxRetain(&context, device));
  OK(cuCtxSetCurrent(context));
  const auto disturb = [&] {
    CUstream stream;
    CUevent event;
    if (otherwise) OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (otherwise) OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  };
  disturb();
  if (otherwise) use_and_free();
  CUmodule first = load_kernels(), second = load_kernels();
  say_variables(first);
  say_variables(second);
  OK(cuModuleUnload(first));
  say_variables(load_kernels());
  CUdeviceptr small, large;
  OK(cuMemAlloc_v2(&small, 1000));
  OK(cuMemAlloc_v2(&large, 10 << 20));
  say("small", small);
  say("large", large);
  disturb();
  say("texture", texture_over(small));
  say("surface", surface());
  disturb();
  const CUtexObject gone = texture_over(large);
  OK(cuTexObjectDestroy(gone));
  say("texture", texture_over(small));
  return 0;
}

std::string said_by(int device, bool otherwise) {
  const std::string command = "/proc/" + std::to_string(getpid()) + "/exe " +
                              std::to_string(device) + (otherwise ? " x" : "");
  FILE *const process = popen(command.c_str(), "r");
  assert_non_null(process);
  std::string said;
  char line[200];
  while (fgets(line, sizeof line, process)) said += line;
  assert_int_equal(pclose(process), 0);
  return said;
}

void every_process_has_the_same_values(void **) {
  const std::string said = said_by(0, false);
  assert_true(said.find("texture 0x") != said.npos);
  assert_string_equal(said_by(0, true).c_str(), said.c_str());
}

void every_device_has_the_same_values(void **) {
  assert_string_equal(said_by(1, true).c_str(), said_by(0, false).c_str());
}

void a_second_context_has_others(void **) {
  CUcontext first, second;
  CUdeviceptr at, other;
  OK(cuInit(0));
  OK(cuCtxCreate_v2(&first, 0, 1));
  OK(cuMemAlloc_v2(&at, 1000));
  OK(cuCtxCreate_v2(&second, 0, 0));
  OK(cuMemAlloc_v2(&other, 1000));
  assert_int_not_equal(at, other);
  OK(cuMemsetD8_v2(other, 1, 1000));
  OK(cuCtxDestroy_v2(second));
  OK(cuCtxSetCurrent(first));
  OK(cuMemsetD8_v2(at, 1, 1000));
  OK(cuCtxDestroy_v2(first));
}

}  // namespace

int main(int argc, char **argv) {
  if (argc > 1) return one_process(atoi(argv[1]), argc > 2);
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_process_has_the_same_values),
      cmocka_unit_test(every_device_has_the_same_values),
      cmocka_unit_test(a_second_context_has_others),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
