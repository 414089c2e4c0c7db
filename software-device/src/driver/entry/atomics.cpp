// Entry points: which atomic operations kernels have on memory of the host and of other devices.
// All addresses lead to the same memory here, so they have all that they have on their own.
#include "entry/entry.h"

using namespace softdev::driver;

namespace {

CUresult capabilities(unsigned *answers, const CUatomicOperation *operations, unsigned count) {
  if (!answers || !operations || !count) return CUDA_ERROR_INVALID_VALUE;
  constexpr unsigned words = CU_ATOMIC_CAPABILITY_SCALAR_32 | CU_ATOMIC_CAPABILITY_SCALAR_64;
  constexpr unsigned reductions = words | CU_ATOMIC_CAPABILITY_REDUCTION;
  constexpr unsigned either = CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED;
  for (unsigned i = 0; i < count; i++) {
    switch (operations[i]) {
      case CU_ATOMIC_OPERATION_INTEGER_ADD:
      case CU_ATOMIC_OPERATION_INTEGER_MIN:
      case CU_ATOMIC_OPERATION_INTEGER_MAX:
        answers[i] = reductions | either;
        break;
      case CU_ATOMIC_OPERATION_INTEGER_INCREMENT:
      case CU_ATOMIC_OPERATION_INTEGER_DECREMENT:
        answers[i] = CU_ATOMIC_CAPABILITY_SCALAR_32 | CU_ATOMIC_CAPABILITY_REDUCTION |
                     CU_ATOMIC_CAPABILITY_UNSIGNED;
        break;
      case CU_ATOMIC_OPERATION_AND:
      case CU_ATOMIC_OPERATION_OR:
      case CU_ATOMIC_OPERATION_XOR:
        answers[i] = reductions | CU_ATOMIC_CAPABILITY_UNSIGNED;
        break;
      case CU_ATOMIC_OPERATION_EXCHANGE:
      case CU_ATOMIC_OPERATION_CAS:
        answers[i] = words | CU_ATOMIC_CAPABILITY_UNSIGNED;
        break;
      case CU_ATOMIC_OPERATION_FLOAT_ADD:
        answers[i] = reductions | CU_ATOMIC_CAPABILITY_SIGNED;
        break;
      case CU_ATOMIC_OPERATION_FLOAT_MIN:
      case CU_ATOMIC_OPERATION_FLOAT_MAX:
        answers[i] = 0;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuDeviceGetHostAtomicCapabilities(unsigned int *answers,
                                           const CUatomicOperation *operations, unsigned int count,
                                           CUdevice device) {
  if (CUresult bad = enter()) return bad;
  if (!driver()->device(device)) return CUDA_ERROR_INVALID_DEVICE;
  return capabilities(answers, operations, count);
}

CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int *answers,
                                          const CUatomicOperation *operations, unsigned int count,
                                          CUdevice from, CUdevice to) {
  if (CUresult bad = enter()) return bad;
  if (!driver()->device(from) || !driver()->device(to) || from == to)
    return CUDA_ERROR_INVALID_DEVICE;
  return capabilities(answers, operations, count);
}

}  // extern "C"
