// One product, three kernels: naive (every operand from global memory), tiled (16x16 tiles in
// shared memory), registers (each thread computes 4x4 elements of a 64x64 tile). All of them add
// up along k in the same order with the same fused operation, so all must agree with the CPU to
// the last bit.

#include <cmath>
#include <string>
#include <vector>

#include "support/arguments.h"
#include "support/check.h"
#include "support/checksum.h"
#include "support/random.h"
#include "support/stopwatch.h"

constexpr int kTile = 16;                   // edge of a block of threads, and of a step along k
constexpr int kPerThread = 4;               // edge of what one thread of `registers` computes
constexpr int kPanel = kTile * kPerThread;  // edge of what one block of `registers` computes

__global__ void naive(const float *a, const float *b, float *c, int n) {
  int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  if (row >= n || column >= n) return;
  float sum = 0;
  for (int k = 0; k < n; k++) sum = fmaf(a[row * n + k], b[k * n + column], sum);
  c[row * n + column] = sum;
}

__global__ void tiled(const float *a, const float *b, float *c, int n) {
  __shared__ float tile_a[kTile][kTile], tile_b[kTile][kTile];
  int x = threadIdx.x, y = threadIdx.y;
  int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
  float sum = 0;
  for (int first = 0; first < n; first += kTile) {
    // Zeros beyond the edge change nothing: fmaf(0, 0, sum) is sum.
    tile_a[y][x] = row < n && first + x < n ? a[row * n + first + x] : 0;
    tile_b[y][x] = column < n && first + y < n ? b[(first + y) * n + column] : 0;
    __syncthreads();
    for (int k = 0; k < kTile; k++) sum = fmaf(tile_a[y][k], tile_b[k][x], sum);
    __syncthreads();
  }
  if (row < n && column < n) c[row * n + column] = sum;
}

__global__ void registers(const float *a, const float *b, float *c, int n) {
  __shared__ float panel_a[kTile][kPanel], panel_b[kTile][kPanel];  // [k][row], [k][column]
  int x = threadIdx.x, y = threadIdx.y;
  int top = blockIdx.y * kPanel, left = blockIdx.x * kPanel;
  float sum[kPerThread][kPerThread] = {};
  for (int first = 0; first < n; first += kTile) {
    for (int i = 0; i < kPerThread; i++) {
      int row = top + y + i * kTile, column = left + x + i * kTile;
      panel_a[x][y + i * kTile] = row < n && first + x < n ? a[row * n + first + x] : 0;
      panel_b[y][x + i * kTile] = column < n && first + y < n ? b[(first + y) * n + column] : 0;
    }
    __syncthreads();
    for (int k = 0; k < kTile; k++) {
      float from_a[kPerThread], from_b[kPerThread];
      for (int i = 0; i < kPerThread; i++) {
        from_a[i] = panel_a[k][y + i * kTile];
        from_b[i] = panel_b[k][x + i * kTile];
      }
      for (int i = 0; i < kPerThread; i++) {
        for (int j = 0; j < kPerThread; j++) sum[i][j] = fmaf(from_a[i], from_b[j], sum[i][j]);
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kPerThread; i++) {
    for (int j = 0; j < kPerThread; j++) {
      int row = top + y + i * kTile, column = left + x + j * kTile;
      if (row < n && column < n) c[row * n + column] = sum[i][j];
    }
  }
}

// The rows that the CPU computes too: all of them while that is quick, else some forty.
static std::vector<int> rows_to_check(int n) {
  int step = n <= 512 ? 1 : n / 40;
  std::vector<int> rows;
  for (int row = 0; row < n; row += step) rows.push_back(row);
  if (rows.back() != n - 1) rows.push_back(n - 1);
  return rows;
}

static std::vector<float> multiply_row(const float *a_row, const std::vector<float> &b, int n) {
  std::vector<float> sum(n, 0.0f);
  for (int k = 0; k < n; k++) {
    const float factor = a_row[k], *b_row = &b[static_cast<size_t>(k) * n];
    for (float *s = sum.data(); s != sum.data() + n; s++) *s = fmaf(factor, *b_row++, *s);
  }
  return sum;
}

int main(int argc, char **argv) {
  Arguments arguments(argc, argv, "Multiplies two square matrices with three different kernels.");
  // 16384 squared is the largest that int indices and three buffers on a common GPU carry.
  const int n = arguments.integer("--size", 256, 1, 16384, "rows and columns");
  std::string only = arguments.text("--kernel", "all", "NAME", "naive, tiled, registers or all");
  Stopwatch watch(arguments.flag("--time", "print timings on stderr"));
  if (only != "all" && only != "naive" && only != "tiled" && only != "registers") {
    arguments.complain("--kernel must be naive, tiled, registers or all, not '" + only + "'");
  }
  arguments.finish();

  const size_t count = static_cast<size_t>(n) * n, bytes = count * sizeof(float);
  std::vector<float> a(count), b(count), c(count);
  Random random(2);
  for (float &value : a) value = random.unit();
  for (float &value : b) value = random.unit();
  std::vector<int> rows = rows_to_check(n);
  std::vector<std::vector<float>> expected;
  for (int row : rows) expected.push_back(multiply_row(&a[static_cast<size_t>(row) * n], b, n));
  watch.lap("CPU");

  float *device_a, *device_b, *device_c;
  CHECK(cudaMalloc(&device_a, bytes));
  CHECK(cudaMalloc(&device_b, bytes));
  CHECK(cudaMalloc(&device_c, bytes));
  CHECK(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
  watch.lap("upload");

  const struct {
    const char *name;
    void (*kernel)(const float *, const float *, float *, int);
    int edge;  // of the part of the result that one block computes
  } variants[] = {
      {"naive", naive, kTile}, {"tiled", tiled, kTile}, {"registers", registers, kPanel}};
  for (const auto &variant : variants) {
    if (only != "all" && only != variant.name) continue;
    // What the variant before left there must not pass for this one's result.
    CHECK(cudaMemset(device_c, 0xff, bytes));
    int blocks = (n + variant.edge - 1) / variant.edge;
    variant.kernel<<<dim3(blocks, blocks), dim3(kTile, kTile)>>>(device_a, device_b, device_c, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), device_c, bytes, cudaMemcpyDeviceToHost));
    watch.lap(variant.name);
    for (size_t i = 0; i < rows.size(); i++) {
      const float *row = &c[static_cast<size_t>(rows[i]) * n];
      for (int column = 0; column < n; column++) {
        if (row[column] == expected[i][column]) continue;
        std::fprintf(stderr, "matrix-multiply: wrong: %s, row %d, column %d is %a, not %a\n",
                     variant.name, rows[i], column, row[column], expected[i][column]);
        return 1;
      }
    }
    watch.restart();
    std::printf("matrix-multiply: %s, %d x %d, checksum %016llx, correct\n", variant.name, n, n,
                static_cast<unsigned long long>(checksum(c.data(), bytes)));
  }
  CHECK(cudaFree(device_a));
  CHECK(cudaFree(device_b));
  CHECK(cudaFree(device_c));
  return 0;
}
