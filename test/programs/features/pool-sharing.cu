// A pool that travels to a second process as a descriptor, and allocations of it that are used and
// freed there.
// flags: -lcuda
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstring>
#include <string>

#include "../check.h"
#include "../check_driver.h"

namespace {

__global__ void add(int *values, int what, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) values[i] += what;
}

constexpr int kSmall = 1000, kLarge = 3 << 20;
constexpr CUmemAllocationHandleType kType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
struct Data {
  CUmemPoolPtrExportData small, large;
};

// A message of one descriptor and what is said beside it.
struct Message {
  char room[CMSG_SPACE(sizeof(int))] = {};
  iovec part;
  msghdr header = {};
  explicit Message(Data *data) : part{data, sizeof *data} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = room;
    header.msg_controllen = sizeof room;
  }
};

void send_all(int socket, Data data, int descriptor) {
  Message message(&data);
  cmsghdr *rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof descriptor);
  memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  if (sendmsg(socket, &message.header, 0) != sizeof data) exit(3);
}

int receive_all(int socket, Data *data) {
  Message message(data);
  int descriptor = -1;
  if (recvmsg(socket, &message.header, MSG_WAITALL) != sizeof *data) exit(3);
  memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message.header)), sizeof descriptor);
  return descriptor;
}

void *as_handle(int descriptor) { return reinterpret_cast<void *>(intptr_t{descriptor}); }

int second(int socket) {
  Data data;
  const int descriptor = receive_all(socket, &data);
  CHECK(cudaFree(nullptr));
  CUmemoryPool pool, none;
  SHOW_DRIVER(cuMemPoolImportFromShareableHandle(&none, as_handle(socket), kType, 0));
  SHOW_DRIVER(cuMemPoolImportFromShareableHandle(&none, as_handle(descriptor), kType, 1));
  SHOW_DRIVER(cuMemPoolImportFromShareableHandle(&pool, as_handle(descriptor), kType, 0));
  close(descriptor);
  CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemAccess_flags access;
  SHOW_DRIVER(cuMemPoolGetAccess(&access, pool, &here));
  printf("access %d\n", access);
  CUdeviceptr small, large, again, wrong;
  SHOW_DRIVER(cuMemAllocFromPoolAsync(&wrong, 4096, pool, nullptr));
  SHOW_DRIVER(cuMemPoolImportPointer(&small, pool, &data.small));
  SHOW_DRIVER(cuMemPoolImportPointer(&large, pool, &data.large));
  SHOW_DRIVER(cuMemPoolImportPointer(&again, pool, &data.large));
  printf("the same again: %d\n", again == large);
  CUmemPoolPtrExportData empty = {}, further;
  SHOW_DRIVER(cuMemPoolImportPointer(&wrong, pool, &empty));
  SHOW_DRIVER(cuMemPoolImportPointer(nullptr, pool, &data.small));
  CUmemoryPool usual, of = nullptr;
  DRIVER(cuDeviceGetDefaultMemPool(&usual, 0));
  SHOW_DRIVER(cuMemPoolImportPointer(&wrong, usual, &data.small));
  SHOW_DRIVER(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, large));
  printf("of that pool: %d\n", of == pool);
  size_t size = 0;
  CUdeviceptr base = 0;
  SHOW_DRIVER(cuMemGetAddressRange(&base, &size, large));
  printf("%zu bytes, there: %d\n", size, base == large);
  CUipcMemHandle handle;
  SHOW_DRIVER(cuIpcGetMemHandle(&handle, large));
  SHOW_DRIVER(cuMemPoolExportPointer(&further, large));
  int number = -1;
  SHOW_DRIVER(cuMemPoolExportToShareableHandle(&number, pool, kType, 0));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  add<<<1, 256, 0, stream>>>(reinterpret_cast<int *>(small), 5, kSmall / 4);
  add<<<1, 256, 0, stream>>>(reinterpret_cast<int *>(large), 7, kLarge / 4);
  CHECK(cudaStreamSynchronize(stream));
  SHOW_DRIVER(cuMemFreeAsync(small, stream));
  SHOW_DRIVER(cuMemFreeAsync(small, stream));
  SHOW_DRIVER(cuMemFree(large));
  CHECK(cudaStreamSynchronize(stream));
  SHOW_DRIVER(cuMemcpyDtoH(&number, large, 4));
  SHOW_DRIVER(cuMemPoolDestroy(pool));
  CHECK(cudaStreamDestroy(stream));
  fflush(stdout);
  return write(socket, "x", 1) == 1 ? 0 : 1;
}

}  // namespace

int main(int count, char **arguments) {
  if (count == 2) return second(atoi(arguments[1]));
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 3;
  const pid_t child = fork();  // before the first call of CUDA
  if (child == 0) {
    close(pair[0]);
    const std::string there = std::to_string(pair[1]);
    execl("/proc/self/exe", arguments[0], there.c_str(), static_cast<char *>(nullptr));
    _exit(127);
  }
  close(pair[1]);
  CHECK(cudaFree(nullptr));
  int kinds = 0;
  DRIVER(cuDeviceGetAttribute(&kinds, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
  printf("descriptors are supported: %d\n", (kinds & kType) != 0);
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  CUmemoryPool pool, own;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_WIN32;
  SHOW_DRIVER(cuMemPoolCreate(&pool, &properties));
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  SHOW_DRIVER(cuMemPoolCreate(&own, &properties));
  properties.handleTypes = kType;
  SHOW_DRIVER(cuMemPoolCreate(&pool, &properties));
  CUdeviceptr small, large, kept;
  DRIVER(cuMemAllocFromPoolAsync(&small, kSmall, pool, nullptr));
  DRIVER(cuMemAllocFromPoolAsync(&large, kLarge, pool, nullptr));
  DRIVER(cuMemAllocFromPoolAsync(&kept, kSmall, own, nullptr));
  DRIVER(cuMemsetD32(small, 10, kSmall / 4));
  DRIVER(cuMemsetD32(large, 20, kLarge / 4));
  DRIVER(cuCtxSynchronize());
  Data data = {}, unused;
  int descriptor = -1;
  SHOW_DRIVER(cuMemPoolExportPointer(&data.small, small));
  SHOW_DRIVER(cuMemPoolExportPointer(&data.large, large));
  SHOW_DRIVER(cuMemPoolExportPointer(&unused.large, large + 4));
  SHOW_DRIVER(cuMemPoolExportPointer(&unused.large, kept));
  SHOW_DRIVER(cuMemPoolExportPointer(nullptr, large));
  SHOW_DRIVER(cuMemPoolExportToShareableHandle(&descriptor, own, kType, 0));
  SHOW_DRIVER(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_WIN32, 0));
  SHOW_DRIVER(cuMemPoolExportToShareableHandle(&descriptor, pool, kType, 1));
  SHOW_DRIVER(cuMemPoolExportToShareableHandle(&descriptor, pool, kType, 0));
  CUipcMemHandle handle;
  SHOW_DRIVER(cuIpcGetMemHandle(&handle, large));
  fflush(stdout);
  send_all(pair[0], data, descriptor);
  close(descriptor);
  char done = 0;
  if (read(pair[0], &done, 1) != 1) done = 0;
  int status = 0;
  waitpid(child, &status, 0);
  printf("the second process: %c, %d\n", done, status);
  int first = 0, last = 0;
  DRIVER(cuMemcpyDtoH(&first, small + kSmall - 4, 4));
  DRIVER(cuMemcpyDtoH(&last, large + kLarge - 4, 4));
  printf("10 + 5 = %d, 20 + 7 = %d\n", first, last);
  SHOW_DRIVER(cuMemFreeAsync(small, nullptr));
  SHOW_DRIVER(cuMemFreeAsync(large, nullptr));
  SHOW_DRIVER(cuMemPoolDestroy(pool));
  SHOW_DRIVER(cuMemFreeAsync(kept, nullptr));
  SHOW_DRIVER(cuMemPoolDestroy(own));
  return done == 'x' && status == 0 ? 0 : 1;
}
