// Elements of an image, of any format, as the values that a texture fetch returns.
#pragma once

#include <array>

#include "execute/ops/arithmetic/half.h"
#include "texture.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// Four components of 32 lanes, as floats or as the bits of integers.
struct Texels {
  alignas(64) uint32_t component[4][kLanes];
};

SOFTDEV_INLINE bool is_integer(const ImageView &image) {
  switch (image.channel) {
    case Channel::Half:
    case Channel::Float:
    case Channel::Unsigned1010102:
      return false;
    default:
      return !image.read_as_float;
  }
}

// Linear values of the 256 sRGB ones.
inline const std::array<float, 256> &srgb_table() {
  static const std::array<float, 256> kTable = [] {
    std::array<float, 256> table{};
    for (int i = 0; i < 256; ++i) {
      double c = i / 255.0;
      table[static_cast<size_t>(i)] =
          static_cast<float>(c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
    }
    return table;
  }();
  return kTable;
}

template <class T, class F>
SOFTDEV_INLINE void convert_lanes(const uint64_t *at, unsigned channels, Texels *out, F f) {
  for (unsigned c = 0; c < channels; ++c) {
    uint32_t *d = out->component[c];
    SOFTDEV_LANES {
      T value;
      std::memcpy(&value, reinterpret_cast<const uint8_t *>(at[l]) + c * sizeof(T), sizeof(T));
      d[l] = f(value);
    }
  }
}

template <class T>
void integer_lanes(const ImageView &image, const uint64_t *at, Texels *out) {
  if (!image.read_as_float || sizeof(T) == 4) {
    convert_lanes<T>(at, image.channels, out, [](T v) { return static_cast<uint32_t>(v); });
    return;
  }
  constexpr auto kMost = static_cast<float>(
      std::is_signed_v<T> ? (1u << (sizeof(T) * 8 - 1)) - 1 : (1u << (sizeof(T) * 8 - 1)) * 2 - 1);
  convert_lanes<T>(at, image.channels, out, [](T v) {
    float x = static_cast<float>(v) / kMost;
    return bit_cast<uint32_t>(x < -1.0f ? -1.0f : x);
  });
}

// The channels of the elements at 32 addresses, all of which may be read.
inline void read_texels(const ImageView &image, const uint64_t *at, Texels *out) {
  switch (image.channel) {
    case Channel::Unsigned8:
      integer_lanes<uint8_t>(image, at, out);
      if (image.srgb && image.read_as_float) {
        const auto &table = srgb_table();
        for (unsigned c = 0; c < image.channels && c < 3; ++c)
          for (unsigned l = 0; l < kLanes; ++l)
            out->component[c][l] =
                bit_cast<uint32_t>(table[reinterpret_cast<const uint8_t *>(at[l])[c]]);
      }
      break;
    case Channel::Signed8:
      integer_lanes<int8_t>(image, at, out);
      break;
    case Channel::Unsigned16:
      integer_lanes<uint16_t>(image, at, out);
      break;
    case Channel::Signed16:
      integer_lanes<int16_t>(image, at, out);
      break;
    case Channel::Unsigned32:
    case Channel::Signed32:
    case Channel::Float:
      convert_lanes<uint32_t>(at, image.channels, out, [](uint32_t v) { return v; });
      break;
    case Channel::Half:
      convert_lanes<uint16_t>(at, image.channels, out,
                              [](uint16_t v) { return bit_cast<uint32_t>(widen<F16Format>(v)); });
      break;
    case Channel::Unsigned1010102:
      for (unsigned l = 0; l < kLanes; ++l) {
        uint32_t word;
        std::memcpy(&word, reinterpret_cast<const void *>(at[l]), 4);
        for (unsigned c = 0; c < 3; ++c)
          out->component[c][l] =
              bit_cast<uint32_t>(static_cast<float>((word >> (c * 10)) & 1023) / 1023.0f);
        out->component[3][l] = bit_cast<uint32_t>(static_cast<float>(word >> 30) / 3.0f);
      }
      break;
  }
}

// Channels that a format has not are 0, and the last one is 1.
inline void fill_missing(const ImageView &image, Texels *out) {
  const uint32_t one = is_integer(image) ? 1 : 0x3f800000u;
  for (unsigned c = image.channels; c < 4; ++c)
    SOFTDEV_LANES out->component[c][l] = c == 3 ? one : 0;
}

// One channel of the border, in the form of read_texels.
inline uint32_t border_component(const ImageView &image, unsigned c) {
  float value = image.border[c];
  if (!is_integer(image)) return bit_cast<uint32_t>(value);
  bool with_sign = image.channel == Channel::Signed8 || image.channel == Channel::Signed16 ||
                   image.channel == Channel::Signed32;
  unsigned bits = image.element * 8u / image.channels;
  double least = with_sign ? -std::ldexp(1.0, static_cast<int>(bits) - 1) : 0;
  double most = std::ldexp(1.0, static_cast<int>(with_sign ? bits - 1 : bits)) - 1;
  double clamped = value != value ? 0 : value < least ? least : value > most ? most : value;
  return static_cast<uint32_t>(static_cast<int64_t>(clamped));
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
