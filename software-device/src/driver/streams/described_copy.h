// Copies as programs describe them, in the structures of the driver API.
#pragma once

#include "streams/transfer.h"

namespace softdev::driver {

struct DescribedCopy {
  End to, from;
  Box box;
};

// CUDA_ERROR_INVALID_VALUE when a pitch, an offset or an array does not allow it. Whether the
// addresses may be touched is found out by copy() and make_copy().
CUresult read_copy(const CUDA_MEMCPY2D &what, DescribedCopy *copy);
CUresult read_copy(const CUDA_MEMCPY3D &what, DescribedCopy *copy);
CUresult read_copy(const CUDA_MEMCPY3D_PEER &what, DescribedCopy *copy);

}  // namespace softdev::driver
