// What a cubin says of itself: the kernels of its machine code with their parameters and what a
// launch of them takes, and its variables. The code is not looked at. Safe for any bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine.h"
#include "modules/containers.h"

namespace softdev::driver {

struct CubinKernel {
  std::string name;
  std::vector<ParameterInfo> parameters;
  uint32_t parameter_bytes = 0;
  KernelAttributes attributes;
};

struct CubinVariable {
  std::string name;
  uint64_t size = 0;   // bytes
  uint64_t align = 1;  // a power of two
  Storage storage = Storage::kGlobal;
  // What it begins with, `size` bytes of the file; empty: zeros. Addresses in it are not filled in.
  Bytes initial;
};

struct Cubin {
  uint32_t arch = 0;  // 90 for sm_90
  std::vector<CubinKernel> kernels;
  std::vector<CubinVariable> variables;
};

// Whether it is an ELF file for CUDA devices with code that can be loaded as it is: no piece for a
// linker.
bool is_cubin(Bytes file);

// The architecture whose code is in a cubin, 90 for sm_90; 0 where it is none.
uint32_t cubin_arch(Bytes file);

// Reads a cubin. Returns a sentence on what is wrong with it; empty when nothing is. The variables
// point into the file.
std::string read_cubin(Bytes file, Cubin *cubin);

}  // namespace softdev::driver
