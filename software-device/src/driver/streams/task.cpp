#include "streams/task.h"

namespace softdev::driver {

CUresult submit(const StreamRef &stream, const TaskRef &task) {
  if (CUresult bad = admit(stream, Use::kQueue)) return bad;
  if (stream->capturing()) return capture(stream, task);
  Queue::push(*stream, task->operation(Task::Uses::kOnce));
  return CUDA_SUCCESS;
}

}  // namespace softdev::driver
