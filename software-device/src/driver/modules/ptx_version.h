// Whether the driver's compiler knows the version of PTX that a text is of.
#pragma once

#include <string>
#include <string_view>

#include "cuda_driver.h"

namespace softdev::driver {

// CUDA_ERROR_UNSUPPORTED_PTX_VERSION, and what NVIDIA's compiler says in *reason, where the text is
// of a later version than a driver of that age knows (the trait `driver`).
CUresult check_ptx_version(std::string_view text, std::string *reason);

}  // namespace softdev::driver
