#include "streams/host_function.h"

#include "core/driver.h"

namespace softdev::driver {

Work HostTask::operation(Uses) {
  auto work = std::make_shared<Operation>(context, Where::kProgram);
  work->span = trace::span("host function");
  work->run = [to_call = function, with = data](Operation &) {
    HostFunctionScope scope;
    to_call(with);
  };
  return work;
}

}  // namespace softdev::driver
