// mma in every shape and type: fragments are put together and taken apart by the ISA's formulas.
#include <array>
#include <cfenv>

#include "../behaviour/check.h"
#include "../proven.h"
#include "fragments.h"

using namespace check;
using namespace matrix;
using rig::Device;
using rig::Parameters;

namespace {

struct Case {
  Shape shape;
  const Format *a, *b, *c, *d;
  bool saturate = false;
  BitOp op = BitOp::None;
  const char *round = "";
  int rounding = FE_TONEAREST;

  std::string text() const {
    std::string text = "mma.sync.aligned." + shape.name() + ".row.col";
    if (saturate) text += ".satfinite";
    if (*round) text += std::string(".") + round;
    for (const Format *format : {d, a, b, c}) text += std::string(".") + format->name;
    if (op != BitOp::None) text += op == BitOp::Xor ? ".xor.popc" : ".and.popc";
    return text;
  }
};

std::string kernel_of(const std::string &name, const Case &one) {
  const Shape &s = one.shape;
  unsigned a = registers(*one.a, s.m * s.k / 32), b = registers(*one.b, s.k * s.n / 32);
  unsigned c = registers(*one.c, s.m * s.n / 32), d = registers(*one.d, s.m * s.n / 32);
  std::string body = ".reg .b64 %at<4>; .reg .u64 %byte<2>;\n";
  for (char matrix : {'a', 'b', 'c', 'd'})
    body += std::string(".reg .b32 %") + matrix + "r<8>; .reg .b64 %" + matrix + "d<8>;\n";
  const Format *formats[] = {one.d, one.a, one.b, one.c};
  for (int i = 0; i < 4; ++i)
    body += "mul.wide.u32 %byte0, %r0, " + std::string(formats[i]->bits == 64 ? "8" : "4") +
            "; add.s64 %at" + std::to_string(i) + ", %d" + std::to_string(i) + ", %byte0;\n";
  body += transfer(*one.a, 'a', 1, a, false) + transfer(*one.b, 'b', 2, b, false) +
          transfer(*one.c, 'c', 3, c, false);
  body += one.text() + " " + vector(*one.d, 'd', d) + ", " + vector(*one.a, 'a', a) + ", " +
          vector(*one.b, 'b', b) + ", " + vector(*one.c, 'c', c) + ";\n";
  return kernel(name, 4, body + transfer(*one.d, 'd', 0, d, true));
}

void run(const std::vector<Case> &cases) {
  std::string text;
  for (size_t i = 0; i < cases.size(); ++i) text += kernel_of("k" + std::to_string(i), cases[i]);
  Device device(1);
  auto program = device.load(module(text));
  CHECK(program);
  if (!program) return;
  void *d = device.array<uint64_t>(256), *a = device.array<uint64_t>(256);
  void *b = device.array<uint64_t>(256), *c = device.array<uint64_t>(256);
  std::mt19937 random(7);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case &one = cases[i];
    const Shape &s = one.shape;
    constexpr unsigned kRounds = 24;
    proven::add(one.text(), size_t{kRounds} * s.m * s.n);
    for (unsigned round = 0; round < kRounds; ++round) {
      // bf16 and tf32 leave the range of single precision where all bits are random.
      bool special = round % 2 && one.a != &bf16 && one.a != &tf32 && one.a != &f64;
      Dense da = random_dense(s.m, s.k, *one.a, random, special);
      Dense db = random_dense(s.k, s.n, *one.b, random, special);
      Dense dc = random_dense(s.m, s.n, *one.c, random, false);
      if (one.saturate)  // near the end of the range, so that some sums pass it
        for (uint64_t &x : dc.at) x = (x & 1 ? 0x7fffffff : 0x80000000u) ^ (x & 0xff00) >> 8;
      fragments(*one.a, s, place_a, &da, a, true);
      fragments(*one.b, s, place_b, &db, b, true);
      fragments(*one.c, s, place_c, &dc, c, true);
      std::string name = "k" + std::to_string(i);
      auto parameters = Parameters().add(d).add(a).add(b).add(c);
      rig::Status status = device.launch(program, name.c_str(), {1}, {32}, std::move(parameters));
      if (!status.ok()) {
        fail(__FILE__, __LINE__, one.text() + ": " + status.message);
        break;
      }
      Dense got(s.m, s.n);
      fragments(*one.d, s, place_c, &got, d, false);
      compare(
          one.text(), got,
          product(*one.a, da, *one.b, db, *one.c, dc, *one.d, one.saturate, one.op, one.rounding));
    }
  }
}

}  // namespace

TEST(mma_of_half_precision) {
  std::vector<Case> cases;
  for (unsigned k : {8u, 16u}) {
    cases.push_back({{16, 8, k}, &f16, &f16, &f32, &f32});
    cases.push_back({{16, 8, k}, &f16, &f16, &f16, &f16});
    cases.push_back({{16, 8, k}, &bf16, &bf16, &f32, &f32});
  }
  run(cases);
}

TEST(mma_of_tf32_and_f64) {
  std::vector<Case> cases = {{{16, 8, 4}, &tf32, &tf32, &f32, &f32},
                             {{16, 8, 8}, &tf32, &tf32, &f32, &f32}};
  const std::pair<const char *, int> rounds[] = {{"", FE_TONEAREST},
                                                 {"rn", FE_TONEAREST},
                                                 {"rz", FE_TOWARDZERO},
                                                 {"rm", FE_DOWNWARD},
                                                 {"rp", FE_UPWARD}};
  for (auto [name, mode] : rounds) {
    cases.push_back({{8, 8, 4}, &f64, &f64, &f64, &f64, false, BitOp::None, name, mode});
    for (unsigned k : {4u, 8u, 16u})
      cases.push_back({{16, 8, k}, &f64, &f64, &f64, &f64, false, BitOp::None, name, mode});
  }
  run(cases);
}

TEST(mma_of_integers_and_bits) {
  std::vector<Case> cases;
  const Shape bytes[] = {{8, 8, 16}, {16, 8, 16}, {16, 8, 32}};
  const Shape nibbles[] = {{8, 8, 32}, {16, 8, 32}, {16, 8, 64}};
  for (bool saturate : {false, true}) {
    for (const Shape &shape : bytes)
      for (const Format *a : {&s8, &u8})
        for (const Format *b : {&s8, &u8}) cases.push_back({shape, a, b, &s32, &s32, saturate});
    for (const Shape &shape : nibbles)
      for (const Format *a : {&s4, &u4})
        for (const Format *b : {&s4, &u4}) cases.push_back({shape, a, b, &s32, &s32, saturate});
  }
  const Shape bits[] = {{8, 8, 128}, {16, 8, 128}, {16, 8, 256}};
  for (const Shape &shape : bits)
    for (BitOp op : {BitOp::Xor, BitOp::And})
      cases.push_back({shape, &b1, &b1, &s32, &s32, false, op});
  run(cases);
}

TEST(mma_of_eight_bit_floats) {
  std::vector<Case> cases;
  for (unsigned k : {16u, 32u})
    for (const Format *a : {&e4m3, &e5m2})
      for (const Format *b : {&e4m3, &e5m2})
        for (const Format *c : {&f32, &f16}) cases.push_back({{16, 8, k}, a, b, c, c});
  run(cases);
}

// m8n8k4 of f16: four products on eight lanes each.
TEST(mma_on_quads) {
  Device device(1);
  auto *d = device.array<uint32_t>(256), *a = device.array<uint32_t>(256);
  auto *b = device.array<uint32_t>(256), *c = device.array<uint32_t>(256);
  std::mt19937 random(3);
  for (int variant = 0; variant < 16; ++variant) {
    bool column_a = variant & 1, column_b = variant & 2;
    const Format &cf = variant & 4 ? f16 : f32, &df = variant & 8 ? f16 : f32;
    if (&df == &f16 && &cf == &f32) continue;  // no such form
    unsigned c_registers = &cf == &f16 ? 4 : 8, d_registers = &df == &f16 ? 4 : 8;
    std::string body =
        ".reg .b32 %ar<8>, %br<8>, %cr<8>, %dr<8>; .reg .b64 %at<4>; .reg .b64 %byte0;\n"
        "mul.wide.u32 %byte0, %r0, 4;\n";
    for (int i = 0; i < 4; ++i)
      body += "add.s64 %at" + std::to_string(i) + ", %d" + std::to_string(i) + ", %byte0;\n";
    body += transfer(f16, 'a', 1, 2, false) + transfer(f16, 'b', 2, 2, false) +
            transfer(cf, 'c', 3, c_registers, false);
    std::string text = std::string("mma.sync.aligned.m8n8k4.") + (column_a ? "col" : "row") + "." +
                       (column_b ? "col" : "row") + "." + df.name + ".f16.f16." + cf.name;
    body += text + " " + vector(df, 'd', d_registers) + ", " + vector(f16, 'a', 2) + ", " +
            vector(f16, 'b', 2) + ", " + vector(cf, 'c', c_registers) + ";\n" +
            transfer(df, 'd', 0, d_registers, true);
    auto program = device.load(module(kernel("k", 4, body)));
    constexpr unsigned kRounds = 8;
    proven::add(text, kRounds * 256);
    for (unsigned round = 0; round < kRounds; ++round) {
      std::vector<Dense> da, db, dc;
      for (int q = 0; q < 4; ++q) {
        da.push_back(random_dense(8, 4, f16, random, round % 2));
        db.push_back(random_dense(4, 8, f16, random, round % 2));
        dc.push_back(random_dense(8, 8, cf, random, false));
      }
      auto place = [](const Format &format, unsigned lane, unsigned i) -> Position {
        unsigned high = lane < 16 ? 0 : 4;
        if (&format == &f16) return {lane % 4 + high, i};
        return {(lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)};
      };
      std::fill(a, a + 256, 0);
      std::fill(b, b + 256, 0);
      std::fill(c, c + 256, 0);
      for (unsigned lane = 0; lane < 32; ++lane) {
        unsigned q = lane % 16 / 4, high = lane < 16 ? 0 : 4;
        auto half = [&](uint32_t *words, unsigned i, uint64_t bits) {
          words[i / 2 * 32 + lane] |= static_cast<uint32_t>(bits << i % 2 * 16);
        };
        for (unsigned i = 0; i < 4; ++i) {
          half(a, i, column_a ? da[q](i % 4 + high, lane % 4) : da[q](lane % 4 + high, i));
          half(b, i, column_b ? db[q](i, lane % 4 + high) : db[q](lane % 4, i + high));
        }
        for (unsigned i = 0; i < 8; ++i) {
          Position at = place(cf, lane, i);
          if (&cf == &f16)
            half(c, i, dc[q](at.row, at.column));
          else
            c[i * 32 + lane] = static_cast<uint32_t>(dc[q](at.row, at.column));
        }
      }
      CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(d).add(a).add(b).add(c)));
      std::vector<Dense> got(4, Dense(8, 8));
      for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned i = 0; i < 8; ++i) {
          Position at = place(df, lane, i);
          got[lane % 16 / 4](at.row, at.column) =
              &df == &f16 ? (d[i / 2 * 32 + lane] >> i % 2 * 16) & 0xffff : d[i * 32 + lane];
        }
      for (unsigned q = 0; q < 4; ++q)
        compare(text, got[q],
                product(f16, da[q], f16, db[q], cf, dc[q], df, false, BitOp::None, FE_TONEAREST));
    }
  }
}

TEST(mma_in_place_and_after_divergence) {
  // The registers of C come back in another order as D, A and C share some, lanes come from two
  // ways, and 16 lanes of the second warp have gone.
  Device device(1);
  auto program = device.load(module(kernel("k", 1, R"(
    setp.ge.u32 %p1, %r0, 48; @%p1 exit;
    and.b32 %r4, %r0, 1; setp.eq.u32 %p0, %r4, 0;
    @%p0 bra EVEN; mov.b32 %r5, 0x3c003c00; bra JOIN; EVEN: mov.b32 %r5, 0x3c003c00; JOIN:
    mov.f32 %f0, 0f3f800000; mov.f32 %f1, 0f40000000; mov.f32 %f2, 0f40400000; mov.f32 %f3, 0f40800000;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
      {%f3, %f2, %f1, %f0}, {%r5, %r5, %r5, %r5}, {%r5, %r5}, {%f0, %f1, %f2, %f3};
    mov.b32 %r6, %f0;)" + store_result("%r6"))));
  auto *out = device.array<float>(64);
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out)));
  for (int i = 0; i < 32; ++i) CHECK(out[i] == 20);  // c3 + 16
  CHECK_OK(device.launch(program, "k", {1}, {64}, Parameters().add(out)));
  for (int i = 0; i < 32; ++i) CHECK(out[i] == 20);
}

TEST(matrix_forms_that_do_not_exist) {
  Device device(1);
  auto refused = [&](const std::string &instruction, const char *word) {
    auto program =
        device.load(module(kernel("k", 1, ".reg .b32 %u<8>; .reg .f64 %g<8>;\n" + instruction)));
    CHECK_FAILS(program->find_kernel("k")->translate(), 218, word, "line");
  };
  const std::string abc = " {%f0,%f1,%f2,%f3}, {%u0,%u1,%u2,%u3}, {%u4,%u5}, {%f0,%f1,%f2,%f3};";
  refused("mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32" + abc, ".row.col");
  refused("mma.sync.aligned.m16n8k16.row.f32.f16.f16.f32" + abc, "layouts");
  refused("mma.sync.aligned.m16n8k12.row.col.f32.f16.f16.f32" + abc, "no such shape");
  refused("mma.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32" + abc, "no such shape");
  refused("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32" + abc, "cannot be multiplied");
  refused("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16" + abc, "one type");
  refused("mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16" + abc, "cannot be multiplied");
  refused("mma.sync.aligned.row.col.f32.f16.f16.f32" + abc, "needs a shape");
  refused("mma.aligned.m16n8k16.row.col.f32.f16.f16.f32" + abc, ".sync");
  refused("mma.sync.aligned.m16n8k16.row.col.satfinite.f32.f16.f16.f32" + abc, ".satfinite");
  refused("mma.sync.aligned.m16n8k16.row.col.rz.f32.f16.f16.f32" + abc, "rounding");
  refused(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1}, {%u0,%u1,%u2,%u3}, "
      "{%u4,%u5}, {%f0,%f1,%f2,%f3};",
      "number of registers");
  refused(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, "
      "{%g0,%u1,%u2,%u3}, {%u4,%u5}, {%f0,%f1,%f2,%f3};",
      "wrong size");
  refused("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32" + abc, "kind::f8f6f4");
  refused("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32 {%u0,%u1},{%u2},{%u3},{%u0,%u1};",
          "popc");
}
