// Branches, calls, ends and the stack: each form in a kernel whose results tell which way every
// thread went.
#include <functional>

#include "../behaviour/check.h"
#include "../proven.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

constexpr uint32_t kThreads = 96, kUntouched = 0xeeeeeeee;

// Runs `body`, which leaves its result in %r20, with `functions` beside it.
void run(const std::string &form, const std::string &functions, const std::string &body,
         const std::function<uint32_t(uint32_t thread)> &want) {
  Device device(1);
  auto program =
      device.load(module(functions + kernel("k", 1, body + "\n" + store_result("%r20"))));
  CHECK(program);
  if (!program) return;
  auto *out = device.array<uint32_t>(kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) out[i] = kUntouched;
  rig::Status status = device.launch(program, "k", {1}, {kThreads}, Parameters().add(out));
  if (!status.ok()) return check::fail(__FILE__, __LINE__, form + ": " + status.message);
  for (uint32_t i = 0; i < kThreads; ++i)
    if (out[i] != want(i))
      return check::fail(__FILE__, __LINE__, form + ": thread " + std::to_string(i));
  proven::add(form, kThreads);
}

}  // namespace

TEST(branches) {
  for (const std::string form : {"bra", "bra.uni"}) {
    run(form, "",
        "mov.u32 %r20, 1; " + form + " OVER; mov.u32 %r20, 2; OVER: add.u32 %r20, %r20, 10;",
        [](uint32_t) { return 11; });
    // back again; the block's threads all go as often
    run(form, "",
        "mov.u32 %r20, 0; AGAIN: add.u32 %r20, %r20, 3; setp.lt.u32 %p0, %r20, 30; @%p0 " + form +
            " AGAIN;",
        [](uint32_t) { return 30; });
    run(form, "",
        "mov.u32 %r20, 1; setp.lt.u32 %p0, %r2, 7; @!%p0 " + form +
            " OVER; mov.u32 %r20, 2; OVER: add.u32 %r20, %r20, 10;",
        [](uint32_t) { return 11; });
  }
  // Each thread its own way, as often as it likes.
  run("bra", "", R"(
      rem.u32 %r4, %r0, 7; mov.u32 %r20, 0;
      AGAIN: setp.ge.u32 %p0, %r20, %r4; @%p0 bra OUT; add.u32 %r20, %r20, 1; bra AGAIN;
      OUT: and.b32 %r5, %r0, 1; setp.eq.u32 %p1, %r5, 0; @%p1 bra EVEN; add.u32 %r20, %r20, 100;
      EVEN:)",
      [](uint32_t i) { return i % 7 + (i & 1 ? 100 : 0); });
}

TEST(branches_by_number) {
  const std::string ways = R"(
      bra END; A: mov.u32 %r20, 11; bra END; B: mov.u32 %r20, 22; bra END; C: mov.u32 %r20, 33; END:)";
  run("brx.idx", "",
      "T: .branchtargets A, B, C; rem.u32 %r4, %r0, 3; mov.u32 %r20, 1; brx.idx %r4, T;" + ways,
      [](uint32_t i) { return 11 * (i % 3 + 1); });
  run("brx.idx", "",
      "T: .branchtargets A, B, C, A; and.b32 %r4, %r0, 3; mov.u32 %r20, 1; "
      "setp.lt.u32 %p0, %r0, 50; @%p0 brx.idx %r4, T;" +
          ways,
      [](uint32_t i) { return i >= 50      ? 1
                              : i % 4 == 3 ? 11
                                           : 11 * (i % 4 + 1); });
  for (uint32_t way : {0u, 1u, 2u})
    run("brx.idx.uni", "",
        "T: .branchtargets A, B, C; mov.u32 %r4, " + std::to_string(way) +
            "; mov.u32 %r20, 1; brx.idx.uni %r4, T;" + ways,
        [way](uint32_t) { return 11 * (way + 1); });
}

TEST(calls) {
  const std::string functions = R"(
    .global .u32 counter;
    .func plain() { .reg .b32 %r<2>; atom.global.add.u32 %r0, [counter], 1; ret; }
    .func (.param .b32 out) twice(.param .b32 n) {
      .reg .b32 %r<3>; ld.param.u32 %r1, [n]; shl.b32 %r2, %r1, 1; st.param.b32 [out], %r2; ret; }
    .func (.param .b32 out) more(.param .b32 n) {
      .reg .b32 %r<3>; ld.param.u32 %r1, [n]; add.u32 %r2, %r1, 1000; st.param.b32 [out], %r2;
      ret.uni; }
    .func (.param .b64 out) sum(.param .b64 a, .param .b32 b, .param .align 4 .b8 c[8]) {
      .reg .b64 %d<5>; .reg .b32 %r<4>; ld.param.u64 %d1, [a]; ld.param.u32 %r1, [b];
      ld.param.v2.u32 {%r2, %r3}, [c]; cvt.u64.u32 %d2, %r1; mad.wide.u32 %d3, %r2, %r3, %d1;
      add.s64 %d4, %d3, %d2; st.param.b64 [out], %d4; ret; }
    .global .align 8 .u64 table[2] = {twice, more};
    )";
  auto pass = [](const std::string &call, const std::string &before = "") {
    return before + "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; " + call +
           "; ld.param.b32 %r20, [b]; }";
  };
  auto twice = [](uint32_t i) { return 2 * i; };
  auto by_parity = [](uint32_t i) { return i & 1 ? i + 1000 : 2 * i; };
  // the function of even and of odd threads
  const std::string pointer =
      "and.b32 %r4, %r0, 1; mul.wide.u32 %d4, %r4, 8; mov.u64 %d5, table; add.s64 %d5, %d5, %d4;"
      "ld.global.u64 %d6, [%d5];";
  const std::string prototype =
      "P: .callprototype (.param .b32 _) _ (.param .b32 _); T: .calltargets twice, more;";
  for (const std::string call : {"call", "call.uni"}) {
    run(call, functions, call + " plain; mov.u32 %r20, %r0;", [](uint32_t i) { return i; });
    run(call, functions, pass(call + " (b), twice, (a)"), twice);
    run(call, functions,
        R"({ .param .b64 a; .param .b32 b; .param .align 4 .b8 c[8]; .param .b64 d;
        mul.wide.u32 %d4, %r0, 5; st.param.b64 [a], %d4; st.param.b32 [b], 7;
        st.param.v2.b32 [c], {%r0, %r0}; )" +
            call + " (d), sum, (a, b, c); ld.param.b64 %d5, [d]; cvt.u32.u64 %r20, %d5; }",
        [](uint32_t i) { return i * i + 5 * i + 7; });
    run(call + " fptr, args, prototype", functions,
        prototype + pass(call + " (b), %d6, (a), P", "mov.u64 %d6, twice;"), twice);
    run(call + " fptr, args, targets", functions,
        prototype + pass(call + " (b), %d6, (a), T", "mov.u64 %d6, twice;"), twice);
  }
  // A guard, and threads that call different functions.
  run("call", functions,
      "mov.u32 %r20, 5; setp.lt.u32 %p0, %r0, 40;" +
          pass("@%p0 call (b), twice, (a); @!%p0 st.param.b32 [b], 5"),
      [](uint32_t i) { return i < 40 ? 2 * i : 5; });
  run("call fptr, args, prototype", functions, prototype + pass("call (b), %d6, (a), P", pointer),
      by_parity);
  run("call fptr, args, targets", functions, prototype + pass("call (b), %d6, (a), T", pointer),
      by_parity);
}

TEST(returns_and_exits) {
  for (const std::string end : {"ret", "ret.uni"}) {
    const std::string function = R"(
      .func (.param .b32 out) first(.param .b32 n) {
        .reg .b32 %r<3>; .reg .pred %p<2>; ld.param.u32 %r1, [n]; st.param.b32 [out], 1;
        setp.lt.u32 %p1, %r1, 1000; @%p1 )" +
                                 end + "; st.param.b32 [out], 2; " + end + "; }\n";
    run(end, function,
        "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r0; call (b), first, (a);"
        "ld.param.b32 %r20, [b]; }",
        [](uint32_t) { return 1; });
  }
  // Of a kernel's threads some end early, by themselves and from within a function.
  for (const std::string end : {"ret", "exit"})
    run(end, "", "mov.u32 %r20, 3; setp.lt.u32 %p0, %r0, 41; @%p0 " + end + ";",
        [](uint32_t i) { return i < 41 ? kUntouched : 3; });
  run("exit",
      ".func leave() { .reg .b32 %r<2>; .reg .pred %p<2>; mov.u32 %r1, %tid.x; "
      "and.b32 %r1, %r1, 1; setp.eq.u32 %p1, %r1, 1; @%p1 exit; ret; }\n",
      "call leave; bar.sync 0; mov.u32 %r20, 4;",
      [](uint32_t i) { return i & 1 ? kUntouched : 4; });
}

// An error of the kernel, if any thread comes there, and none otherwise.
TEST(traps) {
  for (const std::string form : {"trap", "brkpt"}) {
    Device device;
    auto program =
        device.load(module(kernel("k", 1, "setp.eq.u64 %p0, %d0, 77; @%p0 " + form + ";")));
    CHECK_OK(device.launch(program, "k", {2}, {64}, Parameters().add(uint64_t{1})));
    rig::Status status = device.launch(program, "k", {2}, {64}, Parameters().add(uint64_t{77}));
    CHECK(status.code >= 700 && status.message.find(form) != std::string::npos);
    proven::add(form, 2);
  }
}

// Memory of the stack: each thread has its own, aligned, until it is given back.
TEST(memory_of_the_stack) {
  for (const char *align : {"", ", 8", ", 16", ", 128"}) {
    const std::string text = std::string("alloca.u64 ") + "%d6, %d5" + align + ";";
    run("alloca.u64", "",
        R"(
        stacksave.u64 %d4; rem.u32 %r4, %r0, 5; add.u32 %r4, %r4, 1; mul.wide.u32 %d5, %r4, 16;
        )" + text +
            R"(
        and.b64 %d7, %d6, )" +
            (*align ? std::to_string(std::atoi(align + 2) - 1) : "7") + R"(;
        setp.ne.u64 %p0, %d7, 0; @%p0 trap;
        mov.u32 %r5, 0; mov.u64 %d8, %d6;
        FILL: add.u32 %r6, %r5, %r0; st.local.u32 [%d8], %r6; add.s64 %d8, %d8, 16;
        add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r4; @%p1 bra FILL;
        bar.sync 0; mov.u32 %r5, 0; mov.u32 %r20, 0; mov.u64 %d8, %d6;
        SUM: ld.local.u32 %r6, [%d8]; add.u32 %r20, %r20, %r6; add.s64 %d8, %d8, 16;
        add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r4; @%p1 bra SUM;
        stackrestore.u64 %d4; stacksave.u64 %d9; setp.ne.u64 %p2, %d9, %d4; @%p2 trap;)",
        [](uint32_t i) {
          const uint32_t n = i % 5 + 1;
          return n * i + n * (n - 1) / 2;
        });
  }
  for (const char *form : {"stacksave.u64", "stackrestore.u64"})
    run(form, "", R"(
        stacksave.u64 %d4; mov.u32 %r20, 0;
        AGAIN: alloca.u64 %d5, 512; st.local.u32 [%d5], %r20; ld.local.u32 %r4, [%d5];
        stackrestore.u64 %d4; add.u32 %r20, %r4, 1; setp.lt.u32 %p0, %r20, 1000; @%p0 bra AGAIN;)",
        [](uint32_t) { return 1000; });
}
