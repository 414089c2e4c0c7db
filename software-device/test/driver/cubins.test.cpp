// Machine code (the trait `empty-cubins`): what a cubin says of its kernels and variables is what
// programs are told, launches check their arguments and do nothing, and what is damaged is refused.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "cubin_file.h"
#include "support.h"

namespace {

const std::string kParameters = CubinFile::parameter(1, 8, 4) + CubinFile::parameter(0, 0, 8);

// A kernel of each sort and a variable of each.
CubinFile example(uint32_t arch = 90) {
  CubinFile file(arch);
  file.kernel("plain", kParameters, 40, 96, 512);
  // As a parameter that is aligned to 128 bytes lies, behind what the constant bank begins with.
  file.kernel("apart",
              CubinFile::parameter(0, 112, 256) + CubinFile::large_parameter(1, 368, 20000));
  file.kernel("bounded", CubinFile::record(0x05, {64, 2, 1}));
  file.kernel("required", CubinFile::record(0x10, {32, 4, 1}));
  file.kernel("clustered", CubinFile::record(0x3d, {4, 2, 1}) + std::string("\1\x3e\0\0", 4));
  file.kernel("explicit", std::string("\1\x3e\0\0", 4) + CubinFile::record(0x3f, {4}));
  file.symbol("called", STT_FUNC, 0, 4, 0, 64);  // no kernel
  const size_t zeros = file.add(".nv.global", SHT_NOBITS, "", 8, 100);
  file.symbol("zeros", STT_OBJECT, 0, zeros, 0, 24);
  file.symbol("odd", STT_OBJECT, 0, zeros, 93, 7);
  const size_t values = file.add(".nv.global.init", SHT_PROGBITS, "12345678abcdefgh", 8);
  file.symbol("values", STT_OBJECT, 0, values, 0, 8);
  file.symbol("shared_with_host", STT_OBJECT, 4, values, 8, 8);
  const size_t constants = file.add(".nv.constant3", SHT_PROGBITS, "constant", 4);
  file.symbol("constants", STT_OBJECT, 0, constants, 0, 8);
  file.symbol("elsewhere", STT_OBJECT, 0, SHN_UNDEF, 0, 4);
  return file;
}

CUmodule load(const std::string &file) {
  CUmodule module;
  OK(cuModuleLoadData(&module, file.data()));
  return module;
}

// From a file, as there the driver knows where it ends.
CUresult load_from_file(const std::string &bytes) {
  const int file = memfd_create("cubin", 0);
  assert_int_equal(write(file, bytes.data(), bytes.size()), bytes.size());
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  CUmodule module;
  const CUresult result = cuModuleLoad(&module, path.c_str());
  if (result == CUDA_SUCCESS) OK(cuModuleUnload(module));
  close(file);
  return result;
}

CUfunction function_of(CUmodule module, const char *name) {
  CUfunction function;
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

int attribute(CUfunction function, CUfunction_attribute which) {
  int value = -1;
  OK(cuFuncGetAttribute(&value, which, function));
  return value;
}

CUresult launch(CUfunction function, unsigned threads, void **parameters, unsigned shared = 0) {
  return cuLaunchKernel(function, 70000, 1, 1, threads, 1, 1, shared, nullptr, parameters, nullptr);
}

void kernels_are_as_the_file_says(void **) {
  for (uint8_t abi : {uint8_t{7}, uint8_t{8}}) {
    const CUmodule module = load(example().bytes(abi));
    unsigned count = 0;
    OK(cuModuleGetFunctionCount(&count, module));
    assert_int_equal(count, 6);
    const CUfunction plain = function_of(module, "plain");
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_NUM_REGS), 40);
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES), 96);
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 512);
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    assert_int_equal(attribute(plain, CU_FUNC_ATTRIBUTE_PTX_VERSION), 90);
    size_t offset = 7, size = 7;
    OK(cuFuncGetParamInfo(plain, 0, &offset, &size));
    assert_int_equal(offset, 0);
    assert_int_equal(size, 8);
    OK(cuFuncGetParamInfo(plain, 1, &offset, &size));
    assert_int_equal(offset, 8);
    assert_int_equal(size, 4);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(plain, 2, &offset, &size));
    const CUfunction apart = function_of(module, "apart");
    OK(cuFuncGetParamInfo(apart, 0, &offset, &size));
    assert_int_equal(offset, 112);
    OK(cuFuncGetParamInfo(apart, 1, &offset, &size));
    assert_int_equal(size, 20000);
    assert_int_equal(
        attribute(function_of(module, "bounded"), CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 128);
    const CUfunction clustered = function_of(module, "clustered");
    assert_int_equal(attribute(clustered, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH), 4);
    assert_int_equal(attribute(clustered, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT), 2);
    assert_int_equal(attribute(clustered, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET), 0);
    assert_int_equal(
        attribute(function_of(module, "explicit"), CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET), 1);
    CUfunction none;
    EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&none, module, "called"));
    OK(cuModuleUnload(module));
  }
}

void variables_are_as_the_file_says(void **) {
  const CUmodule module = load(example().bytes());
  CUdeviceptr at;
  size_t size;
  char bytes[32];
  const auto read = [&](const char *name) {
    OK(cuModuleGetGlobal_v2(&at, &size, module, name));
    OK(cuMemcpyDtoH_v2(bytes, at, size));
    return std::string(bytes, size);
  };
  assert_true(read("zeros") == std::string(24, '\0'));
  assert_int_equal(at % 8, 0);
  assert_true(read("odd") == std::string(7, '\0'));
  assert_true(read("values") == "12345678");
  assert_true(read("shared_with_host") == "abcdefgh");
  assert_memory_equal(reinterpret_cast<const void *>(at), "abcdefgh", 8);
  assert_true(read("constants") == "constant");
  OK(cuMemsetD8_v2(at, 'z', 8));
  assert_true(read("constants") == "zzzzzzzz");
  EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&at, &size, module, "elsewhere"));
  OK(cuModuleUnload(module));
}

void launches_check_and_do_nothing(void **) {
  const CUmodule module = load(example().bytes());
  uint64_t address = 1;  // nobody follows it
  int number = 2;
  void *both[] = {&address, &number};
  const CUfunction plain = function_of(module, "plain");
  OK(launch(plain, 1024, both));
  EXPECT(CUDA_ERROR_INVALID_VALUE, launch(plain, 1024, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, launch(plain, 1025, both));
  EXPECT(CUDA_ERROR_INVALID_VALUE, launch(plain, 32, both, 64 << 10));
  OK(cuFuncSetAttribute(plain, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
  OK(launch(plain, 32, both, 64 << 10));
  EXPECT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, launch(function_of(module, "bounded"), 129, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, launch(function_of(module, "required"), 32, nullptr));
  OK(cuLaunchKernel(function_of(module, "required"), 1, 1, 1, 32, 4, 1, 0, nullptr, nullptr,
                    nullptr));
  EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernel(function_of(module, "clustered"), 4, 1, 1,
                                                         32, 1, 1, 0, nullptr, nullptr, nullptr));
  OK(cuCtxSynchronize());
  OK(cuModuleUnload(module));
}

// Code for a GPU wants the shared memory that its blocks can have (the trait `device`).
void blocks_have_what_those_of_the_gpu_have(void **) {
  int most = 0;
  OK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
  assert_int_equal(most, 227 << 10);
  const CUmodule module = load(example().bytes());
  const CUfunction plain = function_of(module, "plain");
  const auto set = [&](CUfunction function, int bytes) {
    return cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
  };
  EXPECT(CUDA_ERROR_INVALID_VALUE, set(plain, most - 511));
  OK(set(plain, most - 512));
  int blocks = 0;
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, plain, 32, most - 512));
  assert_int_equal(blocks, 1);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function_of(module, "bounded"), 64, 0));
  assert_int_equal(blocks, 32);
  OK(cuModuleUnload(module));
  const CUmodule executed = load_kernels();
  const CUfunction nothing = function_of(executed, "nothing");
  OK(set(nothing, most));
  OK(cuLaunchKernel(nothing, 2, 1, 1, 32, 1, 1, static_cast<unsigned>(most), nullptr, nullptr,
                    nullptr));
  OK(cuCtxSynchronize());
  OK(cuModuleUnload(executed));
}

void launches_keep_the_order_of_their_stream(void **) {
  const CUmodule module = load(example().bytes());
  const CUfunction bounded = function_of(module, "bounded");
  CUstream stream;
  CUevent event;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&event, 0));
  Gate gate;
  gate.hold(stream);
  OK(cuLaunchKernel(bounded, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr));
  OK(cuEventRecord(event, stream));
  EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
  gate.open();
  OK(cuStreamSynchronize(stream));
  OK(cuEventQuery(event));
  OK(cuEventDestroy_v2(event));
  OK(cuStreamDestroy_v2(stream));
  OK(cuModuleUnload(module));
}

void libraries_of_machine_code_work(void **) {
  const std::string file = example().bytes();
  CUlibrary library;
  OK(cuLibraryLoadData(&library, file.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel kernel;
  OK(cuLibraryGetKernel(&kernel, library, "plain"));
  size_t offset, size;
  OK(cuKernelGetParamInfo(kernel, 1, &offset, &size));
  assert_int_equal(offset, 8);
  uint64_t address = 1;
  int number = 2;
  void *both[] = {&address, &number};
  OK(launch(reinterpret_cast<CUfunction>(kernel), 32, both));
  OK(cuCtxSynchronize());
  OK(cuLibraryUnload(library));
}

// A fatbin of two entries: PTX of that version, and machine code.
std::string fatbin(uint16_t ptx_major, uint16_t ptx_minor, const std::string &cubin) {
  std::string entries;
  const auto add = [&](uint16_t kind, uint16_t major, uint16_t minor, std::string payload) {
    payload.resize((payload.size() + 8) / 8 * 8);
    std::string head(64, '\0');
    const auto put = [&](size_t at, auto value) { memcpy(head.data() + at, &value, sizeof value); };
    put(0, kind);
    put(4, uint32_t{64});
    put(8, uint64_t{payload.size()});
    put(24, minor);
    put(26, major);
    put(28, uint32_t{90});
    entries += head + payload;
  };
  add(1, ptx_major, ptx_minor,
      ".version " + std::to_string(ptx_major) + "." + std::to_string(ptx_minor) +
          "\n.target sm_90\n.address_size 64\n.visible .entry executed() { ret; }");
  add(2, 1, 7, cubin);
  std::string file(16, '\0');
  const uint32_t magic = 0xBA55ED50;
  const uint16_t version = 1, header = 16;
  const uint64_t size = entries.size();
  memcpy(file.data(), &magic, 4);
  memcpy(file.data() + 4, &version, 2);
  memcpy(file.data() + 6, &header, 2);
  memcpy(file.data() + 8, &size, 8);
  return file + entries;
}

void what_can_be_executed_is(void **) {
  const bool newest = !strstr(getenv("SOFTWARE_DEVICE_TRAITS"), "nvidia-like");
  for (uint16_t minor : {uint16_t{0}, uint16_t{2}}) {
    const CUmodule module = load(fatbin(9, minor, example().bytes()));
    // Driver 580 compiles PTX up to 9.0.
    function_of(module, minor == 0 || newest ? "executed" : "plain");
    OK(cuModuleUnload(module));
  }
}

void code_for_other_devices_is_refused(void **) {
  OK(load_from_file(example(90).bytes()));
  for (uint32_t arch : {75u, 89u, 91u, 100u})
    EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, load_from_file(example(arch).bytes()));
  CubinFile piece = example();
  piece.type = ET_REL;
  EXPECT(CUDA_ERROR_INVALID_IMAGE, load_from_file(piece.bytes()));
}

void damaged_records_are_refused(void **) {
  const std::string good = CubinFile::parameter(0, 0, 8);
  const auto refuse = [](const std::string &records) {
    CubinFile file;
    file.kernel("k", records);
    EXPECT(CUDA_ERROR_INVALID_IMAGE, load_from_file(file.bytes()));
  };
  refuse(good + good);                                          // twice
  refuse(CubinFile::parameter(1, 8, 8));                        // and no first one
  refuse(good + CubinFile::parameter(1, 4, 8));                 // in it
  refuse(good + CubinFile::large_parameter(1, 8, 0xfffffff0));  // too large
  refuse(good.substr(0, good.size() - 1));
  refuse(CubinFile::record(0x17, {0, 0}));
  refuse(CubinFile::record(0x05, {0, 1, 1}));
  refuse(CubinFile::record(0x3d, {1}));
  refuse(CubinFile::record(0x3d, {1, 0, 1}));
  refuse("abc");
  CubinFile outside;
  outside.symbol("v", STT_OBJECT, 0, outside.add(".nv.global", SHT_NOBITS, "", 8, 8), 4, 8);
  EXPECT(CUDA_ERROR_INVALID_IMAGE, load_from_file(outside.bytes()));
  CubinFile large;
  large.kernel("k", "", 32, 0, uint64_t{1} << 32);
  EXPECT(CUDA_ERROR_INVALID_IMAGE, load_from_file(large.bytes()));
}

// A file of 3 MB whose symbols would take 10 GB, had each a name of its own.
void names_take_no_more_than_the_file_has(void **) {
  CubinFile file;
  const uint32_t first = file.kernel(std::string(100000, 'k'), "");
  for (int i = 0; i < 100000; i++) file.again(first);
  EXPECT(CUDA_ERROR_INVALID_IMAGE, load_from_file(file.bytes()));
}

// A file of 1 MB whose sections would have 600 MB of names to look through.
void sections_do_not_share_long_names(void **) {
  CubinFile file;
  file.kernel(std::string(100000, 'k'), "");
  for (int i = 0; i < 6000; i++) file.add("other", SHT_PROGBITS, "");
  std::string bytes = file.bytes();
  OK(load_from_file(bytes));
  Elf64_Ehdr header;
  memcpy(&header, bytes.data(), sizeof header);
  char *sections = bytes.data() + header.e_shoff;
  const Elf64_Word text = reinterpret_cast<Elf64_Shdr *>(sections)[4].sh_name;
  for (int i = 7; i < 6000; i++) reinterpret_cast<Elf64_Shdr *>(sections)[i].sh_name = text;
  EXPECT(CUDA_ERROR_INVALID_IMAGE, load_from_file(bytes));
}

// Whatever stands in whatever place, there is an answer.
void any_bytes_are_safe(void **) {
  CubinFile small;
  small.kernel("k", kParameters);
  small.symbol("v", STT_OBJECT, 0, small.add(".nv.constant3", SHT_PROGBITS, "value", 4), 0, 5);
  const std::string good = small.bytes();
  OK(load_from_file(good));
  for (size_t size = 0; size < good.size(); size += 7)
    assert_int_not_equal(load_from_file(good.substr(0, size)), CUDA_SUCCESS);
  for (size_t at = 0; at < good.size(); at++)
    for (int value : {0, 1, 0x7f, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(value);
      load_from_file(bad);
    }
  OK(load_from_file(good));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(kernels_are_as_the_file_says),
      cmocka_unit_test(variables_are_as_the_file_says),
      cmocka_unit_test(launches_check_and_do_nothing),
      cmocka_unit_test(blocks_have_what_those_of_the_gpu_have),
      cmocka_unit_test(launches_keep_the_order_of_their_stream),
      cmocka_unit_test(libraries_of_machine_code_work),
      cmocka_unit_test(what_can_be_executed_is),
      cmocka_unit_test(code_for_other_devices_is_refused),
      cmocka_unit_test(damaged_records_are_refused),
      cmocka_unit_test(names_take_no_more_than_the_file_has),
      cmocka_unit_test(sections_do_not_share_long_names),
      cmocka_unit_test(any_bytes_are_safe),
  };
  return cmocka_run_group_tests(tests, use_primary, release_primary);
}
