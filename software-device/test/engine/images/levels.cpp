// Mipmaps and cubes: levels of detail, faces, and what lies between them.
#include "fetch.h"

using namespace check;
using namespace images;

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
