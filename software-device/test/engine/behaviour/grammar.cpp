// What PTX says in other ways than nvcc writes it: the spellings of other compilers, of inline
// assembly, of programs written by hand and of old versions. The values are those of ptxas.
#include <bit>

#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

// What one thread of `named` stores at p0, as 32-bit words.
std::vector<uint32_t> words(size_t count, const std::string &body,
                            const std::string &globals = "") {
  Device device(1);
  auto program = device.load(module(globals + kernel("named", 1, body)));
  auto *out = device.array<uint32_t>(64);
  if (!program)
    check::fail(__FILE__, __LINE__, "not loaded: " + body);
  else
    CHECK_OK(device.launch(program, "named", {1}, {1}, Parameters().add(out)));
  return {out, out + count};
}

uint64_t double_word(const std::vector<uint32_t> &words, size_t at) {
  return words[at] | static_cast<uint64_t>(words[at + 1]) << 32;
}

softdev::Status translate(const std::string &body, const std::string &globals = "") {
  Device device(1);
  softdev::Status status;
  auto program = device.load(module(globals + kernel("named", 1, body)), &status);
  return program ? program->find_kernel("named")->translate() : status;
}

using Words = std::vector<uint32_t>;

}  // namespace

TEST(addresses_of_elements) {
  // Counted by what the array is made of, also where that is a vector.
  CHECK(words(6, R"(
    .shared .align 4 .b8 pad[64]; .shared .align 16 .b8 bytes[64]; .shared .align 16 .f32 floats[16];
    .shared .v4 .f32 quads[4];
    mov.u32 %r4, pad; mov.u32 %r4, bytes[0]; mov.u32 %r5, bytes[8]; sub.u32 %r5, %r5, %r4;
    st.global.u32 [%d0], %r5;
    mov.u32 %r4, floats; mov.u32 %r5, floats[3]; sub.u32 %r5, %r5, %r4; st.global.u32 [%d0+4], %r5;
    mov.u32 %r5, floats[-2*1]; sub.u32 %r5, %r5, %r4; st.global.u32 [%d0+8], %r5;
    mov.u32 %r5, quads; mov.u32 %r6, quads[2]; sub.u32 %r6, %r6, %r5; st.global.u32 [%d0+12], %r6;
    mov.u64 %d5, floats; mov.u64 %d6, floats[WARP_SZ/4]; sub.u64 %d6, %d6, %d5;
    st.global.u64 [%d0+16], %d6;)") == Words({8, 12, 0xfffffff8u, 8, 32, 0}));
  const char *table =
      ".global .u32 table[8] = {10, 11, 12, 13, 14, 15, 16, 17};\n"
      ".const .u16 small[4] = {20, 21, 22, 23};\n";
  CHECK(words(6, R"(
    mov.u64 %d5, table[5]; ld.global.u32 %r4, [%d5]; st.global.u32 [%d0], %r4;
    cvta.global.u64 %d6, table[6]; ld.u32 %r5, [%d6]; st.global.u32 [%d0+4], %r5;
    ld.global.u32 %r6, table[7]; st.global.u32 [%d0+8], %r6;
    ld.u32 %r7, table[2]; st.global.u32 [%d0+12], %r7;
    ld.const.u16 %r8, small[3]; st.global.u32 [%d0+16], %r8;
    st.global.v2.u32 table[4], {%r4, %r5}; ld.global.u32 %r9, [table+20];
    st.global.u32 [%d0+20], %r9;)",
              table) == Words({15, 16, 17, 12, 23, 16}));
  // By register: 32 bits of it, without a sign.
  CHECK(words(6, R"(
    mov.u32 %r4, 3; mov.u64 %d4, 0x700000002; mov.u16 %h4, 1;
    ld.global.u32 %r5, table[%r4]; st.global.u32 [%d0], %r5;
    ld.global.u32 %r6, table[%d4]; st.global.u32 [%d0+4], %r6;
    ld.global.u32 %r7, table[%r4+2]; st.global.u32 [%d0+8], %r7;
    mov.u64 %d5, table[%r4+1]; ld.global.u32 %r8, [%d5]; st.global.u32 [%d0+12], %r8;
    .shared .f64 doubles[9]; mov.u32 %r9, doubles[%r4]; mov.u32 %r10, doubles;
    sub.u32 %r9, %r9, %r10; st.global.u32 [%d0+16], %r9;
    .local .u32 own[4]; st.local.u32 own[2], %r4; mov.u32 %r11, 2; ld.local.u32 %r12, own[%r11];
    st.global.u32 [%d0+20], %r12;)",
              table) == Words({13, 12, 15, 14, 24, 3}));
  CHECK_FAILS(translate("mov.u64 %d4, table[%h99];", table), 218, "expected a register");
  CHECK_FAILS(translate("mov.u64 %d4, table[1;", table), 218, "expected ']'");
  CHECK_FAILS(translate(".local .u32 own[4]; ld.local.u32 %r1, own[4];"), 218, "outside of 'own'");
  CHECK_FAILS(translate("mov.u64 %d4, nothing[1];"), 218, "unknown name 'nothing'");
}

TEST(vectors_of_one_element) {
  CHECK(words(3, R"(
    .shared .align 4 .f32 box[4]; mov.u32 %r4, box; mov.f32 %f2, 0f40400000;
    st.shared.f32 [%r4], {%f2}; ld.shared.f32 {%f3}, [box]; st.global.f32 [%d0], {%f3};
    st.global.u32 [%d0+4], {7}; ld.global.cg.u32 {%r5}, [%d0+4]; st.global.u32 [%d0+8], {%r5};)") ==
        Words({0x40400000, 7, 7}));
  CHECK_FAILS(translate("ld.global.u32 {%r4, %r5}, [%d0];"), 218, "vector length");
  CHECK_FAILS(translate("ld.global.v2.u32 {%r4}, [%d0];"), 218, "vector length");
  CHECK_FAILS(translate("mov.u32 {%r4}, %r5;"), 218, "elements");
}

TEST(registers_that_are_vectors) {
  CHECK(words(8, R"(
    .reg .v4 .u32 v, w<3>; .reg .v2 .b32 pair; .reg .v4 .b16 parts;
    mov.u32 v.x, 1; mov.u32 v.y, 2; mov.u32 v.b, 3; mov.u32 v.a, 4;
    st.global.v4.u32 [%d0], v; ld.global.v4.u32 w2, [%d0];
    add.u32 w1.r, w2.w, w2.z; st.global.u32 [%d0+16], w1.x;
    mov.b64 pair, 0x500000006; mov.b64 %d5, pair; shr.u64 %d5, %d5, 32;
    st.global.u32 [%d0+20], %d5;
    mov.v2.u32 pair, {v.y, w2.x}; mov.v2.b32 {pair.y, pair.x}, pair;
    st.global.v2.u32 [%d0+24], pair;)") == Words({1, 2, 3, 4, 7, 5, 1, 2}));
  CHECK_FAILS(translate(".reg .v2 .u32 v; mov.u32 v.z, 1;"), 218, "no part 'z'");
  CHECK_FAILS(translate(".reg .v2 .u32 v; add.u32 v, v, v;"), 218, "must be a register");
}

TEST(constant_expressions_have_types) {
  // One unsigned operand makes an operator unsigned; % and ~ always are; & | ^ as others.
  CHECK(words(16, R"(
    mov.s64 %d4, -7 / 2U; st.global.u64 [%d0], %d4;
    mov.s64 %d4, -7 % 3; st.global.u64 [%d0+8], %d4;
    mov.s64 %d4, ~0 >> 60; st.global.u64 [%d0+16], %d4;
    mov.s64 %d4, (.u64)-1 >> 60; st.global.u64 [%d0+24], %d4;
    mov.s64 %d4, 0xffffffffffffffff / 16; st.global.u64 [%d0+32], %d4;
    mov.s64 %d4, 1 << 65; st.global.u64 [%d0+40], %d4;
    mov.s64 %d4, (-1 & -1) >> 1; st.global.u64 [%d0+48], %d4;
    mov.s64 %d4, (0 ? -1 : 1U) - 2 >> 63; st.global.u64 [%d0+56], %d4;)") ==
        Words({0xfffffffc, 0x7fffffff, 0, 0, 15, 0, 15, 0, 0xffffffff, 0x0fffffff, 2, 0, 0xffffffff,
               0xffffffff, 1, 0}));
  CHECK(words(10, R"(
    mov.u32 %r4, 2 * WARP_SZ; st.global.u32 [%d0], %r4;
    mov.u32 %r4, WARP_SZ - 1; st.global.u32 [%d0+4], %r4;
    mov.u32 %r4, -WARP_SZ; st.global.u32 [%d0+8], %r4;
    add.u32 %r4, %r4, (WARP_SZ); st.global.u32 [%d0+12], %r4;
    mov.u32 %r4, 1.5 < 2.5; st.global.u32 [%d0+16], %r4;
    mov.u32 %r4, 1 < 2 ? 1 == 2 ? 3 : 4 : 5; st.global.u32 [%d0+20], %r4;
    mov.u32 %r4, 017 | 0b1000000 | 0x100U; st.global.u32 [%d0+24], %r4;
    .shared .b32 box[WARP_SZ * 2]; mov.u32 %r4, box[WARP_SZ]; mov.u32 %r5, box;
    sub.u32 %r4, %r4, %r5; st.global.u32 [%d0+28], %r4;
    ld.global.u32 %r4, [%d0+WARP_SZ/8]; st.global.u32 [%d0+32], %r4;
    mov.u32 %r4, -1 < 0U; st.global.u32 [%d0+36], %r4;)") ==
        Words({64, 31, 0xffffffe0, 0, 1, 4, 0x14f, 128, 31, 0}));
  CHECK_FAILS(translate("mov.u32 %r4, 1 / 0;"), 218, "out of range");
  CHECK_FAILS(translate("mov.u32 %r4, 1 % 0;"), 218, "out of range");
  CHECK_FAILS(translate("mov.f32 %f1, 1.0 * 2;"), 218, "types");
  CHECK_FAILS(translate("mov.f32 %f1, 1.5 % 1.0;"), 218, "integer");
  CHECK_FAILS(translate("mov.u32 %r4, 0x;"), 218, "expected a constant");
}

TEST(floating_point_constants) {
  auto is = [](float value) { return std::bit_cast<uint32_t>(value); };
  CHECK(words(9, R"(
    mov.f32 %f1, 1.; st.global.f32 [%d0], %f1; mov.f32 %f1, .5; st.global.f32 [%d0+4], %f1;
    mov.f32 %f1, 1.e5; st.global.f32 [%d0+8], %f1; mov.f32 %f1, +25E-1; st.global.f32 [%d0+12], %f1;
    mov.f32 %f1, 1.0+2.0; st.global.f32 [%d0+16], %f1;
    mov.f32 %f1, -(1.0/3.0); st.global.f32 [%d0+20], %f1;
    mov.f32 %f1, .5e1; st.global.f32 [%d0+24], %f1;
    mov.f32 %f1, 0D3ff8000000000000; st.global.f32 [%d0+28], %f1;
    mov.f32 %f1, 0F3F800000; st.global.f32 [%d0+32], %f1;)") ==
        Words({is(1), is(0.5), is(1e5), is(2.5), is(3), is(-1.0f / 3.0f), is(5), is(1.5), is(1)}));
  CHECK_FAILS(translate("mov.f64 %d4, 1e400;"), 218, "expected a constant");
}

TEST(initialisers_of_all_kinds) {
  CHECK(words(12, R"(
    ld.global.u64 %d4, [bytes]; mov.u64 %d5, target+4; sub.u64 %d4, %d4, %d5; st.global.u64 [%d0], %d4;
    ld.global.u32 %r4, [bits]; st.global.u32 [%d0+8], %r4;
    ld.global.u32 %r4, [bits+4]; st.global.u32 [%d0+12], %r4;
    ld.global.u64 %d4, [wide]; st.global.u64 [%d0+16], %d4;
    ld.global.u64 %d4, [wide+8]; st.global.u64 [%d0+24], %d4;
    ld.global.u64 %d4, [sums]; st.global.u64 [%d0+32], %d4;
    ld.global.f32 %f1, [single]; st.global.f32 [%d0+40], %f1;
    ld.global.u8 %r4, [byte]; st.global.u32 [%d0+44], %r4;)",
              R"(
    .global .u32 target[4];
    .global .align 8 .u8 bytes[8] = {0xff(target+4), 0xFF00(target+4), 0xFF0000(target+4),
      0xFF000000(target+4), 0xFF00000000(target+4), 0xFF0000000000(target+4),
      0xFF000000000000(target+4), 0xFF00000000000000(target+4)};
    .global .b32 bits[2] = {1.0, 0d3ff0000000000000};
    .global .b64 wide[2] = {1.5, 0f3f800000};
    .global .s64 sums[1] = {WARP_SZ * 2 - 65};
    .global .f32 single = -(1.0 + .5);
    .global .s8 byte = -200;
    )") == Words({0, 0, 0x3f800000, 0x3f800000, 0, 0x3ff80000, 0x3f800000, 0, 0xffffffff,
                  0xffffffff, 0xbfc00000, 56}));
  CHECK_FAILS(translate("", ".global .u32 x = 1.5;\n"), 218, "integer belongs");
  CHECK_FAILS(translate("", ".global .u8 y; .global .u8 x = 0xf0(y);\n"), 218, "one byte");
  CHECK_FAILS(translate("", ".global .u8 y; .global .u16 x = y;\n"), 218, "32 or 64 bits");
}

TEST(names_labels_and_white_space) {
  CHECK(words(5,
              "\r\n.reg\t.align 4 .b32 add, ld, a<3>, a, %$x;\r\n"
              "bra %L; trap; %L: $1: ret_: mov.u32 add, 1; mov\n.u32 ld , /* , */ 2 // ;\n;"
              "mov.u32 a, 3; mov.u32 a01, 4; mov.u32 a2,%laneid;mov.u32 %$x, %ntid /**/ .x;\n"
              "# 12 \"file.cu\"\n  #line 13 \"file.cu\" 1 3\n"
              "st.global.v4.u32 [ %d0 ], {add,ld,a,a1};st.global.u32 [%d0+16], %$x;") ==
        Words({1, 2, 3, 4, 1}));
  CHECK_FAILS(translate("# pragma once\n"), 218, "expected an instruction");
}

TEST(arguments_and_results_that_are_registers) {
  const char *functions = R"(
    .func (.reg .b32 sum, .reg .b64 wide) both(.reg .b32 a, .reg .b64 b, .param .b32 c) {
      .reg .b32 t; .reg .pred p; ld.param.b32 t, [c]; setp.eq.u32 p, t, 9;
      cvt.u32.u64 sum, b; add.u32 sum, sum, a; mov.b64 wide, b; add.u32 sum, sum, t;
      @p ret; add.u64 wide, wide, 1; }
    .func (.param .b32 out) one(.param .b32 n) {
      .reg .b32 t; ld.param.u32 t, [n]; add.u32 t, t, 100; st.param.b32 [out], t; ret; }
    .func (.param .b32 out) two(.param .b32 n) {
      .reg .b32 t; ld.param.u32 t, [n]; add.u32 t, t, 200; st.param.b32 [out], t; ret; }
    .global .u64 table[2] = {one, two};
    .func (.reg .f32 r) halve(.reg .f32 f) { mul.f32 r, f, 0f3f000000; ret; }
    .func (.reg .b32 r) fact(.reg .b32 n) { .reg .pred p; .reg .b32 m; setp.lt.u32 p, n, 2;
      mov.b32 r, 1; @p bra END; sub.u32 m, n, 1; call (r), fact, (m); mul.lo.u32 r, r, n; END: }
    )";
  CHECK(words(12, R"(
    mov.u32 %r4, 5; mov.u64 %d4, 6; .param .b32 c; st.param.b32 [c], 9;
    call.uni (%r5, %d5), both, (%r4, %d4, c); st.global.u32 [%d0], %r5; st.global.u64 [%d0+8], %d5;
    call (%r5, %d5), both, (1, 2, 3); st.global.u32 [%d0+4], %r5; st.global.u64 [%d0+16], %d5;
    call (_, %d5), both, (1, 3, 9); st.global.u32 [%d0+24], %d5;
    call (%f1), halve, (3.0); st.global.f32 [%d0+28], %f1;
    call (%r6), one, (%r4); st.global.u32 [%d0+32], %r6;
    mov.u64 %d6, two; prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (%r6), %d6, (%r4), prototype; st.global.u32 [%d0+36], %r6;
    ld.global.u64 %d6, [table]; call (%r6), %d6, (7), table; st.global.u32 [%d0+40], %r6;
    setp.eq.u32 %p1, %r4, 4; mov.u32 %r7, 1; @%p1 call (%r7), one, (%r4); call (%r8), fact, (6);
    add.u32 %r7, %r7, %r8; st.global.u32 [%d0+44], %r7;)",
              functions) == Words({20, 6, 6, 0, 3, 0, 3, 0x3fc00000, 105, 205, 107, 721}));
  CHECK_FAILS(translate("call f, (%p1);", ".func f(.reg .pred p) { ret; }\n"), 218, "type");
  CHECK_FAILS(translate("call f, (%r1);", ".func f(.param .b8 p[4]) { ret; }\n"), 218, ".param");
  CHECK_FAILS(translate("call f, (%d1);", ".func f(.reg .b32 p) { ret; }\n"), 218, "wrong size");
}

TEST(directives_that_change_nothing) {
  CHECK_OK(translate(".loc_intermediate 1 2 3\n call f;", R"(
    .func f() .abi_preserve 10 .abi_preserve_control 2 { ret; }
    .global .samplerref s = { addr_mode_0 = clamp_to_edge, filter_mode = nearest };
    # 1 "module.ptx"
    )"));
}

TEST(doubles_are_read_back) {
  CHECK(double_word(words(2, "mov.b64 %d4, 1.0 + 1.0; st.global.u64 [%d0], %d4;"), 0) ==
        std::bit_cast<uint64_t>(2.0));
}
