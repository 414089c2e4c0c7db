// Modules, libraries and links from files and from memory, and what their functions tell and are
// told; the oldest way to launch.
// flags: -lcuda -ldl -Xcompiler=-Wno-deprecated-declarations
#include <unistd.h>
#include <cstring>
#include <string>

#include "../check.h"
#include "../check_driver.h"
#include "../old_call.h"

namespace {

const char kModule[] = R"(
.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 counter = 5;
.visible .entry count(.param .u64 out, .param .u32 by, .param .align 8 .b8 more[24])
{
  .reg .b32 %r<5>;
  .reg .b64 %d<2>;
  .shared .align 4 .b8 room[64];
  ld.param.u64 %d0, [out];
  ld.param.u32 %r0, [by];
  ld.global.u32 %r1, [counter];
  add.u32 %r1, %r1, %r0;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %nctaid.x;
  add.u32 %r1, %r1, %r3;
  st.global.u32 [%d0], %r1;
  ret;
}
)";

std::string write_file(const char *name, const void *bytes, size_t size) {
  const std::string path = "/tmp/module-calls." + std::to_string(getpid()) + name;
  FILE *file = fopen(path.c_str(), "wb");
  if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) exit(3);
  return path;
}

CUdeviceptr out;
void launch(const char *what, CUfunction function) {
  int by = 10, result = -1;
  char more[24] = {};
  void *parameters[] = {&out, &by, more};
  const CUresult launched =
      cuLaunchKernel(function, 2, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  DRIVER(cuMemcpyDtoH(&result, out, 4));
  printf("%s: %s, %d\n", what, driver_name(launched), result);
}

// What the compiler tells of a load, or of a link: nothing in the buffer, and a time.
struct Asked {
  char errors[200] = "untouched";
  CUjit_option options[4] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                             CU_JIT_WALL_TIME, CU_JIT_THREADS_PER_BLOCK};
  void *values[4] = {errors, reinterpret_cast<void *>(sizeof errors), nullptr,
                     reinterpret_cast<void *>(uintptr_t{96})};

  void tell(const char *what, CUresult result) const {
    float milliseconds;
    memcpy(&milliseconds, &values[2], sizeof milliseconds);
    const size_t used = reinterpret_cast<size_t>(values[1]);
    printf("%s: %s, messages: %d, measured: %d, for %zu threads\n", what, driver_name(result),
           used > 0, milliseconds > 0, reinterpret_cast<size_t>(values[3]));
    if (used != strlen(errors) || !(milliseconds > 0)) exit(4);
  }
};

void must(CUresult expected, CUresult result, const char *what) {
  printf("%s: %s\n", what, driver_name(result));
  if (result != expected) exit(5);
}

size_t block_bytes(int threads) { return threads * size_t{64}; }

}  // namespace

int main() {
  CHECK(cudaFree(nullptr));
  DRIVER(cuMemAlloc(&out, 4));
  const std::string file = write_file(".ptx", kModule, sizeof kModule - 1);

  printf("-- modules\n");
  CUmodule module, from;
  CUfunction function;
  SHOW_DRIVER(cuModuleLoad(&module, "/no/such/file"));
  SHOW_DRIVER(cuModuleLoad(nullptr, "/no/such/file"));
  SHOW_DRIVER(cuModuleLoad(&module, nullptr));
  const CUresult loaded = cuModuleLoad(&module, file.c_str());
  printf("from a file: %s\n", driver_name(loaded));
  DRIVER(cuModuleGetFunction(&function, module, "count"));
  launch("from a file", function);
  SHOW_DRIVER(cuFuncGetModule(&from, function));
  printf("its own: %d\n", from == module);
  SHOW_DRIVER(cuFuncGetModule(nullptr, function));
  SHOW_DRIVER(cuModuleLoadFatBinary(&from, "not one"));
  CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_MAX;
  SHOW_DRIVER(cuFuncLoad(function));
  SHOW_DRIVER(cuFuncIsLoaded(&state, function));
  printf("state %d\n", state);
  SHOW_DRIVER(cuFuncIsLoaded(nullptr, function));
  SHOW_DRIVER(cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_SHARED));
  SHOW_DRIVER(cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(9)));
  SHOW_DRIVER(cuFuncSetCacheConfig(nullptr, CU_FUNC_CACHE_PREFER_SHARED));
  SHOW_DRIVER(cuFuncSetSharedMemConfig(function, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
  SHOW_DRIVER(cuFuncSetSharedMemConfig(nullptr, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));

  printf("-- what is no image, and what is none of PTX\n");
  for (const char *text : {"", "prose", "// a comment"}) {
    must(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&from, text), text);
    must(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadDataEx(&from, text, 0, nullptr, nullptr), text);
  }
  must(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&from, ".version 7.0\n.nonsense"), "wrong PTX");
  const std::string prose = write_file(".prose", "prose", 5), empty = write_file(".empty", "", 0);
  must(CUDA_ERROR_INVALID_IMAGE, cuModuleLoad(&from, prose.c_str()), "a file of prose");
  must(CUDA_ERROR_INVALID_IMAGE, cuModuleLoad(&from, empty.c_str()), "an empty file");
  must(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&from, "/tmp"), "a folder");

  printf("-- options\n");
  Asked of_module, of_bad, of_library, of_link;
  of_module.tell("a module",
                 cuModuleLoadDataEx(&from, kModule, 4, of_module.options, of_module.values));
  DRIVER(cuModuleUnload(from));
  of_bad.tell("a bad one", cuModuleLoadDataEx(&from, ".version 7.0\n.nonsense", 4, of_bad.options,
                                              of_bad.values));
  must(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&from, kModule, 1, nullptr, nullptr),
       "options that are nowhere");

  printf("-- occupancy\n");
  int grid = 0, block = 0;
  SHOW_DRIVER(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, nullptr, 0, 0));
  printf("%d blocks of %d\n", grid, block);
  SHOW_DRIVER(cuOccupancyMaxPotentialBlockSize(&grid, &block, function, block_bytes, 0, 0));
  printf("%d blocks of %d\n", grid, block);
  SHOW_DRIVER(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, function, nullptr, 8192, 96,
                                                        CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE));
  printf("%d blocks of %d\n", grid, block);
  SHOW_DRIVER(cuOccupancyMaxPotentialBlockSize(&grid, nullptr, function, nullptr, 0, 0));
  SHOW_DRIVER(
      cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, function, nullptr, 0, 0, 64));

  printf("-- libraries\n");
  CUlibrary library;
  CUkernel kernel;
  SHOW_DRIVER(
      cuLibraryLoadFromFile(&library, "/no/such/file", nullptr, nullptr, 0, nullptr, nullptr, 0));
  const CUresult opened =
      cuLibraryLoadFromFile(&library, file.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  printf("from a file: %s\n", driver_name(opened));
  CUlibrary other;
  of_library.tell("with options", cuLibraryLoadData(&other, kModule, of_library.options,
                                                    of_library.values, 4, nullptr, nullptr, 0));
  DRIVER(cuLibraryUnload(other));
  must(CUDA_ERROR_INVALID_IMAGE,
       cuLibraryLoadData(&other, "prose", nullptr, nullptr, 0, nullptr, nullptr, 0), "prose");
  DRIVER(cuLibraryGetKernel(&kernel, library, "count"));
  SHOW_DRIVER(cuLibraryGetModule(&from, library));
  SHOW_DRIVER(cuLibraryGetModule(nullptr, library));
  DRIVER(cuModuleGetFunction(&function, from, "count"));
  launch("its module", function);
  launch("as a kernel", reinterpret_cast<CUfunction>(kernel));
  const char *name = nullptr;
  SHOW_DRIVER(cuKernelGetName(&name, kernel));
  printf("%s\n", name);
  SHOW_DRIVER(cuKernelGetName(nullptr, kernel));
  for (size_t i = 0; i < 4; i++) {
    size_t offset = 99, size = 99;
    const CUresult told = cuKernelGetParamInfo(kernel, i, &offset, &size);
    printf("parameter %zu: %s, at %zu, %zu bytes\n", i, driver_name(told), offset, size);
  }
  SHOW_DRIVER(cuKernelGetParamInfo(kernel, 0, nullptr, nullptr));
  SHOW_DRIVER(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_EQUAL, 0));
  SHOW_DRIVER(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_EQUAL, 1000));
  SHOW_DRIVER(cuLibraryUnload(library));

  printf("-- links\n");
  CUlinkState link;
  void *cubin;
  size_t size;
  SHOW_DRIVER(OLD_CALL(cuLinkCreate, unsigned, CUjit_option *, void **, CUlinkState *)(
      0, nullptr, nullptr, &link));
  SHOW_DRIVER(OLD_CALL(cuLinkAddFile, CUlinkState, CUjitInputType, const char *, unsigned,
                       CUjit_option *,
                       void **)(link, CU_JIT_INPUT_PTX, "/no/such/file", 0, nullptr, nullptr));
  SHOW_DRIVER(OLD_CALL(cuLinkAddData, CUlinkState, CUjitInputType, void *, size_t, const char *,
                       unsigned, CUjit_option *,
                       void **)(link, CU_JIT_INPUT_PTX, const_cast<char *>(kModule), sizeof kModule,
                                "count", 0, nullptr, nullptr));
  DRIVER(cuLinkComplete(link, &cubin, &size));
  CUmodule linked;
  SHOW_DRIVER(cuModuleLoadData(&linked, cubin));
  DRIVER(cuModuleGetFunction(&function, linked, "count"));
  launch("linked", function);
  SHOW_DRIVER(cuLinkDestroy(link));
  DRIVER(cuLinkCreate(0, nullptr, nullptr, &link));
  const CUresult added =
      OLD_CALL(cuLinkAddFile, CUlinkState, CUjitInputType, const char *, unsigned, CUjit_option *,
               void **)(link, CU_JIT_INPUT_PTX, file.c_str(), 0, nullptr, nullptr);
  printf("a file: %s\n", driver_name(added));
  must(CUDA_ERROR_INVALID_IMAGE,
       cuLinkAddFile(link, CU_JIT_INPUT_PTX, empty.c_str(), 0, nullptr, nullptr), "an empty file");
  must(CUDA_ERROR_INVALID_IMAGE,
       cuLinkAddData(link, CU_JIT_INPUT_CUBIN, const_cast<char *>(kModule), 0, "", 0, nullptr,
                     nullptr),
       "nothing");
  must(CUDA_ERROR_INVALID_VALUE,
       cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char *>(kModule), sizeof kModule, "", 1,
                     nullptr, nullptr),
       "options that are nowhere");
  DRIVER(cuLinkDestroy(link));
  DRIVER(cuLinkCreate(4, of_link.options, of_link.values, &link));
  DRIVER(cuLinkAddData(link, CU_JIT_INPUT_PTX, const_cast<char *>(kModule), sizeof kModule, "count",
                       0, nullptr, nullptr));
  of_link.tell("with options", cuLinkComplete(link, &cubin, &size));
  DRIVER(cuLinkDestroy(link));

  printf("-- the oldest way to launch\n");
  int by = 20, result = -1;
  SHOW_DRIVER(cuFuncSetBlockShape(function, 1, 1, 1));
  SHOW_DRIVER(cuFuncSetSharedSize(function, 128));
  SHOW_DRIVER(cuParamSetSize(function, 40));
  SHOW_DRIVER(cuParamSetv(function, 0, &out, sizeof out));
  SHOW_DRIVER(cuParamSeti(function, 8, static_cast<unsigned>(by)));
  SHOW_DRIVER(cuLaunchGridAsync(function, 3, 1, nullptr));
  SHOW_DRIVER(cuMemcpyDtoH(&result, out, 4));
  printf("5 + 20 + 3 = %d\n", result);
  SHOW_DRIVER(cuLaunchGridAsync(nullptr, 3, 1, nullptr));
  SHOW_DRIVER(cuLaunchGridAsync(function, 0, 1, nullptr));
  SHOW_DRIVER(cuFuncSetSharedSize(nullptr, 128));

  printf("-- look-ups\n");
  void *found = nullptr;
  SHOW_DRIVER(OLD_CALL(cuGetProcAddress, const char *, void **, int, cuuint64_t)("cuMemAlloc",
                                                                                 &found, 11030, 0));
  printf("found: %d\n", found != nullptr);
  SHOW_DRIVER(OLD_CALL(cuGetProcAddress, const char *, void **, int, cuuint64_t)("cuNoSuchCall",
                                                                                 &found, 12000, 0));
  SHOW_DRIVER(OLD_CALL(cuGetProcAddress, const char *, void **, int, cuuint64_t)("cuCtxGetId",
                                                                                 &found, 11000, 0));

  DRIVER(cuModuleUnload(linked));
  DRIVER(cuModuleUnload(module));
  SHOW_DRIVER(cuFuncLoad(function));
  DRIVER(cuMemFree(out));
  for (const std::string &each : {file, prose, empty}) unlink(each.c_str());
  return 0;
}
