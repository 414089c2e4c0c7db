// cuBLASLt of this machine, reached by dlopen and nothing else, as cuBLAS is (cublas.h).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "gate/gate.h"
#include "libraries/lt_arguments.h"

namespace outboard {

// Algorithms that this machine's library has given the session. Only these are given back to it: it
// looks nothing up in their 64 bytes with care. Any thread.
class LtAlgos {
 public:
  enum Origin {
    kNone,
    kFound,   // a heuristic has: the library has chosen all that it says
    kSet,     // the guest has set what it says, and it may do for a product
    kBeyond,  // the same, to what the library has not; it would not look whether it does
  };
  Origin origin(const uint64_t *algo) const;
  bool has(const uint64_t *algo) const { return origin(algo) != kNone; }
  // Whether there was room for it. One that was found stays so.
  bool add(const uint64_t *algo, Origin origin);
  bool empty() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Origin> all_;
};

// Answer of a call that starts nothing.
struct LtAnswer {
  uint32_t size = 0;
  alignas(16) uint64_t words[(LT_ANSWER_MOST + 15) / 16 * 2] = {};
};

class CublasLt {
 public:
  // Of a library that is loaded; whether it has all functions.
  bool open(void *library);

  // Make and end a handle on the current context. nullptr: `status` says why.
  void *create(int *status) const;
  void destroy(void *handle) const;
  // Calls a function that puts work on the stream, for which there is a pass of the gate. An
  // algorithm that no heuristic has found is checked for this product first. Any number of threads
  // may call with one handle.
  int start(const Gate::Pass &, void *handle, const LtArguments &arguments, const LtAlgos &algos,
            CUstream stream) const;
  // Calls one that starts nothing. Algorithms that come of it are added.
  int ask(void *handle, const LtArguments &arguments, LtAlgos *algos, LtAnswer *answer) const;

 private:
  struct Object {
    alignas(16) uint64_t words[LT_OBJECT_MOST / 8];
  };
  int make(const LtDescriptor &descriptor, Object *object) const;
  LtAlgos::Origin origin_of(const uint64_t *algo) const;
  // Whether the algorithm does that product, and with what workspace.
  int check(void *handle, const LtArguments &arguments, const LtAlgos &algos, const Object &desc,
            const Object *layouts, lt_result *result) const;
  int heuristic(void *handle, const LtArguments &arguments, LtAlgos *algos, LtAnswer *answer) const;

  int (*create_)(void **) = nullptr;
  int (*destroy_)(void *) = nullptr;
  int (*matmul_)(void *, const void *, const void *, uint64_t, const void *, uint64_t, const void *,
                 const void *, uint64_t, const void *, uint64_t, const void *, const void *,
                 uint64_t, size_t, CUstream) = nullptr;
  int (*transform_)(void *, const void *, const void *, uint64_t, const void *, const void *,
                    uint64_t, const void *, uint64_t, const void *, CUstream) = nullptr;
  int (*heuristic_)(void *, const void *, const void *, const void *, const void *, const void *,
                    const void *, int, lt_result *, int *) = nullptr;
  int (*check_)(void *, const void *, const void *, const void *, const void *, const void *,
                const void *, lt_result *) = nullptr;
  int (*ids_)(void *, int, int, int, int, int, int, int, int *, int *) = nullptr;
  int (*init_)(void *, int, int, int, int, int, int, int, void *) = nullptr;
  int (*cap_)(const void *, int, void *, size_t, size_t *) = nullptr;
  int (*config_get_)(const void *, int, void *, size_t, size_t *) = nullptr;
  int (*config_set_)(void *, int, const void *, size_t) = nullptr;
  int (*init_desc_)(void *, size_t, int, int) = nullptr;
  int (*init_layout_)(void *, size_t, int, uint64_t, uint64_t, int64_t) = nullptr;
  int (*init_transform_)(void *, size_t, int) = nullptr;
  int (*init_preference_)(void *, size_t) = nullptr;
  int (*set_[LT_KIND_COUNT])(void *, int, const void *, size_t) = {};
};

}  // namespace outboard
