#include "streams/values.h"

#include "core/driver.h"

namespace softdev::driver {
namespace {

constexpr unsigned kMostInBatch = 256;

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
  uint64_t now = load(wanted), value = wanted.value;
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

bool in_memory(const Value &at) { return driver()->memory.copyable(at.address, at.wide ? 8 : 4); }

CUresult check(const Value &at) {
  size_t size = at.wide ? 8 : 4;
  if (at.waits && (at.flags & CU_STREAM_WAIT_VALUE_FLUSH))
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "there are no remote writes that could be flushed");
  constexpr unsigned most_wait = CU_STREAM_WAIT_VALUE_NOR;
  constexpr unsigned most_write = CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
  if (at.flags > (at.waits ? most_wait : most_write)) return CUDA_ERROR_INVALID_VALUE;
  if (!at.address || at.address % size)
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no address of a %zu-byte value", at.address,
                  size);
  auto pin = driver()->memory.pin();
  if (!in_memory(at))
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no memory of the device and not registered",
                  at.address);
  return CUDA_SUCCESS;
}

// Goes on from *next; true when the list is done, false at a value that is not there yet.
bool advance(const std::vector<Value> &values, size_t *next, Context &context) {
  auto pin = driver()->memory.pin();
  for (; *next < values.size(); ++*next) {
    const Value &value = values[*next];
    if (!in_memory(value)) {  // the program may have freed it since
      log(Level::kError, "a stream was to use the value at 0x%llx, which is freed", value.address);
      context.fail(CUDA_ERROR_ILLEGAL_ADDRESS);
      return true;
    }
    if (!value.waits)
      store(value);
    else if (!holds(value))
      return false;
  }
  return true;
}

}  // namespace

Work ValuesTask::operation(Uses) {
  auto work = std::make_shared<Operation>(context, Where::kEngine);
  auto self = std::static_pointer_cast<ValuesTask>(shared_from_this());
  work->run = [self](Operation &operation) {
    auto next = std::make_shared<size_t>(0);
    auto go_on = [self, next] { return advance(self->values, next.get(), *self->context); };
    if (go_on())
      operation.finish();
    else
      driver()->watcher.watch(operation.shared_from_this(), go_on);
  };
  return work;
}

bool ValuesTask::reachable() const {
  for (const Value &value : values)
    if (!in_memory(value)) return false;
  return true;
}

CUresult make_values(const std::shared_ptr<Context> &context, std::vector<Value> values,
                     std::shared_ptr<ValuesTask> *task) {
  for (Value &value : values) {
    if (CUresult bad = check(value)) return bad;
    if (!value.wide) value.value &= UINT32_MAX;
  }
  *task = std::make_shared<ValuesTask>(context, std::move(values));
  return CUDA_SUCCESS;
}

CUresult read_values(const CUstreamBatchMemOpParams *entries, unsigned count,
                     std::vector<Value> *values) {
  if (!entries || !count || count > kMostInBatch) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; i++) {
    const CUstreamBatchMemOpParams &entry = entries[i];
    const auto &wait = entry.waitValue;
    const auto &write = entry.writeValue;
    switch (entry.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        values->push_back({true, false, wait.address, wait.value, wait.flags});
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        values->push_back({true, true, wait.address, wait.value64, wait.flags});
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        values->push_back({false, false, write.address, write.value, write.flags});
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        values->push_back({false, true, write.address, write.value64, write.flags});
        break;
      case CU_STREAM_MEM_OP_BARRIER:
        // Orders what kernels wrote before what comes, as operations of a stream are anyhow.
        if (entry.memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU)
          return CUDA_ERROR_INVALID_VALUE;
        break;
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        return refuse(CUDA_ERROR_NOT_SUPPORTED, "there are no remote writes that could be flushed");
      default:
        return refuse(CUDA_ERROR_INVALID_VALUE, "there is no stream operation %d", entry.operation);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace softdev::driver
