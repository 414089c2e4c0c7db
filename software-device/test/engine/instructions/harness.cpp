#include "harness.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include "../rig.h"

namespace harness {
namespace {

std::vector<Case> &cases() {
  static std::vector<Case> all;
  return all;
}

unsigned register_bits(Kind kind) {
  switch (kind) {
    case Kind::P:
      return 1;
    case Kind::B8:
    case Kind::U8:
    case Kind::S8:
    case Kind::B16:
    case Kind::U16:
    case Kind::S16:
    case Kind::F16:
    case Kind::BF16:
      return 16;
    case Kind::B64:
    case Kind::U64:
    case Kind::S64:
    case Kind::F64:
    case Kind::F32x2:
      return 64;
    default:
      return 32;
  }
}

std::vector<uint64_t> edges(Kind kind) {
  switch (kind) {
    case Kind::P:
      return {0, 1};
    case Kind::B8:
    case Kind::U8:
    case Kind::S8:
      return {0, 1, 2, 0x7f, 0x80, 0x81, 0xff, 0x55};
    case Kind::B16:
    case Kind::U16:
    case Kind::S16:
      return {0,    1,      2,      15,     16,     17,     0x7f,  0x80,
              0xff, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff, 0x5555};
    case Kind::F16:
      return {0,      0x8000, 1,      0x8001, 0x3ff,  0x400,  0x3c00, 0xbc00, 0x3c01, 0x3800,
              0x4000, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x5640, 0x1400, 0x3555};
    case Kind::BF16:
      return {0,      0x8000, 1,      0x8001, 0x7f,   0x80,   0x3f80, 0xbf80, 0x3f81, 0x3f00,
              0x4000, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x42c8, 0x3eab, 0x4049};
    case Kind::B32:
    case Kind::U32:
    case Kind::S32:
      return {0,          1,          2,          3,         7,          8,          15,
              16,         24,         31,         32,        33,         63,         64,
              0xff,       0x100,      0xffff,     0x10000,   0x7fffffff, 0x80000000, 0x80000001,
              0xfffffffe, 0xffffffff, 0x55555555, 0x00800000};
    case Kind::F16x2:
      return {0x3c004000, 0x7c000001, 0xfbff7bff, 0x80000000, 0x7e003555, 0x04003c01};
    case Kind::BF16x2:
      return {0x3f804000, 0x7f800001, 0xff7f7f7f, 0x80000000, 0x7fc03eab, 0x00803f81};
    case Kind::F32: {
      std::vector<uint64_t> all = {0,          0x80000000, 1,          0x80000001, 0x7fffff,
                                   0x807fffff, 0x800000,   0x3f800000, 0xbf800000, 0x3f800001,
                                   0x3f7fffff, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                                   0x7fc00000, 0xffc00001, 0x7f800001};
      for (float x : {0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 3.14159f, 1e-20f, 1e20f, 255.5f, 32767.5f,
                      65535.5f, 2147483648.0f, 4294967296.0f, -2147483648.0f, 9.2233720e18f,
                      1.8446744e19f, 0.1f, 8388609.0f, -1e-40f})
        all.push_back(bits(x));
      return all;
    }
    case Kind::F32x2: {
      // Each beside another one.
      std::vector<uint64_t> singles = edges(Kind::F32), all;
      for (size_t i = 0; i < singles.size(); ++i)
        all.push_back(singles[i] | singles[(i * 7 + 3) % singles.size()] << 32);
      return all;
    }
    case Kind::F64: {
      std::vector<uint64_t> all = {0,
                                   uint64_t{1} << 63,
                                   1,
                                   0xfffffffffffff,
                                   0x10000000000000,
                                   0x7fefffffffffffff,
                                   0xffefffffffffffff,
                                   0x7ff0000000000000,
                                   0xfff0000000000000,
                                   0x7ff8000000000000,
                                   0x7ff0000000000001};
      for (double x : {1.0,
                       -1.0,
                       0.5,
                       1.5,
                       -2.5,
                       3.14159,
                       1e-300,
                       1e300,
                       255.5,
                       2147483647.5,
                       4294967295.5,
                       9007199254740993.0,
                       9223372036854775808.0,
                       18446744073709551616.0,
                       1e-45,
                       3.5e38,
                       65519.999,
                       65520.0,
                       0.1,
                       -0.1,
                       1.0000000596046448,
                       1.0000001788139343,
                       5.9604644775390625e-08})
        all.push_back(bits(x));
      return all;
    }
    default:
      return {0,
              1,
              2,
              31,
              32,
              63,
              64,
              65,
              0xffffffff,
              0x100000000,
              0x7fffffffffffffff,
              0x8000000000000000,
              0x8000000000000001,
              0xfffffffffffffffe,
              0xffffffffffffffff,
              0x5555555555555555,
              0x0020000000000001,
              0x7ffffffffffffdff};
  }
}

uint64_t random_value(Kind kind, std::mt19937_64 &random) {
  uint64_t raw = random();
  switch (kind) {
    case Kind::F32: {
      // Half of them of ordinary size, so that results are not mostly infinite.
      if (raw & 1) return static_cast<uint32_t>(raw >> 32);
      return bits(
          static_cast<float>(std::ldexp(static_cast<double>(static_cast<int32_t>(raw >> 32)),
                                        static_cast<int>((raw >> 1) % 48) - 44)));
    }
    case Kind::F64:
      if (raw & 1) return random();
      return bits(std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                             static_cast<int>((raw >> 1) % 96) - 90));
    case Kind::F32x2: {
      uint64_t low = random_value(Kind::F32, random);
      return low | random_value(Kind::F32, random) << 32;
    }
    case Kind::P:
      return raw & 1;
    default: {
      // Small values too.
      unsigned shift = static_cast<unsigned>(raw & 3) * 20;
      uint64_t value = random() >> shift;
      unsigned width = register_bits(kind);
      if (kind == Kind::U8 || kind == Kind::S8 || kind == Kind::B8) width = 8;
      return width == 64 ? value : value & ((uint64_t{1} << width) - 1);
    }
  }
}

const char *register_prefix(unsigned width) {
  return width == 1 ? "%p" : width == 16 ? "%h" : width == 32 ? "%r" : "%d";
}

// One kernel: d[i] = instruction(a[i], b[i], c[i]) for the lanes of `mask`.
void write_kernel(std::ostringstream &out, size_t number, const Case &one) {
  out << ".visible .entry k" << number
      << "(.param .u64 pd, .param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 pn,"
         " .param .u32 pm, .param .u64 ps)\n{\n"
         ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<16>;\n"
         "mov.u32 %r8, %tid.x; mov.u32 %r9, %ctaid.x; mov.u32 %r10, %ntid.x;\n"
         "mad.lo.s32 %r8, %r9, %r10, %r8; ld.param.u32 %r9, [pn];\n"
         "setp.ge.u32 %p7, %r8, %r9; @%p7 bra DONE;\n"
         "ld.param.u32 %r10, [pm]; and.b32 %r11, %r8, 31; shr.u32 %r10, %r10, %r11;\n"
         "and.b32 %r10, %r10, 1; setp.eq.u32 %p7, %r10, 0;\n"
         "mul.wide.u32 %d8, %r8, 8;\n";
  const char *names[] = {"pa", "pb", "pc"};
  std::string text = one.instruction;
  bool is_template = text.find('$') != std::string::npos;
  std::string operands[4];
  unsigned result_width = one.result_register ? one.result_register : register_bits(one.result);
  operands[3] = std::string(register_prefix(result_width)) + "0";
  for (size_t s = 0; s < one.sources.size(); ++s) {
    unsigned width = register_bits(one.sources[s]);
    if (s == 0 && one.source_register) width = one.source_register;
    std::string name = register_prefix(width) + std::to_string(s + 1);
    operands[s] = name;
    out << "ld.param.u64 %d9, [" << names[s]
        << "]; add.s64 %d9, %d9, %d8; ld.global.u64 %d10, [%d9];\n";
    if (width == 1)
      out << "setp.ne.u64 " << name << ", %d10, 0;\n";
    else if (width == 64)
      out << "mov.b64 " << name << ", %d10;\n";
    else
      out << "cvt.u" << width << ".u64 " << name << ", %d10;\n";
  }
  auto mentions = [&](const char *what) { return text.find(what) != std::string::npos; };
  if (mentions("$m"))
    out << "ld.param.u64 %d11, [ps]; mad.wide.u32 %d11, %r8, 64, %d11;\n"
           "st.global.v4.u64 [%d11], {0, 0, 0, 0}; st.global.v4.u64 [%d11+32], {0, 0, 0, 0};\n";
  if (mentions("$s"))
    out << ".shared .align 64 .b8 box[6144];\n"
           "mov.u32 %r12, %tid.x; mov.u32 %r13, box; mad.lo.u32 %r13, %r12, 64, %r13;\n"
           "st.shared.v4.u64 [%r13], {0, 0, 0, 0}; st.shared.v4.u64 [%r13+32], {0, 0, 0, 0};\n";
  if (mentions("$l"))
    out << ".local .align 64 .b8 depot[64];\nmov.u64 %d12, depot;\n"
           "st.local.v4.u64 [%d12], {0, 0, 0, 0}; st.local.v4.u64 [%d12+32], {0, 0, 0, 0};\n";
  // What is there before tells whether lanes that are switched off were written.
  if (result_width == 1)
    out << "setp.ne.u32 %p0, %r8, %r8;\n";
  else
    out << "mov.b" << result_width << " " << operands[3] << ", 0x1234;\n";
  out << "@%p7 bra SKIP;\n";
  if (is_template) {
    std::string filled;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '$') {
        filled += text[i];
        continue;
      }
      char which = text[++i];
      filled += which == 'd'   ? operands[3]
                : which == 'm' ? "%d11"
                : which == 's' ? "%r13"
                : which == 'l' ? "%d12"
                               : operands[which - 'a'];
    }
    out << filled << ";\n";
  } else {
    out << text << " " << operands[3];
    for (size_t s = 0; s < one.sources.size(); ++s) out << ", " << operands[s];
    out << ";\n";
  }
  out << "SKIP:\nld.param.u64 %d9, [pd]; add.s64 %d9, %d9, %d8;\n";
  if (result_width == 1)
    out << "selp.u64 %d10, 1, 0, %p0;\n";
  else if (result_width == 64)
    out << "mov.b64 %d10, %d0;\n";
  else
    out << "cvt.u64.u" << result_width << " %d10, " << operands[3] << ";\n";
  out << "st.global.u64 [%d9], %d10;\nDONE:\nret;\n}\n";
}

struct Operands {
  std::vector<uint64_t> a, b, c;
};

// The values of each source, and how they are combined. What is said of a case comes from here
// alone, so that the table cannot say more than is run.
struct Plan {
  std::vector<uint64_t> values[3];
  size_t combinations = 1, step = 1;  // of the values above
  size_t random = kRandom;
  uint64_t all_a = 0, all_b = 0;  // every value of a, and of b for each, below these
  bool exhaustive() const { return all_a != 0; }
  size_t count() const {
    return exhaustive() ? all_a * all_b : (combinations + step - 1) / step + random;
  }
  static constexpr size_t kRandom = 1500;
};

unsigned value_bits(Kind kind) {
  return kind == Kind::U8 || kind == Kind::S8 || kind == Kind::B8 ? 8 : register_bits(kind);
}

Plan plan_of(const Case &one) {
  Plan plan;
  for (size_t s = 0; s < one.sources.size(); ++s) {
    bool last = s + 1 == one.sources.size();
    plan.values[s] = last && !one.third.empty() ? one.third : edges(one.sources[s]);
  }
  for (auto &values : plan.values)
    if (values.empty()) values = {0};
  for (auto &values : plan.values) plan.combinations *= values.size();
  size_t most = one.few ? 301 : 4001;
  if (plan.combinations > (one.few ? 400 : 6000)) plan.step = plan.combinations / most | 1;
  if (one.few) plan.random = 100;
  // Everything there is of 16 bits, in one source or two.
  unsigned bits = 0;
  for (Kind kind : one.sources) bits += value_bits(kind);
  if (one.third.empty() && !one.sources.empty() && one.sources.size() <= 2 && bits <= 16) {
    plan.all_a = uint64_t{1} << value_bits(one.sources[0]);
    plan.all_b = one.sources.size() > 1 ? uint64_t{1} << value_bits(one.sources[1]) : 1;
  }
  return plan;
}

// Under sanitizers every eighth.
#ifdef SOFTDEV_TEST_SAMPLE
constexpr size_t kEvery = SOFTDEV_TEST_SAMPLE;
#else
constexpr size_t kEvery = 1;
#endif

Operands operands_of(const Case &one) {
  std::mt19937_64 random(0x5eed);
  Plan plan = plan_of(one);
  Operands out;
  size_t number = 0;
  auto push = [&](uint64_t a, uint64_t b, uint64_t c) {
    if (number++ % kEvery) return;
    out.a.push_back(a);
    out.b.push_back(b);
    out.c.push_back(c);
  };
  for (uint64_t a = 0; a < plan.all_a; ++a)
    for (uint64_t b = 0; b < plan.all_b; ++b) push(a, b, 0);
  if (plan.exhaustive()) return out;
  const auto &values = plan.values;
  for (size_t n = 0; n < plan.combinations; n += plan.step)
    push(values[0][n % values[0].size()], values[1][n / values[0].size() % values[1].size()],
         values[2][n / values[0].size() / values[1].size()]);
  for (size_t n = 0; n < plan.random; ++n) {
    uint64_t v[3] = {0, 0, 0};
    for (size_t s = 0; s < one.sources.size(); ++s) {
      bool last = s + 1 == one.sources.size();
      v[s] = last && !one.third.empty() ? one.third[random() % one.third.size()]
                                        : random_value(one.sources[s], random);
    }
    push(v[0], v[1], v[2]);
  }
  if (kEvery == 1 && out.a.size() != plan.count()) std::abort();  // the table would be wrong
  return out;
}

uint64_t width_mask(unsigned width) {
  return width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
}

}  // namespace

uint64_t bits(float value) { return std::bit_cast<uint32_t>(value); }
uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }
float as_float(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
double as_double(uint64_t bits) { return std::bit_cast<double>(bits); }

bool same_float(uint64_t got, uint64_t want) {
  return got == want || (std::isnan(as_float(got)) && std::isnan(as_float(want)));
}
bool same_double(uint64_t got, uint64_t want) {
  return got == want || (std::isnan(as_double(got)) && std::isnan(as_double(want)));
}
Accept within(int exponent, double absolute) {
  return [=](uint64_t got, uint64_t want) {
    double g = as_float(got), w = as_float(want);
    if (std::isnan(w)) return std::isnan(g);
    if (std::isinf(w) || w == 0) return g == w || std::fabs(g - w) <= absolute;
    double error = std::fabs(g - w);
    return error <= std::ldexp(std::fabs(w), -exponent) || error <= absolute || error <= 0x1p-149;
  };
}

void add(Case one) { cases().push_back(std::move(one)); }

namespace {

constexpr size_t kMostValues = 80000;
struct Buffers {
  explicit Buffers(rig::Device &device)
      : d(device.array<uint64_t>(kMostValues)),
        a(device.array<uint64_t>(kMostValues)),
        b(device.array<uint64_t>(kMostValues)),
        c(device.array<uint64_t>(kMostValues)),
        scratch(device.array<uint64_t>(kMostValues * 8)) {}
  uint64_t *d, *a, *b, *c, *scratch;
};

// What one case gives wrong, or nothing.
std::string run_case(rig::Device &device, const std::shared_ptr<rig::Program> &program,
                     const std::string &kernel, const Case &one, const Buffers &buffers,
                     size_t *results) {
  auto [d, a, b, c, scratch] = buffers;
  Operands operands = operands_of(one);
  auto count = static_cast<uint32_t>(operands.a.size());
  std::copy(operands.a.begin(), operands.a.end(), a);
  std::copy(operands.b.begin(), operands.b.end(), b);
  std::copy(operands.c.begin(), operands.c.end(), c);
  unsigned width = one.result_register ? one.result_register : register_bits(one.result);
  for (uint32_t mask : {0xffffffffu, 0x5a5a1237u}) {
    rig::Status status = device.launch(
        program, kernel.c_str(), {(count + 95) / 96}, {96},
        rig::Parameters().add(d).add(a).add(b).add(c).add(count).add(mask).add(scratch));
    if (!status.ok()) return status.message;
    for (uint32_t n = 0; n < count; ++n) {
      bool on = (mask >> (n & 31)) & 1;
      uint64_t want =
          on ? one.reference(operands.a[n], operands.b[n], operands.c[n]) & width_mask(width)
          : width == 1 ? 0
                       : 0x1234;
      ++*results;
      if (on && one.accept ? one.accept(d[n], want) : d[n] == want) continue;
      char text[200];
      std::snprintf(text, sizeof text, "a=%llx b=%llx c=%llx gave %llx, expected %llx%s",
                    static_cast<unsigned long long>(operands.a[n]),
                    static_cast<unsigned long long>(operands.b[n]),
                    static_cast<unsigned long long>(operands.c[n]),
                    static_cast<unsigned long long>(d[n]), static_cast<unsigned long long>(want),
                    on ? "" : " (the lane was off)");
      return text;
    }
  }
  return {};
}

}  // namespace

int run_all(const std::string &filter) {
  std::ostringstream ptx;
  ptx << ".version 9.0\n.target sm_90\n.address_size 64\n.const .align 64 .b8 constants[64] = {";
  for (unsigned i = 0; i < 64; ++i) ptx << (i ? "," : "") << constant_byte(i);
  ptx << "};\n";
  std::vector<size_t> chosen;
  for (size_t i = 0; i < cases().size(); ++i) {
    if (cases()[i].instruction.find(filter) == std::string::npos) continue;
    if (kEvery > 1 && cases().size() > 1000 && i % 8) continue;
    chosen.push_back(i);
    write_kernel(ptx, i, cases()[i]);
  }
  rig::Device device;
  auto program = device.load(ptx.str());
  if (!program) return 1;
  Buffers buffers(device);
  int failed = 0;
  size_t results = 0;
  for (size_t i : chosen) {
    std::string wrong =
        run_case(device, program, "k" + std::to_string(i), cases()[i], buffers, &results);
    if (wrong.empty()) continue;
    std::printf("FAIL %s: %s\n", cases()[i].instruction.c_str(), wrong.c_str());
    ++failed;
  }
  std::printf("%zu instructions, %zu results, %d instructions wrong\n", chosen.size(), results,
              failed);
  return failed ? 1 : chosen.empty() ? 1 : 0;
}

const std::vector<Case> &all_cases() { return cases(); }
size_t planned_values(const Case &one, bool *exhaustive) {
  Plan plan = plan_of(one);
  *exhaustive = plan.exhaustive();
  return plan.count();
}

}  // namespace harness
