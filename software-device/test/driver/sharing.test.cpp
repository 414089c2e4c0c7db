// Memory and events of one process in another: each test starts this program a second time.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

namespace {

constexpr size_t kGranule = 2 << 20;
constexpr int kSocket = 100;  // of the second process

// ---- what the two say to each other

void send_bytes(int socket, const void *data, size_t size, int descriptor = -1) {
  iovec part = {const_cast<void *>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  if (sendmsg(socket, &message, 0) != static_cast<ssize_t>(size)) abort();
}

template <class T>
void send_value(int socket, const T &value, int descriptor = -1) {
  send_bytes(socket, &value, sizeof value, descriptor);
}

// False when the other side is gone.
template <class T>
bool receive(int socket, T *value, int *descriptor = nullptr) {
  iovec part = {value, sizeof *value};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_WAITALL) != static_cast<ssize_t>(sizeof *value)) return false;
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (descriptor && header) memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
  return true;
}

struct Peer {
  pid_t process;
  int socket;
};

Peer start(const char *role) {
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  pid_t process = fork();
  if (process == 0) {
    dup2(pair[1], kSocket);
    execl("/proc/self/exe", "second", role, static_cast<char *>(nullptr));
    _exit(99);
  }
  close(pair[1]);
  return {process, pair[0]};
}

void end(const Peer &peer) {
  close(peer.socket);
  int status;
  assert_int_equal(waitpid(peer.process, &status, 0), peer.process);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail_msg("the second process failed with status 0x%x", status);
}

// ---- the second process: what it expects, or it ends with the line

#define MUST(condition)                                                       \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "second process: line %d: %s\n", __LINE__, #condition); \
      _exit(1);                                                               \
    }                                                                         \
  } while (0)
#define DONE(call) MUST((call) == CUDA_SUCCESS)

uint32_t word_at(CUdeviceptr address) {
  uint32_t value = 0;
  DONE(cuMemcpyDtoH_v2(&value, address, 4));
  return value;
}

void second_memory() {
  CUipcMemHandle handle;
  MUST(receive(kSocket, &handle));
  CUdeviceptr address, again;
  MUST(cuIpcOpenMemHandle_v2(&address, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  DONE(cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  DONE(cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  MUST(again == address);
  MUST(word_at(address) == 1234);
  // A kernel reaches it, too.
  CUmodule module;
  CUfunction store;
  DONE(cuModuleLoadData(&module, kKernels));
  DONE(cuModuleGetFunction(&store, module, "store"));
  CUdeviceptr second_word = address + 4;
  uint32_t value = 5678;
  void *parameters[] = {&second_word, &value};
  DONE(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  DONE(cuCtxSynchronize());
  size_t size;
  CUdeviceptr base;
  DONE(cuMemGetAddressRange_v2(&base, &size, address + 4));
  MUST(base == address && size == 3000);
  MUST(cuMemcpyDtoH_v2(&value, address + 2998, 4) == CUDA_ERROR_INVALID_VALUE);
  MUST(cuMemFree_v2(address) == CUDA_ERROR_INVALID_VALUE);
  CUipcMemHandle own;
  MUST(cuIpcGetMemHandle(&own, address) == CUDA_ERROR_INVALID_VALUE);
  DONE(cuIpcCloseMemHandle(address));
  MUST(word_at(address) == 1234);  // it was opened twice
  DONE(cuIpcCloseMemHandle(address));
  MUST(cuIpcCloseMemHandle(address) == CUDA_ERROR_INVALID_VALUE);
  MUST(cuMemcpyDtoH_v2(&value, address, 4) == CUDA_ERROR_INVALID_VALUE);
}

void second_exporter() {
  CUdeviceptr address;
  CUipcMemHandle handle;
  DONE(cuMemAlloc_v2(&address, 1 << 20));
  DONE(cuIpcGetMemHandle(&handle, address));
  send_value(kSocket, handle);
}

void second_event() {
  struct {
    CUipcMemHandle memory;
    CUipcEventHandle go, done;
  } handles;
  MUST(receive(kSocket, &handles));
  CUdeviceptr address;
  CUevent go, done;
  CUstream stream;
  DONE(cuIpcOpenMemHandle_v2(&address, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  DONE(cuIpcOpenEventHandle(&go, handles.go));
  DONE(cuIpcOpenEventHandle(&done, handles.done));
  DONE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  MUST(cuEventQuery(go) == CUDA_ERROR_NOT_READY);
  DONE(cuStreamWaitEvent(stream, go, 0));
  DONE(cuMemcpyDtoDAsync_v2(address + 4, address, 4, stream));
  DONE(cuEventRecord(done, stream));
  send_value(kSocket, 1);  // all is queued
  DONE(cuEventSynchronize(go));
  DONE(cuStreamSynchronize(stream));
  int finished;
  MUST(receive(kSocket, &finished));
  DONE(cuIpcCloseMemHandle(address));
}

void second_dies_while_recording() {
  CUipcEventHandle handle;
  MUST(receive(kSocket, &handle));
  CUevent event;
  CUstream stream;
  CUdeviceptr never;
  DONE(cuIpcOpenEventHandle(&event, handle));
  DONE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  DONE(cuMemAlloc_v2(&never, 4));
  DONE(cuMemsetD32_v2(never, 0, 1));
  DONE(cuStreamWaitValue32_v2(stream, never, 1, CU_STREAM_WAIT_VALUE_EQ));
  DONE(cuEventRecord(event, stream));
  send_value(kSocket, 1);
  int ignored;
  receive(kSocket, &ignored);
  _exit(0);
}

void second_allocation() {
  size_t size;
  int descriptor = -1;
  MUST(receive(kSocket, &size, &descriptor));
  CUmemGenericAllocationHandle handle;
  auto shared = reinterpret_cast<void *>(static_cast<intptr_t>(descriptor));
  MUST(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void *>(0),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ==
       CUDA_ERROR_INVALID_VALUE);
  size_t free_before, free_after, total;
  DONE(cuMemGetInfo_v2(&free_before, &total));
  DONE(cuMemImportFromShareableHandle(&handle, shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(descriptor);
  DONE(cuMemGetInfo_v2(&free_after, &total));
  MUST(free_before == free_after);  // it is the other's memory
  CUdeviceptr address;
  DONE(cuMemAddressReserve(&address, size, 0, 0, 0));
  DONE(cuMemMap(address, size, 0, handle, 0));
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  DONE(cuMemSetAccess(address, size, &access, 1));
  MUST(word_at(address + size - 4) == 4321);
  DONE(cuMemsetD32_v2(address, 8765, 1));
  DONE(cuCtxSynchronize());
  DONE(cuMemUnmap(address, size));
  DONE(cuMemRelease(handle));
  DONE(cuMemAddressFree(address, size));
}

void second_pool() {
  struct {
    CUmemPoolPtrExportData first, second;
  } data;
  int descriptor = -1;
  MUST(receive(kSocket, &data, &descriptor));
  CUmemoryPool pool;
  DONE(cuMemPoolImportFromShareableHandle(
      &pool, reinterpret_cast<void *>(static_cast<intptr_t>(descriptor)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  close(descriptor);
  CUdeviceptr first, second, none;
  MUST(cuMemAllocFromPoolAsync(&none, 4, pool, nullptr) == CUDA_ERROR_INVALID_VALUE);
  DONE(cuMemPoolImportPointer(&first, pool, &data.first));
  DONE(cuMemPoolImportPointer(&second, pool, &data.second));
  MUST(word_at(first) == 11 && word_at(second) == 22);
  DONE(cuMemsetD32_v2(second, 33, 1));
  DONE(cuMemFreeAsync(first, nullptr));
  DONE(cuMemFree_v2(second));
  MUST(cuMemPoolImportPointer(&none, nullptr, &data.first) == CUDA_ERROR_INVALID_VALUE);
  DONE(cuMemPoolDestroy(pool));
}

// Says of each handle what opening it brings, and keeps open what it can.
void second_opener() {
  CUipcMemHandle handle;
  while (receive(kSocket, &handle)) {
    CUdeviceptr address;
    send_value(kSocket,
               cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  }
}

int second(const char *role) {
  DONE(static_cast<CUresult>(use_primary(nullptr)));
  struct {
    const char *name;
    void (*play)();
  } roles[] = {{"memory", second_memory},         {"exporter", second_exporter},
               {"event", second_event},           {"dying", second_dies_while_recording},
               {"allocation", second_allocation}, {"pool", second_pool},
               {"opener", second_opener}};
  for (auto &one : roles)
    if (strcmp(one.name, role) == 0) {
      one.play();
      return 0;
    }
  return 98;
}

// ---- the tests

uint32_t read_word(CUdeviceptr address) {
  uint32_t value = 0;
  OK(cuMemcpyDtoH_v2(&value, address, 4));
  return value;
}

void memory_is_one(void **) {
  CUdeviceptr before, address;
  OK(cuMemAlloc_v2(&before, 1000));
  OK(cuMemAlloc_v2(&address, 3000));  // shares its granule with the one before
  OK(cuMemsetD32_v2(address, 1234, 1));
  OK(cuCtxSynchronize());
  CUipcMemHandle handle;
  OK(cuIpcGetMemHandle(&handle, address));
  Peer peer = start("memory");
  send_value(peer.socket, handle);
  end(peer);
  assert_int_equal(read_word(address + 4), 5678);
  CUdeviceptr own;
  EXPECT(CUDA_ERROR_INVALID_CONTEXT,
         cuIpcOpenMemHandle_v2(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  OK(cuMemFree_v2(address));
  OK(cuMemFree_v2(before));
}

void handles_that_lead_nowhere(void **) {
  Peer peer = start("exporter");
  CUipcMemHandle handle;
  assert_true(receive(peer.socket, &handle));
  end(peer);
  CUdeviceptr address;
  EXPECT(CUDA_ERROR_INVALID_HANDLE,
         cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  for (size_t i = 0; i < sizeof handle.reserved; i++) {
    CUipcMemHandle changed = handle;
    changed.reserved[i] = static_cast<char>(changed.reserved[i] + 1);
    EXPECT(CUDA_ERROR_INVALID_HANDLE,
           cuIpcOpenMemHandle_v2(&address, changed, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  }
  memset(&handle, 0, sizeof handle);
  EXPECT(CUDA_ERROR_INVALID_HANDLE,
         cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&handle, 4096));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(nullptr, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(4096));
  void *pinned;
  OK(cuMemHostAlloc(&pinned, 4096, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(pinned)));
  OK(cuMemFreeHost(pinned));
}

CUresult opened(const Peer &peer, const CUipcMemHandle &handle) {
  CUresult result;
  send_value(peer.socket, handle);
  assert_true(receive(peer.socket, &result));
  return result;
}

// From the call on that frees it, whatever work still uses it, and whoever has it open.
void what_is_freed_has_no_handle(void **) {
  Peer peer = start("opener");
  CUdeviceptr address, anew;
  CUipcMemHandle handle, other;
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuMemAlloc_v2(&address, 3000));
  OK(cuIpcGetMemHandle(&handle, address));
  EXPECT(CUDA_SUCCESS, opened(peer, handle));
  Gate gate;
  gate.hold(stream);
  OK(cuMemsetD32Async(address, 1, 1, stream));
  OK(cuMemFreeAsync(address, stream));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, opened(peer, handle));
  gate.open();
  OK(cuStreamSynchronize(stream));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, opened(peer, handle));
  OK(cuMemAlloc_v2(&anew, 3000));
  OK(cuIpcGetMemHandle(&other, anew));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, opened(peer, handle));
  EXPECT(CUDA_SUCCESS, opened(peer, other));
  OK(cuMemFree_v2(anew));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, opened(peer, other));
  CUcontext context;
  OK(cuCtxCreate_v2(&context, 0, 0));
  OK(cuMemAlloc_v2(&address, 3 << 20));
  OK(cuIpcGetMemHandle(&handle, address));
  EXPECT(CUDA_SUCCESS, opened(peer, handle));
  OK(cuCtxDestroy_v2(context));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, opened(peer, handle));
  OK(cuStreamDestroy_v2(stream));
  end(peer);
}

void events_order_two_processes(void **) {
  CUdeviceptr address;
  OK(cuMemAlloc_v2(&address, 8 << 20));
  OK(cuMemsetD32_v2(address, 0, 2));
  CUevent go, done, plain;
  unsigned flags = unsigned{CU_EVENT_INTERPROCESS} | unsigned{CU_EVENT_DISABLE_TIMING};
  OK(cuEventCreate(&go, flags));
  OK(cuEventCreate(&done, flags));
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  struct {
    CUipcMemHandle memory;
    CUipcEventHandle go, done;
  } handles;
  OK(cuIpcGetMemHandle(&handles.memory, address));
  OK(cuIpcGetEventHandle(&handles.go, go));
  OK(cuIpcGetEventHandle(&handles.done, done));
  OK(cuEventQuery(go));  // never recorded
  OK(cuCtxSynchronize());
  Gate gate;
  gate.hold(stream);
  OK(cuMemsetD32Async(address, 99, 1, stream));
  OK(cuEventRecord(go, stream));
  Peer peer = start("event");
  send_value(peer.socket, handles);
  int queued;
  assert_true(receive(peer.socket, &queued));
  EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(done));
  // Behind what the other process has recorded.
  CUstream behind;
  OK(cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
  OK(cuStreamWaitEvent(behind, done, 0));
  OK(cuMemcpyDtoDAsync_v2(address + 8, address + 4, 4, behind));
  EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(behind));
  gate.open();
  OK(cuStreamSynchronize(behind));
  OK(cuEventSynchronize(done));
  assert_int_equal(read_word(address + 8), 99);
  send_value(peer.socket, 1);
  end(peer);

  EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&plain, CU_EVENT_INTERPROCESS));
  OK(cuEventCreate(&plain, 0));
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&handles.go, plain));
  CUevent opened;
  EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenEventHandle(&opened, handles.done));
  memset(&handles.go, 1, sizeof handles.go);
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&opened, handles.go));
  float milliseconds;
  EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, go, done));
  OK(cuEventDestroy_v2(go));
  OK(cuEventDestroy_v2(done));
  OK(cuMemFree_v2(address));
}

// Nobody waits for ever for a process that is gone.
void a_recorder_may_die(void **) {
  CUevent event;
  OK(cuEventCreate(&event, unsigned{CU_EVENT_INTERPROCESS} | unsigned{CU_EVENT_DISABLE_TIMING}));
  CUipcEventHandle handle;
  OK(cuIpcGetEventHandle(&handle, event));
  Peer peer = start("dying");
  send_value(peer.socket, handle);
  int queued;
  assert_true(receive(peer.socket, &queued));
  EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
  end(peer);
  OK(cuEventSynchronize(event));
  OK(cuEventDestroy_v2(event));
}

void allocations_travel_as_descriptors(void **) {
  constexpr size_t size = 4 * kGranule;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle, private_handle;
  int descriptor;
  OK(cuMemCreate(&private_handle, size, &properties, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemExportToShareableHandle(&descriptor, private_handle,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  OK(cuMemRelease(private_handle));
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&handle, size, &properties, 0));
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t free_before, free_after, total;
  OK(cuMemGetInfo_v2(&free_before, &total));
  OK(cuMemCreate(&handle, size, &properties, 0));
  OK(cuMemGetInfo_v2(&free_after, &total));
  assert_true(free_before - free_after == size);
  CUdeviceptr address;
  OK(cuMemAddressReserve(&address, size, 0, 0, 0));
  OK(cuMemMap(address, size, 0, handle, 0));
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemSetAccess(address, size, &access, 1));
  OK(cuMemsetD32_v2(address + size - 4, 4321, 1));
  OK(cuCtxSynchronize());
  uint64_t allowed;
  OK(cuPointerGetAttribute(&allowed, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address));
  assert_int_equal(allowed, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  EXPECT(CUDA_ERROR_NOT_SUPPORTED,
         cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_WIN32, 0));
  OK(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                  0));
  Peer peer = start("allocation");
  send_value(peer.socket, size, descriptor);
  close(descriptor);
  end(peer);
  assert_int_equal(read_word(address), 8765);
  OK(cuMemUnmap(address, size));
  OK(cuMemRelease(handle));
  OK(cuMemAddressFree(address, size));
  OK(cuMemGetInfo_v2(&free_after, &total));
  assert_true(free_before == free_after);
  int other = open("/dev/null", O_RDWR);
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemImportFromShareableHandle(&handle,
                                        reinterpret_cast<void *>(static_cast<intptr_t>(other)),
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(other);
}

void pools_travel_as_descriptors(void **) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemoryPool pool, own;
  OK(cuMemPoolCreate(&pool, &properties));
  CUdeviceptr first, second, plain;
  OK(cuMemAllocFromPoolAsync(&first, 5000, pool, nullptr));
  OK(cuMemAllocFromPoolAsync(&second, 6 << 20, pool, nullptr));
  OK(cuMemAllocAsync(&plain, 100, nullptr));
  OK(cuMemsetD32_v2(first, 11, 1));
  OK(cuMemsetD32_v2(second, 22, 1));
  OK(cuCtxSynchronize());
  struct {
    CUmemPoolPtrExportData first, second;
  } data;
  OK(cuMemPoolExportPointer(&data.first, first));
  OK(cuMemPoolExportPointer(&data.second, second));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data.second, second + 4));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportPointer(&data.second, plain));
  int descriptor;
  OK(cuDeviceGetDefaultMemPool(&own, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE,
         cuMemPoolExportToShareableHandle(&descriptor, own,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  OK(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      0));
  Peer peer = start("pool");
  send_value(peer.socket, data, descriptor);
  close(descriptor);
  end(peer);
  assert_int_equal(read_word(second), 33);
  OK(cuMemFreeAsync(first, nullptr));
  OK(cuMemFreeAsync(second, nullptr));
  OK(cuMemFreeAsync(plain, nullptr));
  OK(cuMemPoolDestroy(pool));
}

}  // namespace

int main(int count, char **arguments) {
  if (count == 2) return second(arguments[1]);
  const CMUnitTest tests[] = {
      TEST(memory_is_one),
      TEST(handles_that_lead_nowhere),
      TEST(what_is_freed_has_no_handle),
      TEST(events_order_two_processes),
      TEST(a_recorder_may_die),
      TEST(allocations_travel_as_descriptors),
      TEST(pools_travel_as_descriptors),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
