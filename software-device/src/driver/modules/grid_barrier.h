// Functions of CUDA's device runtime (libcudadevrt) by which the threads of a cooperative grid wait
// for one another. NVIDIA's are machine code; these are PTX, which is linked to what calls them.
#pragma once

#include <string_view>

#include "modules/linker.h"

namespace softdev::driver {

// Whether `name` is one of them.
bool is_grid_barrier_function(std::string_view name);

// Whether a text mentions one of them.
bool mentions_grid_barrier(std::string_view text);

// All of them. They are weak: what was linked to them once can be linked again.
const LinkInput &grid_barrier_functions();

}  // namespace softdev::driver
