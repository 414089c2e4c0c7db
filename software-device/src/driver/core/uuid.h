// Who the machine's devices are: UUIDs of GPUs, and of their instances in MIG mode. They are the
// same on every machine and in every run, so that programs may remember them.
#pragma once

#include <string>
#include <string_view>

#include "cuda_driver.h"

namespace softdev::driver {

// `number`: which of the machine's GPUs.
CUuuid gpu_uuid(int number);
// `instance`: which of that GPU's.
CUuuid instance_uuid(int number, int instance);

// As NVIDIA's tools and CUDA_VISIBLE_DEVICES have it; the kind is GPU or MIG.
std::string uuid_text(std::string_view kind, const CUuuid &uuid);

}  // namespace softdev::driver
