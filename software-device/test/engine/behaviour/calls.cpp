// Functions: parameters, recursion, pointers, and those of the system.
#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {
const char *kFibonacci = R"(
.func (.param .b32 out) fib(.param .b32 n) {
  .reg .pred %p<2>; .reg .b32 %r<9>;
  ld.param.u32 %r8, [n]; setp.lt.s32 %p1, %r8, 2; @%p1 bra DONE;
  add.s32 %r4, %r8, -1;
  { .param .b32 param0; st.param.b32 [param0+0], %r4; .param .b32 retval0;
    call.uni (retval0), fib, (param0); ld.param.b32 %r5, [retval0+0]; }
  add.s32 %r6, %r8, -2;
  { .param .b32 param0; st.param.b32 [param0+0], %r6; .param .b32 retval0;
    call.uni (retval0), fib, (param0); ld.param.b32 %r7, [retval0+0]; }
  add.s32 %r8, %r7, %r5;
DONE: st.param.b32 [out+0], %r8; ret;
}
)";
}  // namespace

TEST(recursion_of_different_depth) {
  Device device;
  auto program = device.load(module(std::string(kFibonacci) + kernel("k", 1, R"(
    rem.u32 %r4, %r0, 13;
    { .param .b32 a; st.param.b32 [a], %r4; .param .b32 b; call (b), fib, (a); ld.param.b32 %r5, [b]; }
    )" + store_result("%r5"))));
  auto *out = device.array<uint32_t>(96);
  CHECK_OK(device.launch(program, "k", {1}, {96}, Parameters().add(out)));
  const uint32_t fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144};
  for (uint32_t i = 0; i < 96; ++i) CHECK(out[i] == fib[i % 13]);
}

TEST(endless_recursion_is_reported) {
  Device device;
  auto program = device.load(module(R"(
    .func down() { .local .align 16 .b8 space[256]; call down; ret; }
    )" + kernel("k", 0, "call down;")));
  CHECK_FAILS(device.launch(program, "k", {1}, {64}, Parameters()), 714, "kernel k", "stack");
}

TEST(calls_through_pointers) {
  Device device;
  auto program = device.load(module(R"(
    .func (.param .b32 out) one(.param .b32 n);
    .global .align 8 .u64 functions[2] = {one, two};
    .func (.param .b32 out) one(.param .b32 n) {
      .reg .b32 %r<4>; ld.param.u32 %r1, [n]; add.s32 %r2, %r1, 1; st.param.b32 [out], %r2; ret; }
    .func (.param .b32 out) two(.param .b32 n) {
      .reg .b32 %r<4>; ld.param.u32 %r1, [n]; shl.b32 %r2, %r1, 4; st.param.b32 [out], %r2; ret; }
    )" + kernel("k", 1, R"(
    and.b32 %r4, %r0, 1; mul.wide.u32 %d4, %r4, 8; mov.u64 %d5, functions; add.s64 %d5, %d5, %d4;
    ld.global.u64 %d6, [%d5];
    { .param .b32 param0; st.param.b32 [param0], %r0; .param .b32 retval0;
      prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);
      call (retval0), %d6, (param0), prototype_0; ld.param.b32 %r5, [retval0]; }
    activemask.b32 %r6; setp.ne.u32 %p0, %r6, -1; @%p0 mov.u32 %r5, 9999;
    )" + store_result("%r5")) + kernel("wild", 0, R"(
    mov.u64 %d6, 4096;
    { prototype_1 : .callprototype _ (); call %d6, prototype_1; })")));
  auto *out = device.array<uint32_t>(64);
  CHECK_OK(device.launch(program, "k", {1}, {64}, Parameters().add(out)));
  for (uint32_t i = 0; i < 64; ++i) CHECK(out[i] == (i & 1 ? i << 4 : i + 1));
  CHECK_FAILS(device.launch(program, "wild", {1}, {32}, Parameters()), 718, "pointer");
}

TEST(pointers_that_another_kernel_left) {
  Device device;
  const std::string call = R"(
    { .param .b32 param0; st.param.b32 [param0], %r0; .param .b32 retval0;
      prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);
      call (retval0), %d6, (param0), prototype_0; ld.param.b32 %r5, [retval0]; })";
  auto program = device.load(module(
      R"(
    .global .align 8 .u64 left[2];
    .func (.param .b32 out) twice(.param .b32 n) {
      .reg .b32 %r<4>; ld.param.u32 %r1, [n]; shl.b32 %r2, %r1, 1; st.param.b32 [out], %r2; ret; }
    .func (.param .b32 out) more(.param .b32 n) {
      .reg .b32 %r<4>; .reg .b64 %d<8>;
      mov.u64 %d6, twice; ld.param.u32 %r0, [n];
      { .param .b32 a; st.param.b32 [a], %r0; .param .b32 b;
        p : .callprototype (.param .b32 _) _ (.param .b32 _);
        call (b), %d6, (a), p; ld.param.b32 %r1, [b]; }
      add.s32 %r2, %r1, 7; st.param.b32 [out], %r2; ret; }
    .func (.param .b32 out) odd(.param .b32 n) { what.ever.u32 5; ret; }
    )" +
      kernel("leave", 0, R"(
    mov.u64 %d5, left; mov.u64 %d6, more; st.global.u64 [%d5], %d6;
    mov.b64 %d6, odd; st.global.u64 [%d5+8], %d6;)") +
      kernel("k", 1, "mov.u64 %d5, left; ld.global.u64 %d6, [%d5];" + call + store_result("%r5")) +
      kernel("wrong", 1,
             "mov.u64 %d5, left; ld.global.u64 %d6, [%d5+8];" + call + store_result("%r5"))));
  auto *out = device.array<uint32_t>(64);
  // Before there is any, and then.
  CHECK_FAILS(device.launch(program, "k", {1}, {64}, Parameters().add(out)), 718, "pointer");
  // Its text cannot be executed, and it is not called.
  CHECK_OK(device.launch(program, "leave", {1}, {1}, Parameters()));
  CHECK_OK(device.launch(program, "k", {1}, {64}, Parameters().add(out)));
  for (uint32_t i = 0; i < 64; ++i) CHECK(out[i] == 2 * i + 7);
  CHECK_FAILS(device.launch(program, "wrong", {1}, {32}, Parameters().add(out)), 719, "trap");
}

TEST(structures_by_value) {
  Device device;
  auto program = device.load(module(R"(
    .func (.param .align 8 .b8 out[16]) swap(.param .align 8 .b8 in[16]) {
      .reg .b64 %d<4>; ld.param.b64 %d1, [in]; ld.param.b64 %d2, [in+8];
      st.param.b64 [out], %d2; st.param.b64 [out+8], %d1; ret; }
    .visible .entry k(.param .u64 p0, .param .align 8 .b8 s[24]) {
      .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .b16 %h<4>;
      ld.param.u64 %d0, [p0]; ld.param.u32 %r1, [s]; ld.param.f64 %d1, [s+8]; ld.param.s8 %r2, [s+16];
      mov.b64 %d2, s; ld.param.u8 %r3, [%d2+17];
      cvt.u64.u32 %d3, %r1;
      { .param .align 8 .b8 a[16]; st.param.b32 [a], %r1; st.param.b32 [a+4], 7; st.param.b64 [a+8], %d1;
        .param .align 8 .b8 b[16]; call (b), swap, (a);
        ld.param.b64 %d4, [b]; ld.param.v2.b32 {%r4, %r5}, [b+8]; }
      st.global.u64 [%d0], %d4; st.global.u32 [%d0+8], %r4; st.global.u32 [%d0+12], %r5;
      st.global.u32 [%d0+16], %r2; st.global.u32 [%d0+20], %r3; ret; })"));
  struct Thing {
    int32_t a;
    double b;
    int8_t c[8];
  } thing = {5, 1.5, {-3, 9}};
  auto *out = device.array<uint32_t>(8);
  CHECK_OK(device.launch(program, "k", {1}, {1}, Parameters().add(out).add(thing)));
  double b;
  std::memcpy(&b, out, 8);
  CHECK(b == 1.5 && out[2] == 5 && out[3] == 7 && static_cast<int32_t>(out[4]) == -3 &&
        out[5] == 9);
  const auto &layout = program->find_kernel("k")->parameters();
  CHECK(layout.size() == 2 && layout[1].offset == 8 && layout[1].size == 24);
}

namespace {
const char *kSystem = R"(
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.extern .func (.param .b64 r) malloc(.param .b64 a);
.extern .func free(.param .b64 a);
)";
}

TEST(printf_formats) {
  Device device(1);
  auto program = device.load(module(std::string(kSystem) + R"(
    .global .align 1 .b8 format[40] = {37, 100, 32, 37, 53, 46, 50, 102, 32, 37, 115, 32, 37, 108, 108,
      117, 32, 37, 99, 37, 37, 32, 37, 35, 120, 10};
    .global .align 1 .b8 word[4] = {97, 98, 99};
    )" + kernel("k", 0, R"(
    .local .align 8 .b8 args[48]; mov.u64 %d4, args; mov.u64 %d9, word; mov.u64 %d8, format;
    st.local.u32 [args], %r3; mov.b64 %d5, 0d4009000000000000; st.local.f64 [args+8], %d5;
    st.local.u64 [args+16], %d9; mov.u64 %d6, -1; st.local.u64 [args+24], %d6;
    st.local.u32 [args+32], 90; st.local.u32 [args+36], 255;
    setp.lt.u32 %p0, %r3, 2; @!%p0 bra END;
    { .param .b64 p; st.param.b64 [p], %d8; .param .b64 q; st.param.b64 [q], %d4; .param .b32 r;
      call.uni (r), vprintf, (p, q); ld.param.b32 %r5, [r]; }
    setp.ne.u32 %p1, %r5, 6; @%p1 trap;
    END:)")));
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters()));
  CHECK(device.printed ==
        "0  3.12 abc 18446744073709551615 Z% 0xff\n1  3.12 abc 18446744073709551615 Z% 0xff\n");
}

TEST(failed_assertion) {
  Device device;
  auto program = device.load(module(std::string(kSystem) + R"(
    .global .align 1 .b8 text[6] = {120, 32, 62, 32, 48};
    .global .align 1 .b8 file[5] = {97, 46, 99, 117};
    )" + kernel("k", 0, R"(
    mov.u64 %d4, text; mov.u64 %d5, file;
    { .param .b64 a; st.param.b64 [a], %d4; .param .b64 b; st.param.b64 [b], %d5; .param .b32 c;
      st.param.b32 [c], 12; .param .b64 d; st.param.b64 [d], %d5; .param .b64 e; st.param.b64 [e], 1;
      call.uni __assertfail, (a, b, c, d, e); })")));
  CHECK_FAILS(device.launch(program, "k", {1}, {32}, Parameters()), 710, "a.cu:12",
              "Assertion `x > 0` failed", "block: [0,0,0]");
}

TEST(device_heap) {
  Device device;
  auto program = device.load(module(std::string(kSystem) + kernel("k", 1, R"(
    { .param .b64 a; st.param.b64 [a], 100; .param .b64 r; call.uni (r), malloc, (a); ld.param.b64 %d4, [r]; }
    setp.eq.u64 %p0, %d4, 0; @%p0 trap;
    st.u32 [%d4+96], %r3; bar.sync 0; ld.u32 %r4, [%d4+96];
    { .param .b64 a; st.param.b64 [a], %d4; call.uni free, (a); }
    { .param .b64 a; st.param.b64 [a], 1000000000; .param .b64 r; call.uni (r), malloc, (a); ld.param.b64 %d5, [r]; }
    setp.ne.u64 %p1, %d5, 0; @%p1 trap;)" + store_result("%r4"))));
  auto *out = device.array<uint32_t>(256);
  for (int round = 0; round < 50; ++round)
    CHECK_OK(device.launch(program, "k", {2}, {128}, Parameters().add(out)));
  for (uint32_t i = 0; i < 256; ++i) CHECK(out[i] == i);
}

TEST(results_that_declarations_leave_out) {
  Device device(1);
  auto program = device.load(module(R"(
    .extern .func vprintf(.param .b64 a, .param .b64 b);
    .extern .func malloc(.param .b64 a);
    .extern .func cudaGetLastError();
    .global .align 1 .b8 format[7] = {37, 100, 32, 37, 100, 10};
    )" + kernel("k", 1, R"(
    .local .align 8 .b8 args[8]; mov.u64 %d4, args; mov.u64 %d5, format; mov.u32 %r4, 41;
    st.local.u32 [args], %r0; st.local.u32 [args+4], 7;
    { .param .b64 p; .param .b64 q; st.param.b64 [p], %d5; st.param.b64 [q], %d4;
      call.uni vprintf, (p, q); }
    { .param .b64 p; st.param.b64 [p], 16; call.uni malloc, (p); }
    call.uni cudaGetLastError;
    add.s32 %r4, %r4, 1;)" + store_result("%r4"))));
  auto *out = device.array<uint32_t>(2);
  CHECK_OK(device.launch(program, "k", {1}, {2}, Parameters().add(out)));
  CHECK(device.printed == "0 7\n1 7\n" && out[0] == 42 && out[1] == 42);

  auto translate = [&](const std::string &declaration, const std::string &call) {
    return device
        .load(module(declaration + kernel("k", 0,
                                          "{ .param .b64 p; .param .b64 q; .param"
                                          " .b32 r; " +
                                              call + " }")))
        ->find_kernel("k")
        ->translate();
  };
  // As ptxas: a call has what its declaration has.
  CHECK_FAILS(translate(".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);",
                        "call.uni vprintf, (p, q);"),
              218, "number of arguments or results");
  CHECK_FAILS(translate(".extern .func vprintf(.param .b64 a, .param .b64 b);",
                        "call.uni (r), vprintf, (p, q);"),
              218, "number of arguments or results");
  // What is there is still compared.
  CHECK_FAILS(translate(".extern .func vprintf(.param .b64 a);", "call.uni vprintf, (p);"), 218,
              "unknown signature");
  CHECK_FAILS(translate(".extern .func (.param .b32 r) malloc(.param .b64 a);",
                        "call.uni (r), malloc, (p);"),
              218, "unknown signature");
  CHECK_FAILS(
      translate(".extern .func (.param .b32 r) free(.param .b64 a);", "call.uni (r), free, (p);"),
      218, "unknown signature");
}
