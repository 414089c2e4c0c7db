// Surface loads, stores and reductions: every width, geometry and treatment of what is outside.
#include "../proven.h"
#include "rig.h"

using namespace check;
using namespace images;

namespace {

constexpr uint64_t kHandle = 0x77770;

struct Geometry {
  const char *name;
  int dimensions;
  bool layered;
  const char *coordinates;
};
constexpr Geometry kGeometries[] = {
    {"1d", 1, false, "{%r10}"},
    {"2d", 2, false, "{%r10, %r11}"},
    {"3d", 3, false, "{%r10, %r11, %r12, %r12}"},
    {"a1d", 1, true, "{%r8, %r10}"},
    {"a2d", 2, true, "{%r8, %r10, %r11, %r11}"},
};

ImageView surface(rig::Device &device, std::mt19937 &random, Channel channel, unsigned channels,
                  const Geometry &geometry) {
  Extent extent;
  extent.width = 16;
  if (geometry.dimensions >= 2) extent.height = 6;
  if (geometry.dimensions == 3) extent.depth = 3;
  if (geometry.layered) extent.layers = 3;
  ImageView view = make(device, random, channel, channels, geometry.dimensions, extent);
  view.kind = ImageView::Kind::Surface;
  return view;
}

struct Width {
  const char *type;
  unsigned count, bytes;  // of an element
  const char *registers;
};
constexpr Width kWidths[] = {
    {"b8", 1, 1, "{%h0}"},
    {"v2.b8", 2, 1, "{%h0, %h1}"},
    {"v4.b8", 4, 1, "{%h0, %h1, %h2, %h3}"},
    {"b16", 1, 2, "{%h0}"},
    {"v2.b16", 2, 2, "{%h0, %h1}"},
    {"v4.b16", 4, 2, "{%h0, %h1, %h2, %h3}"},
    {"b32", 1, 4, "{%r20}"},
    {"v2.b32", 2, 4, "{%r20, %r21}"},
    {"v4.b32", 4, 4, "{%r20, %r21, %r22, %r23}"},
    {"b64", 1, 8, "{%d20}"},
    {"v2.b64", 2, 8, "{%d20, %d21}"},
};
// What the kernel's results are made of.
std::string collect(const Width &width) {
  if (width.bytes < 4) {
    std::string text;
    for (unsigned i = 0; i < width.count; ++i)
      text += "cvt.u32.u16 %r2" + std::to_string(i) + ", %h" + std::to_string(i) + ";";
    return text;
  }
  if (width.bytes == 4) return "";
  return std::string("mov.b64 {%r20, %r21}, %d20;") +
         (width.count == 2 ? "mov.b64 {%r22, %r23}, %d21;" : "");
}
std::string spread() {
  std::string text =
      "mov.u32 %r20, %r13; add.u32 %r21, %r13, 1; add.u32 %r22, %r13, 2;"
      "add.u32 %r23, %r13, 3;";
  for (unsigned i = 0; i < 4; ++i)
    text += "cvt.u16.u32 %h" + std::to_string(i) + ", %r2" + std::to_string(i) + ";";
  return text + "mov.b64 %d20, {%r20, %r21}; mov.b64 %d21, {%r22, %r23};";
}

// Coordinates inside and outside; x in bytes, a multiple of `align`.
void scatter(Points &points, std::mt19937 &random, unsigned align, bool inside,
             const ImageView &view, const Geometry &geometry, unsigned size) {
  const ImageLevel &level = view.levels[0];
  const int row = static_cast<int>(level.width) * view.element;
  auto pick = [&](int most) {
    return static_cast<int32_t>(random() % static_cast<unsigned>(inside ? most : most + 6)) -
           (inside ? 0 : 3);
  };
  for (uint32_t i = 0; i < points.count; ++i) {
    int32_t *at = points.texel + i * 4;
    at[0] = pick((row - static_cast<int>(size)) / static_cast<int>(align) + 1) *
            static_cast<int32_t>(align);
    at[1] = geometry.dimensions >= 2 ? pick(static_cast<int>(level.height)) : 0;
    at[2] = geometry.dimensions == 3 ? pick(static_cast<int>(level.depth)) : 0;
    at[3] = static_cast<int32_t>(random());
    points.layer[i] = geometry.layered ? pick(static_cast<int>(view.layers)) : 0;
  }
}

// Where a point lies, or nullptr when it is outside and that is not corrected.
uint8_t *target(const ImageView &view, const Geometry &geometry, const Points &points, uint32_t i,
                unsigned size, bool clamp) {
  const ImageLevel &level = view.levels[0];
  int64_t at[4] = {points.texel[i * 4], points.texel[i * 4 + 1], points.texel[i * 4 + 2],
                   geometry.layered ? int64_t{static_cast<uint32_t>(points.layer[i])} : 0};
  const int64_t most[4] = {int64_t{level.width} * view.element - size, int64_t{level.height} - 1,
                           int64_t{level.depth} - 1, view.layers ? int64_t{view.layers} - 1 : 0};
  for (int d = 0; d < 4; ++d) {
    if (at[d] >= 0 && at[d] <= most[d]) continue;
    if (!clamp) return nullptr;
    at[d] = at[d] < 0 ? 0 : most[d];
  }
  return reinterpret_cast<uint8_t *>(level.address) + at[0] +
         static_cast<uint64_t>(at[1]) * level.pitch +
         static_cast<uint64_t>(at[2] + at[3]) * level.slice;
}

// Each treatment of what is outside, with each hint.
std::vector<std::pair<std::string, std::string>> with_hints(
    std::initializer_list<const char *> of) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const char *bounds : {"trap", "clamp", "zero"})
    for (const char *hint : of) all.emplace_back(bounds, hint);
  return all;
}

}  // namespace

TEST(loads) {
  std::mt19937 random(21);
  for (const Geometry &geometry : kGeometries) {
    rig::Device device(1);
    Points points(device, 64);
    auto view = surface(device, random, Channel::Float, 4, geometry);
    device.memory.images[kHandle] = view;
    for (const Width &width : kWidths)
      for (const auto &[bounds, hint] : with_hints({"", ".ca", ".cg", ".cs", ".cv"})) {
        const std::string form =
            std::string("suld.b.") + geometry.name + hint + "." + width.type + "." + bounds;
        auto program =
            device.load(module(Points::kernel(form + " " + width.registers + ", [%d0, " +
                                              geometry.coordinates + "];" + collect(width))));
        const unsigned size = width.bytes * width.count;
        scatter(points, random, size, bounds == "trap", view, geometry, size);
        CHECK_OK(points.run(program, kHandle));
        for (uint32_t i = 0; i < points.count; ++i) {
          const uint8_t *from = target(view, geometry, points, i, size, bounds == "clamp");
          for (unsigned k = 0; k < width.count; ++k) {
            uint64_t want = 0, got = 0;
            if (from) std::memcpy(&want, from + k * width.bytes, width.bytes);
            const uint32_t *words = points.out + i * 4;
            if (width.bytes == 8)
              std::memcpy(&got, words + k * 2, 8);
            else
              got = words[k];
            if (got == want) continue;
            check::fail(__FILE__, __LINE__, form);
            k = 4;
            i = points.count;
          }
        }
        proven::add(form, points.count * width.count);
      }
  }
}

TEST(stores) {
  std::mt19937 random(22);
  for (const Geometry &geometry : kGeometries) {
    rig::Device device(1);
    Points points(device, 64);
    auto view = surface(device, random, Channel::Float, 4, geometry);
    const ImageLevel &level = view.levels[0];
    const uint64_t bytes = level.slice * level.depth * (view.layers ? view.layers : 1);
    device.memory.images[kHandle] = view;
    for (const Width &width : kWidths)
      for (const auto &[bounds, hint] : with_hints({"", ".wb", ".cg", ".cs", ".wt"})) {
        const std::string form =
            std::string("sust.b.") + geometry.name + hint + "." + width.type + "." + bounds;
        auto program = device.load(module(Points::kernel(
            spread() + form + " [%d0, " + geometry.coordinates + "], " + width.registers + ";")));
        const unsigned size = width.bytes * width.count;
        scatter(points, random, size, bounds == "trap", view, geometry, size);
        // The last lane that writes a place stays; blocks follow one another.
        std::vector<uint8_t> want(bytes);
        auto *base = reinterpret_cast<uint8_t *>(level.address);
        std::memcpy(want.data(), base, bytes);
        for (uint32_t i = 0; i < points.count; ++i) {
          const uint8_t *to = target(view, geometry, points, i, size, bounds == "clamp");
          if (!to) continue;
          const auto first = static_cast<uint32_t>(points.texel[i * 4 + 3]);
          uint32_t words[4] = {first, first + 1, first + 2, first + 3};
          if (width.bytes == 8) {
            std::memcpy(want.data() + (to - base), words, size);
            continue;
          }
          for (unsigned k = 0; k < width.count; ++k)
            std::memcpy(want.data() + (to - base) + k * width.bytes, &words[k], width.bytes);
        }
        CHECK_OK(points.run(program, kHandle));
        if (std::memcmp(want.data(), base, bytes)) check::fail(__FILE__, __LINE__, form);
        proven::add(form, points.count * width.count);
      }
  }
}

TEST(outside_is_a_fault) {
  rig::Device device(1);
  std::mt19937 random(23);
  Points points(device, 32);
  auto view = surface(device, random, Channel::Float, 1, kGeometries[1]);
  device.memory.images[kHandle] = view;
  auto program = device.load(
      module(Points::kernel("suld.b.2d.b32.trap {%r20}, [%d0, {%r10, %r11}];", "load") +
             Points::kernel("sust.b.2d.b32.trap [%d0, {%r10, %r11}], {%r20};", "store") +
             Points::kernel("suld.b.2d.b32.clamp {%r20}, [%d0, {%r10, %r11}];", "clamp")));
  auto at = [&](uint32_t thread, int32_t x, int32_t y) {
    for (uint32_t i = 0; i < 128; ++i) points.texel[i] = 0;
    points.texel[thread * 4] = x;
    points.texel[thread * 4 + 1] = y;
  };
  for (const char *kernel : {"load", "store"}) {
    at(5, 64, 0);
    CHECK_FAILS(points.run(program, kHandle, kernel), 719, "thread (5,0,0)",
                "outside of the surface");
    at(6, -4, 0);
    CHECK_FAILS(points.run(program, kHandle, kernel), 719, "thread (6,0,0)");
    at(7, 0, 6);
    CHECK_FAILS(points.run(program, kHandle, kernel), 719, "thread (7,0,0)");
    at(7, INT32_MAX, INT32_MIN);
    CHECK_FAILS(points.run(program, kHandle, kernel), 719, "thread (7,0,0)");
    at(8, 2, 0);
    CHECK_FAILS(points.run(program, kHandle, kernel), 716, "thread (8,0,0)", "misaligned");
    at(8, 60, 5);
    CHECK_OK(points.run(program, kHandle, kernel));
    CHECK_FAILS(points.run(program, 99, kernel), 700, "no live texture or surface");
  }
  at(9, INT32_MAX - 3, INT32_MIN);
  CHECK_OK(points.run(program, kHandle, "clamp"));
}

// Stores that convert to the format of the surface, by element.
TEST(formatted_stores) {
  rig::Device device(1);
  std::mt19937 random(24);
  Points points(device, 32);
  auto program = device.load(
      module(Points::kernel("sust.p.1d.v4.b32.zero [%d0, {%r3}], {%r10, %r11, %r12, %r13};")));
  auto run = [&](Channel channel, bool as_float) {
    auto view = surface(device, random, channel, 4, kGeometries[0]);
    view.read_as_float = as_float;
    device.memory.images[kHandle] = view;
    CHECK_OK(points.run(program, kHandle));
    return reinterpret_cast<uint8_t *>(view.levels[0].address);
  };
  for (uint32_t i = 0; i < 128; ++i) points.texel[i] = static_cast<int32_t>(i) * 5 - 200;
  auto *bytes = run(Channel::Signed8, false);
  for (uint32_t i = 0; i < 64; ++i) {
    int32_t want = std::min(std::max(points.texel[i], -128), 127);
    CHECK(static_cast<int8_t>(bytes[i]) == want);
  }
  auto *words = reinterpret_cast<int32_t *>(run(Channel::Signed32, false));
  for (uint32_t i = 0; i < 64; ++i) CHECK(words[i] == points.texel[i]);
  auto *numbers = reinterpret_cast<float *>(points.texel);
  for (uint32_t i = 0; i < 128; ++i) numbers[i] = static_cast<float>(i) / 40 - 0.25f;
  auto *halves = reinterpret_cast<uint16_t *>(run(Channel::Half, false));
  for (uint32_t i = 0; i < 64; ++i) {
    double error = reference::half(halves[i]) - static_cast<double>(numbers[i]);
    CHECK(std::fabs(error) <= std::fabs(static_cast<double>(numbers[i])) / 2048);
  }
  bytes = run(Channel::Unsigned8, true);
  for (uint32_t i = 0; i < 64; ++i) {
    double want = std::min(std::max(static_cast<double>(numbers[i]), 0.0), 1.0) * 255;
    CHECK(std::fabs(bytes[i] - want) <= 0.5);
  }
}

// Words to a surface of words, by element, in every form.
TEST(formatted_stores_in_every_form) {
  std::mt19937 random(26);
  static constexpr const char *kData[] = {"{%r20}", "{%r20, %r21}", "", "{%r20, %r21, %r22, %r23}"};
  for (const Geometry &geometry : kGeometries)
    for (unsigned count : {1u, 2u, 4u}) {
      rig::Device device(1);
      Points points(device, 64);
      auto view = surface(device, random, Channel::Unsigned32, count, geometry);
      const ImageLevel &level = view.levels[0];
      const uint64_t bytes = level.slice * level.depth * (view.layers ? view.layers : 1);
      device.memory.images[kHandle] = view;
      for (const auto &[bounds, hint] : with_hints({"", ".wb", ".cg", ".cs", ".wt"})) {
        const std::string form = std::string("sust.p.") + geometry.name + hint +
                                 (count > 1 ? ".v" + std::to_string(count) : "") + ".b32." + bounds;
        auto program = device.load(module(Points::kernel(
            spread() + form + " [%d0, " + geometry.coordinates + "], " + kData[count - 1] + ";")));
        scatter(points, random, view.element, bounds == "trap", view, geometry, view.element);
        std::vector<uint8_t> want(bytes);
        auto *base = reinterpret_cast<uint8_t *>(level.address);
        std::memcpy(want.data(), base, bytes);
        for (uint32_t i = 0; i < points.count; ++i) {
          const uint8_t *to = target(view, geometry, points, i, view.element, bounds == "clamp");
          const auto first = static_cast<uint32_t>(points.texel[i * 4 + 3]);
          const uint32_t words[4] = {first, first + 1, first + 2, first + 3};
          if (to) std::memcpy(want.data() + (to - base), words, view.element);
        }
        for (uint32_t i = 0; i < points.count; ++i)
          points.texel[i * 4] /= static_cast<int32_t>(view.element);
        CHECK_OK(points.run(program, kHandle));
        if (std::memcmp(want.data(), base, bytes)) check::fail(__FILE__, __LINE__, form);
        proven::add(form, points.count * count);
      }
    }
}

namespace {

struct Reduction {
  const char *how, *op, *type;
};
constexpr Reduction kReductions[] = {
    {"b", "add", "u32"}, {"b", "add", "s32"}, {"b", "add", "u64"}, {"b", "min", "u32"},
    {"b", "min", "s32"}, {"b", "min", "u64"}, {"b", "min", "s64"}, {"b", "max", "u32"},
    {"b", "max", "s32"}, {"b", "max", "u64"}, {"b", "max", "s64"}, {"b", "and", "b32"},
    {"b", "or", "b32"},  {"p", "add", "b32"}, {"p", "min", "b32"}, {"p", "max", "b32"},
    {"p", "and", "b32"}, {"p", "or", "b32"},  {"p", "min", "b64"}, {"p", "max", "b64"},
};

template <class T>
void reduce(const std::string &op, uint8_t *at, uint64_t operand) {
  T old, b = static_cast<T>(operand);
  std::memcpy(&old, at, sizeof(T));
  if (op == "add")
    b = static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(b));
  else if (op == "min")
    b = std::min(old, b);
  else if (op == "max")
    b = std::max(old, b);
  else
    b = op == "and" ? old & b : old | b;
  std::memcpy(at, &b, sizeof(T));
}

}  // namespace

TEST(reductions_in_every_form) {
  std::mt19937 random(27);
  for (const Geometry &geometry : kGeometries)
    for (const Reduction &reduction : kReductions)
      for (const std::string bounds : {"trap", "clamp", "zero"}) {
        rig::Device device(1);
        Points points(device, 96);
        const std::string type = reduction.type, op = reduction.op;
        const bool wide = type[1] == '6', formatted = *reduction.how == 'p';
        const unsigned size = wide ? 8 : 4;
        auto view = surface(device, random, Channel::Unsigned32, wide ? 2 : 1, geometry);
        const ImageLevel &level = view.levels[0];
        const uint64_t bytes = level.slice * level.depth * (view.layers ? view.layers : 1);
        device.memory.images[kHandle] = view;
        const std::string form = std::string("sured.") + reduction.how + "." + op + "." +
                                 geometry.name + "." + type + "." + bounds;
        auto program = device.load(
            module(Points::kernel("mov.b64 %d20, {%r13, %r13};" + form + " [%d0, " +
                                  geometry.coordinates + "], " + (wide ? "%d20;" : "%r13;"))));
        scatter(points, random, size, bounds == "trap", view, geometry, size);
        std::vector<uint8_t> want(bytes);
        auto *base = reinterpret_cast<uint8_t *>(level.address);
        std::memcpy(want.data(), base, bytes);
        for (uint32_t i = 0; i < points.count; ++i) {
          const uint8_t *to = target(view, geometry, points, i, size, bounds == "clamp");
          const auto word = static_cast<uint32_t>(points.texel[i * 4 + 3]);
          const uint64_t operand = wide ? uint64_t{word} << 32 | word : word;
          if (formatted) points.texel[i * 4] /= static_cast<int32_t>(size);
          if (!to) continue;
          uint8_t *at = want.data() + (to - base);
          if (type == "s32")
            reduce<int32_t>(op, at, operand);
          else if (type == "s64")
            reduce<int64_t>(op, at, operand);
          else if (wide)
            reduce<uint64_t>(op, at, operand);
          else
            reduce<uint32_t>(op, at, operand);
        }
        CHECK_OK(points.run(program, kHandle));
        if (std::memcmp(want.data(), base, bytes)) check::fail(__FILE__, __LINE__, form);
        proven::add(form, points.count);
      }
}

TEST(reductions) {
  rig::Device device(2);
  std::mt19937 random(25);
  Points points(device, 640);
  auto kernel_of = [](const char *text, const char *name) { return Points::kernel(text, name); };
  auto program = device.load(module(
      kernel_of("and.b32 %r30, %r3, 7; shl.b32 %r31, %r30, 2;"
                "sured.b.add.1d.u32.trap [%d0, {%r31}], %r13;",
                "add") +
      kernel_of("and.b32 %r30, %r3, 7; sured.p.min.1d.s32.zero [%d0, {%r30}], {%r13};", "min") +
      kernel_of("and.b32 %r30, %r3, 7; sured.p.max.1d.b32.zero [%d0, {%r30}], {%r13};", "max") +
      kernel_of("and.b32 %r30, %r3, 7; shl.b32 %r31, %r30, 2;"
                "sured.b.or.1d.b32.clamp [%d0, {%r31}], %r13;",
                "or") +
      kernel_of("and.b32 %r30, %r3, 7; shl.b32 %r31, %r30, 3; cvt.s64.s32 %d30, %r13;"
                "sured.b.max.1d.s64.zero [%d0, {%r31}], %d30;",
                "wide")));
  auto view = surface(device, random, Channel::Signed32, 1, kGeometries[0]);
  device.memory.images[kHandle] = view;
  auto *at = reinterpret_cast<uint32_t *>(view.levels[0].address);
  for (uint32_t i = 0; i < points.count; ++i)
    points.texel[i * 4 + 3] = static_cast<int32_t>(random());
  auto check_each = [&](const char *name, uint32_t start, auto combine) {
    for (uint32_t i = 0; i < 16; ++i) at[i] = start;
    uint32_t want[8];
    for (uint32_t &value : want) value = start;
    for (uint32_t i = 0; i < points.count; ++i)
      want[i & 7] = combine(want[i & 7], static_cast<uint32_t>(points.texel[i * 4 + 3]));
    CHECK_OK(points.run(program, kHandle, name));
    for (uint32_t i = 0; i < 8; ++i) CHECK(at[i] == want[i]);
  };
  auto as_signed = [](uint32_t v) { return static_cast<int32_t>(v); };
  check_each("add", 5, [](uint32_t a, uint32_t b) { return a + b; });
  check_each("or", 0, [](uint32_t a, uint32_t b) { return a | b; });
  check_each("min", 7, [&](uint32_t a, uint32_t b) { return as_signed(b) < as_signed(a) ? b : a; });
  // .b32 has the sign of the surface's format.
  check_each("max", 7, [&](uint32_t a, uint32_t b) { return as_signed(b) > as_signed(a) ? b : a; });
  auto *wide = reinterpret_cast<int64_t *>(at);
  for (int i = 0; i < 8; ++i) wide[i] = INT64_MIN;
  CHECK_OK(points.run(program, kHandle, "wide"));
  for (uint32_t i = 0; i < 8; ++i) {
    int64_t want = INT64_MIN;
    for (uint32_t k = i; k < points.count; k += 8)
      want = std::max<int64_t>(want, points.texel[k * 4 + 3]);
    CHECK(wide[i] == want);
  }
}
