// Texture fetches: every format, address mode, filter and geometry against the reference.
#include "../proven.h"
#include "fetch.h"

using namespace check;
using namespace images;

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
  // Linear memory has no rows, so there are no four neighbours.
  view.kind = ImageView::Kind::Texture;
  view.linear_memory = true;
  device.memory.images[kHandle] = view;
  auto gather = device.load(module(
      Points::kernel("tld4.r.2d.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, {%f0, %f1}];") +
      Points::kernel("tex.2d.v4.f32.f32 {%r20, %r21, %r22, %r23}, [%d0, {%f0, %f1}];", "plane")));
  CHECK_FAILS(points.run(gather, kHandle), 719, "linear memory");
  CHECK_OK(points.run(gather, kHandle, "plane"));
  view.linear_memory = false;
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
        istypep.texref %p3, %d3; istypep.samplerref %p4, %d1;
        istypep.samplerref %p5, %d2; or.pred %p3, %p3, %p4; or.pred %p3, %p3, %p5; and.pred %p0, %p0, %p1; or.pred %p2, %p2, %p3;
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
  proven::add("istypep.texref", 3 * 32);
  proven::add("istypep.surfref", 32);
  proven::add("istypep.samplerref", 2 * 32);
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
