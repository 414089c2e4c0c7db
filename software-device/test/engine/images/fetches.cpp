// Texture fetches: every format, address mode, filter and geometry against the reference.
#include "rig.h"

using namespace check;
using namespace images;
using softdev::AddressMode;

namespace {

constexpr uint64_t kHandle = 0xabcd0;

struct Geometry {
  const char *name;
  int dimensions;
  bool layered;
  const char *floats, *integers;  // how coordinates are written
};
constexpr Geometry kGeometries[] = {
    {"1d", 1, false, "{%f0}", "{%r10}"},
    {"2d", 2, false, "{%f0, %f1}", "{%r10, %r11}"},
    {"3d", 3, false, "{%f0, %f1, %f2, %f2}", "{%r10, %r11, %r12, %r12}"},
    {"a1d", 1, true, "{%r8, %f0}", "{%r8, %r10}"},
    {"a2d", 2, true, "{%r8, %f0, %f1, %f1}", "{%r8, %r10, %r11, %r11}"},
};

Extent extent_of(const Geometry &geometry) {
  Extent extent;
  extent.width = 13;
  if (geometry.dimensions >= 2) extent.height = 8;
  if (geometry.dimensions == 3) extent.depth = 5;
  if (geometry.layered) extent.layers = 3;
  return extent;
}

// Coordinates that single precision holds exactly, after scaling too.
void scatter(Points &points, std::mt19937 &random, const ImageView &view) {
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

reference::Where place(const Points &points, uint32_t i, bool integers) {
  reference::Where where;
  for (uint32_t d = 0; d < 3; ++d)
    where.at[d] = integers ? points.texel[i * 4 + d] : static_cast<double>(points.at[i * 4 + d]);
  where.layer = points.layer[i];
  return where;
}

std::string text(const Geometry &geometry, const char *type, bool integers) {
  return std::string("tex.") + geometry.name + ".v4." + type + (integers ? ".s32" : ".f32") +
         " {%r20, %r21, %r22, %r23}, [%d0, " + (integers ? geometry.integers : geometry.floats) +
         "];";
}

// Runs all points and reports the first that differs.
void compare(Points &points, const std::shared_ptr<Program> &program, const ImageView &view,
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

}  // namespace

TEST(every_format_mode_filter_and_geometry) {
  std::mt19937 random(1);
  for (const Geometry &geometry : kGeometries) {
    rig::Device device(1);
    Points points(device, 96);
    auto program = device.load(module(Points::kernel(text(geometry, "f32", false))));
    for (Channel channel : kChannels)
      for (unsigned channels : {1u, 2u, 4u}) {
        if (channel == Channel::Unsigned1010102 && channels != 4) continue;
        auto view =
            make(device, random, channel, channels, geometry.dimensions, extent_of(geometry));
        with_settings(view, [&](const ImageView &with) {
          scatter(points, random, with);
          compare(points, program, with, geometry.name, "k", [&](uint32_t i) {
            return reference::fetch(with, geometry.dimensions, place(points, i, false));
          });
        });
      }
  }
}

TEST(integer_coordinates) {
  std::mt19937 random(2);
  for (const Geometry &geometry : kGeometries) {
    rig::Device device(1);
    Points points(device, 96);
    auto program = device.load(module(Points::kernel(text(geometry, "u32", true))));
    for (Channel channel : {Channel::Unsigned8, Channel::Signed32, Channel::Half}) {
      auto view = make(device, random, channel, 4, geometry.dimensions, extent_of(geometry));
      for (AddressMode mode : {AddressMode::Clamp, AddressMode::Border}) {
        for (AddressMode &of : view.address) of = mode;
        scatter(points, random, view);
        compare(points, program, view, std::string(geometry.name) + " by integers", "k",
                [&](uint32_t i) {
                  return reference::fetch(view, geometry.dimensions, place(points, i, true));
                });
      }
    }
  }
}

// tex1Dfetch: outside of the memory everything is 0.
TEST(linear_memory) {
  rig::Device device(1);
  std::mt19937 random(3);
  Points points(device, 64);
  auto program = device.load(
      module(Points::kernel("tex.1d.v4.f32.s32 {%r20, %r21, %r22, %r23}, [%d0, {%r10}];")));
  auto view = make(device, random, Channel::Float, 4, 1, {40, 1, 1, 0});
  view.linear_memory = true;
  for (uint32_t i = 0; i < 64; ++i) points.texel[i * 4] = static_cast<int32_t>(i) - 12;
  points.texel[0] = INT32_MIN;
  points.texel[4] = INT32_MAX;
  compare(points, program, view, "linear memory", "k",
          [&](uint32_t i) { return reference::fetch(view, 1, place(points, i, true)); });
  CHECK(points.out[3] == 0 && points.out[7] == 0);
  CHECK(points.out[12 * 4] == *reinterpret_cast<uint32_t *>(view.levels[0].address));
}

TEST(offsets_of_coordinates) {
  rig::Device device(1);
  std::mt19937 random(4);
  Points points(device, 64);
  auto program =
      device.load(module(Points::kernel("mov.u32 %r30, -3; tex.2d.v4.f32.f32 {%r20, %r21, %r22, "
                                        "%r23}, [%d0, {%f0, %f1}], {%r30, 2};")));
  auto base = make(device, random, Channel::Unsigned8, 4, 2, {13, 8, 1, 0});
  with_settings(base, [&](const ImageView &view) {
    if (reference::gives_integers(view)) return;
    scatter(points, random, view);
    compare(points, program, view, "offsets", "k", [&](uint32_t i) {
      reference::Where where = place(points, i, false);
      where.offset[0] = -3;
      where.offset[1] = 2;
      return reference::fetch(view, 2, where);
    });
  });
}

TEST(gathers) {
  rig::Device device(1);
  std::mt19937 random(5);
  Points points(device, 64);
  std::string kernels;
  for (const char *component : {"r", "g", "b", "a"})
    kernels += Points::kernel(std::string("tld4.") + component +
                                  ".2d.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, {%f0, %f1}];",
                              component);
  auto program = device.load(module(kernels));
  auto base = make(device, random, Channel::Half, 4, 2, {13, 8, 1, 0});
  with_settings(base, [&](const ImageView &view) {
    if (view.linear) return;  // makes no difference
    for (int c = 0; c < 4; ++c) {
      scatter(points, random, view);
      const char *names[] = {"r", "g", "b", "a"};
      compare(points, program, view, "gather", names[c],
              [&](uint32_t i) { return reference::gather(view, place(points, i, false), c); });
    }
  });
}

TEST(srgb) {
  rig::Device device(1);
  std::mt19937 random(6);
  Points points(device, 64);
  auto program = device.load(module(Points::kernel(text(kGeometries[1], "f32", false))));
  auto view = make(device, random, Channel::Unsigned8, 4, 2, {13, 8, 1, 0});
  view.srgb = view.read_as_float = true;
  for (bool linear : {false, true}) {
    view.linear = linear;
    scatter(points, random, view);
    compare(points, program, view, "srgb", "k",
            [&](uint32_t i) { return reference::fetch(view, 2, place(points, i, false)); });
  }
}

// Levels of detail given, found from gradients, and none; to the nearest level and between two.
TEST(mipmaps) {
  rig::Device device(1);
  std::mt19937 random(7);
  Points points(device, 64);
  auto program = device.load(module(
      Points::kernel("tex.level.2d.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, {%f0, %f1}], %f4;",
                     "level") +
      Points::kernel("tex.grad.2d.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, {%f0, %f1}], "
                     "{%f4, %f5}, {%f6, %f7};",
                     "grad") +
      Points::kernel("tex.base.2d.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, {%f0, %f1}];",
                     "base")));
  auto view = make(device, random, Channel::Unsigned16, 4, 2, {32, 16, 1, 0}, 6);
  view.read_as_float = view.normalized = true;
  auto mixed = [&](uint32_t i, double level) {
    level = std::fmin(std::fmax(level, static_cast<double>(view.level_least)),
                      static_cast<double>(view.level_most));
    level = std::fmin(std::fmax(level, 0), 5);
    reference::Where where = place(points, i, false);
    if (!view.mipmap_linear) {
      where.level = static_cast<int>(std::floor(level + 0.5));
      return reference::fetch(view, 2, where);
    }
    where.level = static_cast<int>(level);
    const double part = std::round((level - where.level) * 256) / 256;
    reference::Value value = reference::fetch(view, 2, where);
    if (part == 0) return value;
    ++where.level;
    const reference::Value next = reference::fetch(view, 2, where);
    for (int c = 0; c < 4; ++c)
      value.component[c] = value.component[c] * (1 - part) + next.component[c] * part;
    return value;
  };
  for (bool linear : {false, true})
    for (bool between : {false, true})
      for (double bias : {0.0, 0.75}) {
        view.linear = linear;
        view.mipmap_linear = between;
        view.level_bias = static_cast<float>(bias);
        view.level_least = bias == 0 ? 0 : 0.5f;
        view.level_most = bias == 0 ? 8 : 3.5f;
        scatter(points, random, view);
        for (uint32_t i = 0; i < points.count * 8; ++i)
          points.extra[i] = static_cast<float>(static_cast<int>(random() % 40) - 8) / 5.25f;
        compare(points, program, view, "level", "level", [&](uint32_t i) {
          return mixed(i, static_cast<double>(points.extra[i * 8]) + bias);
        });
        // The bias is of levels that are given.
        compare(points, program, view, "base", "base", [&](uint32_t i) { return mixed(i, 0); });
        // One step in x is 2^k elements and more than the one in y.
        for (uint32_t i = 0; i < points.count; ++i) {
          float *given = points.extra + i * 8;
          given[0] = std::ldexp(1.0f, static_cast<int>(i % 7) - 6);
          given[1] = given[2] = 0;
          given[3] = given[0] / 2;
        }
        compare(points, program, view, "grad", "grad",
                [&](uint32_t i) { return mixed(i, static_cast<double>(i % 7) - 1 + bias); });
      }
}

TEST(cubes) {
  rig::Device device(1);
  std::mt19937 random(8);
  Points points(device, 64);
  auto program = device.load(module(
      Points::kernel("tex.cube.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, {%f0, %f1, %f2, %f3}];",
                     "cube") +
      Points::kernel("tex.acube.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, {%r8, %f0, %f1, %f2}];",
                     "acube")));
  for (uint32_t layers : {0u, 3u}) {
    auto view = make(device, random, Channel::Float, 1, 2, {8, 8, 1, layers}, 1, true);
    view.normalized = true;
    for (bool linear : {false, true}) {
      view.linear = linear;
      // A major axis of 1 keeps the division exact.
      for (uint32_t i = 0; i < points.count; ++i) {
        float *at = points.at + i * 4;
        for (int d = 0; d < 3; ++d)
          at[d] = static_cast<float>(static_cast<int>(random() % 255) - 127) / 128;
        at[random() % 3] = random() & 1 ? 1.0f : -1.0f;
        points.layer[i] = static_cast<int32_t>(random() % 3);
      }
      compare(points, program, view, "cube", layers ? "acube" : "cube", [&](uint32_t i) {
        int face;
        reference::Where where;
        const float *at = points.at + i * 4;
        reference::cube_face(at[0], at[1], at[2], &face, &where.at[0], &where.at[1]);
        // A face is a layer, and its edge is its end.
        ImageView flat = view;
        flat.layers = 18;
        where.layer = (layers ? points.layer[i] : 0) * 6 + face;
        return reference::fetch(flat, 2, where);
      });
    }
  }
}

// With a value that changes steadily over the whole sphere, nothing jumps at an edge.
TEST(seamless_cubes_have_no_edges) {
  rig::Device device(1);
  std::mt19937 random(9);
  Points points(device, 64);
  auto program = device.load(module(Points::kernel(
      "tex.cube.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, {%f0, %f1, %f2, %f3}];")));
  auto view = make(device, random, Channel::Float, 1, 2, {16, 16, 1, 0}, 1, true);
  const ImageLevel &level = view.levels[0];
  for (unsigned face = 0; face < 6; ++face)
    for (unsigned y = 0; y < 16; ++y)
      for (unsigned x = 0; x < 16; ++x) {
        double s = (2 * x + 1) / 16.0 - 1, t = (2 * y + 1) / 16.0 - 1;
        const double directions[6][3] = {{1, -t, -s}, {-1, -t, s}, {s, 1, t},
                                         {s, -1, -t}, {s, -t, 1},  {-s, -t, -1}};
        const double *v = directions[face];
        double length = std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        auto value = static_cast<float>((v[0] + 2 * v[1] - v[2]) / length);
        std::memcpy(
            reinterpret_cast<void *>(level.address + face * level.slice + y * level.pitch + x * 4),
            &value, 4);
      }
  view.normalized = view.linear = view.seamless = true;
  device.memory.images[kHandle] = view;
  // Pairs to both sides of an edge.
  for (uint32_t i = 0; i < 64; ++i) {
    float *at = points.at + i * 4;
    const unsigned axis = i / 2 % 3;
    at[axis] = i & 1 ? 1.0f : 0.998f;
    at[(axis + 1) % 3] = i & 1 ? 0.998f : 1.0f;
    at[(axis + 2) % 3] = static_cast<float>(i / 2) / 20 - 0.75f;
  }
  CHECK_OK(points.run(program, kHandle));
  for (uint32_t i = 0; i < 64; i += 2) {
    float a, b;
    std::memcpy(&a, points.out + i * 4, 4);
    std::memcpy(&b, points.out + (i + 1) * 4, 4);
    CHECK(std::fabs(a - b) < 0.02f);
  }
}

// Lanes that fetch from different textures, and lanes that do not fetch.
TEST(handles_differ_between_lanes) {
  rig::Device device(1);
  std::mt19937 random(10);
  Points points(device, 64);
  auto program = device.load(module(Points::kernel(R"(
    and.b32 %r30, %r3, 3; cvt.u64.u32 %d20, %r30; add.s64 %d20, %d20, %d0;
    setp.ne.u32 %p0, %r30, 2;
    @%p0 tex.1d.v4.u32.s32 {%r20, %r21, %r22, %r23}|%p1, [%d20, %r10];
    and.pred %p1, %p1, %p0; selp.u32 %r21, 7, 0, %p1;)")));
  ImageView views[4];
  for (uint64_t h = 0; h < 4; ++h) {
    views[h] = make(device, random, Channel::Unsigned32, 1, 1, {64, 1, 1, 0});
    if (h != 2) device.memory.images[kHandle + h] = views[h];
  }
  for (uint32_t i = 0; i < 64; ++i) points.texel[i * 4] = static_cast<int32_t>(i);
  CHECK_OK(points.run(program, kHandle));
  for (uint32_t i = 0; i < 64; ++i) {
    const auto *row = reinterpret_cast<uint32_t *>(views[i & 3].levels[0].address);
    CHECK(points.out[i * 4] == ((i & 3) == 2 ? 0xdeadbeef : row[i]));
    CHECK(points.out[i * 4 + 1] == ((i & 3) == 2 ? 0u : 7u));
  }
}

TEST(half_results) {
  rig::Device device(1);
  std::mt19937 random(11);
  Points points(device, 32);
  auto program = device.load(module(
      Points::kernel("tex.1d.v2.f16x2.s32 {%r20, %r21}, [%d0, {%r10}];", "pair") +
      Points::kernel("tex.1d.v4.f16.s32 {%h0, %h1, %h2, %h3}, [%d0, {%r10}]; cvt.u32.u16 %r20, %h0;"
                     "cvt.u32.u16 %r21, %h1; cvt.u32.u16 %r22, %h2; cvt.u32.u16 %r23, %h3;",
                     "four")));
  auto view = make(device, random, Channel::Half, 4, 1, {32, 1, 1, 0});
  device.memory.images[kHandle] = view;
  for (uint32_t i = 0; i < 32; ++i) points.texel[i * 4] = static_cast<int32_t>(i);
  CHECK_OK(points.run(program, kHandle, "pair"));
  const auto *pairs = reinterpret_cast<uint32_t *>(view.levels[0].address);
  const auto *halves = reinterpret_cast<uint16_t *>(view.levels[0].address);
  for (uint32_t i = 0; i < 32; ++i)
    CHECK(points.out[i * 4] == pairs[i * 2] && points.out[i * 4 + 1] == pairs[i * 2 + 1]);
  CHECK_OK(points.run(program, kHandle, "four"));
  for (uint32_t i = 0; i < 128; ++i) CHECK(points.out[i] == halves[i]);
}

// Whatever the coordinates are, a fetch stays inside of the image.
TEST(wild_coordinates) {
  rig::Device device(1);
  std::mt19937 random(12);
  Points points(device, 96);
  std::string kernels;
  for (const Geometry &geometry : kGeometries)
    kernels += Points::kernel(text(geometry, "f32", false), std::string("f") + geometry.name) +
               Points::kernel(text(geometry, "f32", true), std::string("i") + geometry.name);
  auto program = device.load(module(kernels));
  const float kWild[] = {0,     -0.0f,  1e-40f,   INFINITY,       -INFINITY, NAN,
                         3e38f, -3e38f, 16777216, -2147483648.0f, 4e9f,      0.99999994f};
  auto base = make(device, random, Channel::Unsigned8, 4, 3, {13, 8, 5, 0});
  base.read_as_float = true;
  with_settings(base, [&](const ImageView &view) {
    device.memory.images[kHandle] = view;
    for (uint32_t i = 0; i < points.count * 4; ++i) {
      points.at[i] = kWild[random() % std::size(kWild)];
      points.texel[i] = static_cast<int32_t>(random());
      points.layer[i / 4] = static_cast<int32_t>(random());
    }
    for (const Geometry &geometry : kGeometries) {
      CHECK_OK(points.run(program, kHandle, (std::string("f") + geometry.name).c_str()));
      CHECK_OK(points.run(program, kHandle, (std::string("i") + geometry.name).c_str()));
    }
  });
}

TEST(what_is_no_texture_faults) {
  rig::Device device(1);
  std::mt19937 random(13);
  Points points(device, 32);
  auto program = device.load(module(
      ".global .texref unbound;\n" +
      Points::kernel("tex.1d.v4.u32.s32 {%r20, %r21, %r22, %r23}, [%d0, {%r10}];") +
      Points::kernel("tex.1d.v4.u32.s32 {%r20, %r21, %r22, %r23}, [unbound, {%r10}];", "named")));
  CHECK_FAILS(points.run(program, 0), 700, "thread (0,0,0)", "PTX line", "0x0 is no live texture");
  CHECK_FAILS(points.run(program, ~uint64_t{0}), 700, "no live texture");
  CHECK_FAILS(points.run(program, kHandle, "named"), 700, "no live texture");
  auto view = make(device, random, Channel::Float, 1, 1, {32, 1, 1, 0});
  view.kind = ImageView::Kind::Surface;
  device.memory.images[kHandle] = view;
  CHECK_FAILS(points.run(program, kHandle), 700, "no live texture");
  // Memory that was taken away.
  view.kind = ImageView::Kind::Texture;
  view.levels[0].address += uint64_t{1} << 21;
  device.memory.images[kHandle] = view;
  for (uint32_t i = 0; i < 128; ++i) points.texel[i] = 0;
  CHECK_FAILS(points.run(program, kHandle), 700, "read of 4 bytes", "not allowed");
}

// A reference is bound for a launch, by the address of its variable.
TEST(references) {
  rig::Device device(1);
  std::mt19937 random(14);
  auto program = device.load(module(
      ".global .texref tex;\n.global .surfref surf;\n.global .u32 plain;\n" + kernel("k", 1,
                                                                                     R"(
        tex.1d.v4.u32.s32 {%r20, %r21, %r22, %r23}, [tex, {%r3}];
        mov.u64 %d1, tex; tex.1d.v4.u32.s32 {%r24, %r21, %r22, %r23}, [%d1, {%r3}];
        add.s32 %r20, %r20, %r24; shl.b32 %r25, %r3, 2; sust.b.1d.b32.trap [surf, {%r25}], {%r20};
        mov.u64 %d2, surf; mov.u64 %d3, plain;
        istypep.texref %p0, %d1; istypep.surfref %p1, %d2; istypep.texref %p2, %d2;
        istypep.texref %p3, %d3; and.pred %p0, %p0, %p1; or.pred %p2, %p2, %p3;
        not.pred %p2, %p2; and.pred %p0, %p0, %p2; selp.u32 %r26, 1, 0, %p0;)" + store_result(
                                                                                         "%r26"))));
  CHECK(program->references().size() == 2 && program->variables().size() == 1);
  auto texture =
      std::make_shared<ImageView>(make(device, random, Channel::Unsigned32, 1, 1, {32, 1, 1, 0}));
  auto surface =
      std::make_shared<ImageView>(make(device, random, Channel::Unsigned32, 1, 1, {32, 1, 1, 0}));
  surface->kind = ImageView::Kind::Surface;
  for (const Reference &reference : program->references())
    device.bound.emplace_back(reference.address, reference.name == "tex" ? texture : surface);
  auto *out = device.array<uint32_t>(32);
  CHECK_OK(device.launch(program, "k", {1}, {32}, rig::Parameters().add(out)));
  const auto *from = reinterpret_cast<uint32_t *>(texture->levels[0].address);
  const auto *to = reinterpret_cast<uint32_t *>(surface->levels[0].address);
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == 1 && to[i] == 2 * from[i]);
}

TEST(questions) {
  rig::Device device(1);
  std::mt19937 random(15);
  std::string body;
  const char *kAsked[] = {"txq.width",
                          "txq.height",
                          "txq.depth",
                          "txq.array_size",
                          "txq.num_mipmap_levels",
                          "txq.normalized_coords",
                          "txq.filter_mode",
                          "txq.addr_mode_0",
                          "txq.addr_mode_1",
                          "txq.channel_order",
                          "txq.channel_data_type",
                          "txq.level.width"};
  int at = 0;
  for (const char *asked : kAsked) {
    bool level = std::strstr(asked, "level.");
    body += std::string(asked) + ".b32 %r10, [%d1]" + (level ? ", 1" : "") +
            "; st.global.u32 [%d0+" + std::to_string(at++ * 4) + "], %r10;\n";
  }
  body +=
      "suq.width.b32 %r10, [%d2]; st.global.u32 [%d0+48], %r10;"
      "suq.channel_data_type.b32 %r10, [%d2]; st.global.u32 [%d0+52], %r10;";
  auto program = device.load(module(kernel("k", 3, body)));
  auto view = make(device, random, Channel::Half, 2, 2, {32, 16, 1, 4}, 3);
  view.normalized = view.linear = true;
  view.address[0] = AddressMode::Wrap;
  view.address[1] = AddressMode::Mirror;
  device.memory.images[1] = view;
  auto surface = make(device, random, Channel::Signed16, 1, 1, {77, 1, 1, 0});
  surface.kind = ImageView::Kind::Surface;
  device.memory.images[2] = surface;
  auto *out = device.array<uint32_t>(32);
  CHECK_OK(device.launch(program, "k", {1}, {1},
                         rig::Parameters().add(out).add(uint64_t{1}).add(uint64_t{2})));
  const uint32_t kWant[] = {32, 16, 0, 4, 3, 1, 1, 0, 1, 0x10b2, 0x10dd, 16, 77, 0x10d8};
  for (size_t i = 0; i < std::size(kWant); ++i) CHECK(out[i] == kWant[i]);
}

TEST(fetches_that_are_refused) {
  rig::Device device(1);
  auto refused = [&](const char *text, const char *why) {
    auto program = device.load(module(Points::kernel(text)));
    CHECK_FAILS(program->find_kernel("k")->translate(), 218, why, "PTX line");
  };
  refused("tex.2dms.v4.f32.s32 {%r20, %r21, %r22, %r23}, [%d0, {%r8, %r10, %r11, %r11}];",
          "geometry");
  refused("tex.2d.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, %d1, {%f0, %f1}];", "samplers");
  refused("tex.2d.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, {%f0}];", "vector length");
  refused("tex.2d.v4.f32.f32 {%r20, %r21}, [%d0, {%f0, %f1}];", "vector length");
  refused("tex.2d.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%r10, {%f0, %f1}];", "64-bit");
  refused("tex.2d.v4.f32.f32 {%r20, %r21, %r22, %r23}, [missing, {%f0, %f1}];", "no texture");
  refused("tex.2d.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, {%f0, %f1}], %f3;", "");
  refused("ld.global.u32 %r20, [%d0, {%r10}];", "coordinates");
  refused("suld.b.2d.b32.zero %r20, [%d0, {%r10}];", "vector length");
  refused("suld.b.cube.b32.zero %r20, [%d0, {%r10, %r10, %r10, %r10}];", "cube");
}
