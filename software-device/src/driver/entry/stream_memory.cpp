// Entry points: values in memory that a stream waits for or writes.
#include <atomic>

#include "entry/entry.h"

using namespace softdev::driver;

namespace {

constexpr unsigned kMostInBatch = 256;

struct Value {
  CUdeviceptr address;
  uint64_t value;
  bool wide;  // 64 bits
  unsigned flags;
};

// Atomic, as kernels and the host read and write there meanwhile.
uint64_t load(const Value &at) {
  auto *place = reinterpret_cast<void *>(at.address);
  return at.wide ? __atomic_load_n(static_cast<uint64_t *>(place), __ATOMIC_ACQUIRE)
                 : __atomic_load_n(static_cast<uint32_t *>(place), __ATOMIC_ACQUIRE);
}

void store(const Value &at) {
  auto *place = reinterpret_cast<void *>(at.address);
  if (at.wide)
    __atomic_store_n(static_cast<uint64_t *>(place), at.value, __ATOMIC_RELEASE);
  else
    __atomic_store_n(static_cast<uint32_t *>(place), static_cast<uint32_t>(at.value),
                     __ATOMIC_RELEASE);
}

bool holds(const Value &wanted) {
  uint64_t now = load(wanted), value = wanted.wide ? wanted.value : wanted.value & UINT32_MAX;
  switch (wanted.flags) {
    case CU_STREAM_WAIT_VALUE_GEQ:  // cyclic: what has wrapped around is greater, too
      return wanted.wide ? static_cast<int64_t>(now - value) >= 0
                         : static_cast<int32_t>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    default:  // NOR
      return (~(now | value) & (wanted.wide ? UINT64_MAX : UINT32_MAX)) != 0;
  }
}

// The program may have freed it since; that must not be our death.
bool reachable(const Value &at) { return driver()->memory.copyable(at.address, at.wide ? 8 : 4); }

void fault(Operation &operation, const Value &at) {
  log(Level::kError, "a stream was to use the value at 0x%llx, which is freed", at.address);
  operation.context()->fail(CUDA_ERROR_ILLEGAL_ADDRESS);
}

CUresult check(const Value &at) {
  size_t size = at.wide ? 8 : 4;
  if (!at.address || at.address % size)
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no address of a %zu-byte value", at.address,
                  size);
  auto pin = driver()->memory.pin();
  if (!reachable(at))
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no memory of the device and not registered",
                  at.address);
  return CUDA_SUCCESS;
}

CUresult check_wait(const Value &at) {
  if (at.flags & CU_STREAM_WAIT_VALUE_FLUSH)
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "there are no remote writes that could be flushed");
  if (at.flags > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
  return check(at);
}

CUresult check_write(const Value &at) {
  if (at.flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) return CUDA_ERROR_INVALID_VALUE;
  return check(at);
}

void push_wait(const StreamRef &stream, const Value &wanted) {
  auto work = std::make_shared<Operation>(stream.context, Where::kEngine);
  work->run = [wanted](Operation &operation) {
    driver()->watcher.watch(operation.shared_from_this(), [&operation, wanted] {
      auto pin = driver()->memory.pin();
      if (reachable(wanted)) return holds(wanted);
      fault(operation, wanted);
      return true;
    });
  };
  Queue::push(*stream, work);
}

void push_write(const StreamRef &stream, const Value &value) {
  auto work = std::make_shared<Operation>(stream.context, Where::kInline);
  work->run = [value](Operation &operation) {
    auto pin = driver()->memory.pin();
    if (reachable(value))
      store(value);
    else
      fault(operation, value);
  };
  Queue::push(*stream, work);
}

CUresult wait(CUstream handle, const Value &wanted, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (CUresult bad = check_wait(wanted)) return bad;
  return guarded([&] {
    push_wait(stream, wanted);
    return CUDA_SUCCESS;
  });
}

CUresult write(CUstream handle, const Value &value, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (CUresult bad = check_write(value)) return bad;
  return guarded([&] {
    push_write(stream, value);
    return CUDA_SUCCESS;
  });
}

// The value of one entry of a batch. False for the other kinds of entry.
bool value_of(const CUstreamBatchMemOpParams &entry, Value *value) {
  switch (entry.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      *value = {entry.waitValue.address, entry.waitValue.value, false, entry.waitValue.flags};
      return true;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      *value = {entry.waitValue.address, entry.waitValue.value64, true, entry.waitValue.flags};
      return true;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      *value = {entry.writeValue.address, entry.writeValue.value, false, entry.writeValue.flags};
      return true;
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      *value = {entry.writeValue.address, entry.writeValue.value64, true, entry.writeValue.flags};
      return true;
    default:
      return false;
  }
}

bool waits(const CUstreamBatchMemOpParams &entry) {
  return entry.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
         entry.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

CUresult check_entry(const CUstreamBatchMemOpParams &entry) {
  Value value;
  if (value_of(entry, &value)) return waits(entry) ? check_wait(value) : check_write(value);
  switch (entry.operation) {
    case CU_STREAM_MEM_OP_BARRIER:
      return entry.memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU
                 ? CUDA_ERROR_INVALID_VALUE
                 : CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "there are no remote writes that could be flushed");
    default:
      return refuse(CUDA_ERROR_INVALID_VALUE, "there is no stream operation %d", entry.operation);
  }
}

CUresult batch(CUstream handle, unsigned count, const CUstreamBatchMemOpParams *entries,
               unsigned flags, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!entries || !count || count > kMostInBatch || flags) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++)
    if (CUresult bad = check_entry(entries[i])) return bad;
  return guarded([&] {
    for (unsigned i = 0; i < count; i++) {
      Value value;
      // A barrier orders what kernels wrote before what comes: operations of a stream do anyhow.
      if (!value_of(entries[i], &value)) continue;
      if (waits(entries[i]))
        push_wait(stream, value);
      else
        push_write(stream, value);
    }
    return CUDA_SUCCESS;
  });
}

}  // namespace

extern "C" {

// The first version of each asked for a module option that CUDA 12 did away with.
#define VALUE_CALLS(name, call, bits)                                                          \
  CUresult name(CUstream stream, CUdeviceptr at, cuuint##bits##_t value, unsigned int flags) { \
    return call(stream, {at, value, bits == 64, flags}, Default::kLegacy);                     \
  }                                                                                            \
  CUresult name##_ptsz(CUstream stream, CUdeviceptr at, cuuint##bits##_t value,                \
                       unsigned int flags) {                                                   \
    return call(stream, {at, value, bits == 64, flags}, Default::kPerThread);                  \
  }                                                                                            \
  CUresult name##_v2(CUstream stream, CUdeviceptr at, cuuint##bits##_t value,                  \
                     unsigned int flags) {                                                     \
    return call(stream, {at, value, bits == 64, flags}, Default::kLegacy);                     \
  }                                                                                            \
  CUresult name##_v2_ptsz(CUstream stream, CUdeviceptr at, cuuint##bits##_t value,             \
                          unsigned int flags) {                                                \
    return call(stream, {at, value, bits == 64, flags}, Default::kPerThread);                  \
  }

VALUE_CALLS(cuStreamWaitValue32, wait, 32)
VALUE_CALLS(cuStreamWaitValue64, wait, 64)
VALUE_CALLS(cuStreamWriteValue32, write, 32)
VALUE_CALLS(cuStreamWriteValue64, write, 64)

#define BATCH_CALL(name, null)                                                          \
  CUresult name(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *entries, \
                unsigned int flags) {                                                   \
    return batch(stream, count, entries, flags, null);                                  \
  }
BATCH_CALL(cuStreamBatchMemOp, Default::kLegacy)
BATCH_CALL(cuStreamBatchMemOp_ptsz, Default::kPerThread)
BATCH_CALL(cuStreamBatchMemOp_v2, Default::kLegacy)
BATCH_CALL(cuStreamBatchMemOp_v2_ptsz, Default::kPerThread)

}  // extern "C"
