// Single-precision functions and the fast intrinsics against double precision, within the
// documented errors.
#include <cmath>
#include <cstdint>

#include "../check.h"

constexpr int kValues = 1024, kFunctions = 22;

struct Function {
  const char *name;
  double relative, absolute;
};
const Function functions[kFunctions] = {{"sinf", 3e-7, 1e-7},     {"cosf", 3e-7, 1e-7},
                                        {"expf", 3e-7, 1e-37},    {"logf", 3e-7, 1e-7},
                                        {"powf", 1e-6, 1e-37},    {"tanhf", 4e-7, 1e-37},
                                        {"erff", 4e-7, 1e-37},    {"rsqrtf", 3e-7, 0},
                                        {"cbrtf", 3e-7, 1e-37},   {"atan2f", 5e-7, 1e-37},
                                        {"hypotf", 4e-7, 1e-37},  {"log2f", 3e-7, 1e-7},
                                        {"exp2f", 3e-7, 1e-37},   {"__sinf", 0, 5e-7},
                                        {"__cosf", 0, 5e-7},      {"__expf", 3e-6, 1e-37},
                                        {"__logf", 5e-7, 5e-7},   {"__fdividef", 3e-7, 1e-37},
                                        {"__frsqrt_rn", 1e-7, 0}, {"__saturatef", 0, 0},
                                        {"fmodf", 0, 0},          {"fmaf", 0, 0}};

__global__ void compute(const float *a, const float *b, float *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = a[i], y = b[i], z = fabsf(x) + 0.001f, *r = out + i * kFunctions;
  r[0] = sinf(x), r[1] = cosf(x), r[2] = expf(x), r[3] = logf(z), r[4] = powf(z, y),
  r[5] = tanhf(x);
  r[6] = erff(x), r[7] = rsqrtf(z), r[8] = cbrtf(x), r[9] = atan2f(x, y), r[10] = hypotf(x, y);
  r[11] = log2f(z), r[12] = exp2f(x), r[13] = __sinf(y / 2), r[14] = __cosf(y / 2),
  r[15] = __expf(y);
  r[16] = __logf(z), r[17] = __fdividef(x, y), r[18] = __frsqrt_rn(z), r[19] = __saturatef(x);
  r[20] = fmodf(x, y), r[21] = fmaf(x, y, z);
}

int main() {
  static float a[kValues], b[kValues], out[kValues * kFunctions];
  float *da, *db, *dout;
  uint32_t state = 11;
  for (int i = 0; i < kValues; i++) {
    state = state * 1664525u + 1013904223u;
    a[i] = static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f * (i % 3 ? 20.0f : 0.5f);
    state = state * 1664525u + 1013904223u;
    b[i] = static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f * 6.0f;
  }
  CHECK(cudaMalloc(&da, sizeof a));
  CHECK(cudaMalloc(&db, sizeof b));
  CHECK(cudaMalloc(&dout, sizeof out));
  CHECK(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice));
  compute<<<kValues / 128, 128>>>(da, db, dout);
  CHECK(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kValues; i++) {
    double x = a[i], y = b[i], z = static_cast<double>(fabsf(a[i]) + 0.001f);
    const double expected[kFunctions] = {sin(x),
                                         cos(x),
                                         exp(x),
                                         log(z),
                                         pow(z, y),
                                         tanh(x),
                                         erf(x),
                                         1 / sqrt(z),
                                         cbrt(x),
                                         atan2(x, y),
                                         hypot(x, y),
                                         log2(z),
                                         exp2(x),
                                         sin(y / 2),
                                         cos(y / 2),
                                         exp(y),
                                         log(z),
                                         x / y,
                                         1 / sqrt(z),
                                         x < 0   ? 0
                                         : x > 1 ? 1
                                                 : x,
                                         fmod(x, y),
                                         static_cast<double>(static_cast<float>(
                                             x * y + z))};  // exact in double but for the last bit
    for (int n = 0; n < kFunctions; n++) {
      double got = out[i * kFunctions + n], want = expected[n], error = fabs(got - want);
      double allowed =
          n == 21 ? fabs(want) * 6e-8 : fabs(want) * functions[n].relative + functions[n].absolute;
      if (!(error <= allowed)) {
        fprintf(stderr, "%s at %.9g and %.9g is %.9g instead of %.9g\n", functions[n].name, x, y,
                got, want);
        return 1;
      }
    }
  }
  printf("%d functions at %d places\n", kFunctions, kValues);
  return 0;
}
