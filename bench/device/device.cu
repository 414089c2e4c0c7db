// What the software device reaches, each figure with its counterpart measured right before it.
//
//   bench-device throughput [quick]   processor time of this process, of each kernel and of the
//   same
//                                     work in plain C; results are compared
//   bench-device latency [quick]      wall time of launches and waits
//   bench-device translate FILE       of PTX: the index, and the translation of every kernel
//
// One line of JSON for each figure.
#include <cuda.h>
#include <sys/resource.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "kernels.cuh"
#include "plain.h"

namespace {

bool quick = false;

void check(cudaError_t result, const char *what) {
  if (result == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  exit(1);
}
#define OK(call) check(call, #call)

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Of `work`, done as often as takes a fifth of a second.
double time_of(clockid_t clock, const std::function<void()> &work) {
  work();  // first touches, translation
  double spent = 0;
  int times = 0;
  do {
    double before = seconds(clock);
    work();
    spent += seconds(clock) - before;
    times++;
  } while (!quick && spent < 0.2);
  return spent / times;
}

void figure(const char *name, const char *unit, double device, double plain) {
  printf("{\"name\":\"%s\",\"unit\":\"%s\",\"device\":%.6g,\"plain\":%.6g}\n", name, unit, device,
         plain);
  fflush(stdout);
}

void expect(bool good, const char *name) {
  if (good) return;
  fprintf(stderr, "%s: the kernel and the C function differ\n", name);
  exit(1);
}

template <class T>
class Array {
 public:
  explicit Array(size_t count) : host(count) { OK(cudaMalloc(&device, count * sizeof(T))); }
  ~Array() { cudaFree(device); }
  void up() { OK(cudaMemcpy(device, host.data(), bytes(), cudaMemcpyHostToDevice)); }
  std::vector<T> down() const {
    std::vector<T> copy(host.size());
    OK(cudaMemcpy(copy.data(), device, bytes(), cudaMemcpyDeviceToHost));
    return copy;
  }
  size_t bytes() const { return host.size() * sizeof(T); }
  std::vector<T> host;
  T *device = nullptr;
};

Array<float> floats(size_t count, float least, float most) {
  Array<float> array(count);
  uint32_t seed = 12345;
  for (float &one : array.host) {
    seed = seed * 1664525 + 1013904223;
    one = least + (most - least) * static_cast<float>(seed >> 8) / 16777216.0f;
  }
  array.up();
  return array;
}

bool close(const std::vector<float> &a, const std::vector<float> &b, float tolerance) {
  for (size_t i = 0; i < a.size(); i++)
    if (!(std::fabs(a[i] - b[i]) <= tolerance * (1 + std::fabs(b[i])))) return false;
  return true;
}

// `amount` of work per run, in units per second divided by a thousand million.
void compare(const char *name, const char *unit, double amount, const std::function<void()> &plain,
             const std::function<void()> &kernel) {
  const double c = time_of(CLOCK_PROCESS_CPUTIME_ID, plain);
  const double d = time_of(CLOCK_PROCESS_CPUTIME_ID, [&] {
    kernel();
    OK(cudaGetLastError());
    OK(cudaDeviceSynchronize());
  });
  figure(name, unit, amount / d * 1e-9, amount / c * 1e-9);
}

void vectors() {
  const int n = quick ? 1 << 16 : 1 << 24;
  auto a = floats(n, 0, 1), b = floats(n, 0, 1);
  Array<float> out(n);
  compare(
      "vector-add", "GB/s", 12.0 * n,
      [&] { plain::vector_add(a.host.data(), b.host.data(), out.host.data(), n); },
      [&] { vector_add<<<n / 256, 256>>>(a.device, b.device, out.device, n); });
  expect(out.down() == out.host, "vector-add");

  float sum = 0;
  Array<float> total(1);
  compare(
      "reduction", "GB/s", 4.0 * n, [&] { sum = plain::reduce(a.host.data(), n); },
      [&] {
        OK(cudaMemsetAsync(total.device, 0, 4));
        reduce<<<1024, 256>>>(a.device, total.device, n);
      });
  expect(std::fabs(total.down()[0] / (0.5f * static_cast<float>(n)) - 1) < 0.01, "reduction");
}

void matrices() {
  const int n = quick ? 128 : 1024;
  const double work = 2.0 * n * n * n;
  const auto size = static_cast<size_t>(n) * static_cast<size_t>(n);
  auto a = floats(size, -1, 1), b = floats(size, -1, 1);
  Array<float> out(size);
  compare(
      "sgemm", "GFLOP/s", work,
      [&] { plain::sgemm(a.host.data(), b.host.data(), out.host.data(), n); },
      [&] { sgemm<<<dim3(n / 128, n / 128), 256>>>(a.device, b.device, out.device, n); });
  expect(close(out.down(), out.host, 1e-3f), "sgemm");

  // Its counterpart is the kernel for single precision.
  Array<half> x(size), y(size);
  for (size_t i = 0; i < size; i++) {
    x.host[i] = __float2half(a.host[i]);
    y.host[i] = __float2half(b.host[i]);
  }
  x.up();
  y.up();
  compare(
      "half-gemm", "GFLOP/s", work,
      [&] {
        sgemm<<<dim3(n / 128, n / 128), 256>>>(a.device, b.device, out.device, n);
        OK(cudaDeviceSynchronize());
      },
      [&] { half_gemm<<<dim3(n / 64, n / 64), 128>>>(x.device, y.device, out.device, n); });
  expect(close(out.down(), out.host, 3e-2f), "half-gemm");

  const int m = quick ? 256 : 4096;
  const auto many = static_cast<size_t>(m) * static_cast<size_t>(m);
  auto in = floats(many, 0, 1);
  Array<float> result(many);
  compare(
      "transpose", "GB/s", 8.0 * static_cast<double>(many),
      [&] { plain::transpose(in.host.data(), result.host.data(), m); },
      [&] { transpose<<<dim3(m / 32, m / 32), dim3(32, 8)>>>(in.device, result.device, m); });
  expect(result.down() == result.host, "transpose");
  result.up();
  compare(
      "stencil", "GB/s", 8.0 * static_cast<double>(many),
      [&] { plain::stencil(in.host.data(), result.host.data(), m); },
      [&] { stencil<<<dim3(m / 32, m / 8), dim3(32, 8)>>>(in.device, result.device, m); });
  expect(close(result.down(), result.host, 1e-5f), "stencil");
}

void elements() {
  const int n = quick ? 1 << 14 : 1 << 22;
  Array<uint8_t> bytes(n);
  for (int i = 0; i < n; i++)
    bytes.host[static_cast<size_t>(i)] = static_cast<uint8_t>((i * 2654435761u) >> 24);
  bytes.up();
  Array<uint32_t> bins(256);
  compare(
      "histogram", "GB/s", n, [&] { plain::histogram(bytes.host.data(), bins.host.data(), n); },
      [&] {
        OK(cudaMemsetAsync(bins.device, 0, 1024));
        histogram<<<64, 256>>>(reinterpret_cast<const uchar4 *>(bytes.device), bins.device, n / 4);
      });
  expect(bins.down() == bins.host, "histogram");

  auto price = floats(n, 5, 30), strike = floats(n, 1, 100), years = floats(n, 0.25f, 10);
  Array<float> call(n), put(n);
  compare(
      "black-scholes", "Goptions/s", n,
      [&] {
        plain::black_scholes(price.host.data(), strike.host.data(), years.host.data(),
                             call.host.data(), put.host.data(), n);
      },
      [&] {
        black_scholes<<<n / 256, 256>>>(price.device, strike.device, years.device, call.device,
                                        put.device, n);
      });
  expect(close(call.down(), call.host, 1e-3f) && close(put.down(), put.host, 1e-3f),
         "black-scholes");

  const int m = n / 4;
  Array<uint32_t> in(m), steps(m);
  for (int i = 0; i < m; i++) in.host[static_cast<size_t>(i)] = static_cast<uint32_t>(i) + 1;
  in.up();
  double work = 0;
  plain::divergent(in.host.data(), steps.host.data(), m);
  for (uint32_t one : steps.host) work += one;
  compare(
      "divergent", "Gsteps/s", work,
      [&] { plain::divergent(in.host.data(), steps.host.data(), m); },
      [&] { divergent<<<m / 256, 256>>>(in.device, steps.device, m); });
  expect(steps.down() == steps.host, "divergent");
}

// Microseconds of wall time: of each of `many` launches, and of waiting for the last.
void launches(const char *name, const std::function<void()> &launch) {
  const int many = quick ? 10 : 1000;
  launch();
  OK(cudaDeviceSynchronize());
  double before = seconds(CLOCK_MONOTONIC);
  for (int i = 0; i < many; i++) launch();
  const double returned = seconds(CLOCK_MONOTONIC) - before;
  OK(cudaDeviceSynchronize());
  const double all = seconds(CLOCK_MONOTONIC) - before;
  figure((std::string(name) + ".returned").c_str(), "us", returned / many * 1e6, 0);
  figure((std::string(name) + ".done").c_str(), "us", all / many * 1e6, 0);
}

void latencies() {
  Array<uint32_t> out(65536 * 32);
  launches("launch.empty", [] { nothing<<<1, 1>>>(); });
  launches("launch.one-block", [&] { little<<<1, 256>>>(out.device); });
  const int many = quick ? 10 : 1000;
  double waited = 0, idle = 0;
  for (int i = 0; i < many; i++) {
    nothing<<<1, 1>>>();
    double before = seconds(CLOCK_MONOTONIC);
    OK(cudaStreamSynchronize(nullptr));
    waited += seconds(CLOCK_MONOTONIC) - before;
    before = seconds(CLOCK_MONOTONIC);
    OK(cudaStreamSynchronize(nullptr));
    idle += seconds(CLOCK_MONOTONIC) - before;
  }
  figure("synchronise", "us", waited / many * 1e6, 0);
  figure("synchronise.idle", "us", idle / many * 1e6, 0);
  const double tiny_blocks = time_of(CLOCK_PROCESS_CPUTIME_ID, [&] {
    tiny<<<65536, 32>>>(out.device);
    OK(cudaDeviceSynchronize());
  });
  figure("block", "ns", tiny_blocks / 65536 * 1e9, 0);
}

// Seconds of wall time, for a comparison of numbers of workers.
void parallel() {
  const int n = quick ? 1 << 14 : 1 << 20;
  Array<uint32_t> in(n), steps(n);
  for (int i = 0; i < n; i++) in.host[static_cast<size_t>(i)] = static_cast<uint32_t>(i) + 1;
  in.up();
  figure("parallel", "s",
         time_of(CLOCK_MONOTONIC,
                 [&] {
                   divergent<<<n / 256, 256>>>(in.device, steps.device, n);
                   OK(cudaDeviceSynchronize());
                 }),
         0);
}

size_t resident() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages >> pages;
  return pages * 4096;
}

// Statements within bodies, directives not counted.
size_t count_instructions(const std::string &text) {
  size_t count = 0;
  int depth = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos) continue;
    if (line[first] == '{' && line.size() == first + 1) depth++;
    if (line[first] == '}' && line.size() == first + 1) depth--;
    if (depth && line.back() == ';' && line[first] != '.') count++;
  }
  return count;
}

void translate(const char *path) {
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (text.empty()) {
    fprintf(stderr, "%s holds no PTX\n", path);
    exit(1);
  }
  OK(cudaFree(nullptr));
  auto driver = [](CUresult result, const char *what) {
    if (result == CUDA_SUCCESS) return;
    fprintf(stderr, "%s: CUresult %d\n", what, static_cast<int>(result));
    exit(1);
  };
  CUmodule module;
  driver(cuModuleLoadData(&module, text.c_str()), "cuModuleLoadData");
  unsigned count = 0;
  driver(cuModuleGetFunctionCount(&count, module), "cuModuleGetFunctionCount");
  std::vector<CUfunction> functions(count);
  driver(cuModuleEnumerateFunctions(functions.data(), count, module), "cuModuleEnumerateFunctions");
  const size_t memory = resident();
  double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (CUfunction function : functions) {
    int registers;
    driver(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
           "cuFuncGetAttribute");
  }
  const double spent = seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
  const auto instructions = static_cast<double>(count_instructions(text));
  figure("translation", "us/instruction", spent / instructions * 1e6, 0);
  figure("translation.kernel", "ms", spent / count * 1e3, 0);
  figure("translation.memory", "bytes/instruction",
         (static_cast<double>(resident()) - static_cast<double>(memory)) / instructions, 0);

  // A large module: the same again and again under other names.
  std::string header = text.substr(0, text.find('\n', text.find(".address_size")) + 1);
  std::string body = text.substr(header.size()), large = header;
  const size_t wanted = quick ? 4 << 20 : 100 << 20;
  for (int copy = 0; large.size() < wanted; copy++) {
    // Mangled names begin with _Z; another beginning keeps them apart.
    const std::string prefix = "_C" + std::to_string(copy) + "_";
    for (size_t at = 0, next; at < body.size(); at = next) {
      next = body.find("_Z", at + 1);
      if (next == std::string::npos) next = body.size();
      if (at && (body[at - 1] == ' ' || body[at - 1] == '\t' || body[at - 1] == '['))
        large += prefix;
      large.append(body, at, next - at);
    }
  }
  before = seconds(CLOCK_PROCESS_CPUTIME_ID);
  driver(cuModuleLoadData(&module, large.c_str()), "cuModuleLoadData");
  figure("index", "MB/s",
         static_cast<double>(large.size()) / (seconds(CLOCK_PROCESS_CPUTIME_ID) - before) * 1e-6,
         0);
}

}  // namespace

int main(int argc, char **argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  quick = argc > 2 && std::string(argv[argc - 1]) == "quick";
  if (what == "throughput") {
    vectors();
    matrices();
    elements();
  } else if (what == "latency") {
    latencies();
  } else if (what == "parallel") {
    parallel();
  } else if (what == "translate" && argc > 2) {
    translate(argv[2]);
  } else {
    fprintf(stderr, "bench-device throughput|latency|parallel [quick], translate FILE [quick]\n");
    return 2;
  }
}
