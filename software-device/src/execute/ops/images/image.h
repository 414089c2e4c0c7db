// What texture fetches and surface accesses share: handles to images, and checks of what will be
// touched.
#pragma once

#include "execute/access.h"
#include "texture.h"

namespace softdev::SOFTDEV_ISA {
namespace {

SOFTDEV_INLINE const ImageView *image_of(Warp &w, uint64_t handle) {
  const auto &known = w.images[image_slot(handle)];
  return known.image && known.handle == handle ? known.image : find_image(w, handle);
}

// f(image, lanes of the running group with that handle) for each handle; ends when f gives false
// or a handle is none of `kind`, and returns whether all went well.
template <class F>
bool for_each_image(Warp &w, const Ins *i, ImageView::Kind kind, F f) {
  const uint64_t *handles = slot<uint64_t>(w, i->a);
  for (uint32_t left = w.mask; left;) {
    auto first = static_cast<unsigned>(__builtin_ctz(left));
    const uint64_t handle = handles[first];
    uint32_t same = lanes_where([=](unsigned l) { return handles[l] == handle; }) & left;
    const ImageView *image = image_of(w, handle);
    if (!image || image->kind != kind) {
      image_fault(w, i, handle, first);
      return false;
    }
    if (!f(*image, same)) return false;
    left &= ~same;
  }
  return true;
}

// Stretches up to this are checked as one.
constexpr uint64_t kFewGranules = uint64_t{64} << kGranuleShift;

// Whether `lanes` may touch `size` bytes at each of their addresses; ends the launch otherwise.
inline bool check(Warp &w, const Ins *i, const uint64_t *at, uint32_t lanes, unsigned size,
                  bool write) {
  if (!lanes) return true;
  const uint8_t flag = write ? kWritable : kReadable;
  const Use use = use_of(Space::Global, write);
  uint64_t least = UINT64_MAX, most = 0;
  for (unsigned l = 0; l < kLanes; ++l) {
    if (!(lanes & kBit[l])) continue;
    least = at[l] < least ? at[l] : least;
    most = at[l] > most ? at[l] : most;
  }
  if (most - least < kFewGranules && range_in_window(w, least, most - least + size, use))
    return true;
  for (uint32_t left = lanes; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    if (range_in_window(w, at[l], size, use) ||
        memory_allowed(w, Space::Global, at[l], size, flag, l))
      continue;
    memory_fault(w, i, Space::Global, at[l], size, write, l);
    return false;
  }
  return true;
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
