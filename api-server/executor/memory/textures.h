// Texture and surface objects of a session, by the driver's values, and the references of its
// modules, by the guest's handles. The leader's.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/driver.h"
#include "base/handles.h"
#include "memory/arrays.h"

namespace outboard {

struct Module;

struct Reference {
  CUtexref texture = nullptr;  // or
  CUsurfref surface = nullptr;
  const Module *module = nullptr;
};

class Textures {
 public:
  explicit Textures(const Driver &driver) : driver_(driver) {}

  size_t count() const { return objects_.size(); }
  // What the driver made is kept.
  void keep(uint64_t object, bool surface) { objects_[object] = surface; }
  CUresult destroy(uint64_t object);

  bool can_mint(uint64_t handle) const { return references_.can_mint(handle); }
  void keep(uint64_t handle, const Reference &reference) { references_.keep(handle, reference); }
  const Reference *find(uint64_t handle) { return references_.find(handle); }
  void drop_references_of(const Module *module) {
    references_.drop_if([module](const Reference &r) { return r.module == module; });
  }

  // Everything, before arrays and modules end. The first error.
  CUresult release();

 private:
  CUresult destroy(uint64_t object, bool surface) {
    return surface ? driver_.cuSurfObjectDestroy(object) : driver_.cuTexObjectDestroy(object);
  }

  const Driver &driver_;
  std::unordered_map<uint64_t, bool> objects_;  // to whether it is a surface
  HandleTable<Reference, WIRE_KIND_REFERENCE> references_;
};

}  // namespace outboard
