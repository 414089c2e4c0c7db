// wgmma in its types and shapes: matrices lie in shared memory as the ISA's canonical layouts say,
// element by element, and D in registers by its formulas.
#include <cfenv>

#include "../behaviour/check.h"
#include "../proven.h"
#include "fragments.h"

using namespace check;
using namespace matrix;
using rig::Parameters;

namespace {

constexpr unsigned kThreads = 128, kShared = 49152, kMostRegisters = 128;

struct Case {
  unsigned n;
  const Format *a, *b, *d;
  bool saturate = false;

  unsigned k() const { return 256 / static_cast<unsigned>(a->bits); }
  bool integers() const { return a->exponent == 0; }
  bool halves() const { return a->bits == 16; }
  std::string text() const {
    return "wgmma.mma_async.sync.aligned." + Shape{64, n, k()}.name() +
           (saturate ? ".satfinite." : ".") + d->name + "." + a->name + "." + b->name;
  }
};

// Which of the forms of operands.
struct Way {
  bool a_in_registers = false;
  bool negate_a = false, negate_b = false, turn_a = false, turn_b = false;
  std::string name(const Case &one) const {
    auto sign = [](bool negate) { return negate ? ", -1" : ", 1"; };
    auto flag = [](bool turn) { return turn ? ", 1" : ", 0"; };
    std::string text;
    if (!one.integers()) text = std::string(sign(negate_a)) + sign(negate_b);
    if (one.halves() && !a_in_registers) text += flag(turn_a);
    if (one.halves()) text += flag(turn_b);
    return text;
  }
};

std::string list(const char *name, unsigned count) {
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ", %" : "%") + std::string(name) + std::to_string(i);
  return text + "}";
}
// Register r of thread t is word r * 128 + t.
std::string moves(const char *name, const char *base, unsigned count, bool store) {
  std::string text;
  for (unsigned i = 0; i < count; ++i) {
    const std::string at = "[" + std::string(base) + "+" + std::to_string(i * kThreads * 4) + "]";
    const std::string reg = "%" + std::string(name) + std::to_string(i);
    text += store ? "st.global.b32 " + at + ", " + reg + ";\n"
                  : "ld.global.b32 " + reg + ", " + at + ";\n";
  }
  return text;
}

unsigned d_registers(const Case &one) { return one.n * 64 * one.d->bits / 32 / kThreads; }

// Fills shared memory and makes one product.
std::string kernel_of(const Case &one, const Way &way) {
  const unsigned d = d_registers(one);
  return R"(.visible .entry k(.param .u64 image, .param .u64 words, .param .u64 fragment,
                  .param .u64 da, .param .u64 db, .param .u32 adds) {
  .reg .pred %p<4>; .reg .b32 %r<8>, %x<128>, %y<4>; .reg .b64 %d<16>;
  .shared .align 1024 .b8 box[49152];
  mov.u32 %r0, %tid.x; ld.param.u64 %d0, [image]; ld.param.u64 %d1, [words];
  ld.param.u64 %d2, [fragment]; ld.param.u64 %d3, [da]; ld.param.u64 %d4, [db];
  ld.param.u32 %r1, [adds]; setp.ne.u32 %p0, %r1, 0;
  mul.wide.u32 %d5, %r0, 4; add.u64 %d0, %d0, %d5; add.u64 %d1, %d1, %d5; add.u64 %d2, %d2, %d5;
  mov.u32 %r2, box; mul.lo.u32 %r3, %r0, 4; add.u32 %r2, %r2, %r3; mov.u32 %r4, 0;
L: ld.global.b32 %r5, [%d0]; st.shared.b32 [%r2], %r5; add.u64 %d0, %d0, 512;
  add.u32 %r2, %r2, 512; add.u32 %r4, %r4, 512; setp.lt.u32 %p1, %r4, 49152; @%p1 bra L;
  fence.proxy.async.shared::cta; bar.sync 0;
)" + moves("x", "%d1", d, false) +
         moves("y", "%d2", 4, false) + "wgmma.fence.sync.aligned;\n" + one.text() + " " +
         list("x", d) + ", " + (way.a_in_registers ? list("y", 4) : "%d3") + ", %d4, %p0" +
         way.name(one) + ";\nwgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n" +
         moves("x", "%d1", d, true) + "ret;\n}\n";
}

// How a matrix with so many rows or columns lies in shared memory, and k elements along the other
// side: the ISA's canonical layouts.
struct Layout {
  const Format *format;
  bool turned;                      // m or n lies side by side, not k
  unsigned span;                    // 16-byte units that are swizzled: 1, 2, 4, 8
  unsigned start, leading, stride;  // bytes

  unsigned place(unsigned outer, unsigned k) const {
    const unsigned size = static_cast<unsigned>(format->bits) / 8, unit = 16 / size;
    unsigned at = start;
    if (!turned) {
      at += outer % 8 * span * 16 + outer / 8 * stride + k % unit * size;
      at += k / unit * (span == 1 ? leading : 16);
    } else {
      at += outer % unit * size + outer / unit % span * 16;
      at += outer / unit / span * (span == 1 ? stride : leading);
      at += k % 8 * span * 16 + k / 8 * (span == 1 ? leading : stride);
    }
    const unsigned row = at / 128 % span;
    return at ^ row * 16;
  }
  uint64_t descriptor() const {
    const uint64_t mode = span == 1 ? 0 : span == 8 ? 1 : span == 4 ? 2 : 3;
    return start / 16 | uint64_t{leading / 16} << 16 | uint64_t{stride / 16} << 32 | mode << 62;
  }
};

class Bench {
 public:
  rig::Device device{1};
  std::mt19937 random{11};
  uint8_t *image = device.array<uint8_t>(kShared);
  uint32_t *words = device.array<uint32_t>(kMostRegisters * kThreads);
  uint32_t *fragment = device.array<uint32_t>(4 * kThreads);

  unsigned below(unsigned end) { return static_cast<unsigned>(random() % end); }

  // From `begin` on, in a layout drawn at random.
  Layout layout(const Format &format, unsigned outer, bool turned, unsigned begin) {
    Layout made{&format, turned, 1u << below(4), begin, 0, 0};
    const unsigned pattern = made.span * 128, gap = outer > 64 ? 0 : pattern * below(2);
    const unsigned outers = turned ? outer / (8 * made.span) : outer / 8;
    if (made.span == 1) {
      // Blocks along k lie next to each other, or those along the other side.
      const bool along = below(2);
      made.leading = along ? 128 : outer / 8 * 128 + gap;
      made.stride = along ? 256 + gap : 128;
    } else if (!turned) {
      made.stride = pattern + gap;
      made.leading = 16 * below(9);  // is not looked at
      made.start += 32 * below(made.span / 2);
    } else {
      const bool along = below(2);
      made.stride = along ? pattern + gap : (outers ? outers : 1) * pattern + gap;
      made.leading = along ? 2 * made.stride : pattern;
    }
    return made;
  }

  void run(const Case &one, const Way &way, bool special) {
    const unsigned k = one.k(), n = one.n;
    for (unsigned i = 0; i < kShared; ++i) image[i] = static_cast<uint8_t>(random());
    Dense a = random_dense(64, k, *one.a, random, special);
    Dense b = random_dense(k, n, *one.b, random, special);
    Dense c = random_dense(64, n, *one.d, random, false);
    if (one.saturate)
      for (uint64_t &x : c.at) x = (x & 1 ? 0x7fffffff : 0x80000000u) ^ (x & 0xff00) >> 8;
    const bool adds = below(4);
    // Turned swizzled matrices have whole spans.
    Layout la = layout(*one.a, 64, way.turn_a, 0);
    Layout lb = layout(*one.b, n, way.turn_b, 16384);
    while (way.turn_b && n % (8 * lb.span)) lb = layout(*one.b, n, way.turn_b, 16384);
    const unsigned size = static_cast<unsigned>(one.a->bits) / 8;
    for (unsigned i = 0; i < k; ++i) {
      for (unsigned r = 0; r < 64; ++r) std::memcpy(image + la.place(r, i), &a(r, i), size);
      for (unsigned r = 0; r < n; ++r) std::memcpy(image + lb.place(r, i), &b(i, r), size);
    }
    std::fill(words, words + kMostRegisters * kThreads, 0);
    std::fill(fragment, fragment + 4 * kThreads, 0);
    auto each_d = [&](auto f) {
      const unsigned elements = n * 64 / kThreads, bits = static_cast<unsigned>(one.d->bits);
      for (unsigned t = 0; t < kThreads; ++t)
        for (unsigned i = 0; i < elements; ++i) {
          const unsigned row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8;
          const unsigned column = i / 4 * 8 + t % 4 * 2 + i % 2;
          f(row, column, words + i * bits / 32 * kThreads + t, i * bits % 32);
        }
    };
    each_d([&](unsigned r, unsigned column, uint32_t *word, unsigned shift) {
      *word |= static_cast<uint32_t>(c(r, column) << shift);
    });
    for (unsigned t = 0; t < kThreads; ++t)
      for (unsigned i = 0; i < 128 / static_cast<unsigned>(one.a->bits); ++i) {
        const Position at = place_a(*one.a, {16, 8, k}, t % 32, i);
        const unsigned bit = i * static_cast<unsigned>(one.a->bits);
        fragment[bit / 32 * kThreads + t] |=
            static_cast<uint32_t>(a(t / 32 * 16 + at.row, at.column) << bit % 32);
      }
    auto program = device.load(module(kernel_of(one, way)));
    const std::string what = one.text() + way.name(one);
    if (!program) return fail(__FILE__, __LINE__, what + ": not loaded");
    rig::Status status = device.launch(program, "k", {1}, {kThreads},
                                       Parameters()
                                           .add(image)
                                           .add(words)
                                           .add(fragment)
                                           .add(la.descriptor())
                                           .add(lb.descriptor())
                                           .add(uint32_t{adds}));
    if (!status.ok()) return fail(__FILE__, __LINE__, what + ": " + status.message);
    Dense got(64, n);
    each_d([&](unsigned r, unsigned column, uint32_t *word, unsigned shift) {
      got(r, column) = one.d->bits == 16 ? *word >> shift & 0xffff : *word;
    });
    if (!adds) std::fill(c.at.begin(), c.at.end(), 0);
    const uint64_t sign = uint64_t{1} << (one.a->bits - 1);
    if (way.negate_a != way.negate_b)
      for (uint64_t &x : a.at) x ^= sign;
    compare(
        what, got,
        product(*one.a, a, *one.b, b, *one.d, c, *one.d, one.saturate, BitOp::None, FE_TONEAREST));
    proven::add(one.text(), size_t{64} * n);
  }

  void run_all(const Case &one) {
    const bool wide = one.a == &bf16 || one.a == &tf32;
    for (unsigned round = 0; round < 4; ++round) {
      Way way;
      way.a_in_registers = round % 2;
      if (!one.integers()) way.negate_a = below(2), way.negate_b = below(2);
      if (one.halves()) way.turn_a = !way.a_in_registers && below(2), way.turn_b = below(2);
      run(one, way, round / 2 && !wide);
    }
  }
};

const unsigned kSomeColumns[] = {8, 24, 64, 256};

}  // namespace

TEST(wgmma_of_half_precision) {
  Bench bench;
  for (unsigned n = 8; n <= 256; n += 8) bench.run_all({n, &f16, &f16, &f32});
  for (unsigned n : kSomeColumns) {
    bench.run_all({n, &f16, &f16, &f16});
    bench.run_all({n, &bf16, &bf16, &f32});
  }
}

TEST(wgmma_of_other_floats) {
  Bench bench;
  for (unsigned n : kSomeColumns) {
    bench.run_all({n, &tf32, &tf32, &f32});
    for (const Format *a : {&e4m3, &e5m2})
      for (const Format *b : {&e4m3, &e5m2})
        for (const Format *d : {&f16, &f32}) bench.run_all({n, a, b, d});
  }
}

TEST(wgmma_of_integers) {
  Bench bench;
  for (unsigned n : kSomeColumns)
    for (const Format *a : {&s8, &u8})
      for (const Format *b : {&s8, &u8})
        for (bool saturate : {false, true}) bench.run_all({n, a, b, &s32, saturate});
}

TEST(wgmma_has_no_other_forms) {
  Bench bench;
  const std::string good = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 ";
  const std::string four = "{%x0, %x1, %x2, %x3}", rest = "%d3, %d4, %p0";
  auto text = [&](const std::string &instruction) {
    std::string all = kernel_of({8, &f16, &f16, &f32}, {});
    const size_t at = all.find("wgmma.mma_async"), end = all.find(';', at) + 1;
    return module(all.replace(at, end - at, instruction));
  };
  auto translates = [&](const std::string &instruction) {
    auto program = bench.device.load(text(instruction));
    return program && bench.device
                          .launch(program, "k", {1}, {kThreads},
                                  Parameters()
                                      .add(bench.image)
                                      .add(bench.words)
                                      .add(bench.fragment)
                                      .add(uint64_t{1} << 32)
                                      .add(uint64_t{1} << 32)
                                      .add(uint32_t{1}))
                          .ok();
  };
  CHECK(translates(good + four + ", " + rest + ", 1, 1, 0, 0;"));
  CHECK(translates(good + four + ", %d3, %d4, 0, 1, -1, 0, 1;"));
  for (const std::string &bad : {
           good + four + ", " + rest + ", 1, 2, 0, 0;",
           good + four + ", " + rest + ", 1, 1, 0, 2;",
           good + four + ", " + rest + ", 1, 1, 0;",
           good + four + ", {%y0, %y1, %y2, %y3}, %d4, %p0, 1, 1, 0, 0;",
           good + "{%x0, %x1}, " + rest + ", 1, 1, 0, 0;",
           "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 " + four + ", " + rest +
               ", 1, 1, 0, 0;",
           "wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16 " + four + ", " + rest +
               ", 1, 1, 0, 0;",
           "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 " + four + ", " + rest +
               ", 1, 1, 0, 0;",
           "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 " + four + ", " + rest +
               ", 1, 1, 0, 0;",
           "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 " + list("x", 20) + ", " + rest + ";",
           "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 " + four +
               ", %d3, %d4, %x4, 0, %p0, 1, 1, 0, 0;",
           std::string("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc ") + four + ", " +
               rest + ";",
       })
    if (translates(bad)) fail(__FILE__, __LINE__, bad);
  for (const char *form : {"wgmma.fence.sync.aligned", "wgmma.commit_group.sync.aligned",
                           "wgmma.wait_group.sync.aligned"})
    proven::add(form, 1, false, proven::kNoEffect);
}

TEST(warps_ask_for_registers) {
  rig::Device device(1);
  auto good = [&](const std::string &text) {
    auto program = device.load(module(kernel("k", 1, text + store_result("%r0"))));
    auto *out = device.array<uint32_t>(kThreads);
    return program && device.launch(program, "k", {1}, {kThreads}, Parameters().add(out)).ok() &&
           out[77] == 77;
  };
  for (const char *way : {"inc", "dec"}) {
    const std::string form = std::string("setmaxnreg.") + way + ".sync.aligned.u32";
    CHECK(good(form + " 24;"));
    CHECK(good(form + " 256;"));
    CHECK(!good(form + " 16;"));
    CHECK(!good(form + " 100;"));
    proven::add(form, 1, false, proven::kNoEffect);
  }
}

TEST(wgmma_reads_no_other_memory) {
  Bench bench;
  auto program = bench.device.load(module(kernel_of({8, &f16, &f16, &f32}, {})));
  auto run = [&](uint64_t a, uint64_t b) {
    return bench.device.launch(program, "k", {1}, {kThreads},
                               Parameters()
                                   .add(bench.image)
                                   .add(bench.words)
                                   .add(bench.fragment)
                                   .add(a)
                                   .add(b)
                                   .add(uint32_t{1}));
  };
  const uint64_t good = uint64_t{8} << 16 | uint64_t{16} << 32;
  CHECK(run(good, good).ok());
  // At the end of shared memory, and by strides that lead out of it.
  CHECK_FAILS(run(good, good | (kShared / 16 - 8)), 700, "shared");
  CHECK(run(good, good | (kShared / 16 - 16)).ok());
  CHECK_FAILS(run(good | uint64_t{0x3fff} << 32, good), 700, "shared");
  CHECK_FAILS(run(good, good | uint64_t{1} << 49), 715, "base offset");
}
