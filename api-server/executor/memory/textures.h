// The texture and surface objects of a session, by the driver's values, and the texture and surface
// references of its modules, by the guest's handles. Used by the leader alone.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/driver.h"
#include "base/handles.h"
#include "memory/arrays.h"

namespace outboard {

struct Module;

// A texture reference or a surface reference of a module: one of the two is null.
struct Reference {
  CUtexref texture = nullptr;
  CUsurfref surface = nullptr;
  const Module *module = nullptr;
};

class Textures {
 public:
  explicit Textures(const Driver &driver) : driver_(driver) {}

  // Returns how many objects there are.
  size_t count() const { return objects_.size(); }
  // Keeps an object that the driver has made.
  void keep(uint64_t object, bool surface) { objects_[object] = surface; }
  // Destroys an object. CUDA_ERROR_INVALID_VALUE when the session has none of this value.
  CUresult destroy(uint64_t object);

  // Whether there are references.
  bool has_references() const { return !references_.empty(); }
  bool can_mint(uint64_t handle) const { return references_.can_mint(handle); }
  void keep(uint64_t handle, const Reference &reference) { references_.keep(handle, reference); }
  const Reference *find(uint64_t handle) { return references_.find(handle); }
  void drop_references_of(const Module *module) {
    references_.drop_if([module](const Reference &r) { return r.module == module; });
  }

  // Destroys all objects and forgets all references. To be called before arrays and modules are
  // released. Returns the first error.
  CUresult release();

 private:
  CUresult destroy(uint64_t object, bool surface) {
    return surface ? driver_.cuSurfObjectDestroy(object) : driver_.cuTexObjectDestroy(object);
  }

  const Driver &driver_;
  std::unordered_map<uint64_t, bool> objects_;  // the value says whether it is a surface
  HandleTable<Reference, WIRE_KIND_REFERENCE> references_;
};

}  // namespace outboard
