// Memory that was shared and freed, by every way of freeing: nobody opens it by its old handle, not
// even who has it open, and who has it open harms nothing beside it.
// flags: -lcuda
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstring>
#include <string>

#include "check.h"
#include "check_driver.h"

namespace {

constexpr CUmemAllocationHandleType kType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr size_t kSmall = 3000, kLarge = 5 << 20;

// What the first process asks of the second, which answers with a line.
struct Order {
  enum What { kOpen, kClose, kPool, kImport } what;
  union {
    CUipcMemHandle handle;
    CUmemPoolPtrExportData data;
  };
};
struct Answer {
  char text[120];
};

template <class T>
void send_value(int socket, T value, int descriptor = -1) {
  char room[CMSG_SPACE(sizeof(int))] = {};
  iovec part = {&value, sizeof value};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (descriptor >= 0) {
    header.msg_control = room;
    header.msg_controllen = sizeof room;
    cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
  if (sendmsg(socket, &header, 0) != sizeof value) exit(3);
}

template <class T>
bool receive(int socket, T *value, int *descriptor = nullptr) {
  char room[CMSG_SPACE(sizeof(int))] = {};
  iovec part = {value, sizeof *value};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = room;
  header.msg_controllen = sizeof room;
  if (recvmsg(socket, &header, MSG_WAITALL) != sizeof *value) return false;
  const cmsghdr *rights = CMSG_FIRSTHDR(&header);
  if (descriptor && rights) memcpy(descriptor, CMSG_DATA(rights), sizeof *descriptor);
  return true;
}

const char *name_of(CUresult result) {
  const char *name = "?";
  cuGetErrorName(result, &name);
  return name;
}

// ---- the second process ------------------------------------------------------------------------

int second(int socket) {
  CHECK(cudaFree(nullptr));
  CUmemoryPool pool = nullptr;
  CUdeviceptr open = 0;
  Order order;
  int descriptor = -1;
  while (receive(socket, &order, &descriptor)) {
    Answer answer = {};
    CUresult result;
    int value = 0;
    if (order.what == Order::kClose) {
      result = cuIpcCloseMemHandle(open);
    } else if (order.what == Order::kPool) {
      result = cuMemPoolImportFromShareableHandle(
          &pool, reinterpret_cast<void *>(intptr_t{descriptor}), kType, 0);
      close(descriptor);
    } else {
      CUdeviceptr at = 0;
      result = order.what == Order::kOpen
                   ? cuIpcOpenMemHandle(&at, order.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
                   : cuMemPoolImportPointer(&at, pool, &order.data);
      if (result == CUDA_SUCCESS) {
        DRIVER(cuMemcpyDtoH(&value, at, 4));
        open = at;
      }
    }
    snprintf(answer.text, sizeof answer.text, "%s, %d", name_of(result), value);
    send_value(socket, answer);
  }
  return 0;
}

// ---- a process that shares memory and ends -----------------------------------------------------

int third(int socket) {
  CHECK(cudaFree(nullptr));
  CUdeviceptr memory;
  CUipcMemHandle handle;
  DRIVER(cuMemAlloc(&memory, kLarge));
  DRIVER(cuMemsetD32(memory, 9, kLarge / 4));
  DRIVER(cuCtxSynchronize());
  DRIVER(cuIpcGetMemHandle(&handle, memory));
  send_value(socket, handle);
  Answer go;
  receive(socket, &go);
  _exit(0);
}

// ---- the first process -------------------------------------------------------------------------

int other;  // the socket to the second one

std::string ask(Order order, int descriptor = -1) {
  Answer answer;
  send_value(other, order, descriptor);
  if (!receive(other, &answer)) exit(4);
  return answer.text;
}

std::string open_handle(const CUipcMemHandle &handle) {
  Order order = {Order::kOpen, {}};
  order.handle = handle;
  return ask(order);
}

std::string import_pointer(const CUmemPoolPtrExportData &data) {
  Order order = {Order::kImport, {}};
  order.data = data;
  return ask(order);
}

std::string close_it() { return ask({Order::kClose, {}}); }

CUdeviceptr allocate(size_t size, unsigned value) {
  CUdeviceptr memory;
  DRIVER(cuMemAlloc(&memory, size));
  DRIVER(cuMemsetD32(memory, value, size / 4));
  DRIVER(cuCtxSynchronize());
  return memory;
}

CUipcMemHandle share(CUdeviceptr memory) {
  CUipcMemHandle handle;
  DRIVER(cuIpcGetMemHandle(&handle, memory));
  return handle;
}

void freed(size_t size) {
  const CUdeviceptr beside = allocate(kSmall, 5), memory = allocate(size, 6);
  const CUipcMemHandle handle = share(memory);
  const CUipcMemHandle same = share(memory);
  printf("%zu bytes; the same handle again: %d\n", size, memcmp(&handle, &same, 64) == 0);
  printf("  shared: %s\n", open_handle(handle).c_str());
  DRIVER(cuMemFree(memory));
  printf("  freed, open: %s\n", open_handle(handle).c_str());
  printf("  closed: %s\n", close_it().c_str());
  printf("  freed, closed: %s\n", open_handle(handle).c_str());
  const CUdeviceptr anew = allocate(size, 7);
  const CUipcMemHandle other_handle = share(anew);
  printf("  anew, the old handle: %s\n", open_handle(handle).c_str());
  printf("  anew: %s\n", open_handle(other_handle).c_str());
  printf("  closed: %s\n", close_it().c_str());
  int value = 0;
  DRIVER(cuMemcpyDtoH(&value, beside, 4));
  printf("  beside it: %d\n", value);
  DRIVER(cuMemFree(anew));
  printf("  freed again: %s\n", open_handle(other_handle).c_str());
  DRIVER(cuMemFree(beside));
}

// Memory of a pool is freed in its stream, or by cuMemFree.
void freed_to_pool(bool in_stream) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  properties.handleTypes = kType;
  CUmemoryPool pool;
  CUdeviceptr memory;
  CUmemPoolPtrExportData data;
  int descriptor = -1;
  DRIVER(cuMemPoolCreate(&pool, &properties));
  DRIVER(cuMemPoolExportToShareableHandle(&descriptor, pool, kType, 0));
  printf("a pool: %s\n", ask({Order::kPool, {}}, descriptor).c_str());
  close(descriptor);
  CUstream stream;
  DRIVER(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  DRIVER(cuMemAllocFromPoolAsync(&memory, kSmall, pool, stream));
  DRIVER(cuMemsetD32Async(memory, 8, kSmall / 4, stream));
  DRIVER(cuStreamSynchronize(stream));
  DRIVER(cuMemPoolExportPointer(&data, memory));
  printf("  shared: %s\n", import_pointer(data).c_str());
  if (in_stream)
    DRIVER(cuMemFreeAsync(memory, stream));
  else
    DRIVER(cuMemFree(memory));
  DRIVER(cuStreamSynchronize(stream));
  printf("  freed: %s\n", import_pointer(data).c_str());
  CUdeviceptr anew;
  DRIVER(cuMemAllocFromPoolAsync(&anew, kSmall, pool, stream));
  DRIVER(cuStreamSynchronize(stream));
  printf("  anew: %s\n", import_pointer(data).c_str());
  DRIVER(cuMemFreeAsync(anew, stream));
  DRIVER(cuStreamDestroy(stream));
  DRIVER(cuMemPoolDestroy(pool));
}

void context_destroyed() {
  CUcontext context;
  DRIVER(cuCtxCreate(&context, nullptr, 0, 0));
  const CUipcMemHandle small = share(allocate(kSmall, 3)), large = share(allocate(kLarge, 4));
  printf("of a context: %s\n", open_handle(small).c_str());
  printf("  closed: %s\n", close_it().c_str());
  DRIVER(cuCtxDestroy(context));
  printf("  destroyed, small: %s\n", open_handle(small).c_str());
  printf("  destroyed, large: %s\n", open_handle(large).c_str());
}

int start(const char *program, const char *role, pid_t *child) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) exit(3);
  *child = fork();  // before the first call of CUDA, or only to execute
  if (*child == 0) {
    const int kept = dup(pair[1]);  // not closed by exec
    const std::string there = std::to_string(kept);
    execl("/proc/self/exe", program, role, there.c_str(), static_cast<char *>(nullptr));
    _exit(127);
  }
  close(pair[1]);
  return pair[0];
}

int await(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

int main(int count, char **arguments) {
  if (count == 3 && !strcmp(arguments[1], "second")) return second(atoi(arguments[2]));
  if (count == 3) return third(atoi(arguments[2]));
  pid_t opener, ender;
  other = start(arguments[0], "second", &opener);
  const int ending = start(arguments[0], "third", &ender);
  CUipcMemHandle left;
  if (!receive(ending, &left)) return 5;
  CHECK(cudaFree(nullptr));
  freed(kSmall);
  freed(kLarge);
  freed_to_pool(true);
  freed_to_pool(false);
  context_destroyed();
  printf("of another process: %s\n", open_handle(left).c_str());
  printf("  closed: %s\n", close_it().c_str());
  send_value(ending, Answer{});
  int status = await(ender);
  printf("  ended with %d: %s\n", status, open_handle(left).c_str());
  // The primary context ends with its last release.
  const CUipcMemHandle last = share(allocate(kLarge, 2));
  printf("of the primary context: %s\n", open_handle(last).c_str());
  CUcontext none;
  DRIVER(cuCtxPopCurrent(&none));
  DRIVER(cuDevicePrimaryCtxRelease(0));
  printf("  released: %s\n", open_handle(last).c_str());
  close(other);
  status = await(opener);
  printf("the second process: %d\n", status);
  return status;
}
