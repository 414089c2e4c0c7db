// Entry points: values in memory that a stream waits for or writes.
#include "entry/entry.h"
#include "streams/values.h"

using namespace softdev::driver;

namespace {

CUresult queue(CUstream handle, std::vector<Value> values, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  std::shared_ptr<ValuesTask> task;
  if (CUresult bad = make_values(stream.context, std::move(values), &task)) return bad;
  return submit(stream, task);
}

CUresult one(CUstream handle, const Value &value, Default null) {
  return guarded([&] { return queue(handle, {value}, null); });
}

CUresult batch(CUstream handle, unsigned count, const CUstreamBatchMemOpParams *entries,
               unsigned flags, Default null) {
  return guarded([&]() -> CUresult {
    std::vector<Value> values;
    if (CUresult bad = enter()) return bad;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult bad = read_values(entries, count, &values)) return bad;
    return queue(handle, std::move(values), null);
  });
}

}  // namespace

extern "C" {

// The first version of each asked for a module option that CUDA 12 did away with.
#define VALUE_CALL(name, waits, bits, null)                                                    \
  CUresult name(CUstream stream, CUdeviceptr at, cuuint##bits##_t value, unsigned int flags) { \
    return one(stream, {waits, bits == 64, at, value, flags}, null);                           \
  }
#define VALUE_CALLS(name, waits, bits)                      \
  VALUE_CALL(name, waits, bits, Default::kLegacy)           \
  VALUE_CALL(name##_ptsz, waits, bits, Default::kPerThread) \
  VALUE_CALL(name##_v2, waits, bits, Default::kLegacy)      \
  VALUE_CALL(name##_v2_ptsz, waits, bits, Default::kPerThread)

VALUE_CALLS(cuStreamWaitValue32, true, 32)
VALUE_CALLS(cuStreamWaitValue64, true, 64)
VALUE_CALLS(cuStreamWriteValue32, false, 32)
VALUE_CALLS(cuStreamWriteValue64, false, 64)

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
