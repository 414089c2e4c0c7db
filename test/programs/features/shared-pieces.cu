// Memory that a program manages itself, sent to another process as a file descriptor; and events
// that both record. flags: -lcuda
#include <cuda.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstring>

#include "../check.h"
#include "../check_driver.h"

__global__ void add(unsigned *values, unsigned value, unsigned count) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x)
    values[i] += value;
}

struct Message {
  size_t size;
  cudaIpcEventHandle_t go, done;
};

constexpr unsigned kCount = 1 << 18;
constexpr CUmemAllocationHandleType kType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static CUmemAllocationProp properties() {
  CUmemAllocationProp p = {};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.requestedHandleTypes = kType;
  return p;
}

static unsigned *map(CUmemGenericAllocationHandle memory, size_t size) {
  CUdeviceptr address;
  CUmemAccessDesc access = {properties().location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  DRIVER(cuMemAddressReserve(&address, size, 0, 0, 0));
  DRIVER(cuMemMap(address, size, 0, memory, 0));
  DRIVER(cuMemSetAccess(address, size, &access, 1));
  return reinterpret_cast<unsigned *>(address);
}

static void unmap(unsigned *values, size_t size) {
  CHECK(cudaDeviceSynchronize());
  DRIVER(cuMemUnmap(reinterpret_cast<CUdeviceptr>(values), size));
  DRIVER(cuMemAddressFree(reinterpret_cast<CUdeviceptr>(values), size));
}

// A message with a descriptor, one way or the other.
static bool pass(int socket, Message *message, int *descriptor, bool out) {
  iovec part = {message, sizeof *message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  if (!out) {
    if (recvmsg(socket, &header, MSG_WAITALL) != static_cast<ssize_t>(sizeof *message))
      return false;
    memcpy(descriptor, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof *descriptor);
    return true;
  }
  cmsghdr *rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(rights), descriptor, sizeof *descriptor);
  return sendmsg(socket, &header, 0) == static_cast<ssize_t>(sizeof *message);
}

static int second(int socket) {
  Message message;
  int descriptor;
  if (!pass(socket, &message, &descriptor, false)) return 1;
  CHECK(cudaFree(nullptr));
  CUmemGenericAllocationHandle memory;
  DRIVER(cuMemImportFromShareableHandle(
      &memory, reinterpret_cast<void *>(static_cast<intptr_t>(descriptor)), kType));
  close(descriptor);
  unsigned *values = map(memory, message.size);
  DRIVER(cuMemRelease(memory));
  cudaEvent_t go, done;
  cudaStream_t stream;
  CHECK(cudaIpcOpenEventHandle(&go, message.go));
  CHECK(cudaIpcOpenEventHandle(&done, message.done));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamWaitEvent(stream, go, 0));
  add<<<8, 128, 0, stream>>>(values, 1000, kCount);
  CHECK(cudaEventRecord(done, stream));
  if (write(socket, "r", 1) != 1) return 1;
  CHECK(cudaStreamSynchronize(stream));
  unmap(values, message.size);
  char last;
  return read(socket, &last, 1) == 1 ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc == 2) return second(atoi(argv[1]));
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
  pid_t child = fork();  // before the first call of CUDA
  if (child == 0) {
    close(pair[0]);
    char number[16];
    snprintf(number, sizeof number, "%d", pair[1]);
    execl("/proc/self/exe", argv[0], number, static_cast<char *>(nullptr));
    _exit(127);
  }
  close(pair[1]);
  CHECK(cudaFree(nullptr));
  int shareable;
  DRIVER(cuDeviceGetAttribute(&shareable,
                              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
  printf("memory is shared by descriptors: %d\n", shareable);
  Message message;
  CUmemAllocationProp wanted = properties();
  size_t page;
  DRIVER(cuMemGetAllocationGranularity(&page, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t least = kCount * sizeof(unsigned);
  message.size = 2 * (page > least ? page : least);
  CUmemGenericAllocationHandle memory;
  DRIVER(cuMemCreate(&memory, message.size, &wanted, 0));
  unsigned *values = map(memory, message.size);
  int descriptor;
  DRIVER(cuMemExportToShareableHandle(&descriptor, memory, kType, 0));
  cudaEvent_t go, done;
  CHECK(cudaEventCreateWithFlags(&go, cudaEventDisableTiming | cudaEventInterprocess));
  CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming | cudaEventInterprocess));
  CHECK(cudaIpcGetEventHandle(&message.go, go));
  CHECK(cudaIpcGetEventHandle(&message.done, done));
  CHECK(cudaMemset(values, 0, message.size));
  add<<<8, 128>>>(values, 1, kCount);
  CHECK(cudaEventRecord(go, 0));
  if (!pass(pair[0], &message, &descriptor, true)) return 1;
  close(descriptor);
  char step;
  if (read(pair[0], &step, 1) != 1) {
    fprintf(stderr, "the second process failed\n");
    return 1;
  }
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamWaitEvent(stream, done, 0));
  add<<<8, 128, 0, stream>>>(values, 20, kCount);
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaEventSynchronize(done));
  unsigned ends[2];
  CHECK(cudaMemcpy(&ends[0], values, 4, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&ends[1], values + kCount - 1, 4, cudaMemcpyDeviceToHost));
  printf("first and last: %u %u\n", ends[0], ends[1]);
  if (write(pair[0], "x", 1) != 1) return 1;
  int status = 1;
  waitpid(child, &status, 0);
  printf("the second process ended with %d\n", status);
  // Handles that lead nowhere.
  cudaIpcMemHandle_t nowhere;
  void *none;
  memset(&nowhere, 0, sizeof nowhere);
  SHOW(cudaIpcOpenMemHandle(&none, nowhere, cudaIpcMemLazyEnablePeerAccess));
  SHOW(cudaIpcCloseMemHandle(values));
  cudaIpcEventHandle_t own;
  CHECK(cudaIpcGetEventHandle(&own, go));
  cudaEvent_t again;
  SHOW(cudaIpcOpenEventHandle(&again, own));
  cudaIpcMemHandle_t handle;
  int *plain;
  CHECK(cudaMalloc(&plain, 1000));
  CHECK(cudaIpcGetMemHandle(&handle, plain));
  SHOW(cudaIpcOpenMemHandle(&none, handle, cudaIpcMemLazyEnablePeerAccess));
  SHOW(cudaIpcGetMemHandle(&handle, values));
  cudaGetLastError();
  unmap(values, message.size);
  DRIVER(cuMemRelease(memory));
  CHECK(cudaFree(plain));
  return 0;
}
