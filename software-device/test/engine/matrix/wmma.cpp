// wmma: matrices of memory in, matrices of memory out, whatever the fragments are.
#include <cfenv>

#include "../behaviour/check.h"
#include "../proven.h"
#include "reference.h"

using namespace check;
using namespace matrix;
using rig::Device;
using rig::Parameters;

namespace {

struct Case {
  Shape shape;
  const Format *ab, *c, *d;
  bool row_a = true, row_b = false, row_c = true, row_d = true;
  const char *space = ".global";
  unsigned pad = 0;  // elements between rows; 0: no stride is written
  bool saturate = false;
  BitOp op = BitOp::None;
  const char *round = "";
  int rounding = FE_TONEAREST;
};

unsigned fragment_registers(const Format &format, unsigned elements, bool multiplicand) {
  if (multiplicand && &format == &f16) return 8;
  return static_cast<unsigned>(format.bits) * elements / 32 / (format.bits == 64 ? 64 : 32);
}
std::string fragment(const Format &format, char matrix, unsigned count) {
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i)
    text += std::string(i ? "," : "") + "%" + matrix + (format.bits == 64 ? "d" : "r") +
            std::to_string(i);
  return text + "}";
}

constexpr unsigned kBuffer = 8192;  // bytes of one matrix

bool in_shared(const Case &one) { return std::strncmp(one.space, ".shared", 7) == 0; }

struct Texts {
  std::string load_a, load_b, load_c, mma, store;
};

Texts texts_of(const Case &one) {
  const Shape &s = one.shape;
  bool shared = in_shared(one);
  auto at = [&](int index) {
    return shared ? "[%r20+" + std::to_string(index * kBuffer) + "]"
                  : "[%d" + std::to_string(index) + "]";
  };
  auto stride = [&](bool row, unsigned rows, unsigned columns) {
    return one.pad ? ", " + std::to_string((row ? columns : rows) + one.pad) : std::string();
  };
  auto layout = [](bool row) { return row ? ".row." : ".col."; };
  unsigned a = fragment_registers(*one.ab, s.m * s.k, true);
  unsigned b = fragment_registers(*one.ab, s.k * s.n, true);
  unsigned c = fragment_registers(*one.c, s.m * s.n, false);
  unsigned d = fragment_registers(*one.d, s.m * s.n, false);
  Texts t;
  std::string shape = s.name(), tail = std::string(one.space) + ".";
  t.load_a = "wmma.load.a.sync.aligned" + std::string(layout(one.row_a)) + shape + tail +
             one.ab->name + " " + fragment(*one.ab, 'a', a) + ", " + at(1) +
             stride(one.row_a, s.m, s.k) + ";\n";
  t.load_b = "wmma.load.b.sync.aligned" + std::string(layout(one.row_b)) + shape + tail +
             one.ab->name + " " + fragment(*one.ab, 'b', b) + ", " + at(2) +
             stride(one.row_b, s.k, s.n) + ";\n";
  t.load_c = "wmma.load.c.sync.aligned" + std::string(layout(one.row_c)) + shape + tail +
             one.c->name + " " + fragment(*one.c, 'c', c) + ", " + at(3) +
             stride(one.row_c, s.m, s.n) + ";\n";
  t.store = "wmma.store.d.sync.aligned" + std::string(layout(one.row_d)) + shape + tail +
            one.d->name + " " + at(0) + ", " + fragment(*one.d, 'd', d) +
            stride(one.row_d, s.m, s.n) + ";\n";
  t.mma = "wmma.mma";
  if (one.op != BitOp::None) t.mma += one.op == BitOp::Xor ? ".xor.popc" : ".and.popc";
  t.mma += ".sync.aligned" + std::string(layout(one.row_a)) + (one.row_b ? "row." : "col.") + shape;
  if (*one.round) t.mma += std::string(".") + one.round;
  t.mma += std::string(".") + one.d->name;
  if (one.ab != &f16) t.mma += std::string(".") + one.ab->name + "." + one.ab->name;
  t.mma += std::string(".") + one.c->name + (one.saturate ? ".satfinite " : " ");
  t.mma += fragment(*one.d, 'd', d) + ", " + fragment(*one.ab, 'a', a) + ", " +
           fragment(*one.ab, 'b', b) + ", " + fragment(*one.c, 'c', c) + ";\n";
  return t;
}

std::string kernel_of(const std::string &name, const Case &one) {
  Texts t = texts_of(one);
  std::string body;
  for (char matrix : {'a', 'b', 'c', 'd'})
    body += std::string(".reg .b32 %") + matrix + "r<8>; .reg .b64 %" + matrix + "d<8>;\n";
  if (!in_shared(one))
    return kernel(name, 4, body + t.load_a + t.load_b + t.load_c + t.mma + t.store);
  // Everything goes through dynamic shared memory, which is filled and copied back.
  std::string words = std::to_string(kBuffer);
  body += "mov.u32 %r20, dynamic;\n";
  for (int index : {1, 2, 3, 0}) {
    std::string label = "L" + std::to_string(index), i = std::to_string(index);
    if (index == 0)
      body += "bar.sync 0;\n" + t.load_a + t.load_b + t.load_c + t.mma + t.store + "bar.sync 0;\n";
    body += "shl.b32 %r5, %r0, 2; cvt.u64.u32 %d20, %r5; add.s64 %d21, %d" + i +
            ", %d20; add.u32 %r6, %r20, %r5; add.u32 %r6, %r6, " + std::to_string(index * kBuffer) +
            "; mov.u32 %r7, 0;\n" + label + ":\n" +
            (index ? "ld.global.u32 %r8, [%d21]; st.shared.u32 [%r6], %r8;\n"
                   : "ld.shared.u32 %r8, [%r6]; st.global.u32 [%d21], %r8;\n") +
            "add.s64 %d21, %d21, 128; add.u32 %r6, %r6, 128; add.u32 %r7, %r7, 128; "
            "setp.lt.u32 %p0, %r7, " +
            words + "; @%p0 bra " + label + ";\n";
  }
  return ".extern .shared .align 32 .b8 dynamic[];\n" + kernel(name, 4, body);
}

// Elements in memory, with `pad` elements more in each row (or column).
void to_memory(const Format &format, const Dense &dense, bool row, unsigned pad, uint8_t *bytes) {
  unsigned line = (row ? dense.columns : dense.rows) + pad;
  std::fill(bytes, bytes + kBuffer, 0);
  for (unsigned r = 0; r < dense.rows; ++r)
    for (unsigned c = 0; c < dense.columns; ++c) {
      size_t index = row ? r * line + c : c * line + r;
      uint64_t element = dense(r, c);
      if (format.bits < 8) {
        size_t bit = index * format.bits;
        bytes[bit / 8] |= static_cast<uint8_t>(element << bit % 8);
      } else {
        std::memcpy(bytes + index * format.bits / 8, &element, format.bits / 8);
      }
    }
}
Dense from_memory(const Format &format, unsigned rows, unsigned columns, bool row, unsigned pad,
                  const uint8_t *bytes) {
  Dense dense(rows, columns);
  unsigned line = (row ? columns : rows) + pad;
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned c = 0; c < columns; ++c)
      std::memcpy(&dense(r, c), bytes + (row ? r * line + c : c * line + r) * format.bits / 8,
                  format.bits / 8);
  return dense;
}

void run(const Case &one) {
  static Device device(1);
  static uint8_t *memory[4] = {device.array<uint8_t>(kBuffer), device.array<uint8_t>(kBuffer),
                               device.array<uint8_t>(kBuffer), device.array<uint8_t>(kBuffer)};
  static std::mt19937 random(11);
  const Shape &s = one.shape;
  const Texts texts = texts_of(one);
  std::string what =
      texts.mma + " after " + texts.load_a + texts.load_b + texts.load_c + texts.store;
  constexpr unsigned kRounds = 3;
  proven::add_text(texts.mma, size_t{kRounds} * s.m * s.n);
  proven::add_text(texts.load_a, size_t{kRounds} * s.m * s.k);
  proven::add_text(texts.load_b, size_t{kRounds} * s.k * s.n);
  proven::add_text(texts.load_c, size_t{kRounds} * s.m * s.n);
  proven::add_text(texts.store, size_t{kRounds} * s.m * s.n);
  auto program = device.load(module(kernel_of("k", one)));
  if (!program) return fail(__FILE__, __LINE__, what);
  for (unsigned round = 0; round < kRounds; ++round) {
    bool special = round == 1 && one.ab == &f16;
    Dense a = random_dense(s.m, s.k, *one.ab, random, special);
    Dense b = random_dense(s.k, s.n, *one.ab, random, special);
    Dense c = random_dense(s.m, s.n, *one.c, random, false);
    if (one.saturate && one.c == &s32)
      for (uint64_t &x : c.at) x = (x & 1 ? 0x7fffffff : 0x80000000u) ^ (x & 0xff00) >> 8;
    to_memory(*one.ab, a, one.row_a, one.pad, memory[1]);
    to_memory(*one.ab, b, one.row_b, one.pad, memory[2]);
    to_memory(*one.c, c, one.row_c, one.pad, memory[3]);
    std::fill(memory[0], memory[0] + kBuffer, 0xa5);
    rig::Status status = device.launch(
        program, "k", {1}, {32},
        Parameters().add(memory[0]).add(memory[1]).add(memory[2]).add(memory[3]), 4 * kBuffer);
    if (!status.ok()) return fail(__FILE__, __LINE__, what + status.message);
    Dense got = from_memory(*one.d, s.m, s.n, one.row_d, one.pad, memory[0]);
    Dense want =
        product(*one.ab, a, *one.ab, b, *one.c, c, *one.d, one.saturate, one.op, one.rounding);
    for (unsigned r = 0; r < s.m; ++r)
      for (unsigned n = 0; n < s.n; ++n)
        if (got(r, n) != want(r, n)) {
          char text[120];
          std::snprintf(text, sizeof text, "(%u,%u) is %llx, expected %llx", r, n,
                        static_cast<unsigned long long>(got(r, n)),
                        static_cast<unsigned long long>(want(r, n)));
          return fail(__FILE__, __LINE__, what + text);
        }
  }
}

const Shape kShapes[] = {{16, 16, 16}, {32, 8, 16}, {8, 32, 16}};

// All layouts of a case, in all spaces, with and without padding. Each matrix meets each space in
// each of its layouts.
void all_layouts(Case one, unsigned pad, bool fixed = false) {
  static const char *const kSpaces[] = {"", ".global", ".shared", ".shared::cta"};
  for (unsigned layouts = 0; layouts < 16; ++layouts) {
    const bool a = layouts & 1, b = layouts & 2, c = layouts & 4, d = layouts & 8;
    if (fixed && (!a || b)) continue;  // the one layout that elements of less than a byte have
    one.row_a = a;
    one.row_b = b;
    one.row_c = c;
    one.row_d = d;
    const unsigned first = a != b ? 1 : 0, second = (a != b) != (c != d) ? 2 : 0;
    one.space = kSpaces[fixed ? layouts >> 2 : first + second];
    one.pad = layouts == 3 || layouts == 12 ? 0 : pad;
    run(one);
    if (!fixed) continue;
    one.row_c = !c;
    one.row_d = !d;
    run(one);
  }
}

}  // namespace

TEST(wmma_of_f16) {
  for (const Shape &shape : kShapes)
    for (const Format *c : {&f32, &f16})
      for (const Format *d : {&f32, &f16}) all_layouts({shape, &f16, c, d}, 8);
  for (const Shape &shape : kShapes)
    for (const Format *c : {&f32, &f16})
      for (const Format *d : {&f32, &f16}) {
        Case one{shape, &f16, c, d};
        one.saturate = true;  // until PTX 6.4
        all_layouts(one, 0);
      }
}

TEST(wmma_of_bf16_tf32_f64) {
  for (const Shape &shape : kShapes) all_layouts({shape, &bf16, &f32, &f32}, 8);
  all_layouts({{16, 16, 8}, &tf32, &f32, &f32}, 4);
  all_layouts({{8, 8, 4}, &f64, &f64, &f64}, 2);
  const std::pair<const char *, int> rounds[] = {
      {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
  for (auto [name, mode] : rounds) {
    Case one{{8, 8, 4}, &f64, &f64, &f64};
    one.round = name;
    one.rounding = mode;
    all_layouts(one, 2);
  }
}

TEST(wmma_of_integers) {
  for (bool saturate : {false, true}) {
    for (const Shape &shape : kShapes)
      for (const Format *ab : {&s8, &u8}) {
        Case one{shape, ab, &s32, &s32};
        one.saturate = saturate;
        all_layouts(one, 16);
      }
    for (const Format *ab : {&s4, &u4}) {
      Case one{{8, 8, 32}, ab, &s32, &s32};
      one.saturate = saturate;
      all_layouts(one, 32, true);
    }
  }
  for (BitOp op : {BitOp::Xor, BitOp::And}) {
    Case one{{8, 8, 128}, &b1, &s32, &s32};
    one.op = op;
    all_layouts(one, 128, true);
  }
}

// What a program does with each element of a fragment, it does with each element of the matrix.
TEST(wmma_fragments_are_element_by_element) {
  Device device(1);
  auto program = device.load(module(kernel("k", 1, R"(
    .reg .b32 %v<8>; .reg .b16 %lo, %hi;
    wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}, [%d0];
    wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {%r4,%r5,%r6,%r7}, [%d0+512];
    add.rn.f16x2 %v0, %v0, %v0; add.rn.f16x2 %v1, %v1, %v1; add.rn.f16x2 %v2, %v2, %v2;
    add.rn.f16x2 %v3, %v3, %v3; add.rn.f16x2 %v4, %v4, %v4; add.rn.f16x2 %v5, %v5, %v5;
    add.rn.f16x2 %v6, %v6, %v6; add.rn.f16x2 %v7, %v7, %v7;
    add.rn.f16x2 %r4, %r4, %r4; add.rn.f16x2 %r5, %r5, %r5; add.rn.f16x2 %r6, %r6, %r6;
    add.rn.f16x2 %r7, %r7, %r7;
    wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, [%d0+1024];
    wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {%r4,%r5,%r6,%r7},
      {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}, {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, {%r4,%r5,%r6,%r7};
    wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%d0], {%r4,%r5,%r6,%r7};)")));
  auto *data = device.array<uint16_t>(768);
  // a: i in row i, so that b = 1 gives 16 * 2 * i; c: 1
  for (unsigned i = 0; i < 256; ++i) {
    data[i] = static_cast<uint16_t>(rounded(f16, i / 16));
    data[256 + i] = 0x3c00;
    data[512 + i] = 0x3c00;
  }
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(data)));
  for (unsigned i = 0; i < 256; ++i) CHECK(value(f16, data[i]) == 32.0 * (i / 16) + 2);
}

TEST(wmma_accesses_are_checked) {
  Device device(1);
  auto *data = device.array<uint8_t>(1 << 20);
  uint64_t end = reinterpret_cast<uint64_t>(data) + (1 << 20);
  const std::string registers = "{%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}";
  auto run = [&](const std::string &text, uint64_t address) {
    auto program = device.load(module(kernel("k", 1, ".reg .b32 %v<8>;\n" + text)));
    return device.launch(program, "k", {1}, {32}, Parameters().add(address));
  };
  auto at = reinterpret_cast<uint64_t>(data);
  std::string load = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 " + registers + ", [%d0]";
  CHECK_OK(run(load + ";", end - 512));
  CHECK_FAILS(run(load + ";", end - 480), 700, "wmma.load.a", "global", "not allowed");
  CHECK_FAILS(run(load + ", 0x7fffffff;", at), 700, "not allowed");
  CHECK_FAILS(run(load + ";", at + 2), 716, "misaligned");
  CHECK_FAILS(run(load + ";", 0), 700, "0x0 is not allowed");
  CHECK_FAILS(
      run("wmma.store.d.sync.aligned.col.m16n16k16.f32 [%d0], " + registers + ", 64;", end - 64),
      700, "write of 4 bytes");
  CHECK_FAILS(run("wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 " + registers + ", [%r0];", 0),
              700, "shared");
  auto refused = [&](const std::string &text, const char *word) {
    auto program = device.load(module(kernel("k", 1, ".reg .b32 %v<8>;\n" + text)));
    CHECK_FAILS(program->find_kernel("k")->translate(), 218, word);
  };
  refused("wmma.load.a.sync.aligned.row.m16n16k8.global.f16 " + registers + ", [%d0];", "shape");
  refused("wmma.load.a.sync.aligned.row.m16n16k16.const.f16 " + registers + ", [%d0];", ".global");
  refused("wmma.load.a.sync.aligned.m16n16k16.global.f16 " + registers + ", [%d0];", ".row");
  refused("wmma.load.b.sync.aligned.row.m8n8k32.global.s4 {%v0}, [%d0];", "layout");
  refused("wmma.store.d.sync.aligned.row.m16n16k16.global.bf16 [%d0], {%v0};", "type");
}
