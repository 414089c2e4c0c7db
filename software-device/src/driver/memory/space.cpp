#include "memory/space.h"

#include <algorithm>
#include <mutex>

#include "core/driver.h"
#include "textures/image_object.h"

namespace softdev::driver {
namespace {

bool below(uint64_t address, const std::shared_ptr<Granules> &window) {
  return address < window->window().base;
}

// Registered memory may share a page: of two windows that begin together the longer one is last,
// which is the one that `find` takes.
bool shorter(const std::shared_ptr<Granules> &window, const std::shared_ptr<Granules> &other) {
  const Window &one = window->window(), &two = other->window();
  return one.base != two.base ? one.base < two.base : one.size < two.size;
}

}  // namespace

const Window *Space::find(uint64_t address) const {
  std::shared_lock guard(mutex_);
  auto after = std::upper_bound(windows_.begin(), windows_.end(), address, below);
  if (after == windows_.begin()) return nullptr;
  const Window &window = (*std::prev(after))->window();
  return address - window.base < window.size ? &window : nullptr;
}

bool Space::holds(uint64_t address, uint64_t size) const { return memory_->holds(address, size); }

std::string Space::describe(uint64_t address) const { return memory_->describe(address); }

void Space::add(std::shared_ptr<Granules> window) {
  std::unique_lock guard(mutex_);
  auto after = std::upper_bound(windows_.begin(), windows_.end(), window, shorter);
  windows_.insert(after, std::move(window));
}

void Space::remove(const Granules *window) {
  std::unique_lock guard(mutex_);
  auto found = std::find_if(windows_.begin(), windows_.end(),
                            [&](const auto &candidate) { return candidate.get() == window; });
  if (found == windows_.end()) return;
  retired_.push_back(std::move(*found));
  windows_.erase(found);
}

void Space::retire(std::shared_ptr<const void> held) {
  std::unique_lock guard(mutex_);
  retired_.push_back(std::move(held));
}

const ImageView *Space::find_image(uint64_t handle) const {
  // Whoever destroys the object retires the image, so it lives on while a kernel may hold it.
  auto here = [this](const auto &object) {
    return object && &driver()->memory.space(object->device) == this ? object->image.get()
                                                                     : nullptr;
  };
  const Handles &handles = driver()->handles;
  if (Handles::claimed_kind(handle) == Kind::kTexture)
    return here(handles.find<TextureObject>(handle));
  return here(handles.find<SurfaceObject>(handle));
}

void Space::forget_retired(const std::atomic<int> &running) {
  // Only a kernel that began before a window was removed can hold it. So what is on the list now
  // is free as soon as the count is seen to be zero afterwards.
  std::vector<std::shared_ptr<const void>> candidates;
  {
    std::unique_lock guard(mutex_);
    candidates.swap(retired_);
  }
  if (running.load() == 0) return;
  std::unique_lock guard(mutex_);
  for (auto &held : candidates) retired_.push_back(std::move(held));
}

}  // namespace softdev::driver
