// Modules and libraries: which code is taken from what, and what is refused.
#include <lz4.h>
#include <unistd.h>
#include <zstd.h>

#include <string>

#include "support.h"

namespace {

constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000, kArchSpecific = 0x100000;
constexpr uint64_t kFamilySpecific = 0x200000;

// Kernels called `name`, so that a test sees which text was taken.
std::string text_of(const std::string &name) {
  return ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry " + name +
         "()\n{\n ret;\n}\n";
}

std::string entry(int kind, uint32_t arch, uint64_t flags, const std::string &text) {
  std::string payload = text;
  if (flags & kZstd) {
    payload.resize(ZSTD_compressBound(text.size()));
    payload.resize(ZSTD_compress(payload.data(), payload.size(), text.data(), text.size(), 3));
  } else if (flags & kLz4) {
    payload.resize(static_cast<size_t>(LZ4_compressBound(static_cast<int>(text.size()))));
    payload.resize(static_cast<size_t>(LZ4_compress_default(text.data(), payload.data(),
                                                            static_cast<int>(text.size()),
                                                            static_cast<int>(payload.size()))));
  }
  bool packed = flags & (kZstd | kLz4);
  uint32_t compressed = packed ? static_cast<uint32_t>(payload.size()) : 0;
  uint64_t unpacked = packed ? text.size() : 0;
  payload.resize((payload.size() + 7) / 8 * 8);
  std::string bytes(64, '\0');
  auto put = [&](size_t at, auto value) { memcpy(bytes.data() + at, &value, sizeof value); };
  put(0, static_cast<uint16_t>(kind));
  put(4, uint32_t{64});
  put(8, static_cast<uint64_t>(payload.size()));
  put(16, compressed);
  put(28, arch);
  put(40, flags);
  put(56, unpacked);
  return bytes + payload;
}

std::string fatbin(const std::string &entries) {
  std::string bytes(16, '\0');
  uint32_t magic = 0xBA55ED50;
  uint16_t version = 1, header = 16;
  uint64_t size = entries.size();
  memcpy(bytes.data(), &magic, 4);
  memcpy(bytes.data() + 4, &version, 2);
  memcpy(bytes.data() + 6, &header, 2);
  memcpy(bytes.data() + 8, &size, 8);
  return bytes + entries;
}

CUresult load(const std::string &image, const char *expected) {
  CUmodule module;
  CUresult result = cuModuleLoadData(&module, image.data());
  if (result != CUDA_SUCCESS) return result;
  CUfunction function;
  CUresult found = cuModuleGetFunction(&function, module, expected);
  OK(cuModuleUnload(module));
  return found;
}

void the_best_ptx_is_taken(void **) {
  OK(load(fatbin(entry(1, 50, 1, text_of("old")) + entry(1, 90, 1, text_of("best")) +
                 entry(1, 130, 1, text_of("newer_than_the_device"))),
          "best"));
  OK(load(fatbin(entry(2, 120, 1, "machine code") + entry(1, 75, 1, text_of("ptx"))), "ptx"));
  OK(load(fatbin(entry(1, 90, 1 | kArchSpecific, text_of("only_for_90")) +
                 entry(1, 80, 1, text_of("portable"))),
          "portable"));
  // Where nothing else is left, what is for one architecture or family is better than nothing.
  OK(load(fatbin(entry(1, 100, 1 | kFamilySpecific, text_of("family")) + entry(2, 120, 1, "code")),
          "family"));
  OK(load(fatbin(entry(1, 80, 1 | kZstd, text_of("zstd"))), "zstd"));
  OK(load(fatbin(entry(1, 80, 1 | kLz4, text_of("lz4"))), "lz4"));
  std::string padding = "//";
  for (int i = 0; i < 50000; i++) padding += std::to_string(i * 7919);
  OK(load(fatbin(entry(1, 80, 1 | kZstd, padding + "\n" + text_of("large"))), "large"));
}

void images_without_code_for_us_are_refused(void **) {
  EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, load(fatbin(entry(2, 120, 1, "machine code")), ""));
  EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, load(fatbin(""), ""));
  EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, load(fatbin(entry(1, 130, 1, text_of("new"))), ""));
  EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, load(std::string("\x7f"
                                                        "ELF\2\1\1",
                                                        7) +
                                                std::string(64, 0),
                                            ""));
}

void damaged_images_are_refused(void **) {
  CUmodule module;
  EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "\1\2\3\4"));
  std::string bytes = fatbin(entry(1, 80, 1, text_of("k")));
  uint32_t header = 0xFFFFFFF0;
  memcpy(bytes.data() + 16 + 4, &header, 4);
  EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, bytes.data()));
  bytes = fatbin(entry(1, 80, 1 | kZstd, text_of("k")));
  bytes[16 + 64 + 6] ^= 0x55;
  EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, bytes.data()));
  bytes = fatbin(entry(1, 80, 1 | kLz4, text_of("k")));
  uint64_t claimed = uint64_t{1} << 40;
  memcpy(bytes.data() + 16 + 56, &claimed, 8);
  EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, bytes.data()));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&module, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(nullptr, bytes.data()));
}

void bad_ptx_is_explained_in_the_programs_buffer(void **) {
  char text[400] = "untouched";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {text, reinterpret_cast<void *>(sizeof text)};
  CUmodule module;
  EXPECT(CUDA_ERROR_INVALID_PTX,
         cuModuleLoadDataEx(&module, ".version 8.0 .target sm_80 this is no program", 2, options,
                            values));
  size_t used = reinterpret_cast<size_t>(values[1]);
  assert_true(used > 0 && used < sizeof text);
  assert_int_equal(strlen(text), used);
  values[1] = reinterpret_cast<void *>(sizeof text);
  OK(cuModuleLoadDataEx(&module, kKernels, 2, options, values));
  assert_int_equal(reinterpret_cast<size_t>(values[1]), 0);
  OK(cuModuleUnload(module));
}

void text_that_is_no_ptx_is_no_image(void **) {
  CUmodule module;
  CUlibrary library;
  for (const char *text : {"", " ", "this is no program", "// only a comment", "/* open",
                           "// .version\n", "version 8.0", "/ .version 8.0", "# 1 \"k.ptx\""}) {
    // What an image is shows in its first bytes, which are looked at whether there are so many.
    char image[64] = {};
    strcpy(image, text);
    EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, image));
    EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadDataEx(&module, image, 0, nullptr, nullptr));
    EXPECT(CUDA_ERROR_INVALID_IMAGE,
           cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  for (const char *text : {".nonsense", "\t// text\n/* and\nmore */ .version 8.0\n.nonsense",
                           ".version 8.0\n.visible .entry k() { ret; }"})  // no .target
    EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, text));
  OK(cuModuleLoadData(&module, (std::string("# 1 \"k.ptx\"\n") + kKernels).c_str()));
  OK(cuModuleUnload(module));
}

void what_options_ask_for_is_answered(void **) {
  char text[100] = "untouched";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_WALL_TIME, CU_JIT_THREADS_PER_BLOCK};
  for (bool library : {false, true}) {
    void *values[] = {text, reinterpret_cast<void *>(sizeof text),
                      reinterpret_cast<void *>(uintptr_t{0xffffffff}),
                      reinterpret_cast<void *>(uintptr_t{96})};
    CUmodule module;
    CUlibrary made;
    if (library)
      OK(cuLibraryLoadData(&made, kKernels, options, values, 4, nullptr, nullptr, 0));
    else
      OK(cuModuleLoadDataEx(&module, kKernels, 4, options, values));
    float milliseconds;
    memcpy(&milliseconds, &values[2], sizeof milliseconds);
    assert_int_equal(reinterpret_cast<size_t>(values[1]), 0);
    assert_string_equal(text, "");
    assert_true(milliseconds > 0 && milliseconds < 1e6f);
    assert_int_equal(reinterpret_cast<size_t>(values[3]), 96);
    OK(library ? cuLibraryUnload(made) : cuModuleUnload(module));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, kKernels, 1, nullptr, values));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadDataEx(&module, kKernels, 1, options, nullptr));
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuLibraryLoadData(&made, kKernels, nullptr, values, 1, nullptr, nullptr, 0));
  }
}

// nvcc -rdc=true: the linked program is machine code, the PTX is in the pieces.
void pieces_of_a_linked_program(void **) {
  std::string linked = fatbin(entry(2, 75, 1, "linked"));
  std::string with = fatbin(entry(1, 75, 1, text_of("piece")) + entry(2, 75, 1, "code"));
  std::string without = fatbin(entry(2, 75, 1, "code"));
  struct {
    uint32_t magic = 0x466243B1, version = 2;
    const void *data;
    const void *const *pieces;
  } wrapper;
  const void *one[] = {without.data(), with.data(), nullptr};
  wrapper.data = linked.data();
  wrapper.pieces = one;
  CUmodule module;
  CUfunction function;
  OK(cuModuleLoadData(&module, &wrapper));
  OK(cuModuleGetFunction(&function, module, "piece"));
  std::string more = fatbin(entry(1, 75, 1, text_of("more")));
  const void *two[] = {with.data(), more.data(), nullptr};
  wrapper.pieces = two;
  OK(cuModuleLoadData(&module, &wrapper));
  OK(cuModuleGetFunction(&function, module, "piece"));
  OK(cuModuleGetFunction(&function, module, "more"));
  const void *twice[] = {with.data(), with.data(), nullptr};  // the same name in both
  wrapper.pieces = twice;
  EXPECT(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&module, &wrapper));
}

void names_and_variables(void **) {
  CUmodule module = load_kernels();
  CUfunction function;
  EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "no_such_kernel"));
  unsigned count;
  OK(cuModuleGetFunctionCount(&count, module));
  assert_int_equal(count, 5);
  std::vector<CUfunction> all(count);
  OK(cuModuleEnumerateFunctions(all.data(), count, module));
  const char *name;
  OK(cuFuncGetName(&name, all[1]));
  assert_string_equal(name, "store");
  CUdeviceptr address;
  size_t size, offset;
  OK(cuModuleGetGlobal_v2(&address, &size, module, "counter"));
  assert_int_equal(size, 4);
  uint32_t value;
  OK(cuMemcpyDtoH_v2(&value, address, 4));
  assert_int_equal(value, 41);
  unsigned char table[16];
  OK(cuModuleGetGlobal_v2(&address, &size, module, "table"));
  assert_int_equal(size, 16);
  OK(cuMemcpyDtoH_v2(table, address, 16));
  assert_int_equal(table[15], 16);
  EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&address, &size, module, "nothing_there"));
  OK(cuFuncGetParamInfo(kernel(module, "add_one"), 1, &offset, &size));
  assert_true(offset == 8 && size == 4);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuFuncGetParamInfo(kernel(module, "add_one"), 2, &offset, &size));
  function = kernel(module, "nothing");
  OK(cuModuleUnload(module));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuFuncGetName(&name, function));
}

void attributes(void **) {
  CUmodule module = load_kernels();
  CUfunction function = kernel(module, "at_most_64");
  int value;
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
  assert_int_equal(value, 64);
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function));
  assert_int_equal(value, 1024);
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
  assert_int_equal(value, 47 << 10);
  OK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 98 << 10));
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
  assert_int_equal(value, 98 << 10);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 99 << 10));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
  int blocks, block;
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 64, 0));
  assert_true(blocks > 0);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 64, 50 << 10));
  assert_int_equal(blocks, 1);
  OK(cuOccupancyMaxPotentialBlockSize(&blocks, &block, function, nullptr, 0, 0));
  assert_true(block == 64 && blocks > 0);
}

void libraries(void **state) {
  // Kernels are found without any context, as the runtime asks for them.
  CUcontext context;
  OK(cuCtxPopCurrent_v2(&context));
  assert_ptr_equal(context, *state);
  CUlibrary library;
  CUkernel store, again;
  OK(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  OK(cuLibraryGetKernel(&store, library, "store"));
  OK(cuLibraryGetKernel(&again, library, "store"));
  assert_ptr_equal(store, again);
  EXPECT(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&again, library, "no_such_kernel"));
  size_t offset, size;
  OK(cuKernelGetParamInfo(store, 0, &offset, &size));
  assert_true(offset == 0 && size == 8);
  OK(cuCtxPushCurrent_v2(context));

  CUdeviceptr address;
  OK(cuLibraryGetGlobal(&address, nullptr, library, "counter"));
  uint32_t number = 5;
  void *parameters[] = {&address, &number};
  OK(cuLaunchKernel(reinterpret_cast<CUfunction>(store), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters,
                    nullptr));
  OK(cuMemcpyDtoH_v2(&number, address, 4));
  assert_int_equal(number, 5);
  CUfunction function;
  OK(cuKernelGetFunction(&function, store));
  number = 6;
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  OK(cuMemcpyDtoH_v2(&number, address, 4));
  assert_int_equal(number, 6);

  // Another context has variables of its own.
  CUcontext other;
  CUdeviceptr other_address;
  OK(cuCtxCreate_v2(&other, 0, 0));
  OK(cuLibraryGetGlobal(&other_address, nullptr, library, "counter"));
  assert_true(other_address != address);
  OK(cuMemcpyDtoH_v2(&number, other_address, 4));
  assert_int_equal(number, 41);
  OK(cuCtxDestroy_v2(other));

  unsigned count;
  OK(cuLibraryGetKernelCount(&count, library));
  assert_int_equal(count, 5);
  OK(cuLibraryUnload(library));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(library));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(reinterpret_cast<CUfunction>(store), 1, 1, 1, 1,
                                                   1, 1, 0, nullptr, parameters, nullptr));
  EXPECT(CUDA_ERROR_INVALID_PTX, cuLibraryLoadData(&library, ".version nonsense", nullptr, nullptr,
                                                   0, nullptr, nullptr, 0));
}

void files(void **) {
  char path[] = "/tmp/software-device-XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  ssize_t length = static_cast<ssize_t>(strlen(kKernels));
  assert_int_equal(write(file, kKernels, strlen(kKernels)), length);
  close(file);
  CUmodule module;
  OK(cuModuleLoad(&module, path));
  OK(cuModuleUnload(module));
  unlink(path);
  EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, path));
  EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/tmp"));
  // An empty one is there, but nothing is in it.
  char empty[] = "/tmp/software-device-XXXXXX";
  close(mkstemp(empty));
  EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoad(&module, empty));
  unlink(empty);
}

int setup(void **) {
  // Refusals are expected here, and what is logged about them is not looked at.
  return freopen("/dev/null", "w", stderr) ? 0 : -1;
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(the_best_ptx_is_taken),
      TEST(images_without_code_for_us_are_refused),
      TEST(damaged_images_are_refused),
      TEST(bad_ptx_is_explained_in_the_programs_buffer),
      TEST(text_that_is_no_ptx_is_no_image),
      TEST(what_options_ask_for_is_answered),
      TEST(pieces_of_a_linked_program),
      TEST(names_and_variables),
      TEST(attributes),
      TEST(libraries),
      TEST(files),
  };
  return cmocka_run_group_tests(tests, setup, nullptr);
}
