// Handles that programs hold. A handle is a number that is looked up, never a pointer that is
// followed, so that a stale or made-up one is an error and not a crash.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <vector>

namespace softdev::driver {

enum class Kind : uint8_t {
  kNone,
  kContext,
  kStream,
  kEvent,
  kModule,
  kLibrary,
  kFunction,
  kKernel,
  kAllocation,  // of cuMemCreate
  kPool,
  kArray,
  kMipmappedArray,
  kTexture,
  kSurface,
  kTextureReference,
  kSurfaceReference,
  kLink,
  kGraph,
  kGraphNode,
  kGraphExec,
  kUserObject,
  kCount,
};

class Object {
 public:
  virtual ~Object() = default;
  uint64_t handle() const { return handle_; }

 private:
  friend class Handles;
  uint64_t handle_ = 0;
};

class Handles {
 public:
  // Gives the object a handle, which stays valid until it is removed.
  template <class T>
  uint64_t add(std::shared_ptr<T> object) {
    return add(T::kKind, std::move(object));
  }

  // The object, or nullptr when the handle is not one of a live T.
  template <class T, class Handle>
  std::shared_ptr<T> find(Handle handle) const {
    return std::static_pointer_cast<T>(look_up(T::kKind, number(handle)));
  }

  // As find, and the handle is no longer valid.
  template <class T, class Handle>
  std::shared_ptr<T> remove(Handle handle) {
    return std::static_pointer_cast<T>(take(T::kKind, number(handle)));
  }

  // Which kind of object a handle claims to be, without looking it up.
  template <class Handle>
  static Kind claimed_kind(Handle handle) {
    return static_cast<Kind>((number(handle) >> kKindShift) & 0xFF);
  }

 private:
  // Bits: kind 52..59, generation 28..51, index 4..27. Never a canonical address, never 0, 1 or 2.
  static constexpr int kKindShift = 52, kGenerationShift = 28, kIndexShift = 4;
  static constexpr uint32_t kMask = 0xFFFFFF;

  struct Slot {
    std::shared_ptr<Object> object;
    uint32_t generation = 0;
  };

  // Those of a kind have a table of their own: kernels hold numbers of textures and surfaces, and
  // these depend on nothing but how many of them there were before.
  struct Table {
    std::vector<Slot> slots;
    std::vector<uint32_t> free;
  };

  static uint64_t number(uint64_t handle) { return handle; }
  static uint64_t number(const void *handle) { return reinterpret_cast<uint64_t>(handle); }

  uint64_t add(Kind kind, std::shared_ptr<Object> object);
  std::shared_ptr<Object> look_up(Kind kind, uint64_t handle) const;
  std::shared_ptr<Object> take(Kind kind, uint64_t handle);
  static bool matches(const Slot &slot, uint64_t handle);

  mutable std::shared_mutex mutex_;
  std::array<Table, static_cast<size_t>(Kind::kCount)> tables_;
};

}  // namespace softdev::driver
