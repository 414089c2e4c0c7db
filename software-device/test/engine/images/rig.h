// Images in the memory of the engine's test device.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "../behaviour/check.h"
#include "reference.h"

namespace images {

using namespace softdev;

inline const Channel kChannels[] = {
    Channel::Unsigned8, Channel::Unsigned16, Channel::Unsigned32,
    Channel::Signed8,   Channel::Signed16,   Channel::Signed32,
    Channel::Half,      Channel::Float,      Channel::Unsigned1010102,
};
inline unsigned bytes_of(Channel channel) {
  switch (channel) {
    case Channel::Unsigned8:
    case Channel::Signed8:
    case Channel::Unsigned1010102:  // four to a word
      return 1;
    case Channel::Unsigned16:
    case Channel::Signed16:
    case Channel::Half:
      return 2;
    default:
      return 4;
  }
}

struct Extent {
  uint32_t width = 1, height = 1, depth = 1, layers = 0;
};

// An image full of random elements, which are finite where they are floating-point numbers.
inline ImageView make(rig::Device &device, std::mt19937 &random, Channel channel, unsigned channels,
                      int dimensions, const Extent &extent, unsigned levels = 1,
                      bool cube = false) {
  ImageView view;
  view.channel = channel;
  view.channels = static_cast<uint8_t>(channels);
  view.element = static_cast<uint8_t>(bytes_of(channel) * channels);
  view.dimensions = static_cast<uint8_t>(dimensions);
  view.layers = extent.layers;
  view.cube = cube;
  const uint64_t slices = (extent.layers ? extent.layers : 1) * (cube ? 6 : 1);
  for (unsigned l = 0; l < levels; ++l) {
    ImageLevel level;
    auto at_level = [&](uint32_t size) { return size >> l ? size >> l : 1; };
    level.width = at_level(extent.width);
    level.height = at_level(extent.height);
    level.depth = at_level(extent.depth);
    level.pitch = (uint64_t{level.width} * view.element + 63) / 64 * 64 + 64;
    level.slice = level.pitch * (level.height + 1);
    const uint64_t bytes = level.slice * level.depth * slices;
    level.address = device.memory.allocate(bytes);
    auto *p = reinterpret_cast<uint8_t *>(level.address);
    for (uint64_t i = 0; i < bytes; ++i) p[i] = static_cast<uint8_t>(random());
    if (channel == Channel::Half)
      for (uint64_t i = 1; i < bytes; i += 2) p[i] &= 0xBF;  // below 2
    if (channel == Channel::Float)
      for (uint64_t i = 0; i + 4 <= bytes; i += 4) {
        float value = static_cast<float>(static_cast<int32_t>(random())) / 65536.0f;
        std::memcpy(p + i, &value, 4);
      }
    view.levels.push_back(level);
  }
  view.level_most = static_cast<float>(levels);
  return view;
}

// One thread for each point: four floats (or integers), a layer, and a result of four words.
struct Points {
  rig::Device &device;
  uint32_t count;
  float *at;
  int32_t *texel;
  int32_t *layer;
  float *extra;  // eight of each
  uint32_t *out;

  Points(rig::Device &on, uint32_t n) : device(on), count(n) {
    at = device.array<float>(n * 4);
    texel = device.array<int32_t>(n * 4);
    layer = device.array<int32_t>(n);
    extra = device.array<float>(n * 8);
    out = device.array<uint32_t>(n * 4);
  }

  // A kernel around one instruction, which finds coordinates in %f0 to %f2, or %r10 to %r12, the
  // layer in %r8, what is extra in %f4 to %f11, and leaves its results in %r20 to %r23.
  static std::string kernel(const std::string &instruction, const std::string &name = "k") {
    return check::kernel(name, 6, R"(
      mul.wide.u32 %d10, %r3, 16; add.s64 %d11, %d1, %d10; add.s64 %d12, %d2, %d10;
      ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d11];
      ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%d12];
      mul.wide.u32 %d13, %r3, 4; add.s64 %d13, %d3, %d13; ld.global.u32 %r8, [%d13];
      mul.wide.u32 %d14, %r3, 32; add.s64 %d14, %d4, %d14;
      ld.global.v4.f32 {%f4, %f5, %f6, %f7}, [%d14];
      ld.global.v4.f32 {%f8, %f9, %f10, %f11}, [%d14+16];
      mov.u32 %r20, 0xdeadbeef; mov.u32 %r21, %r20; mov.u32 %r22, %r20; mov.u32 %r23, %r20;
      )" + instruction + R"(
      add.s64 %d15, %d5, %d10; st.global.v4.u32 [%d15], {%r20, %r21, %r22, %r23};)");
  }
  Status run(const std::shared_ptr<Program> &program, uint64_t handle, const char *name = "k") {
    return device.launch(
        program, name, {count / 32}, {32},  // it is a multiple of 32
        rig::Parameters().add(handle).add(at).add(texel).add(layer).add(extra).add(out));
  }
};

// Whether the four words of a result are this value.
inline bool same(const ImageView &view, const uint32_t *got, const reference::Value &want) {
  const bool integers = reference::gives_integers(view);
  for (int c = 0; c < 4; ++c) {
    const double wanted = want.component[c];
    if (integers) {
      if (got[c] != static_cast<uint32_t>(static_cast<int64_t>(wanted))) return false;
      continue;
    }
    float value;
    std::memcpy(&value, &got[c], 4);
    // Single precision, against sums of elements up to 32768.
    const double slack = view.channel == Channel::Float ? 0.02 : 3e-6;
    const bool exact = !view.linear && !view.mipmap_linear && !view.srgb;
    if (exact ? value != static_cast<float>(wanted) : std::fabs(value - wanted) > slack)
      return false;
  }
  return true;
}

}  // namespace images
