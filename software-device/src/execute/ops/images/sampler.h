// Which elements of an image a coordinate stands for, and with what weights: addressing modes and
// filters. Fractions have 8 bits, as those of GPUs do.
#pragma once

#include "execute/ops/images/image.h"
#include "execute/ops/images/texel.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// Coordinates of 32 lanes; the index of a layer, a face or a cube's face is apart.
struct Coordinates {
  alignas(64) float at[3][kLanes];
  alignas(64) int32_t texel[3][kLanes];   // instead, where coordinates are integers
  alignas(64) int32_t offset[3][kLanes];  // in elements
  alignas(64) uint32_t slice[kLanes];
};

// Two neighbours in one dimension, and the weight of the second. -1: outside, the border.
struct Neighbours {
  alignas(64) int32_t index[2][kLanes];
  alignas(64) float weight[kLanes];
};

// An index of any size to one inside of [0, size).
SOFTDEV_INLINE int32_t addressed(int32_t i, int32_t size, AddressMode mode) {
  switch (mode) {
    case AddressMode::Wrap: {
      int32_t r = i % size;
      return r < 0 ? r + size : r;
    }
    case AddressMode::Mirror: {
      int32_t r = i % (2 * size);
      if (r < 0) r += 2 * size;
      return r < size ? r : 2 * size - 1 - r;
    }
    case AddressMode::Border:
      return i >= 0 && i < size ? i : -1;
    default:
      return i < 0 ? 0 : i >= size ? size - 1 : i;
  }
}

// A coordinate in elements, brought close to the image where it repeats.
SOFTDEV_INLINE float scaled(float x, float size, AddressMode mode, bool normalized) {
  if (normalized) {
    if (mode == AddressMode::Wrap)
      x -= __builtin_floorf(x);
    else if (mode == AddressMode::Mirror)
      x -= 2 * __builtin_floorf(x * 0.5f);
    x *= size;
  }
  return x == x ? x : 0;  // NaN, infinities that repeat among them
}

template <AddressMode mode, bool linear>
void find_neighbours(const float *x, const int32_t *offset, uint32_t extent, bool normalized,
                     Neighbours *out) {
  const auto size = static_cast<int32_t>(extent);
  const auto scale = static_cast<float>(extent);
  constexpr float kFar = 0x1p22f;  // beyond the largest image, and 256 times it is an integer
  SOFTDEV_LANES {
    float c = scaled(x[l], scale, mode, normalized);
    c = c < -kFar ? -kFar : c > kFar ? kFar : c;
    if (linear) {
      auto fixed = static_cast<int32_t>(__builtin_floorf((c - 0.5f) * 256.0f + 0.5f));
      int32_t i = (fixed >> 8) + offset[l];
      out->index[0][l] = addressed(i, size, mode);
      out->index[1][l] = addressed(i + 1, size, mode);
      out->weight[l] = static_cast<float>(fixed & 255) / 256.0f;
    } else {
      auto i = static_cast<int32_t>(__builtin_floorf(c));
      out->index[0][l] = addressed(i + offset[l], size, mode);
    }
  }
}

template <bool linear>
void find_neighbours(const float *x, const int32_t *offset, uint32_t extent, AddressMode mode,
                     bool normalized, Neighbours *out) {
  switch (mode) {
    case AddressMode::Wrap:
      return find_neighbours<AddressMode::Wrap, linear>(x, offset, extent, normalized, out);
    case AddressMode::Mirror:
      return find_neighbours<AddressMode::Mirror, linear>(x, offset, extent, normalized, out);
    case AddressMode::Border:
      return find_neighbours<AddressMode::Border, linear>(x, offset, extent, normalized, out);
    default:
      return find_neighbours<AddressMode::Clamp, linear>(x, offset, extent, normalized, out);
  }
}

inline void find_texels(const int32_t *x, const int32_t *offset, uint32_t extent, AddressMode mode,
                        Neighbours *out) {
  const auto size = static_cast<int32_t>(extent);
  SOFTDEV_LANES {
    auto i = static_cast<int32_t>(static_cast<uint32_t>(x[l]) + static_cast<uint32_t>(offset[l]));
    out->index[0][l] = addressed(i, size, mode);
  }
}

// Up to eight elements of each lane.
struct Footprint {
  unsigned taps = 1;
  alignas(64) uint64_t at[8][kLanes];
  alignas(64) float weight[8][kLanes];
  uint32_t inside[8];
};

alignas(16) constexpr uint8_t kNothing[16] = {};  // read instead of what is outside

inline void find_footprint(const ImageView &image, const ImageLevel &level,
                           const Coordinates &where, unsigned dimensions, bool integers,
                           bool linear, uint32_t lanes, Footprint *out) {
  Neighbours axes[3];
  const uint32_t extents[3] = {level.width, level.height, level.depth};
  for (unsigned d = 0; d < dimensions; ++d) {
    const AddressMode mode = image.linear_memory ? AddressMode::Border
                             : image.cube        ? AddressMode::Clamp
                                                 : image.address[d];
    const bool normalized = image.normalized || image.cube;
    if (integers)
      find_texels(where.texel[d], where.offset[d], extents[d], mode, &axes[d]);
    else if (linear)
      find_neighbours<true>(where.at[d], where.offset[d], extents[d], mode, normalized, &axes[d]);
    else
      find_neighbours<false>(where.at[d], where.offset[d], extents[d], mode, normalized, &axes[d]);
  }
  out->taps = linear ? 1u << dimensions : 1;
  const uint64_t nothing = reinterpret_cast<uint64_t>(kNothing);
  for (unsigned tap = 0; tap < out->taps; ++tap) {
    uint64_t *at = out->at[tap];
    float *weight = out->weight[tap];
    uint32_t inside = lanes;
    SOFTDEV_LANES {
      at[l] = level.address + where.slice[l] * level.slice;
      weight[l] = 1;
    }
    const uint64_t steps[3] = {image.element, level.pitch, level.slice};
    for (unsigned d = 0; d < dimensions; ++d) {
      const bool second = (tap >> d) & 1;
      const int32_t *index = axes[d].index[second];
      const uint64_t step = steps[d];
      SOFTDEV_LANES at[l] += static_cast<uint64_t>(static_cast<uint32_t>(index[l])) * step;
      inside &= lanes_where([=](unsigned l) { return index[l] >= 0; });
      if (!linear || dimensions == 2) continue;  // those of four come below
      const float *fraction = axes[d].weight;
      SOFTDEV_LANES weight[l] *= second ? fraction[l] : 1 - fraction[l];
    }
    SOFTDEV_LANES at[l] = (inside & kBit[l]) ? at[l] : nothing;
    out->inside[tap] = inside;
  }
  if (!linear || dimensions != 2) return;
  // As NVIDIA's GPUs have it (measured on an H200): weights are multiples of 1/256, that of the
  // farthest element rounded, and the others what is left.
  SOFTDEV_LANES {
    const float a = axes[0].weight[l], b = axes[1].weight[l];
    const float both = __builtin_floorf(a * b * 256.0f + 0.5f) / 256.0f;
    out->weight[0][l] = 1 - a - b + both;
    out->weight[1][l] = a - both;
    out->weight[2][l] = b - both;
    out->weight[3][l] = both;
  }
}

inline void read_tap(const ImageView &image, const Footprint &footprint, unsigned tap,
                     Texels *out) {
  read_texels(image, footprint.at[tap], out);
  const uint32_t inside = footprint.inside[tap];
  if (inside == kFullMask) return;
  for (unsigned c = 0; c < image.channels; ++c) {
    const uint32_t border = border_component(image, c);
    uint32_t *d = out->component[c];
    SOFTDEV_LANES d[l] = (inside & kBit[l]) ? d[l] : border;
  }
}

// Whether all elements of a footprint may be read; ends the launch otherwise.
inline bool check(Warp &w, const Ins *i, const ImageView &image, const Footprint &footprint) {
  uint64_t least = UINT64_MAX, most = 0;
  for (unsigned tap = 0; tap < footprint.taps; ++tap) {
    const uint64_t *at = footprint.at[tap];
    const uint32_t inside = footprint.inside[tap];
    SOFTDEV_LANES {
      const uint64_t low = (inside & kBit[l]) ? at[l] : UINT64_MAX;
      const uint64_t high = (inside & kBit[l]) ? at[l] : 0;
      least = low < least ? low : least;
      most = high > most ? high : most;
    }
  }
  if (most < least || (most - least < kFewGranules &&
                       range_in_window(w, least, most - least + image.element, kReads)))
    return true;
  for (unsigned tap = 0; tap < footprint.taps; ++tap)
    if (!check(w, i, footprint.at[tap], footprint.inside[tap], image.element, false)) return false;
  return true;
}

// The filtered value of the lanes' coordinates in one level. False when the launch has ended.
inline bool sample(Warp &w, const Ins *i, const ImageView &image, const Footprint &footprint,
                   Texels *out) {
  if (!check(w, i, image, footprint)) return false;
  read_tap(image, footprint, 0, out);
  fill_missing(image, out);
  if (footprint.taps == 1) return true;
  alignas(64) float sum[4][kLanes];
  Texels texels;
  for (unsigned tap = 0; tap < footprint.taps; ++tap) {
    if (tap) read_tap(image, footprint, tap, &texels);
    const Texels &from = tap ? texels : *out;
    const float *weight = footprint.weight[tap];
    for (unsigned c = 0; c < image.channels; ++c) {
      const uint32_t *value = from.component[c];
      float *d = sum[c];
      SOFTDEV_LANES {
        // What has no weight counts for nothing, be it infinite.
        float part = weight[l] == 0 ? 0.0f : weight[l] * bit_cast<float>(value[l]);
        d[l] = tap ? d[l] + part : part;
      }
    }
  }
  for (unsigned c = 0; c < image.channels; ++c)
    SOFTDEV_LANES out->component[c][l] = bit_cast<uint32_t>(sum[c][l]);
  return true;
}

// ---- cubes

// The face that a direction points at, and where on it, each from -1 to 1.
struct OnFace {
  unsigned face;
  float s, t;
};
SOFTDEV_INLINE OnFace face_of(float x, float y, float z) {
  float ax = __builtin_fabsf(x), ay = __builtin_fabsf(y), az = __builtin_fabsf(z);
  OnFace on;
  float major;
  if (ax >= ay && ax >= az) {
    on = x >= 0 ? OnFace{0, -z, -y} : OnFace{1, z, -y};
    major = ax;
  } else if (ay >= az) {
    on = y >= 0 ? OnFace{2, x, z} : OnFace{3, x, -z};
    major = ay;
  } else {
    on = z >= 0 ? OnFace{4, x, -y} : OnFace{5, -x, -y};
    major = az;
  }
  if (major > 0) {
    on.s /= major;
    on.t /= major;
  }
  return on;
}
SOFTDEV_INLINE void direction_of(const OnFace &on, float *x, float *y, float *z) {
  switch (on.face) {
    case 0:
      *x = 1, *y = -on.t, *z = -on.s;
      break;
    case 1:
      *x = -1, *y = -on.t, *z = on.s;
      break;
    case 2:
      *x = on.s, *y = 1, *z = on.t;
      break;
    case 3:
      *x = on.s, *y = -1, *z = -on.t;
      break;
    case 4:
      *x = on.s, *y = -on.t, *z = 1;
      break;
    default:
      *x = -on.s, *y = -on.t, *z = -1;
      break;
  }
}

// Filtering over the edges of a seamless cube: what lies beyond an edge is on the next face. At a
// corner, where three faces meet, the fourth element does not exist; its nearest stands in.
inline void cross_edges(const ImageView &image, const ImageLevel &level, const Coordinates &where,
                        Footprint *footprint) {
  const auto size = static_cast<int32_t>(level.width);
  const auto scale = static_cast<float>(level.width);
  for (unsigned l = 0; l < kLanes; ++l) {
    auto place = [&](unsigned d) {
      float c = scaled(where.at[d][l], scale, AddressMode::Clamp, true);
      return static_cast<int32_t>(__builtin_floorf((c - 0.5f) * 256.0f + 0.5f)) >> 8;
    };
    const int32_t first[2] = {place(0), place(1)};
    for (unsigned tap = 0; tap < 4; ++tap) {
      if (!(footprint->inside[tap] & kBit[l])) continue;
      int32_t x = first[0] + static_cast<int32_t>(tap & 1);
      int32_t y = first[1] + static_cast<int32_t>(tap >> 1);
      const bool over_x = x < 0 || x >= size, over_y = y < 0 || y >= size;
      if (!over_x && !over_y) continue;
      if (over_x && over_y) y = y < 0 ? 0 : size - 1;
      OnFace on = {where.slice[l] % 6, (2 * static_cast<float>(x) + 1) / scale - 1,
                   (2 * static_cast<float>(y) + 1) / scale - 1};
      float dx, dy, dz;
      direction_of(on, &dx, &dy, &dz);
      on = face_of(dx, dy, dz);
      x = addressed(static_cast<int32_t>((on.s + 1) * 0.5f * scale), size, AddressMode::Clamp);
      y = addressed(static_cast<int32_t>((on.t + 1) * 0.5f * scale), size, AddressMode::Clamp);
      footprint->at[tap][l] = level.address + (where.slice[l] / 6 * 6 + on.face) * level.slice +
                              static_cast<uint64_t>(y) * level.pitch +
                              static_cast<uint64_t>(x) * image.element;
    }
  }
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
