// cuBLAS of this machine, reached by dlopen and nothing else: its functions by the numbers under
// which guests call them, and handles of it. It finds the driver by its name, which this process
// has loaded already, and works on the context that is current to the calling thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cublas_calls.h"
#include "gate/gate.h"
#include "libraries/cublas_lt.h"

namespace outboard {

// Results of cuBLAS that are told where it was not asked.
enum CublasStatus {
  kCublasSuccess = 0,
  kCublasNotInitialized = 1,
  kCublasAllocFailed = 3,
  kCublasInvalidValue = 7,
  kCublasArchMismatch = 8,
  kCublasNotSupported = 15,
};
// Whether the same call has it the next time, too.
constexpr bool cublas_status_lasts(int status) {
  return status == kCublasSuccess || status == kCublasInvalidValue ||
         status == kCublasArchMismatch || status == kCublasNotSupported;
}

class Cublas {
 public:
  // Loads the library from a folder, or from where the dynamic linker finds it if that is empty. It
  // stays loaded for the life of the process. Throws Error.
  static std::shared_ptr<const Cublas> open(const std::string &folder);

  // 130002 is 13.0.2.
  int version() const { return version_; }
  // The library beneath it.
  const CublasLt &lt() const { return lt_; }
  // Whether this release has the function.
  bool has(uint32_t function) const { return functions_[function] != nullptr; }

  // Make and end a handle on the current context; both may block. nullptr: `status` says why.
  void *create(int *status) const;
  int destroy(void *handle) const;
  // The same as cublasSetStream_v2 and cublasSetPointerMode_v2.
  int set_stream(void *handle, CUstream stream) const;
  int set_mode(void *handle, uint32_t mode) const;
  // Calls a function that starts no work: those that set something of a handle.
  int set(uint32_t function, void *handle, const uint64_t *arguments) const {
    return call(function, handle, arguments);
  }
  // Calls a function that may start work, for which there is a pass of the gate. `arguments` are
  // LIBRARY_PARAMETERS_MAX words, behind those of the function 0.
  int start(const Gate::Pass &, uint32_t function, void *handle, const uint64_t *arguments) const {
    return call(function, handle, arguments);
  }

 private:
  Cublas() = default;
  int call(uint32_t function, void *handle, const uint64_t *arguments) const;

  void *functions_[CUBLAS_CALL_COUNT] = {};
  int (*set_pointer_mode_)(void *, int) = nullptr;
  int version_ = 0;
  CublasLt lt_;
};

// A handle of a session: what stands behind one that its guest minted.
struct CublasHandle {
  void *object = nullptr;
  CUstream stream = nullptr;
  uint32_t mode = LIBRARY_MODE_HOST;
  uint64_t bytes = 0;     // of the device's memory that it took of what the session's modules may
  bool is_slots = false;  // its memory is its slot's
  // While a call of it is carried out beside the leader, nobody else may use it.
  std::atomic<bool> busy{false};
};

}  // namespace outboard
