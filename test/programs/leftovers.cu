// Looks for what somebody before has left in memory of every kind: `leave` fills it with a word and
// goes, `look` takes as much, writes nothing, and says how many of those words it finds.
#include <cstring>
#include <vector>

#include <cuda.h>

#include "check.h"
#include "check_driver.h"

constexpr unsigned kWord = 0x5ec2e75e;
constexpr size_t kWords = 4 << 20;
constexpr int kShared = 8 << 10, kLocal = 512;

__device__ unsigned variable[4096];
__managed__ unsigned managed[4096];

__global__ void fill(unsigned *at, size_t words) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
    at[i] = kWord;
}

__global__ void count(const volatile unsigned *at, size_t words, unsigned *found) {
  unsigned mine = 0;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
    mine += at[i] == kWord;
  if (mine) atomicAdd(found, mine);
}

__global__ void own(bool leave, unsigned *found) {
  volatile unsigned *const at = variable;
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) {
    if (leave)
      at[i] = kWord;
    else if (at[i] == kWord)
      atomicAdd(found, 1);
  }
}

__global__ void block_memory(bool leave, unsigned *found) {
  __shared__ volatile unsigned at[kShared];
  for (int i = threadIdx.x; i < kShared; i += blockDim.x) {
    if (leave)
      at[i] = kWord;
    else if (at[i] == kWord)
      atomicAdd(found, 1);
  }
}

__global__ void thread_memory(bool leave, unsigned *found, int step) {
  volatile unsigned at[kLocal];
  for (int i = 0; i < kLocal; i += step) {
    if (leave)
      at[i] = kWord;
    else if (at[i] == kWord)
      atomicAdd(found, 1);
  }
}

static bool leave;
static unsigned *found;

static void say(const char *what) {
  unsigned words;
  CHECK(cudaMemcpy(&words, found, sizeof words, cudaMemcpyDeviceToHost));
  CHECK(cudaMemset(found, 0, sizeof words));
  if (!leave) printf("%s: %u\n", what, words);
}

static void visit(const char *what, unsigned *at, size_t words) {
  if (leave)
    fill<<<32, 256>>>(at, words);
  else
    count<<<32, 256>>>(at, words, found);
  CHECK(cudaDeviceSynchronize());
  say(what);
}

static unsigned words_of(const unsigned *at, size_t words) {
  unsigned equal = 0;
  for (size_t i = 0; i < words; i++) equal += at[i] == kWord;
  return equal;
}

int main(int argc, char **argv) {
  leave = argc > 1 && strcmp(argv[1], "leave") == 0;
  CHECK(cudaMalloc(&found, sizeof *found));
  CHECK(cudaMemset(found, 0, sizeof *found));

  unsigned *at;
  CHECK(cudaMalloc(&at, kWords * sizeof *at));
  visit("allocation", at, kWords);
  unsigned *pooled;
  CHECK(cudaMallocAsync(&pooled, kWords * sizeof *pooled, 0));
  visit("pool", pooled, kWords);
  unsigned *both;
  CHECK(cudaMallocManaged(&both, kWords * sizeof *both));
  visit("managed", both, kWords);
  unsigned *pinned;
  CHECK(cudaMallocHost(&pinned, kWords * sizeof *pinned));
  visit("pinned", pinned, kWords);

  CUmemAllocationProp about{};
  about.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  about.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const size_t size = kWords * sizeof *at;
  CUmemGenericAllocationHandle piece;
  CUdeviceptr place;
  DRIVER(cuMemAddressReserve(&place, size, 0, 0, 0));
  DRIVER(cuMemCreate(&piece, size, &about, 0));
  DRIVER(cuMemMap(place, size, 0, piece, 0));
  const CUmemAccessDesc access{about.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  DRIVER(cuMemSetAccess(place, size, &access, 1));
  visit("piece", reinterpret_cast<unsigned *>(place), kWords);

  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
  CHECK(cudaMallocArray(&array, &format, 1024, 1024));
  std::vector<unsigned> host(1024 * 1024, leave ? kWord : 0);
  if (leave) {
    CHECK(cudaMemcpy2DToArray(array, 0, 0, host.data(), 4096, 4096, 1024, cudaMemcpyHostToDevice));
  } else {
    CHECK(
        cudaMemcpy2DFromArray(host.data(), 4096, array, 0, 0, 4096, 1024, cudaMemcpyDeviceToHost));
    printf("array: %u\n", words_of(host.data(), host.size()));
  }

  own<<<1, 256>>>(leave, found);
  say("variable");
  visit("managed variable", managed, 4096);
  block_memory<<<64, 256>>>(leave, found);
  say("shared");
  thread_memory<<<64, 256>>>(leave, found,
                             argc > 9 ? 2 : 1);  // no constant: the array stays in memory
  say("local");
  // Its staging buffers have held the word, too: what is downloaded is what is there.
  std::vector<unsigned> down(kWords, leave ? kWord : 0);
  if (leave) CHECK(cudaMemcpy(at, down.data(), size, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(down.data(), at, size, cudaMemcpyDeviceToHost));
  if (!leave) printf("download: %u\n", words_of(down.data(), down.size()));
  return 0;
}
