// Address spaces, atomics, variables, and accesses that are not allowed.
#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

TEST(vectors_and_extensions) {
  Device device;
  auto program = device.load(module(kernel("k", 2, R"(
    mul.wide.u32 %d4, %r3, 16; add.s64 %d5, %d1, %d4; add.s64 %d6, %d0, %d4;
    ld.global.nc.v4.u32 {%r4, %r5, %r6, %r7}, [%d5]; st.global.v4.u32 [%d6], {%r7, %r6, %r5, %r4};
    ld.global.s8 %r8, [%d5]; ld.global.u8 %r9, [%d5]; ld.global.s16 %d7, [%d5];
    setp.ne.u32 %p0, %r3, 3; @%p0 bra END;
    st.global.s32 [%d6], %r8; st.global.u32 [%d6+4], %r9; st.global.u64 [%d6+8], %d7;
    END:)")));
  auto *out = device.array<uint32_t>(256), *in = device.array<uint32_t>(256);
  for (uint32_t i = 0; i < 256; ++i) in[i] = 0x01020380 + i * 0x10001;
  CHECK_OK(device.launch(program, "k", {1}, {64}, Parameters().add(out).add(in)));
  CHECK(out[0] == in[3] && out[3] == in[0] && out[101] == in[102]);
  CHECK(static_cast<int32_t>(out[12]) == static_cast<int8_t>(in[12]));
  CHECK(out[13] == (in[12] & 0xff));
  int64_t wide;
  std::memcpy(&wide, out + 14, 8);
  CHECK(wide == static_cast<int16_t>(in[12]));
}

TEST(local_memory_belongs_to_each_thread) {
  Device device;
  auto program = device.load(module(kernel("k", 1,
                                           R"(
    .local .align 4 .b8 depot[64]; .reg .b64 sp, spl;
    mov.u64 spl, depot; cvta.local.u64 sp, spl;
    and.b32 %r4, %r0, 15; mul.wide.u32 %d4, %r4, 4; add.s64 %d5, sp, %d4; st.u32 [%d5], %r3;
    add.s64 %d6, spl, %d4; ld.local.u32 %r5, [%d6]; ld.local.u32 %r6, [depot+4];
    isspacep.local %p0, %d5; @!%p0 trap; isspacep.global %p1, %d5; @%p1 trap;
    cvta.to.local.u64 %d7, %d5; ld.local.u32 %r5, [%d7];)" +
                                               store_result("%r5"))));
  auto *out = device.array<uint32_t>(128);
  CHECK_OK(device.launch(program, "k", {1}, {128}, Parameters().add(out)));
  for (uint32_t i = 0; i < 128; ++i) CHECK(out[i] == i);
}

TEST(shared_memory_static_dynamic_and_generic) {
  Device device;
  auto program = device.load(
      module(".extern .shared .align 16 .b8 dynamic[];\n.shared .align 8 .b8 fixed[40];\n" +
             kernel("k", 1, R"(
      mov.u32 %r4, dynamic; cvt.u64.u32 %d4, %r4; cvta.shared.u64 %d5, %d4;
      mul.wide.u32 %d6, %r0, 4; add.s64 %d7, %d5, %d6; st.u32 [%d7], %r0;
      isspacep.shared %p0, %d7; @!%p0 trap;
      st.shared.u32 [fixed+36], 7; bar.sync 0;
      cvta.to.shared.u64 %d8, %d7; ld.shared.u32 %r5, [%d8]; ld.shared.u32 %r6, [fixed+36];
      add.s32 %r5, %r5, %r6; mov.u32 %r7, %dynamic_smem_size; add.s32 %r5, %r5, %r7;
      )" + store_result("%r5"))));
  CHECK_OK(program->find_kernel("k")->translate());
  CHECK(program->find_kernel("k")->attributes().static_shared == 48);
  auto *out = device.array<uint32_t>(64);
  CHECK_OK(device.launch(program, "k", {1}, {64}, Parameters().add(out), 256));
  for (uint32_t i = 0; i < 64; ++i) CHECK(out[i] == i + 7 + 256);
}

TEST(variables_with_initialisers) {
  Device device;
  auto program = device.load(module(R"(
    .visible .global .align 4 .u32 word = 0x12345678;
    .global .align 4 .b8 bytes[8] = {1, 2, 255, 4};
    .global .align 4 .f32 floats[3] = {0f3F800000, 2.5, -1.0};
    .const .align 8 .f64 doubles[2] = {0d3FF0000000000000, 0.25};
    .global .align 8 .s64 minus = -5;
    .global .align 8 .u64 pointer = generic(bytes)+2;
    .global .align 8 .u64 pointers[2] = {word, floats+8};
    .global .align 2 .u16 table[2][2] = {{1, 2}, {3, 4}};
    .global .align 1 .b8 address[8] = {0xff(word), 0xff00(word), 0xff0000(word), 0xff000000(word),
      0xff00000000(word), 0xff0000000000(word), 0xff000000000000(word), 0xff00000000000000(word)};
    )" + kernel("k", 1, R"(
    ld.global.u64 %d4, [pointer]; ld.global.u8 %r4, [%d4]; ld.global.u64 %d5, [pointers];
    ld.global.u32 %r5, [%d5]; ld.const.f64 %d6, [doubles+8]; ld.global.u16 %r6, [table+6];
    st.global.u32 [%d0], %r4; st.global.u32 [%d0+4], %r5; st.global.u64 [%d0+8], %d6;
    st.global.u32 [%d0+16], %r6; ld.global.u32 %r7, [word]; st.global.u32 [%d0+20], %r7;)")));
  CHECK(program != nullptr);
  auto *out = device.array<uint32_t>(8);
  CHECK_OK(device.launch(program, "k", {1}, {1}, Parameters().add(out)));
  double quarter;
  std::memcpy(&quarter, out + 2, 8);
  CHECK(out[0] == 255 && out[1] == 0x12345678 && quarter == 0.25 && out[4] == 4);
  uint64_t word = 0, spelled = 0;
  for (const softdev::Variable &variable : program->variables()) {
    const void *at = reinterpret_cast<const void *>(variable.address);
    if (variable.name == "word") word = variable.address;
    if (variable.name == "address") std::memcpy(&spelled, at, 8);
    if (variable.name == "floats") CHECK(static_cast<const float *>(at)[2] == -1.0f);
    if (variable.name == "minus") CHECK(*static_cast<const int64_t *>(at) == -5);
    if (variable.name == "doubles") CHECK(variable.constant && variable.size == 16);
  }
  CHECK(word != 0 && word == spelled);
}

TEST(constant_expressions) {
  Device device(1);
  auto program = device.load(module(R"(
    .global .s32 x[12] = {1<<4, (3|8)^1, -7+2, ~0, 3 > 2 ? 10 : 20, (4 == 4) && !0, (.s64)5 * 2,
                          9/2-1, 0x10U | 0b1, -1 >> 1, 2 - 3 - 4, 1 + 2 << 3 == 24 ? 7 : 8};
    .global .f32 f[3] = {-1.5, 2, -0f3F800000};
    )") + kernel("k", 1, "mov.u32 %r4, (1<<5)|3; st.global.u32 [%d0+(2+2)*2], %r4;"));
  CHECK(program != nullptr);
  const int32_t expected[12] = {16, 10, -5, -1, 10, 1, 10, 3, 17, -1, -5, 7};
  CHECK(std::memcmp(reinterpret_cast<void *>(program->variables()[0].address), expected,
                    sizeof expected) == 0);
  const float numbers[3] = {-1.5f, 2.0f, -1.0f};
  CHECK(std::memcmp(reinterpret_cast<void *>(program->variables()[1].address), numbers,
                    sizeof numbers) == 0);
  auto *out = device.array<uint32_t>(4);
  CHECK_OK(device.launch(program, "k", {1}, {1}, Parameters().add(out)));
  CHECK(out[2] == 35);
}

TEST(atomics_from_many_blocks) {
  Device device;
  auto program = device.load(module(".shared .align 4 .u32 local_sum;\n" + kernel("k", 1, R"(
      atom.global.add.u32 %r4, [%d0], 1; red.global.add.u64 [%d0+8], 3;
      atom.global.max.s32 %r5, [%d0+16], %r3; atom.global.min.u32 %r5, [%d0+20], %r3;
      mov.f32 %f0, 0f3F000000; atom.global.add.f32 %f1, [%d0+24], %f0;
      atom.global.inc.u32 %r6, [%d0+28], 9; atom.global.dec.u32 %r6, [%d0+32], 9;
      atom.global.or.b32 %r7, [%d0+36], 5; atom.global.xor.b32 %r7, [%d0+40], 1;
      mov.b64 %d5, 0d3FE0000000000000; red.global.add.f64 [%d0+48], %d5;
      setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [local_sum], 0; bar.sync 0;
      atom.shared.add.u32 %r8, [local_sum], 2; bar.sync 0;
      ld.shared.u32 %r9, [local_sum]; @%p0 red.global.add.u32 [%d0+56], %r9;)")));
  auto *out = device.array<uint32_t>(32);
  out[5] = 77;
  CHECK_OK(device.launch(program, "k", {100}, {100}, Parameters().add(out)));
  uint64_t sum;
  std::memcpy(&sum, out + 2, 8);
  float halves;
  std::memcpy(&halves, out + 6, 4);
  double more;
  std::memcpy(&more, out + 12, 8);
  CHECK(out[0] == 10000 && sum == 30000 && out[4] == 9999 && out[5] == 0 && halves == 5000.0f);
  CHECK(out[7] == 0 && out[8] == 0 && out[9] == 5 && out[10] == 0 && more == 5000.0);
  CHECK(out[14] == 20000);
}

TEST(compare_and_swap_of_16_bits) {
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    AGAIN: ld.volatile.global.u16 %h0, [%d0+2]; add.s16 %h1, %h0, 1;
    atom.global.cas.b16 %h2, [%d0+2], %h0, %h1; setp.ne.u16 %p0, %h2, %h0; @%p0 bra AGAIN;)")));
  auto *out = device.array<uint16_t>(4);
  CHECK_OK(device.launch(program, "k", {8}, {64}, Parameters().add(out)));
  CHECK(out[1] == 512 && out[0] == 0 && out[2] == 0);
}

// ---- what is not allowed

namespace {
softdev::Status touch(const std::string &body, uint64_t address, uint32_t shared = 0,
                      const std::string &globals = "") {
  Device device;
  auto program = device.load(module(globals + kernel("bad", 1, body)));
  return device.launch(program, "bad", {2}, {64}, Parameters().add(address), shared);
}
}  // namespace

TEST(global_faults) {
  Device device;
  auto program = device.load(
      module(kernel("write", 1,
                    "mul.wide.u32 %d4, %r3, 4; add.s64 %d4, %d0, %d4;\nst.global.u32 [%d4], 1;") +
             kernel("read", 1,
                    "mul.wide.u32 %d4, %r3, 4; add.s64 %d4, %d0, %d4; ld.global.u32 %r4, [%d4];") +
             kernel("wide", 1, "ld.global.u64 %d4, [%d0];") +
             kernel("add", 1, "red.global.add.u32 [%d0], 1;") +
             kernel("generic", 1, "ld.u32 %r4, [%d0];")));
  uint64_t array = device.memory.allocate(2097152);
  uint64_t end = array + 2097152;
  uint64_t constant = device.memory.allocate(4096, 1);
  int host = 0;
  auto run = [&](const char *name, uint64_t address) {
    return device.launch(program, name, {1}, {64}, Parameters().add(address));
  };
  CHECK_OK(run("write", end - 256));
  CHECK_FAILS(run("write", end - 4 * 33), 700, "kernel write", "block (0,0,0)", "thread (33,0,0)",
              "line", "st.global.u32 [%d4], 1", "write of 4 bytes",
              "nearest allocation has 2097152");
  CHECK_FAILS(run("read", end), 700, "read of 4 bytes", "thread (0,0,0)");
  CHECK_FAILS(run("read", array - 4), 700, "not allowed");
  CHECK_FAILS(run("read", 0), 700, "0x0");
  CHECK_FAILS(run("generic", 0), 700, "0x0");
  CHECK_FAILS(run("generic", reinterpret_cast<uint64_t>(&host)), 700, "not allowed");
  CHECK_FAILS(run("write", reinterpret_cast<uint64_t>(&host)), 700, "not allowed");
  CHECK_FAILS(run("read", ~uint64_t{0} - 3), 700, "not allowed");
  CHECK_FAILS(run("read", array + 2), 716, "misaligned");
  CHECK_FAILS(run("wide", array + 4), 716, "misaligned");
  CHECK_FAILS(run("add", array + 1), 716, "misaligned");
  CHECK_FAILS(run("add", end), 700, "not allowed");
  CHECK_OK(run("read", constant));
  CHECK_FAILS(run("write", constant), 700, "write");
  CHECK_FAILS(run("add", constant), 700, "write");
  softdev::Status status = run("write", 0);
  CHECK(status.sticky);
  CHECK_OK(run("write", array));  // the engine itself goes on
}

// Each instruction that reads or writes shared memory, at the last place that it may and at the one
// behind: of the bytes that were asked for, or of the units that hold them.
TEST(shared_memory_is_handed_out_in_units) {
  static const char *const kAccesses[][2] = {
      {"1", "ld.shared.u8 %r5, [%r4];"},
      {"4", "ld.shared.u32 %r5, [%r4];"},
      {"8", "ld.shared.u64 %d5, [%r4];"},
      {"16", "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r4];"},
      {"1", "st.shared.u8 [%r4], %r0;"},
      {"4", "st.shared.u32 [%r4], %r0;"},
      {"16", "st.shared.v4.u32 [%r4], {%r5, %r6, %r7, %r8};"},
      {"4",
       "shl.b32 %r5, %r0, 2; sub.s32 %r4, %r4, 124; add.s32 %r4, %r4, %r5;"
       "ld.shared.u32 %r6, [%r4];"},  // a row of which thread 31 has the highest
      {"4", "atom.shared.add.u32 %r5, [%r4], 1;"},
      {"8", "red.shared.add.u64 [%r4], 1;"},
      {"4", "cvt.u64.u32 %d5, %r4; cvta.shared.u64 %d5, %d5; ld.u32 %r5, [%d5];"},
      {"4", "cvt.u64.u32 %d5, %r4; cvta.shared.u64 %d5, %d5; st.u32 [%d5], %r5;"},
      {"4", "cvt.u64.u32 %d5, %r4; cvta.shared.u64 %d5, %d5; atom.add.u32 %r5, [%d5], 1;"},
      {"4", "cp.async.ca.shared.global [%r4], [%d1], 4;"},
      {"8", "mbarrier.init.shared.b64 [%r4], 1;"},
      {"16", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4];"},
  };
  std::string text;
  for (size_t i = 0; i < std::size(kAccesses); ++i)
    text +=
        kernel("k" + std::to_string(i), 2, std::string("cvt.u32.u64 %r4, %d0;") + kAccesses[i][1]);
  Device device(1);
  auto program = device.load(module(text));
  auto *data = device.array<uint32_t>(4);
  for (const bool exact : {true, false}) {
    device.exact_shared = exact;
    for (const uint32_t unit : {128u, 256u}) {
      device.shared_unit = unit;
      for (const uint32_t asked : {16u, 128u, 144u, 256u, 272u, 99u << 10}) {
        const uint64_t end = exact ? asked : (asked + unit - 1) / unit * unit;
        for (size_t i = 0; i < std::size(kAccesses); ++i) {
          const std::string name = "k" + std::to_string(i);
          const uint64_t size = std::stoul(kAccesses[i][0]);
          const bool row = i == 7;
          if (row && end < 128) continue;
          auto run = [&](uint64_t at) {
            return device.launch(program, name.c_str(), {2}, {32}, Parameters().add(at).add(data),
                                 asked);
          };
          CHECK_OK(run(end - size));
          CHECK_FAILS(run(end), 700, row ? "thread (31,0,0)" : "thread (0,0,0)");
        }
      }
    }
    // Who asks for none has none.
    CHECK_FAILS(device.launch(program, "k1", {1}, {1}, Parameters().add(uint64_t{0}).add(data)),
                700, "0 bytes of shared memory");
  }
}

TEST(shared_and_local_faults) {
  const std::string globals = ".shared .align 4 .b8 box[128];\n";
  CHECK_OK(touch("st.shared.u32 [box+124], 1;", 0, 0, globals));
  CHECK_FAILS(touch("st.shared.u32 [box], 1; shl.b32 %r4, %r0, 2; st.shared.u32 [%r4+4], 1;", 0,
                    128 - 4, globals),
              700, "shared", "thread (62,0,0)", "252 bytes of shared memory");
  CHECK_FAILS(touch("mov.u32 %r4, -4; ld.shared.u32 %r5, [%r4];", 0, 0, globals), 700, "shared");
  CHECK_FAILS(
      touch("st.shared.u32 [box], 1; mov.u32 %r4, 2; ld.shared.u32 %r5, [%r4];", 0, 0, globals),
      716, "misaligned");
  CHECK_FAILS(touch("mov.u32 %r4, 128; atom.shared.add.u32 %r5, [%r4], 1;", 0, 0, globals), 700,
              "shared");
  CHECK_FAILS(
      touch(".local .align 4 .b8 depot[16]; mov.u64 %d4, depot; ld.local.u32 %r4, [%d4+64];", 0),
      700, "local");
  CHECK_FAILS(
      touch(".local .align 4 .b8 depot[16]; mov.u64 %d4, depot; ld.local.u32 %r4, [%d4-4];", 0),
      700, "local");
  // A pointer to one lane's stack does not open another's.
  CHECK_FAILS(touch(".local .align 4 .b8 depot[64]; mov.u64 %d4, depot; add.s64 %d4, %d4, 64;"
                    " ld.u32 %r4, [%d4];",
                    0),
              700, "not allowed");
}

TEST(traps) {
  CHECK_FAILS(touch("setp.eq.u32 %p0, %r3, 70; @%p0 trap;", 0), 719, "trap", "block (1,0,0)",
              "thread (6,0,0)");
  CHECK_FAILS(touch("mov.u32 %r4, 16; barrier.sync %r4;", 0), 715, "barrier");
}

TEST(launches_that_cannot_be) {
  Device device;
  auto program = device.load(module(kernel("k", 0, "")));
  CHECK_FAILS(device.launch(program, "k", {1}, {1025}, Parameters()), 1, "1024");
  CHECK_FAILS(device.launch(program, "k", {0}, {32}, Parameters()), 1, "grid");
  CHECK_FAILS(device.launch(program, "k", {1}, {32}, Parameters(), 1 << 20), 1, "shared");
  CHECK_OK(device.launch(program, "k", {3, 5, 7}, {4, 8, 16}, Parameters()));
}

TEST(thread_and_block_numbers_in_three_dimensions) {
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    mov.u32 %r4, %tid.x; mov.u32 %r5, %tid.y; mov.u32 %r6, %tid.z;
    mov.u32 %r7, %ntid.x; mov.u32 %r8, %ntid.y;
    mad.lo.s32 %r9, %r6, %r8, %r5; mad.lo.s32 %r9, %r9, %r7, %r4;
    mov.u32 %r10, %ctaid.x; mov.u32 %r11, %ctaid.y; mov.u32 %r12, %ctaid.z;
    mov.u32 %r13, %nctaid.x; mov.u32 %r14, %nctaid.y;
    mad.lo.s32 %r15, %r12, %r14, %r11; mad.lo.s32 %r15, %r15, %r13, %r10;
    mad.lo.s32 %r3, %r15, 30, %r9;
    mov.u32 %r16, %laneid; mov.u32 %r17, %warpid; mad.lo.s32 %r16, %r17, 32, %r16;
    add.s32 %r16, %r16, %r15;)" + store_result("%r16"))));
  auto *out = device.array<uint32_t>(30 * 24);
  CHECK_OK(device.launch(program, "k", {2, 3, 4}, {5, 3, 2}, Parameters().add(out)));
  bool right = true;
  for (uint32_t i = 0; i < 30 * 24; ++i) right &= out[i] == i % 30 + i / 30;
  CHECK(right);
}
