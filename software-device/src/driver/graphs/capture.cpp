// What capturing streams forbid, and what they take.
#include "core/log.h"
#include "streams/task.h"

namespace softdev::driver {

// Capture is refused where it would begin, so none of these is called yet.
std::atomic<unsigned> captures{0};

CUresult check_capture(const StreamRef &, Use) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult check_unsafe() { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult check_context_wait(const Context &) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult capture(const StreamRef &, const TaskRef &) { return CUDA_ERROR_NOT_SUPPORTED; }

}  // namespace softdev::driver
