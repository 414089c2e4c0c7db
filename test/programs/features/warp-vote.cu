// Votes, matches and shuffles across a warp whose lanes have taken different ways.
#include <cstdint>

#include "../check.h"

__global__ void votes(uint32_t *out) {
  unsigned lane = threadIdx.x;
  uint32_t *mine = out + lane * 6;
  mine[0] = __ballot_sync(0xffffffffu, lane % 3 == 0);
  mine[1] = __all_sync(0xffffffffu, lane < 32) + 2 * __any_sync(0xffffffffu, lane == 31);
  mine[2] = __match_any_sync(0xffffffffu, lane / 5);
  if (lane & 1) {
    mine[3] = __ballot_sync(0xaaaaaaaau, lane > 15);
    mine[4] = __shfl_sync(0xaaaaaaaau, lane * 10, 7);
  } else {
    mine[3] = __ballot_sync(0x55555555u, lane < 8);
    mine[4] = __shfl_xor_sync(0x55555555u, lane * 10, 2);
  }
  int same;
  mine[5] = __match_all_sync(0xffffffffu, lane < 40, &same) + static_cast<uint32_t>(same);
}

int main() {
  uint32_t *device, host[32 * 6];
  CHECK(cudaMalloc(&device, sizeof host));
  votes<<<1, 32>>>(device);
  CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  for (unsigned lane = 0; lane < 32; lane++) {
    uint32_t thirds = 0, fives = 0;
    for (unsigned other = 0; other < 32; other++) {
      thirds |= (other % 3 == 0 ? 1u : 0u) << other;
      fives |= (other / 5 == lane / 5 ? 1u : 0u) << other;
    }
    bool odd = lane & 1;
    const uint32_t expected[6] = {
        thirds, 3, fives, odd ? 0xaaaaaaaau & 0xffff0000u : 0x55u, odd ? 70 : (lane ^ 2) * 10,
        0};  // all lanes agree: the whole mask and 1, which wraps
    for (unsigned i = 0; i < 6; i++)
      if (host[lane * 6 + i] != expected[i]) {
        fprintf(stderr, "lane %u, result %u: %08x instead of %08x\n", lane, i, host[lane * 6 + i],
                expected[i]);
        return 1;
      }
  }
  printf("32 lanes voted\n");
  return 0;
}
