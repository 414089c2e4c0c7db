// Atomic references of libcu++ on plain memory, in every order and scope, and a ticket lock made of
// them.
#include <cuda/atomic>

#include "../check.h"

constexpr int kBlocks = 12, kThreads = 96, kAll = kBlocks * kThreads;

struct Shared {
  unsigned next, serving;
  int guarded, sum, largest;
  unsigned long long wide;
  float single;
  double twice;
  unsigned flags;
};

__global__ void update(Shared *s, int *order) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  cuda::atomic_ref<int, cuda::thread_scope_device> sum(s->sum), largest(s->largest);
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> wide(s->wide);
  cuda::atomic_ref<float, cuda::thread_scope_device> single(s->single);
  cuda::atomic_ref<double, cuda::thread_scope_device> twice(s->twice);
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> flags(s->flags);
  sum.fetch_add(i, cuda::memory_order_relaxed);
  largest.fetch_max(i * 7 % 1000, cuda::memory_order_acq_rel);
  wide.fetch_add(1ull << 40, cuda::memory_order_seq_cst);
  single.fetch_add(0.25f, cuda::memory_order_relaxed);
  double seen = twice.load(cuda::memory_order_acquire);
  while (!twice.compare_exchange_weak(seen, seen + 2.0, cuda::memory_order_acq_rel)) {
  }
  flags.fetch_or(1u << (i % 32), cuda::memory_order_release);

  // Each thread draws a ticket and waits for it: nothing but the lock guards `guarded`.
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> next(s->next), serving(s->serving);
  if (threadIdx.x % 8 == 0) {
    unsigned ticket = next.fetch_add(1, cuda::memory_order_relaxed);
    while (serving.load(cuda::memory_order_acquire) != ticket) {
    }
    order[s->guarded++] = static_cast<int>(ticket);
    serving.store(ticket + 1, cuda::memory_order_release);
  }
}

int main() {
  Shared *device, host;
  int *order, tickets[kAll / 8];
  CHECK(cudaMalloc(&device, sizeof host));
  CHECK(cudaMalloc(&order, sizeof tickets));
  CHECK(cudaMemset(device, 0, sizeof host));
  update<<<kBlocks, kThreads>>>(device, order);
  CHECK(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(tickets, order, sizeof tickets, cudaMemcpyDeviceToHost));
  bool good = host.sum == kAll * (kAll - 1) / 2 && host.largest == 999 &&
              host.wide == static_cast<unsigned long long>(kAll) << 40 &&
              host.single == kAll * 0.25f && host.twice == kAll * 2.0 &&
              host.flags == 0xffffffffu && host.guarded == kAll / 8;
  for (int i = 0; i < kAll / 8; i++) good = good && tickets[i] == i;
  if (!good) {
    fprintf(stderr, "sum %d, largest %d, guarded %d\n", host.sum, host.largest, host.guarded);
    return 1;
  }
  printf("%d threads, %d of them through a ticket lock\n", kAll, kAll / 8);
  return 0;
}
