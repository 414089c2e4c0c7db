// tex and tld4 in every form: geometry, result, coordinates, level of detail, offsets, predicate.
#include "../proven.h"
#include "fetch.h"

using namespace check;
using namespace images;

namespace {

struct Shape {
  const char *name;
  int dimensions;  // of the coordinates
  bool layered, cube;
  const char *floats, *integers, *offsets, *gradients[2];
};
constexpr Shape kShapes[] = {
    {"1d", 1, false, false, "{%f0}", "{%r10}", "{%r30}", {"{%f4}", "{%f7}"}},
    {"2d",
     2,
     false,
     false,
     "{%f0, %f1}",
     "{%r10, %r11}",
     "{%r30, %r31}",
     {"{%f4, %f5}", "{%f7, %f8}"}},
    {"3d",
     3,
     false,
     false,
     "{%f0, %f1, %f2, %f2}",
     "{%r10, %r11, %r12, %r12}",
     "{%r30, %r31, %r32, %r32}",
     {"{%f4, %f5, %f6, %f6}", "{%f7, %f8, %f9, %f9}"}},
    {"a1d", 1, true, false, "{%r8, %f0}", "{%r8, %r10}", "{%r30}", {"{%f4}", "{%f7}"}},
    {"a2d",
     2,
     true,
     false,
     "{%r8, %f0, %f1, %f1}",
     "{%r8, %r10, %r11, %r11}",
     "{%r30, %r31}",
     {"{%f4, %f5}", "{%f7, %f8}"}},
    {"cube",
     3,
     false,
     true,
     "{%f0, %f1, %f2, %f3}",
     "",
     "",
     {"{%f4, %f5, %f6, %f6}", "{%f7, %f8, %f9, %f9}"}},
    {"acube",
     3,
     true,
     true,
     "{%r8, %f0, %f1, %f2}",
     "",
     "",
     {"{%f4, %f5, %f6, %f6}", "{%f7, %f8, %f9, %f9}"}},
};
constexpr int kOffsets[] = {-3, 2, 1};

struct Result {
  const char *type, *registers, *collect;  // to %r20 .. %r23
  Channel channel;
};
constexpr const char *kWords = "{%r20, %r21, %r22, %r23}";
constexpr Result kResults[] = {
    {"v4.u32", kWords, "", Channel::Unsigned8},
    {"v4.s32", kWords, "", Channel::Signed32},
    {"v4.f32", kWords, "", Channel::Float},
    {"v2.f16x2", "{%r20, %r22}",
     "mov.b32 {%h0, %h1}, %r20; mov.b32 {%h2, %h3}, %r22; cvt.f32.f16 %f12, %h0;"
     "cvt.f32.f16 %f13, %h1; cvt.f32.f16 %f14, %h2; cvt.f32.f16 %f15, %h3; mov.b32 %r20, %f12;"
     "mov.b32 %r21, %f13; mov.b32 %r22, %f14; mov.b32 %r23, %f15;",
     Channel::Half},
    {"v4.f16", "{%h0, %h1, %h2, %h3}",
     "cvt.f32.f16 %f12, %h0; cvt.f32.f16 %f13, %h1; cvt.f32.f16 %f14, %h2; cvt.f32.f16 %f15, %h3;"
     "mov.b32 %r20, %f12; mov.b32 %r21, %f13; mov.b32 %r22, %f14; mov.b32 %r23, %f15;",
     Channel::Half},
};

constexpr unsigned kPoints = 64, kLevels = 3;

ImageView image(rig::Device &device, std::mt19937 &random, const Shape &shape, Channel channel,
                unsigned levels) {
  Extent extent;
  extent.width = shape.cube ? 8 : 16;
  if (shape.dimensions >= 2) extent.height = 8;
  if (shape.dimensions == 3 && !shape.cube) extent.depth = 4;
  if (shape.layered) extent.layers = 3;
  return make(device, random, channel, 4, shape.cube ? 2 : shape.dimensions, extent, levels,
              shape.cube);
}

// Coordinates and gradients; the level that each point asks for is i % 3.
void scatter_all(Points &points, std::mt19937 &random, const ImageView &view, const Shape &shape) {
  scatter(points, random, view);
  for (uint32_t i = 0; i < points.count; ++i) {
    float *extra = points.extra + i * 8, *at = points.at + i * 4;
    for (int k = 0; k < 8; ++k) extra[k] = 0;
    const auto level = static_cast<float>(1 << i % 3);
    const auto width = static_cast<float>(view.levels[0].width);
    extra[0] = !view.normalized ? level : shape.cube ? 2 * level / width : level / width;
    extra[3] = extra[0] / 2;
    extra[6] = static_cast<float>(i % 3);
    if (!shape.cube) continue;
    // A major axis of 1 keeps the division exact.
    for (int d = 0; d < 3; ++d)
      at[d] = static_cast<float>(static_cast<int>(random() % 255) - 127) / 128;
    at[random() % 3] = random() & 1 ? 1.0f : -1.0f;
    points.layer[i] = static_cast<int32_t>(random() % 3);
  }
}

// Where the reference looks, and in what: a cube's faces are layers.
reference::Where where_of(const Points &points, uint32_t i, const Shape &shape, bool integers,
                          bool offsets) {
  reference::Where where = place(points, i, integers);
  if (!shape.layered) where.layer = 0;
  if (shape.cube) {
    int face;
    const float *at = points.at + i * 4;
    reference::cube_face(at[0], at[1], at[2], &face, &where.at[0], &where.at[1]);
    where.layer = where.layer * 6 + face;
  }
  for (int d = 0; d < 3 && offsets; ++d) where.offset[d] = kOffsets[d];
  return where;
}
ImageView flat(const ImageView &view) {
  ImageView of = view;
  if (view.cube) of.layers = 18;
  return of;
}

std::string instruction(const std::string &form, const Result &result, bool predicate,
                        const std::string &operands) {
  return "mov.u32 %r30, -3; mov.u32 %r31, 2; mov.u32 %r32, 1; cvt.rni.s32.f32 %r9, %f10;" + form +
         " " + result.registers + (predicate ? "|%p1" : "") + ", [%d0, " + operands + ";" +
         (predicate ? "@!%p1 trap;" : "") + result.collect;
}

}  // namespace

TEST(fetches_in_every_form) {
  std::mt19937 random(51);
  for (const Shape &shape : kShapes)
    for (const Result &result : kResults) {
      rig::Device device(1);
      Points points(device, kPoints);
      ImageView with_levels = image(device, random, shape, result.channel, kLevels);
      for (const std::string mode : {"", ".base", ".level", ".grad"})
        for (bool integers : {false, true})
          for (bool offsets : {false, true})
            for (bool predicate : {false, true}) {
              if (shape.cube && (integers || offsets)) continue;
              const std::string form = "tex" + mode + "." + shape.name + "." + result.type +
                                       (integers ? ".s32" : ".f32");
              std::string operands = std::string(integers ? shape.integers : shape.floats) + "]";
              if (mode == ".level") operands += integers ? ", %r9" : ", %f10";
              if (mode == ".grad")
                operands += std::string(", ") + shape.gradients[0] + ", " + shape.gradients[1];
              if (offsets) operands += std::string(", ") + shape.offsets;
              auto program = device.load(
                  module(Points::kernel(instruction(form, result, predicate, operands))));
              CHECK(program);
              if (!program) return;
              for (bool linear : {false, true}) {
                if (linear && (integers || result.channel != Channel::Float)) continue;
                ImageView view = with_levels;
                view.normalized = !integers;
                view.linear = linear;
                scatter_all(points, random, view, shape);
                const bool levels = mode == ".level" || mode == ".grad";
                const int before = check::failures;
                compare(points, program, view, form, "k", [&](uint32_t i) {
                  reference::Where where = where_of(points, i, shape, integers, offsets);
                  where.level = levels ? static_cast<int>(i % 3) : 0;
                  return reference::fetch(flat(view), shape.cube ? 2 : shape.dimensions, where);
                });
                if (check::failures != before) break;
                proven::add(form + (predicate ? "|p" : "") + (offsets ? " d, [a, c], e" : ""),
                            kPoints * 4, false,
                            linear ? "exact; filtered within 2^-20 of the greatest" : "");
              }
            }
    }
}

TEST(gathers_in_every_form) {
  std::mt19937 random(52);
  for (const Shape &shape : kShapes) {
    if (shape.dimensions != 2 && !shape.cube) continue;
    for (const Result &result : kResults) {
      if (*result.collect) continue;  // words only
      rig::Device device(1);
      Points points(device, kPoints);
      ImageView view = image(device, random, shape, result.channel, 1);
      view.normalized = true;
      for (int component = 0; component < 4; ++component)
        for (bool offsets : {false, true})
          for (bool predicate : {false, true}) {
            if (shape.cube && offsets) continue;
            const std::string form = std::string("tld4.") + "rgba"[component] + "." + shape.name +
                                     "." + result.type + ".f32";
            auto program = device.load(module(Points::kernel(
                instruction(form, result, predicate,
                            std::string(shape.floats) + "]" +
                                (offsets ? std::string(", ") + shape.offsets : "")))));
            CHECK(program);
            if (!program) return;
            scatter_all(points, random, view, shape);
            compare(points, program, view, form, "k", [&](uint32_t i) {
              return reference::gather(flat(view), where_of(points, i, shape, false, offsets),
                                       component);
            });
            proven::add(form + (predicate ? "|p" : "") + (offsets ? " d, [a, c], e" : ""),
                        kPoints * 4);
          }
    }
  }
}

// What txq and suq say of images of all kinds.
TEST(questions_in_every_form) {
  struct Question {
    const char *form;
    uint32_t (*want)(const ImageView &);
    bool surface, level;
  };
  auto width = [](const ImageView &v) { return v.levels[0].width; };
  auto height = [](const ImageView &v) { return v.dimensions > 1 ? v.levels[0].height : 0; };
  auto depth = [](const ImageView &v) { return v.dimensions > 2 ? v.levels[0].depth : 0; };
  auto layers = [](const ImageView &v) { return v.layers; };
  auto zero = [](const ImageView &) { return 0u; };
  auto data_type = [](const ImageView &v) -> uint32_t {
    // of OpenCL, by which the ISA goes
    switch (v.channel) {
      case Channel::Signed8:
        return v.read_as_float ? 0x10d0 : 0x10d7;
      case Channel::Signed16:
        return v.read_as_float ? 0x10d1 : 0x10d8;
      case Channel::Unsigned8:
        return v.read_as_float ? 0x10d2 : 0x10da;
      case Channel::Unsigned16:
        return v.read_as_float ? 0x10d3 : 0x10db;
      case Channel::Unsigned1010102:
        return 0x10d6;
      case Channel::Signed32:
        return 0x10d9;
      case Channel::Unsigned32:
        return 0x10dc;
      case Channel::Half:
        return 0x10dd;
      default:
        return 0x10de;
    }
  };
  auto order = [](const ImageView &v) -> uint32_t {
    return v.channels == 1 ? 0x10b0 : v.channels == 2 ? 0x10b2 : 0x10b5;
  };
  auto mode = []<int d>(const ImageView &v) -> uint32_t {
    return v.address[d] == AddressMode::Wrap     ? 0
           : v.address[d] == AddressMode::Mirror ? 1
           : v.address[d] == AddressMode::Clamp  ? 3
                                                 : 4;
  };
  const Question questions[] = {
      {"txq.width.b32", width, false, false},
      {"txq.height.b32", height, false, false},
      {"txq.depth.b32", depth, false, false},
      {"txq.array_size.b32", layers, false, false},
      {"txq.num_mipmap_levels.b32",
       [](const ImageView &v) { return static_cast<uint32_t>(v.levels.size()); }, false, false},
      {"txq.num_samples.b32", [](const ImageView &) { return 1u; }, false, false},
      {"txq.channel_data_type.b32", data_type, false, false},
      {"txq.channel_order.b32", order, false, false},
      {"txq.normalized_coords.b32", [](const ImageView &v) -> uint32_t { return v.normalized; },
       false, false},
      {"txq.force_unnormalized_coords.b32", zero, false, false},
      {"txq.filter_mode.b32", [](const ImageView &v) -> uint32_t { return v.linear; }, false,
       false},
      {"txq.addr_mode_0.b32", [](const ImageView &v) { return decltype(mode){}.operator()<0>(v); },
       false, false},
      {"txq.addr_mode_1.b32", [](const ImageView &v) { return decltype(mode){}.operator()<1>(v); },
       false, false},
      {"txq.addr_mode_2.b32", [](const ImageView &v) { return decltype(mode){}.operator()<2>(v); },
       false, false},
      {"txq.memory_layout.b32", zero, false, false},
      {"txq.level.width.b32", [](const ImageView &v) { return v.levels[1].width; }, false, true},
      {"txq.level.height.b32",
       [](const ImageView &v) { return v.dimensions > 1 ? v.levels[1].height : 0; }, false, true},
      {"txq.level.depth.b32",
       [](const ImageView &v) { return v.dimensions > 2 ? v.levels[1].depth : 0; }, false, true},
      {"suq.width.b32", width, true, false},
      {"suq.height.b32", height, true, false},
      {"suq.depth.b32", depth, true, false},
      {"suq.array_size.b32", layers, true, false},
      {"suq.channel_data_type.b32", data_type, true, false},
      {"suq.channel_order.b32", order, true, false},
      {"suq.memory_layout.b32", zero, true, false},
  };
  std::mt19937 random(53);
  for (const Question &question : questions) {
    rig::Device device(1);
    auto *out = device.array<uint32_t>(1);
    auto program = device.load(
        module(kernel("k", 2,
                      std::string(question.form) + " %r10, [%d1]" + (question.level ? ", 1" : "") +
                          "; st.global.u32 [%d0], %r10;")));
    CHECK(program);
    if (!program) return;
    for (const Channel channel : kChannels)
      for (unsigned channels : {1u, 2u, 4u})
        for (const Geometry &geometry : kGeometries) {
          if (channel == Channel::Unsigned1010102 && channels != 4) continue;
          auto view = make(device, random, channel, channels, geometry.dimensions,
                           extent_of(geometry), question.surface ? 1 : 3);
          const bool small = bytes_of(channel) < 4 && channel != Channel::Half;
          if (question.surface) view.kind = ImageView::Kind::Surface;
          view.read_as_float = !question.surface && small && random() & 1;
          view.normalized = random() & 1;
          view.linear = random() & 1;
          for (AddressMode &of : view.address) of = static_cast<AddressMode>(random() % 4);
          device.memory.images[kHandle] = view;
          CHECK_OK(device.launch(program, "k", {1}, {1}, rig::Parameters().add(out).add(kHandle)));
          if (*out != question.want(view)) {
            check::fail(__FILE__, __LINE__,
                        std::string(question.form) + " says " + std::to_string(*out));
            return;
          }
          proven::add(question.form, 1);
        }
  }
}
