// Many threads load modules and link at once, small ones and larger ones, which are asked
// for first.
// flags: -lcuda
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "../check.h"
#include "../check_driver.h"

namespace {

constexpr int kThreads = 24, kRounds = 3;
constexpr size_t kLarge = size_t{100} << 10;

// A module that no server has seen: its kernel writes `value`.
std::string module_of(int value, size_t bytes) {
  std::string text = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry tell(.param .u64 out)
{
  .reg .b64 %d;
  ld.param.u64 %d, [out];
  st.global.u32 [%d], )" +
                     std::to_string(value) + ";\n  ret;\n}\n";
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  text += "// " + std::to_string(getpid()) + " " + std::to_string(now) + "\n";
  if (text.size() < bytes) text += "//" + std::string(bytes - text.size() - 3, 'x') + "\n";
  return text;
}

int run(CUmodule module, CUdeviceptr out) {
  CUfunction tell;
  int value = -1;
  DRIVER(cuModuleGetFunction(&tell, module, "tell"));
  void *parameters[] = {&out};
  DRIVER(cuLaunchKernel(tell, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, parameters, nullptr));
  DRIVER(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  DRIVER(cuMemcpyDtoH(&value, out, sizeof value));
  return value;
}

int load(const std::string &text, CUdeviceptr out) {
  CUmodule module;
  DRIVER(cuModuleLoadData(&module, text.c_str()));
  const int value = run(module, out);
  DRIVER(cuModuleUnload(module));
  return value;
}

int link(const std::string &text, CUdeviceptr out) {
  CUlinkState state;
  void *cubin;
  size_t size;
  DRIVER(cuLinkCreate(0, nullptr, nullptr, &state));
  DRIVER(cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char *>(text.c_str()), text.size() + 1,
                       "input", 0, nullptr, nullptr));
  DRIVER(cuLinkComplete(state, &cubin, &size));
  CUmodule module;
  DRIVER(cuModuleLoadData(&module, cubin));
  const int value = run(module, out);
  DRIVER(cuModuleUnload(module));
  DRIVER(cuLinkDestroy(state));
  return value;
}

}  // namespace

int main() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  std::atomic<int> ready{0}, right{0};
  std::vector<std::thread> threads;
  for (int own = 0; own < kThreads; own++) {
    threads.emplace_back([&, own] {
      CHECK(cudaSetDevice(0));
      CUdeviceptr out;
      DRIVER(cuMemAlloc(&out, sizeof(int)));
      for (int round = 0; round < kRounds; round++) {
        // All begin each round together.
        ready++;
        while (ready < kThreads * (round + 1)) std::this_thread::yield();
        const int value = own * kRounds + round;
        const std::string text = module_of(value, own % 3 ? kLarge : 0);
        if ((own % 4 ? load(text, out) : link(text, out)) == value) right++;
      }
      DRIVER(cuMemFree(out));
    });
  }
  for (std::thread &thread : threads) thread.join();
  printf("%d of %d modules did what they are for\n", right.load(), kThreads * kRounds);
  return 0;
}
