// Kernels of one device in the memory of another, where devices reach each other: what is allocated
// before that is asked for and after, small and large, of pools, and mapped by hand. Copies between
// them; errors; what is closed again.
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "check.h"
#include "check_driver.h"

constexpr int count = 1 << 19;
constexpr size_t bytes = count * sizeof(int);

__global__ void fill(int *into, int from) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) into[i] = from + i % 1000;
}

__global__ void add(int *into, const int *from) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) into[i] += from[i];
}

// A list whose links lie where only device memory says.
struct Link {
  Link *next;
  int value;
};

__global__ void link_up(Link *link, Link *next, int value) {
  link->next = next;
  link->value = value;
}

__global__ void follow(Link *link, int *sum) {
  *sum = 0;
  for (; link; link = link->next) *sum += link->value++;
}

// Takes so long that who does not wait for it comes too early.
__global__ void slowly(int *data, int with) {
  long long until = clock64() + 2000000;
  while (clock64() < until) {
  }
  for (int i = 0; i < count; i += 1000) data[i] = with;
}

__global__ void count_up(int *counter) { atomicAdd(counter, 1); }

static unsigned long long total(const int *data) {
  std::vector<int> host(count);
  CHECK(cudaMemcpy(host.data(), data, bytes, cudaMemcpyDefault));
  unsigned long long sum = 0;
  for (int value : host) sum += value;
  return sum;
}

static void use(int device) { CHECK(cudaSetDevice(device)); }

static void say(const char *what, unsigned long long value) { printf("%s: %llu\n", what, value); }

static bool questions() {
  int can[3];
  CHECK(cudaDeviceCanAccessPeer(&can[0], 0, 1));
  CHECK(cudaDeviceCanAccessPeer(&can[1], 1, 0));
  CHECK(cudaDeviceCanAccessPeer(&can[2], 0, 0));
  printf("reach: %d %d %d\n", can[0], can[1], can[2]);
  for (cudaDeviceP2PAttr attribute :
       {cudaDevP2PAttrPerformanceRank, cudaDevP2PAttrAccessSupported,
        cudaDevP2PAttrNativeAtomicSupported, cudaDevP2PAttrCudaArrayAccessSupported}) {
    int value = -1;
    CHECK(cudaDeviceGetP2PAttribute(&value, attribute, 0, 1));
    printf("attribute %d: %d\n", attribute, value);
  }
  CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS,
                                    CU_ATOMIC_OPERATION_FLOAT_MAX};
  unsigned capabilities[3];
  DRIVER(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 3, 0, 1));
  printf("atomics: %x %x %x\n", capabilities[0], capabilities[1], capabilities[2]);
  return can[0] && can[1];
}

static void errors() {
  use(0);
  SHOW(cudaDeviceEnablePeerAccess(0, 0));
  SHOW(cudaDeviceEnablePeerAccess(1, 1));
  SHOW(cudaDeviceDisablePeerAccess(1));
  SHOW(cudaDeviceEnablePeerAccess(1, 0));
  SHOW(cudaDeviceEnablePeerAccess(1, 0));
  SHOW(cudaDeviceDisablePeerAccess(1));
  SHOW(cudaDeviceDisablePeerAccess(1));
  cudaGetLastError();
}

static void plain() {
  int *here, *before, *after, *counter;
  Link *links[3];
  use(1);
  CHECK(cudaMalloc(&before, bytes));
  for (auto &link : links) CHECK(cudaMalloc(&link, sizeof *link));
  use(0);
  CHECK(cudaMalloc(&here, bytes));
  CHECK(cudaDeviceEnablePeerAccess(1, 0));
  use(1);
  CHECK(cudaDeviceEnablePeerAccess(0, 0));
  CHECK(cudaMalloc(&after, bytes));
  fill<<<count / 256, 256>>>(before, 1);
  fill<<<count / 256, 256>>>(after, 2);
  CHECK(cudaDeviceSynchronize());
  use(0);
  fill<<<count / 256, 256>>>(here, 3);
  add<<<count / 256, 256>>>(here, before);
  add<<<count / 256, 256>>>(after, here);
  say("read", total(here));
  say("written", total(after));

  // Found only by pointers in memory; each device has links of its own.
  use(0);
  Link *own;
  int *sum, found;
  CHECK(cudaMalloc(&own, sizeof *own));
  CHECK(cudaMalloc(&sum, sizeof *sum));
  link_up<<<1, 1>>>(own, links[0], 1);
  CHECK(cudaDeviceSynchronize());
  use(1);
  link_up<<<1, 1>>>(links[0], links[1], 10);
  link_up<<<1, 1>>>(links[1], links[2], 100);
  link_up<<<1, 1>>>(links[2], nullptr, 1000);
  CHECK(cudaDeviceSynchronize());
  for (int device : {0, 1, 0}) {
    use(device);
    follow<<<1, 1>>>(own, sum);
    CHECK(cudaMemcpy(&found, sum, sizeof found, cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
    printf("the list, by %d: %d\n", device, found);
  }

  // A copy that has returned is seen by the other device.
  std::vector<int> host(count);
  use(1);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < count; i++) host[i] = round * i % 777;
    CHECK(cudaMemcpy(before, host.data(), bytes, cudaMemcpyHostToDevice));
    use(0);
    CHECK(cudaMemset(here, 0, bytes));
    add<<<count / 256, 256>>>(here, before);
    unsigned long long expected = 0, seen = total(here);
    for (int value : host) expected += value;
    if (seen != expected) printf("round %d: %llu instead of %llu\n", round, seen, expected);
    use(1);
  }

  // Atomic operations of both at once.
  CHECK(cudaMalloc(&counter, sizeof *counter));
  CHECK(cudaMemset(counter, 0, sizeof *counter));
  CHECK(cudaDeviceSynchronize());
  for (int device : {0, 1}) {
    use(device);
    count_up<<<64, 256>>>(counter);
  }
  for (int device : {0, 1}) {
    use(device);
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaMemcpy(&found, counter, sizeof found, cudaMemcpyDeviceToHost));
  printf("counted: %d\n", found);

  // Memory comes and goes, with the same addresses as often as not.
  unsigned long long sums = 0;
  for (int round = 0; round < 30; round++) {
    use(1);
    int *there;
    CHECK(cudaMalloc(&there, bytes + round % 3 * (4 << 20)));
    fill<<<count / 256, 256>>>(there, round);
    CHECK(cudaDeviceSynchronize());
    use(0);
    add<<<count / 256, 256>>>(there, there);
    CHECK(cudaDeviceSynchronize());
    sums += total(there);
    CHECK(cudaFree(there));
  }
  say("come and gone", sums);

  // In the order of streams, with kernels of one in the other's memory.
  cudaStream_t streams[2];
  cudaEvent_t done[2];
  int *memory[2] = {here, after};
  for (int device : {0, 1}) {
    use(device);
    CHECK(cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&done[device], cudaEventDisableTiming));
    fill<<<count / 256, 256, 0, streams[device]>>>(memory[device], device);
    CHECK(cudaStreamSynchronize(streams[device]));
  }
  for (int round = 0; round < 6; round++) {
    int device = round % 2;
    use(device);
    if (round) CHECK(cudaStreamWaitEvent(streams[device], done[1 - device], 0));
    slowly<<<1, 1, 0, streams[device]>>>(memory[1 - device], round + 1);
    add<<<count / 256, 256, 0, streams[device]>>>(memory[device], memory[1 - device]);
    CHECK(cudaMemcpyPeerAsync(memory[1 - device], 1 - device, memory[device], device, bytes / 2,
                              streams[device]));
    CHECK(cudaMemsetAsync(memory[1 - device] + 1000, round, 4000, streams[device]));
    CHECK(cudaEventRecord(done[device], streams[device]));
  }
  CHECK(cudaEventSynchronize(done[1]));
  say("by turns, here", total(memory[0]));
  say("by turns, there", total(memory[1]));

  // Copies of all kinds, from either side.
  for (int device : {0, 1}) {
    use(device);
    fill<<<count / 256, 256>>>(memory[device], device + 5);
    CHECK(cudaMemcpyPeer(memory[1 - device], 1 - device, memory[device], device, bytes / 4));
    CHECK(cudaMemcpy2DAsync(memory[1 - device] + 7, 4000, memory[device] + 3, 2000, 1600, 90,
                            cudaMemcpyDefault, streams[device]));
    CHECK(cudaStreamSynchronize(streams[device]));
    CHECK(cudaMemcpyAsync(memory[device] + count / 2, memory[1 - device], bytes / 8,
                          cudaMemcpyDefault, 0));
    CHECK(cudaDeviceSynchronize());
    // Both ends are the other's.
    CHECK(cudaMemcpyAsync(memory[1 - device] + count / 2, memory[1 - device], bytes / 8,
                          cudaMemcpyDefault, streams[device]));
    CHECK(cudaStreamSynchronize(streams[device]));
  }
  say("copied, here", total(memory[0]));
  say("copied, there", total(memory[1]));

  // A graph of one device with nodes that reach the other's memory.
  use(0);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
  add<<<count / 256, 256, 0, streams[0]>>>(memory[1], memory[0]);
  CHECK(cudaMemcpyAsync(memory[0], memory[1], bytes / 2, cudaMemcpyDeviceToDevice, streams[0]));
  CHECK(cudaMemsetAsync(memory[1], 1, 64, streams[0]));
  CHECK(cudaStreamEndCapture(streams[0], &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(exec, streams[0]));
  CHECK(cudaStreamSynchronize(streams[0]));
  say("by a graph, here", total(memory[0]));
  say("by a graph, there", total(memory[1]));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));

  // One starts anew: the other's access to what it then has stays, its own does not.
  use(1);
  CHECK(cudaDeviceReset());
  use(0);
  fill<<<count / 256, 256>>>(here, 9);
  say("the first still", total(here));
  use(1);
  CHECK(cudaMalloc(&after, bytes));
  fill<<<count / 256, 256>>>(after, 4);
  CHECK(cudaDeviceSynchronize());
  SHOW(cudaDeviceDisablePeerAccess(0));
  cudaGetLastError();
  use(0);
  add<<<count / 256, 256>>>(here, after);
  say("after a reset", total(here));
  use(1);
  CHECK(cudaFree(after));
  use(0);
  CHECK(cudaDeviceDisablePeerAccess(1));
  CHECK(cudaFree(here));
}

static void pools() {
  use(1);
  cudaMemPool_t pool, own;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 1};
  CHECK(cudaMemPoolCreate(&pool, &properties));
  CHECK(cudaDeviceGetDefaultMemPool(&own, 1));
  cudaMemLocation first = {cudaMemLocationTypeDevice, 0};
  cudaMemAccessFlags flags;
  CHECK(cudaMemPoolGetAccess(&flags, pool, &first));
  printf("of a new pool: %d\n", flags);
  cudaMemAccessDesc access = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
  CHECK(cudaMemPoolSetAccess(pool, &access, 1));
  CHECK(cudaMemPoolSetAccess(pool, &access, 1));
  CHECK(cudaMemPoolSetAccess(own, &access, 1));
  CHECK(cudaMemPoolGetAccess(&flags, pool, &first));
  printf("then: %d\n", flags);
  cudaStream_t there, here;
  cudaEvent_t filled, taken;
  CHECK(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  use(0);
  CHECK(cudaStreamCreateWithFlags(&here, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&taken, cudaEventDisableTiming));
  int *sums;
  CHECK(cudaMalloc(&sums, bytes));
  CHECK(cudaMemset(sums, 0, bytes));
  CHECK(cudaDeviceSynchronize());
  for (int round = 0; round < 6; round++) {
    use(1);
    int *data;
    CHECK(cudaMallocFromPoolAsync(&data, bytes, round % 2 ? pool : own, there));
    fill<<<count / 256, 256, 0, there>>>(data, round);
    CHECK(cudaEventRecord(filled, there));
    use(0);
    CHECK(cudaStreamWaitEvent(here, filled, 0));
    add<<<count / 256, 256, 0, here>>>(sums, data);
    CHECK(cudaEventRecord(taken, here));
    use(1);
    CHECK(cudaStreamWaitEvent(there, taken, 0));
    CHECK(cudaFreeAsync(data, there));
  }
  CHECK(cudaStreamSynchronize(there));
  say("of pools", total(sums));
  access.flags = cudaMemAccessFlagsProtNone;
  CHECK(cudaMemPoolSetAccess(own, &access, 1));
  CHECK(cudaMemPoolGetAccess(&flags, own, &first));
  printf("and then: %d\n", flags);
  access.flags = cudaMemAccessFlagsProtRead;
  SHOW(cudaMemPoolSetAccess(own, &access, 1));
  cudaGetLastError();
  CHECK(cudaMemPoolDestroy(pool));
  use(0);
  CHECK(cudaFree(sums));
}

static void mapped_by_hand() {
  constexpr size_t piece = 2 << 20;
  use(0);
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUdeviceptr address;
  CUmemGenericAllocationHandle memory[2];
  DRIVER(cuMemAddressReserve(&address, 2 * piece, 0, 0, 0));
  for (int i : {0, 1}) {
    DRIVER(cuMemCreate(&memory[i], piece, &properties, 0));
    DRIVER(cuMemMap(address + i * piece, piece, 0, memory[i], 0));
  }
  const CUmemLocation both[] = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
  CUmemAccessDesc access[] = {{both[0], CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                              {both[1], CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  auto show = [&] {
    for (int i : {0, 1}) {
      unsigned long long flags[2];
      for (int d : {0, 1}) DRIVER(cuMemGetAccess(&flags[d], &both[d], address + i * piece));
      printf("piece %d: %llu %llu\n", i, flags[0], flags[1]);
    }
  };
  show();
  DRIVER(cuMemSetAccess(address, 2 * piece, access, 2));
  show();
  int *data = reinterpret_cast<int *>(address), *sums;
  CHECK(cudaMalloc(&sums, bytes));
  use(1);
  fill<<<count / 256, 256>>>(data, 1);
  fill<<<count / 256, 256>>>(data + count, 2);
  CHECK(cudaDeviceSynchronize());
  use(0);
  fill<<<count / 256, 256>>>(sums, 3);
  add<<<count / 256, 256>>>(sums, data);
  add<<<count / 256, 256>>>(data + count, sums);
  CHECK(cudaDeviceSynchronize());
  say("mapped", total(sums));
  say("and behind", total(data + count));
  // The other device may still read the second, and nothing of the first.
  access[0].flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  DRIVER(cuMemSetAccess(address, piece, access, 1));
  access[0].flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  DRIVER(cuMemSetAccess(address + piece, piece, access, 1));
  show();
  add<<<count / 256, 256>>>(sums, data + count);
  say("read only", total(sums));
  DRIVER(cuMemUnmap(address, 2 * piece));
  for (int i : {0, 1}) DRIVER(cuMemRelease(memory[i]));
  DRIVER(cuMemAddressFree(address, 2 * piece));
  CHECK(cudaFree(sums));
}

// What is closed again is an illegal address; last, as the context does not survive it.
static void closed() {
  use(1);
  int *there;
  CHECK(cudaMalloc(&there, bytes));
  CHECK(cudaMemset(there, 0, bytes));
  CHECK(cudaDeviceSynchronize());
  use(0);
  CHECK(cudaDeviceEnablePeerAccess(1, 0));
  fill<<<count / 256, 256>>>(there, 1);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaDeviceDisablePeerAccess(1));
  say("before it was closed", total(there));
  fill<<<count / 256, 256>>>(there, 1);
  SHOW(cudaDeviceSynchronize());
  SHOW(cudaMalloc(&there, bytes));
}

int main() {
  int devices;
  CHECK(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    fprintf(stderr, "this takes two devices\n");
    return 2;
  }
  for (int device : {0, 1}) {
    use(device);
    CHECK(cudaFree(nullptr));
  }
  if (!questions()) {
    use(0);
    SHOW(cudaDeviceEnablePeerAccess(1, 0));
    SHOW(cudaDeviceDisablePeerAccess(1));
    return 0;
  }
  errors();
  plain();
  pools();
  mapped_by_hand();
  closed();
  return 0;
}
