#include "reference.h"

#include <cmath>
#include <cstring>

namespace reference {

using softdev::AddressMode;
using softdev::Channel;
using softdev::ImageView;

double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * mantissa / 16777216.0;
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

bool gives_integers(const ImageView &view) {
  if (view.channel == Channel::Unsigned32 || view.channel == Channel::Signed32) return true;
  if (view.channel == Channel::Half || view.channel == Channel::Float ||
      view.channel == Channel::Unsigned1010102)
    return false;
  return !view.read_as_float;
}

namespace {

// The number of channel c of the element at `p`.
double channel(const ImageView &view, const uint8_t *p, int c) {
  auto unsigned_at = [&](int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; --i) value = value << 8 | p[c * bytes + i];
    return value;
  };
  auto integer = [&](int bytes, bool with_sign) {
    double most = std::pow(2.0, bytes * 8 - (with_sign ? 1 : 0)) - 1;
    double value = static_cast<double>(unsigned_at(bytes));
    if (with_sign && value > most) value -= 2 * (most + 1);
    if (!view.read_as_float || bytes == 4) return value;
    value /= most;
    return value < -1 ? -1 : value;
  };
  switch (view.channel) {
    case Channel::Unsigned8: {
      double value = integer(1, false);
      if (!view.srgb || !view.read_as_float || c == 3) return value;
      return value > 0.04045 ? std::pow((value + 0.055) / 1.055, 2.4) : value / 12.92;
    }
    case Channel::Signed8:
      return integer(1, true);
    case Channel::Unsigned16:
      return integer(2, false);
    case Channel::Signed16:
      return integer(2, true);
    case Channel::Unsigned32:
      return integer(4, false);
    case Channel::Signed32:
      return integer(4, true);
    case Channel::Half:
      return half(static_cast<uint16_t>(unsigned_at(2)));
    case Channel::Float: {
      float value;
      std::memcpy(&value, p + c * 4, 4);
      return value;
    }
    default: {
      uint32_t word;
      std::memcpy(&word, p, 4);
      return c == 3 ? (word >> 30) / 3.0 : ((word >> (10 * c)) & 1023) / 1023.0;
    }
  }
}

// -1 for the border.
int address(int i, int size, AddressMode mode) {
  if (mode == AddressMode::Border) return i < 0 || i >= size ? -1 : i;
  while (i < 0 || i >= size) {
    if (mode == AddressMode::Wrap)
      i += i < 0 ? size : -size;
    else if (mode == AddressMode::Mirror)
      i = i < 0 ? -1 - i : 2 * size - 1 - i;
    else
      i = i < 0 ? 0 : size - 1;
  }
  return i;
}

Value element(const ImageView &view, int dimensions, const int *index, int layer, int level) {
  const softdev::ImageLevel &in = view.levels[static_cast<size_t>(level)];
  const int sizes[3] = {static_cast<int>(in.width), static_cast<int>(in.height),
                        static_cast<int>(in.depth)};
  Value value;
  value.component[3] = view.channels == 4 || view.channel == Channel::Unsigned1010102 ? 0 : 1;
  int at[3] = {0, 0, 0};
  bool border = false;
  for (int d = 0; d < dimensions; ++d) {
    at[d] = address(index[d], sizes[d], view.linear_memory ? AddressMode::Border : view.address[d]);
    border |= at[d] < 0;
  }
  const auto *p = reinterpret_cast<const uint8_t *>(
      in.address + static_cast<uint64_t>(at[0]) * view.element +
      static_cast<uint64_t>(at[1]) * in.pitch + static_cast<uint64_t>(at[2] + layer) * in.slice);
  const int channels = view.channel == Channel::Unsigned1010102 ? 4 : view.channels;
  for (int c = 0; c < channels; ++c)
    value.component[c] = border ? static_cast<double>(view.border[c]) : channel(view, p, c);
  return value;
}

int clamped_layer(const ImageView &view, int layer) {
  const int most = view.layers ? static_cast<int>(view.layers) - 1 : 0;
  return layer < 0 || layer > most ? most : layer;  // layers are unsigned
}

// In elements.
double scaled(const ImageView &view, const Where &where, int d) {
  const softdev::ImageLevel &in = view.levels[static_cast<size_t>(where.level)];
  const double size = d == 0 ? in.width : d == 1 ? in.height : in.depth;
  return view.normalized ? where.at[d] * size : where.at[d];
}

}  // namespace

Value fetch(const ImageView &view, int dimensions, const Where &where) {
  const int layer = clamped_layer(view, where.layer);
  int index[3] = {0, 0, 0};
  if (!view.linear) {
    for (int d = 0; d < dimensions; ++d)
      index[d] = static_cast<int>(std::floor(scaled(view, where, d))) + where.offset[d];
    return element(view, dimensions, index, layer, where.level);
  }
  int first[3];
  double fraction[3] = {};
  for (int d = 0; d < dimensions; ++d) {
    const double place = scaled(view, where, d) - 0.5;
    // 1.8 bits of fixed point, to nearest.
    const double rounded = std::floor(place * 256 + 0.5) / 256;
    first[d] = static_cast<int>(std::floor(rounded)) + where.offset[d];
    fraction[d] = rounded - std::floor(rounded);
  }
  // Between four, the weight of the farthest is rounded to 1/256, and the others are what is left.
  const double both = std::floor(fraction[0] * fraction[1] * 256 + 0.5) / 256;
  const double of_four[] = {1 - fraction[0] - fraction[1] + both, fraction[0] - both,
                            fraction[1] - both, both};
  Value sum;
  for (int corner = 0; corner < 1 << dimensions; ++corner) {
    double weight = 1;
    for (int d = 0; d < dimensions; ++d) {
      const bool far = corner & 1 << d;
      index[d] = first[d] + far;
      weight *= far ? fraction[d] : 1 - fraction[d];
    }
    if (dimensions == 2) weight = of_four[corner];
    if (weight == 0) continue;
    const Value part = element(view, dimensions, index, layer, where.level);
    for (int c = 0; c < 4; ++c) sum.component[c] += weight * part.component[c];
  }
  return sum;
}

Value gather(const ImageView &view, const Where &where, int c) {
  const int layer = clamped_layer(view, where.layer);
  int first[2];
  for (int d = 0; d < 2; ++d)
    first[d] =
        static_cast<int>(std::floor(std::floor((scaled(view, where, d) - 0.5) * 256 + 0.5) / 256)) +
        where.offset[d];
  // (0,1) (1,1) (1,0) (0,0)
  static constexpr int kCorners[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
  Value out;
  for (int k = 0; k < 4; ++k) {
    const int index[3] = {first[0] + kCorners[k][0], first[1] + kCorners[k][1], 0};
    out.component[k] = element(view, 2, index, layer, where.level).component[c];
  }
  return out;
}

void cube_face(double x, double y, double z, int *face, double *s, double *t) {
  const double ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  double m, u, v;
  if (ax >= ay && ax >= az) {
    *face = x >= 0 ? 0 : 1;
    m = ax, u = x >= 0 ? -z : z, v = -y;
  } else if (ay >= ax && ay >= az) {
    *face = y >= 0 ? 2 : 3;
    m = ay, u = x, v = y >= 0 ? z : -z;
  } else {
    *face = z >= 0 ? 4 : 5;
    m = az, u = z >= 0 ? x : -x, v = -y;
  }
  *s = (u / m + 1) / 2;
  *t = (v / m + 1) / 2;
}

}  // namespace reference
