// What is not understood is refused with the place and the text; nothing is guessed, and no input
// brings the parser down.
#include <random>

#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

softdev::Status translate(const std::string &body, const std::string &globals = "") {
  Device device(1);
  softdev::Status status;
  auto program = device.load(module(globals + kernel("named", 1, body)), &status);
  if (!program) return status;
  return program->find_kernel("named")->translate();
}

}  // namespace

TEST(unknown_instructions_and_modifiers) {
  CHECK_FAILS(translate("tcgen05.wait::ld.sync.aligned;"), 218, "kernel named", "line 9",
              "'tcgen05' is not supported", "`tcgen05.wait::ld.sync.aligned;`");
  CHECK_FAILS(translate("\n\nadd.foo.s32 %r4, %r5, %r6;"), 218, "line 11", "'.foo'", "add.foo.s32");
  CHECK_FAILS(translate("add.rn.s32 %r4, %r5, %r6;"), 218, "not supported", "add.rn.s32");
  CHECK_FAILS(translate("min.sat.f32 %f1, %f2, %f3;"), 218, "'.sat'");
  CHECK_FAILS(translate("add.s32 %r4, %r5.b0, %r6;"), 218, "video instructions");
  CHECK_FAILS(translate("add.s32 %r4, -%r5, %r6;"), 218, "video instructions");
  CHECK_FAILS(translate("vadd.s32.s32.s32 %r4, %r5.b4, %r6;"), 218, "'.b4'");
  CHECK_FAILS(translate("vadd4.s32.s32.s32 %r4, %r5.b32108, %r6, %r7;"), 218, "wrong length");
  CHECK_FAILS(translate("vadd4.s32.s32.s32 %r4, %r5.b3218, %r6, %r7;"), 218, "out of range");
  CHECK_FAILS(translate("vmad.s32.s32.s32.po %r4, -%r5, %r6, %r7;"), 218, "'-'");
  CHECK_FAILS(translate("cvt.rs.f16x2.f32 %r4, %f1, %f2, %r5;"), 218, "'.rs'");
  CHECK_FAILS(translate("cvt.rn.e4m3x2.f32 %h1, %f2, %f3;"), 218, "not supported");
  CHECK_FAILS(translate("atom.global.add.f16 %h1, [%d1], %h2;"), 218, ".noftz");
  CHECK_FAILS(translate("cvt.s32.f32 %r1, %f1;"), 218, "needs .rni");
  CHECK_FAILS(translate("mul.s32 %r1, %r2, %r3;"), 218, "needs .lo");
  CHECK_FAILS(translate("fma.f32 %f1, %f2, %f3, %f4;"), 218, "rounding");
  CHECK_FAILS(translate("shfl.up.b32 %r1, %r2, 1, 0;"), 218, "shfl.sync");
  CHECK_FAILS(translate("ld.global.b128 %d1, [%d0];"), 218, ".b128 register");
}

TEST(old_targets_leave_out_roundings) {
  for (bool old : {false, true}) {
    Device device(1);
    std::string text = std::string(".version 1.4\n.target ") + (old ? "sm_13" : "sm_20") + R"(
      .entry k(.param .u64 p) {
        .reg .u64 %d<2>; .reg .f32 %f<8>;
        ld.param.u64 %d1, [p]; ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d1+4];
        mad.f32 %f3, %f1, %f2, %f1; div.f32 %f4, %f1, %f2; sqrt.f32 %f5, %f4; ex2.f32 %f6, %f2;
        st.global.f32 [%d1], %f3; st.global.f32 [%d1+4], %f4; st.global.f32 [%d1+8], %f5;
        st.global.f32 [%d1+12], %f6; exit; })";
    auto program = device.load(text);
    CHECK(program != nullptr);
    auto *values = device.array<float>(4);
    values[0] = 36, values[1] = 4;
    softdev::Status status = device.launch(program, "k", {1}, {1}, Parameters().add(values));
    if (!old) {
      CHECK_FAILS(status, 218, "needs a rounding");
      continue;
    }
    CHECK_OK(status);
    CHECK(values[0] == 180 && values[1] == 9 && values[2] == 3 && values[3] == 16);
  }
}

TEST(wrong_operands) {
  CHECK_FAILS(translate("add.s32 %r4, %r5;"), 218, "number of operands");
  CHECK_FAILS(translate("add.s64 %r4, %d5, %d6;"), 218, "wrong size");
  CHECK_FAILS(translate("add.s32 %r4, %d5, %r6;"), 218, "wrong size");
  CHECK_FAILS(translate("add.s32 %r4, %p1, %r6;"), 218, "wrong type");
  CHECK_FAILS(translate("setp.eq.s32 %r4, %r5, %r6;"), 218, "predicate");
  CHECK_FAILS(translate("add.s32 %r4, %r99, %r6;"), 218, "%r99");
  CHECK_FAILS(translate("bra NOWHERE;"), 218, "unknown label 'NOWHERE'");
  CHECK_FAILS(translate("call missing;"), 218, "unknown function 'missing'");
  CHECK_FAILS(translate("call extern_one;", ".extern .func extern_one();\n"), 218, "not defined");
  CHECK_FAILS(translate("ld.global.u32 %r4, [nothing];"), 218, "unknown name 'nothing'");
  CHECK_FAILS(translate("st.const.u32 [c], 1;", ".const .u32 c;\n"), 218, "cannot be written");
  CHECK_FAILS(translate("ld.global.u32 %r4, [s];", ".shared .u32 s;\n"), 218, "state space");
  CHECK_FAILS(translate("st.shared.u32 [s], 1;", ".shared .b8 s[300000];\n"), 218, "shared memory");
  CHECK_FAILS(translate("{ .global .u32 g; st.global.u32 [g], 1; }"), 218, ".global inside");
  CHECK_FAILS(translate("ld.param.u32 %r4, [p0+6];"), 218, "outside");
  CHECK_FAILS(translate("@%r1 add.s32 %r4, %r5, %r6;"), 218, "predicate");
  CHECK_FAILS(translate("add.s32 %r4 %r5;"), 218, "line 9");
}

TEST(a_refused_kernel_leaves_its_neighbours_alone) {
  Device device(1);
  auto program = device.load(module(kernel("bad", 0, "nonsense.u32 %r1;") + kernel("good", 0, "")));
  CHECK_FAILS(device.launch(program, "bad", {1}, {1}, Parameters()), 218, "nonsense");
  CHECK_OK(device.launch(program, "good", {1}, {1}, Parameters()));
  CHECK_FAILS(program->find_kernel("bad")->translate(), 218, "nonsense");  // the same again
  CHECK(program->kernels().size() == 2 && program->find_kernel("none") == nullptr);
}

TEST(modules_that_are_none) {
  Device device(1);
  softdev::Status status;
  CHECK(!device.load("", &status) && status.code == 218);
  CHECK(!device.load("hello world", &status) && status.code == 218);
  CHECK(!device.load(std::string("\x7f"
                                 "ELF\0\0\0",
                                 7),
                     &status) &&
        status.code == 218);
  CHECK(!device.load(".version 99.9\n.target sm_90\n", &status) && status.code == 222);
  CHECK(!device.load(module(".entry k() {"), &status) && status.code == 218);
  CHECK(!device.load(module(".global .u32 x[2] = {1, 2, 3};"), &status) && status.code == 218);
  CHECK(status.message.find("too many values for x") != std::string::npos);
  CHECK(!device.load(module("\n\n.bogus;"), &status) &&
        status.message.find("line 6") != std::string::npos);
  CHECK(device.load(module("// only a comment\n.pragma \"nounroll\";\n"), &status) != nullptr);
}

TEST(debug_information_is_passed_over) {
  Device device(1);
  auto program = device.load(module(R"(
    .file 1 "a.cu", 1, 2
    .visible .entry k(.param .u64 p) .maxntid 64, 2, 1 .minnctapersm 2 {
      .reg .b64 %d<4>; .loc 1 2 3
      L0: .loc 1 3 4, function_name $L__info_string0, inlined_at 1 5 6
      .pragma "nounroll";
      ld.param.u64 %d1, [p]; st.global.u32 [%d1], 3; ret; }
    .section .debug_abbrev { .b8 1 .b8 17, 2 L0: .b32 L0 }
    .section .debug_str { info: .b8 0 })"));
  CHECK(program != nullptr);
  auto *out = device.array<uint32_t>(1);
  CHECK_OK(device.launch(program, "k", {1}, {1}, Parameters().add(out)));
  CHECK(*out == 3 && program->find_kernel("k")->attributes().max_threads == 128);
}

TEST(mutilated_text) {
  const std::string whole = module(R"(
    .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
    .global .align 8 .u64 table[2] = {f, table};
    .shared .align 4 .b8 box[64];
    .func (.param .b32 out) f(.param .b32 n) { .reg .b32 %r<4>; ld.param.u32 %r1, [n];
      add.s32 %r2, %r1, 1; st.param.b32 [out], %r2; ret; }
    )") + kernel("k", 1, R"(
    L: { .reg .pred p; .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call (b), f, (a);
    ld.param.b32 %r5, [b]; setp.lt.and.s32 p|%p1, %r5, 8, !%p2; @p bra L; }
    mov.b64 {%r6, %r7}, %d1; fma.rn.ftz.sat.f32 %f1, %f2, 0f3F800000, %f3; bar.sync 0, 64;
    ld.global.v2.u32 {%r8, _}, [%d0+8]; @!%p3 atom.global.cas.b32 %r9, [%d0], %r8, -5;
    shfl.sync.idx.b32 %r10|%p4, %r9, 3, 31, -1; cvt.rni.sat.s32.f32 %r11, %f1;
    .local .align 8 .b8 depot[16]; st.local.u64 [depot+8], %d1; prototype: .callprototype _ ();)");
  CHECK_OK([&] {
    Device device(1);
    return device.load(whole)->find_kernel("k")->translate();
  }());
  std::mt19937 random(1);
  int loaded = 0, translated = 0;
  auto attempt = [&](const std::string &text) {
    Device device(1);
    softdev::Status status;
    auto program = device.load(text, &status);
    CHECK((program != nullptr) == status.ok());
    if (!program) return;
    ++loaded;
    for (softdev::Kernel *kernel : program->kernels()) translated += kernel->translate().ok();
  };
  for (size_t cut = 0; cut < whole.size(); cut += 7) attempt(whole.substr(0, cut));
  const std::string pieces[] = {"{",  "}",  "(",           ")", "[",      "]",  ";",  ".",
                                "%",  "0x", "99999999999", "-", "<",      ">",  "\"", "/*",
                                "//", "!",  "@",           "|", ".param", "::", "\0", "\xff"};
  for (int n = 0; n < 3000; ++n) {
    std::string text = whole;
    for (unsigned changes = 1 + random() % 4; changes; --changes) {
      size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text.erase(at, 1 + random() % 9);
          break;
        case 1:
          text.insert(at, pieces[random() % std::size(pieces)]);
          break;
        case 2:
          text[at] = static_cast<char>(random());
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
    }
    attempt(text);
  }
  CHECK(loaded > 100 && translated > 10);  // otherwise the mutations were too coarse
}

TEST(deep_and_long_text_ends) {
  auto ends = [](const std::string &body) { (void)translate(body); };
  std::string braces, lists = "mov.b64 ", nots = "setp.eq.and.s32 %p1, %r1, %r2, ", numbers;
  for (int i = 0; i < 100000; ++i) braces += "{";
  ends(braces);
  for (int i = 0; i < 100000; ++i) braces += "}";
  ends(braces);
  for (int i = 0; i < 100000; ++i) lists += "{", nots += "!", numbers += "-";
  ends(lists);
  ends(nots);
  ends("mov.u32 %r1, " + numbers + "1;");
  ends("mov.u32 %r1, " + std::string(100000, '(') + "1;");
  std::string labels;
  for (int i = 0; i < 50000; ++i)
    labels += "L" + std::to_string(i) + ": bra L" + std::to_string(49999 - i) + ";\n";
  ends(labels);
  std::string scopes;
  for (int i = 0; i < 20000; ++i) scopes += "{ .reg .b32 t; L: mov.u32 t, 1; @%p1 bra L; }\n";
  CHECK_OK(translate(scopes));
  ends(".reg .b32 %x<4000000000>;");
  ends(".reg .b32 %x<2000000>;");
  ends(".local .b8 big[1000000000000];");
}
