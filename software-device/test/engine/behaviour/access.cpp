// Which bytes a kernel may touch: the last of an allocation and the first behind it, holes between
// allocations, freed memory, constants, other spaces; with each shape of a warp's addresses.
#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

// p0: base; thread t accesses base + t * step + offset, and p0's first 8 bytes take no part.
std::string strided(const std::string &name, const std::string &access) {
  return ".visible .entry " + name +
         R"((.param .u64 base, .param .u64 step, .param .u32 only) {
    .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .b64 %d<16>;
    ld.param.u64 %d0, [base]; ld.param.u64 %d1, [step]; ld.param.u32 %r1, [only];
    mov.u32 %r0, %tid.x; cvt.u64.u32 %d2, %r0; mad.lo.u64 %d3, %d2, %d1, %d0;
    mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u64 %d4, 0;
    shr.u32 %r6, %r1, %r0; and.b32 %r6, %r6, 1; setp.eq.u32 %p0, %r6, 0; @%p0 bra END;
    )" + access +
         "\nEND: ret;\n}\n";
}

const char *const kAccesses[][2] = {
    {"load1", "ld.global.u8 %r2, [%d3];"},
    {"load2", "ld.global.u16 %h0, [%d3];"},
    {"load4", "ld.global.u32 %r2, [%d3];"},
    {"load8", "ld.global.u64 %d4, [%d3];"},
    {"load16", "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d3];"},
    {"store1", "st.global.u8 [%d3], %r2;"},
    {"store2", "st.global.u16 [%d3], %h0;"},
    {"store4", "st.global.u32 [%d3], %r2;"},
    {"store8", "st.global.u64 [%d3], %d4;"},
    {"store16", "st.global.v4.u32 [%d3], {%r2, %r3, %r4, %r5};"},
    {"generic4", "ld.u32 %r2, [%d3];"},
    {"volatile4", "ld.volatile.global.u32 %r2, [%d3];"},
    {"atomic4", "atom.global.add.u32 %r2, [%d3], %r3;"},
    {"reduce4", "red.global.add.f32 [%d3], %f0;"},
};

std::string all_accesses() {
  std::string text;
  for (auto [name, access] : kAccesses) text += strided(name, access);
  return module(text);
}

unsigned size_of(const std::string &name) {
  return static_cast<unsigned>(std::stoul(name.substr(name.find_first_of("0123456789"))));
}

}  // namespace

TEST(every_byte_of_an_allocation_and_none_behind_it) {
  Device device;
  auto program = device.load(all_accesses());
  for (auto [name, access] : kAccesses) {
    const unsigned size = size_of(name);
    for (uint64_t elements : {1u, 3u, 15u, 32u, 63u, 64u, 65u, 100u, 128u, 1000u}) {
      const uint64_t bytes = elements * size;
      const uint64_t base = device.memory.allocate(bytes);
      auto run = [&](uint64_t address, uint64_t step, uint32_t lanes) {
        return device.launch(program, name, {1}, {32},
                             Parameters().add(address).add(step).add(lanes));
      };
      const uint64_t row = elements < 32 ? elements : 32;
      const auto lanes = static_cast<uint32_t>((uint64_t{1} << row) - 1);
      const uint64_t last_row = base + (elements - row) * size;
      CHECK_OK(run(base, size, lanes));
      CHECK_OK(run(last_row, size, lanes));
      CHECK_OK(run(base + bytes - size, 0, ~0u));
      if (elements >= 1000) CHECK_OK(run(base, 31 * size, ~0u));
      CHECK_FAILS(run(last_row + size, size, lanes), 700, "nearest allocation has");
      CHECK_FAILS(run(base + bytes, 0, ~0u), 700, "thread (0,0,0)");
      CHECK_FAILS(run(base - size, size, ~0u), 700, "thread (0,0,0)");
      if (row == 32) {
        CHECK_FAILS(run(last_row + size, size, ~0u), 700, "thread (31,0,0)");
        CHECK_OK(run(last_row + size, size, 0x7fffffff));
      }
      if (size > 1) {
        CHECK_FAILS(run(base + 1, size, 1), 716, "misaligned");
        if (elements >= 64)
          CHECK_FAILS(run(base + size / 2, size, 0xfffffff0), 716, "misaligned", "thread (4,0,0)");
      }
    }
  }
}

TEST(sizes_that_are_no_words) {
  Device device;
  auto program = device.load(all_accesses());
  for (uint64_t bytes : {1u, 2u, 3u, 5u, 250u, 251u, 252u, 253u, 254u, 255u, 256u, 257u, 511u}) {
    const uint64_t base = device.memory.allocate(bytes);
    auto run = [&](const char *name, uint64_t address) {
      return device.launch(program, name, {1}, {32},
                           Parameters().add(address).add(uint64_t{0}).add(~0u));
    };
    for (const char *name : {"load1", "store1"}) {
      CHECK_OK(run(name, base + bytes - 1));
      CHECK_FAILS(run(name, base + bytes), 700, "not allowed");
    }
    const uint64_t word = (base + bytes) & ~uint64_t{3};
    if (bytes % 4) CHECK_FAILS(run("load4", word), 700, "4 bytes");
    if (bytes >= 4) CHECK_OK(run("load4", word - 4));
  }
}

TEST(holes_and_freed_memory) {
  Device device;
  auto program = device.load(all_accesses());
  const uint64_t first = device.memory.allocate(4096), second = device.memory.allocate(4096);
  const uint64_t third = device.memory.allocate(4096);
  auto run = [&](const char *name, uint64_t step) {
    return device.launch(program, name, {1}, {32}, Parameters().add(first).add(step).add(~0u));
  };
  for (auto [name, access] : kAccesses) {
    CHECK_OK(run(name, 128));
    CHECK_FAILS(run(name, 256), 700, "thread (16,0,0)");  // into the hole behind the first
    CHECK_FAILS(run(name, second - first), 700, "thread (3,0,0)");
  }
  device.memory.free(second);
  for (auto [name, access] : kAccesses) {
    CHECK_OK(device.launch(program, name, {1}, {32},
                           Parameters().add(first).add(third - first).add(3u)));
    CHECK_FAILS(device.launch(program, name, {1}, {32},
                              Parameters().add(first).add(second - first).add(7u)),
                700, "thread (1,0,0)");
  }
}

TEST(constants_are_read_only) {
  Device device;
  auto program = device.load(module(
      ".const .align 4 .u32 fixed[64] = {1, 2, 3};\n.global .align 4 .u32 other[64];\n" +
      kernel("read", 1, "ld.const.u32 %r4, [fixed+4];" + store_result("%r4")) +
      kernel("generic", 1,
             "mov.u64 %d4, fixed; cvta.const.u64 %d4, %d4; ld.u32 %r4, [%d4+8];" +
                 store_result("%r4")) +
      kernel("write", 1, "mov.u64 %d4, fixed; cvta.const.u64 %d4, %d4; st.u32 [%d4], %r0;") +
      kernel("add", 1, "mov.u64 %d4, fixed; cvta.const.u64 %d4, %d4; red.add.u32 [%d4], 1;") +
      kernel("behind", 1,
             "mov.u64 %d4, fixed; mul.wide.u32 %d5, %r3, 4; add.s64 %d4, %d4, %d5;"
             "ld.const.u32 %r4, [%d4+4];") +
      kernel("elsewhere", 1, "mov.u64 %d4, other; ld.const.u32 %r4, [%d4];")));
  auto *out = device.array<uint32_t>(64);
  auto run = [&](const char *name) {
    return device.launch(program, name, {1}, {64}, Parameters().add(out));
  };
  CHECK_OK(run("read"));
  CHECK(out[0] == 2 && out[63] == 2);
  CHECK_OK(run("generic"));
  CHECK(out[0] == 3);
  CHECK_FAILS(run("write"), 700, "write of 4 bytes");
  CHECK_FAILS(run("add"), 700, "write of 4 bytes");
  CHECK_FAILS(run("behind"), 700, "thread (63,0,0)", "constant address");
  CHECK_FAILS(run("elsewhere"), 700, "constant address");
}

TEST(one_space_through_another) {
  Device device;
  const std::string depot = ".local .align 4 .b8 depot[16]; .shared .align 4 .b8 box[64];";
  auto program = device.load(module(
      kernel("global_as_local", 1, depot + "ld.local.u32 %r4, [%d0];") +
      kernel("global_as_shared", 1, depot + "st.shared.u32 [box], 1; ld.shared.u32 %r4, [%d0];") +
      kernel("local_as_global", 1,
             depot + "mov.u64 %d4, depot; cvta.local.u64 %d4, %d4; ld.global.u32 %r4, [%d4];") +
      kernel("shared_as_global", 1,
             depot + "mov.u64 %d4, box; cvta.shared.u64 %d4, %d4; ld.global.u32 %r4, [%d4];") +
      kernel("shared_as_generic", 1,
             depot + "mov.u64 %d4, box; cvta.shared.u64 %d4, %d4; mul.wide.u32 %d5, %r3, 4;"
                     "add.s64 %d4, %d4, %d5; ld.u32 %r4, [%d4];")));
  auto *data = device.array<uint32_t>(64);
  auto run = [&](const char *name, uint32_t threads = 32) {
    return device.launch(program, name, {1}, {threads}, Parameters().add(data));
  };
  CHECK_FAILS(run("global_as_local"), 700, "local address");
  CHECK_FAILS(run("global_as_shared"), 700, "shared address");
  CHECK_FAILS(run("local_as_global"), 700, "global address");
  CHECK_FAILS(run("shared_as_global"), 700, "global address");
  CHECK_OK(run("shared_as_generic", 16));
  CHECK_FAILS(run("shared_as_generic", 32), 700, "thread (16,0,0)");
}

TEST(parameters_end_where_they_end) {
  Device device;
  auto program = device.load(module(R"(
    .visible .entry k(.param .align 4 .b8 box[64], .param .u32 at, .param .u64 out) {
      .reg .b32 %r<4>; .reg .b64 %d<6>;
      ld.param.u32 %r0, [at]; ld.param.u64 %d0, [out]; mov.b64 %d1, box;
      mul.wide.s32 %d2, %r0, 4; add.s64 %d3, %d1, %d2; ld.param.u32 %r1, [%d3];
      st.global.u32 [%d0], %r1; ret; })"));
  struct Box {
    uint32_t words[16];
  } box = {};
  box.words[7] = 77;
  auto *out = device.array<uint32_t>(1);
  auto run = [&](int32_t at) {
    return device.launch(program, "k", {1}, {32}, Parameters().add(box).add(at).add(out));
  };
  CHECK_OK(run(7));
  CHECK(*out == 77);
  CHECK_FAILS(run(20), 700, "parameter address");
  CHECK_FAILS(run(-1), 700, "parameter address");
}
