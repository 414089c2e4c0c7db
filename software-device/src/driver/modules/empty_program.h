// The program that this device makes of a cubin, which it cannot execute: all its variables, and
// kernels with its names, parameters and attributes that do nothing.
#pragma once

#include <memory>
#include <string>

#include "engine.h"

namespace softdev::driver {

// Makes the program of a cubin's bytes, and places and initialises its variables (as Program::load
// does). Null when that fails, with CUDA_ERROR_INVALID_IMAGE or CUDA_ERROR_OUT_OF_MEMORY in
// *status.
std::unique_ptr<Program> empty_program(const std::string &cubin, const AllocateGlobal &allocate,
                                       bool managed_are_there, Status *status);

}  // namespace softdev::driver
