// Fetches at many places, compared with the reference.
#pragma once

#include "rig.h"

namespace images {

using softdev::AddressMode;

inline constexpr uint64_t kHandle = 0xabcd0;

struct Geometry {
  const char *name;
  int dimensions;
  bool layered;
  const char *floats, *integers;  // how coordinates are written
};
inline constexpr Geometry kGeometries[] = {
    {"1d", 1, false, "{%f0}", "{%r10}"},
    {"2d", 2, false, "{%f0, %f1}", "{%r10, %r11}"},
    {"3d", 3, false, "{%f0, %f1, %f2, %f2}", "{%r10, %r11, %r12, %r12}"},
    {"a1d", 1, true, "{%r8, %f0}", "{%r8, %r10}"},
    {"a2d", 2, true, "{%r8, %f0, %f1, %f1}", "{%r8, %r10, %r11, %r11}"},
};

inline Extent extent_of(const Geometry &geometry) {
  Extent extent;
  extent.width = 13;
  if (geometry.dimensions >= 2) extent.height = 8;
  if (geometry.dimensions == 3) extent.depth = 5;
  if (geometry.layered) extent.layers = 3;
  return extent;
}

// Coordinates that single precision holds exactly, after scaling too.
inline void scatter(Points &points, std::mt19937 &random, const ImageView &view) {
  for (uint32_t i = 0; i < points.count; ++i) {
    for (int d = 0; d < 4; ++d) {
      int32_t k = static_cast<int32_t>(random() % 8192) - 4096;
      points.at[i * 4 + static_cast<uint32_t>(d)] =
          view.normalized ? static_cast<float>(k) / 1024 : static_cast<float>(k) / 128;
      points.texel[i * 4 + static_cast<uint32_t>(d)] = k / 128;
    }
    points.layer[i] = static_cast<int32_t>(random() % 6) - 1;
  }
}

inline reference::Where place(const Points &points, uint32_t i, bool integers) {
  reference::Where where;
  for (uint32_t d = 0; d < 3; ++d)
    where.at[d] = integers ? points.texel[i * 4 + d] : static_cast<double>(points.at[i * 4 + d]);
  where.layer = points.layer[i];
  return where;
}

inline std::string text(const Geometry &geometry, const char *type, bool integers) {
  return std::string("tex.") + geometry.name + ".v4." + type + (integers ? ".s32" : ".f32") +
         " {%r20, %r21, %r22, %r23}, [%d0, " + (integers ? geometry.integers : geometry.floats) +
         "];";
}

// Runs all points and reports the first that differs.
inline void compare(Points &points, const std::shared_ptr<Program> &program, const ImageView &view,
                    const std::string &what, const char *name,
                    const std::function<reference::Value(uint32_t)> &want) {
  points.device.memory.images[kHandle] = view;
  CHECK_OK(points.run(program, kHandle, name));
  for (uint32_t i = 0; i < points.count; ++i) {
    reference::Value value = want(i);
    if (same(view, points.out + i * 4, value)) continue;
    const float *at = points.at + i * 4;
    char message[400];
    std::snprintf(
        message, sizeof message,
        "%s, channel %d x %d, modes %d %d, linear %d, normalized %d: at (%g, %g, %g) layer "
        "%d got %08x %08x %08x %08x, expected %g %g %g %g",
        what.c_str(), static_cast<int>(view.channel), view.channels,
        static_cast<int>(view.address[0]), static_cast<int>(view.address[1]), view.linear,
        view.normalized, at[0], at[1], at[2], points.layer[i], points.out[i * 4],
        points.out[i * 4 + 1], points.out[i * 4 + 2], points.out[i * 4 + 3], value.component[0],
        value.component[1], value.component[2], value.component[3]);
    check::fail(__FILE__, __LINE__, message);
    return;
  }
}

// All address modes and filters that a format allows.
template <class F>
void with_settings(ImageView view, F f) {
  constexpr AddressMode kModes[] = {AddressMode::Clamp, AddressMode::Border, AddressMode::Wrap,
                                    AddressMode::Mirror};
  for (int c = 0; c < 4; ++c) view.border[c] = static_cast<float>(c + 1) / 4;
  for (bool as_float : {false, true}) {
    view.read_as_float = as_float;
    if (as_float && view.element / view.channels == 4) continue;
    if (as_float && (view.channel == Channel::Half || view.channel == Channel::Unsigned1010102))
      continue;
    for (bool normalized : {false, true})
      for (int modes = 0; modes < (normalized ? 4 : 2); ++modes)
        for (bool linear : {false, true}) {
          view.normalized = normalized;
          view.linear = linear;
          // A different one in each dimension.
          for (int d = 0; d < 3; ++d) view.address[d] = kModes[(modes + d) % (normalized ? 4 : 2)];
          if (linear && reference::gives_integers(view)) continue;
          f(view);
        }
  }
}

}  // namespace images
