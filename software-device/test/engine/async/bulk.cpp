// Bulk copies and reductions in every form: between global memory, the block's shared memory and
// that of the other block of a cluster.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "../behaviour/check.h"
#include "../instructions/reference.h"
#include "../proven.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

constexpr unsigned kBytes = 256;

// Two blocks of one thread each. Shared memory: a source, filled from p1 (256 bytes a block), a
// target, filled from p0 and copied back at the end, and an mbarrier that waits for 256 bytes.
// %r20 source, %r21 target, %r22 barrier; %r23 and %r24: the last two in the other block; %d20,
// %d21: the block's parts of p1 and p0; %d22: a policy.
std::string bulk_kernel(const std::string &name, const std::string &text, bool waits) {
  return kernel(name, 2,
                R"(
    .shared .align 128 .b8 from[256]; .shared .align 128 .b8 to[256]; .shared .align 8 .b64 bar;
    mov.u32 %r20, from; mov.u32 %r21, to; mov.u32 %r22, bar; xor.b32 %r25, %r1, 1;
    mapa.shared::cluster.u32 %r23, %r21, %r25; mapa.shared::cluster.u32 %r24, %r22, %r25;
    mul.wide.u32 %d20, %r1, 256; add.s64 %d21, %d0, %d20; add.s64 %d20, %d1, %d20;
    createpolicy.fractional.L2::evict_first.b64 %d22; mov.u32 %r26, 0;
    mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
    { FILL: cvt.u64.u32 %d23, %r26; add.s64 %d24, %d20, %d23; ld.global.u32 %r27, [%d24];
    add.u32 %r28, %r20, %r26; st.shared.u32 [%r28], %r27; add.s64 %d24, %d21, %d23;
    ld.global.u32 %r27, [%d24]; add.u32 %r28, %r21, %r26; st.shared.u32 [%r28], %r27;
    add.u32 %r26, %r26, 4; setp.lt.u32 %p0, %r26, 256; @%p0 bra FILL; }
    barrier.cluster.arrive; barrier.cluster.wait;
    )" + text +
                    (waits ? R"(
    W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra W; mov.u32 %r26, 0;
    { OUT: cvt.u64.u32 %d23, %r26; add.u32 %r28, %r21, %r26; ld.shared.u32 %r27, [%r28];
    add.s64 %d24, %d21, %d23; st.global.u32 [%d24], %r27;
    add.u32 %r26, %r26, 4; setp.lt.u32 %p0, %r26, 256; @%p0 bra OUT; })"
                           : "\ncp.async.bulk.commit_group; cp.async.bulk.wait_group 0;") +
                    "\nbarrier.cluster.arrive; barrier.cluster.wait;");
}

struct Bench {
  Device device{2};
  uint8_t *out = device.array<uint8_t>(2 * kBytes), *in = device.array<uint8_t>(2 * kBytes);
  std::vector<uint8_t> before = std::vector<uint8_t>(2 * kBytes);
  std::mt19937 random{41};

  Bench() { device.cluster = {2, 1, 1}; }
  void fill(uint32_t (*value)(std::mt19937 &)) {
    for (unsigned at = 0; at < 2 * kBytes; at += 4) {
      const uint32_t words[] = {value(random), value(random)};
      std::memcpy(in + at, &words[0], 4);
      std::memcpy(out + at, &words[1], 4);
    }
    std::copy(out, out + 2 * kBytes, before.begin());
  }
  bool run(const std::shared_ptr<rig::Program> &program, const char *name,
           const std::string &form) {
    rig::Status status = device.launch(program, name, {2}, {1}, Parameters().add(out).add(in));
    if (!status.ok()) check::fail(__FILE__, __LINE__, form + ": " + status.message);
    return status.ok();
  }
};
uint32_t any(std::mt19937 &random) { return static_cast<uint32_t>(random()); }

struct Copy {
  std::string form, operands;
  // Which block's source byte ends in byte `at` of the target of `block`; -1: it stays.
  int (*from)(unsigned block, unsigned at);
  bool waits;
};
int own(unsigned block, unsigned) { return static_cast<int>(block); }
int others(unsigned block, unsigned) { return static_cast<int>(block ^ 1); }
int of_first(unsigned, unsigned) { return 0; }
// Bytes 0, 2 and 15 of every 16.
int masked(unsigned block, unsigned at) {
  return (0x8005 >> at % 16) & 1 ? static_cast<int>(block) : -1;
}

}  // namespace

TEST(bulk_copies_in_every_form) {
  std::vector<Copy> copies;
  for (bool hint : {false, true}) {
    const std::string h = hint ? ".L2::cache_hint" : "", policy = hint ? ", %d22" : "";
    const std::string counted = ".mbarrier::complete_tx::bytes";
    copies.push_back({"cp.async.bulk.shared::cta.global" + counted + h,
                      "[%r21], [%d20], 256, [%r22]" + policy, own, true});
    copies.push_back({"cp.async.bulk.shared::cluster.global" + counted + h,
                      "[%r23], [%d20], 256, [%r24]" + policy, others, true});
    copies.push_back({"cp.async.bulk.shared::cluster.global" + counted + ".multicast::cluster" + h,
                      "[%r21], [%d20], 256, [%r22], %h1" + policy, of_first, true});
    copies.push_back({"cp.async.bulk.global.shared::cta.bulk_group" + h,
                      "[%d21], [%r20], 256" + policy, own, false});
    copies.push_back({"cp.async.bulk.global.shared::cta.bulk_group" + h + ".cp_mask",
                      "[%d21], [%r20], 256" + policy + ", %h2", masked, false});
  }
  copies.push_back({"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
                    "[%r23], [%r20], 256, [%r24]", others, true});
  Bench bench;
  for (const Copy &copy : copies)
    for (const char *size : {" 256", " %r30"}) {
      std::string operands = copy.operands;
      operands.replace(operands.find(" 256"), 4, size);
      const std::string first = copy.from == of_first ? "setp.ne.u32 %p2, %r1, 0; @!%p2 " : "";
      auto program = bench.device.load(
          module(bulk_kernel("k",
                             "mov.u32 %r30, 256; mov.u16 %h1, 3; mov.u16 %h2, 0x8005; " + first +
                                 copy.form + " " + operands + ";",
                             copy.waits)));
      CHECK(program);
      bench.fill(any);
      if (!bench.run(program, "k", copy.form)) continue;
      bool right = true;
      for (unsigned at = 0; at < 2 * kBytes; ++at) {
        const int from = copy.from(at / kBytes, at % kBytes);
        right &= bench.out[at] ==
                 (from < 0 ? bench.before[at]
                           : bench.in[static_cast<unsigned>(from) * kBytes + at % kBytes]);
      }
      if (!right) check::fail(__FILE__, __LINE__, copy.form);
      proven::add(copy.form, 2 * kBytes);
    }
}

TEST(bulk_groups_are_waited_for) {
  Bench bench;
  for (const char *wait : {"cp.async.bulk.wait_group", "cp.async.bulk.wait_group.read",
                           "cp.async.bulk.wait_group.sync_restrict::proxy::async"}) {
    // What was read may be written again; what was written may be read after a whole wait.
    auto program = bench.device.load(
        module(bulk_kernel("k",
                           "cp.async.bulk.global.shared::cta.bulk_group [%d21], [%r20], 256;"
                           "cp.async.bulk.commit_group; " +
                               std::string(wait) + " 0; st.shared.u32 [%r20], 0;",
                           false)));
    bench.fill(any);
    if (!bench.run(program, "k", wait)) continue;
    CHECK(std::equal(bench.out, bench.out + 2 * kBytes, bench.in));
    proven::add(wait, 2 * kBytes);
    proven::add("cp.async.bulk.commit_group", 2 * kBytes);
  }
}

namespace {

enum class Op { Add, Min, Max, Inc, Dec, And, Or, Xor };
constexpr const char *kOps[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};

struct Reduction {
  Op op;
  const char *type;
  bool in_cluster;  // has the form that goes to shared memory
};
constexpr Reduction kReductions[] = {
    {Op::Add, "u32", true},   {Op::Add, "s32", true},  {Op::Add, "u64", true},
    {Op::Inc, "u32", true},   {Op::Dec, "u32", true},  {Op::Min, "u32", true},
    {Op::Min, "s32", true},   {Op::Max, "u32", true},  {Op::Max, "s32", true},
    {Op::And, "b32", true},   {Op::Or, "b32", true},   {Op::Xor, "b32", true},
    {Op::And, "b64", false},  {Op::Or, "b64", false},  {Op::Xor, "b64", false},
    {Op::Min, "u64", false},  {Op::Min, "s64", false}, {Op::Max, "u64", false},
    {Op::Max, "s64", false},  {Op::Add, "f16", false}, {Op::Add, "bf16", false},
    {Op::Min, "f16", false},  {Op::Max, "f16", false}, {Op::Min, "bf16", false},
    {Op::Max, "bf16", false}, {Op::Add, "f32", false}, {Op::Add, "f64", false},
};

template <class T>
T reduced(Op op, T old, T b) {
  switch (op) {
    case Op::Add:
      return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(b));
    case Op::Min:
      return std::min(old, b);
    case Op::Max:
      return std::max(old, b);
    case Op::Inc:
      return old >= b ? 0 : old + 1;
    case Op::Dec:
      return old == 0 || old > b ? b : old - 1;
    case Op::And:
      return old & b;
    case Op::Or:
      return old | b;
    default:
      return old ^ b;
  }
}
uint64_t half(Op op, const harness::SmallFormat &format, uint64_t old, uint64_t b) {
  const double x = format.value(old), y = format.value(b);
  if (op == Op::Add) return harness::rounded(format, static_cast<__float128>(x) + y);
  if (std::isnan(x)) return std::isnan(y) ? harness::rounded(format, NAN) : b;
  if (std::isnan(y)) return old;
  const bool less = x < y || (x == y && std::signbit(x));
  return less == (op == Op::Min) ? old : b;
}

template <class T, class F>
bool check_elements(const Bench &bench, bool crossed, F f) {
  for (unsigned at = 0; at < 2 * kBytes; at += sizeof(T)) {
    T old, b, got;
    std::memcpy(&old, &bench.before[at], sizeof(T));
    std::memcpy(&b, bench.in + (crossed ? at ^ kBytes : at), sizeof(T));
    std::memcpy(&got, bench.out + at, sizeof(T));
    T want = f(old, b);
    if (std::memcmp(&got, &want, sizeof(T)) == 0) continue;
    if constexpr (std::is_floating_point_v<T>)
      if (std::isnan(got) && std::isnan(want)) continue;
    return false;
  }
  return true;
}

bool right(const Bench &bench, const Reduction &reduction, bool crossed) {
  const std::string type = reduction.type;
  auto integers = [&]<class T>(T) {
    return check_elements<T>(bench, crossed,
                             [&](T old, T b) { return reduced<T>(reduction.op, old, b); });
  };
  if (type == "u32" || type == "b32") return integers(uint32_t{});
  if (type == "s32") return integers(int32_t{});
  if (type == "u64" || type == "b64") return integers(uint64_t{});
  if (type == "s64") return integers(int64_t{});
  if (type == "f32")
    return check_elements<float>(bench, crossed, [](float old, float b) {
      return harness::flushed(harness::flushed(old) + harness::flushed(b));
    });
  if (type == "f64")
    return check_elements<double>(bench, crossed, [](double old, double b) { return old + b; });
  const auto &format = type == "f16" ? harness::SmallFormat::f16() : harness::SmallFormat::bf16();
  return check_elements<uint16_t>(bench, crossed, [&](uint16_t old, uint16_t b) {
    return static_cast<uint16_t>(half(reduction.op, format, old, b));
  });
}

// Of every kind, with zeros, small and equal ones among them.
uint32_t edged(std::mt19937 &random) {
  static constexpr uint32_t kEdges[] = {0,          1,          0xffffffff, 0x80000000,
                                        0x7fffffff, 0x3c003c00, 0x80007c00, 0x00010400,
                                        0x807fffff, 0x00800000, 0x7f800000, 0x3f803f80};
  const auto v = static_cast<uint32_t>(random());
  return v % 3 ? static_cast<uint32_t>(random()) : kEdges[v / 3 % 12];
}

}  // namespace

TEST(bulk_reductions_in_every_form) {
  Bench bench;
  for (const Reduction &reduction : kReductions)
    for (int way = 0; way < 3; ++way) {
      const bool crossed = way == 2, hint = way == 1;
      if (crossed && !reduction.in_cluster) continue;
      const bool half_add = reduction.op == Op::Add && std::strstr(reduction.type, "f16");
      const std::string form =
          std::string("cp.reduce.async.bulk") +
          (crossed ? ".shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                   : ".global.shared::cta.bulk_group") +
          (hint ? ".L2::cache_hint" : "") + "." + kOps[static_cast<int>(reduction.op)] +
          (half_add ? ".noftz" : "") + "." + reduction.type;
      const std::string operands = crossed ? " [%r23], [%r20], 256, [%r24];"
                                   : hint  ? " [%d21], [%r20], 256, %d22;"
                                           : " [%d21], [%r20], 256;";
      auto program = bench.device.load(module(bulk_kernel("k", form + operands, crossed)));
      CHECK(program);
      for (int round = 0; round < 8; ++round) {
        bench.fill(edged);
        if (!bench.run(program, "k", form)) break;
        if (right(bench, reduction, crossed)) {
          proven::add(form, 2 * kBytes * 8 /
                                static_cast<unsigned>(
                                    std::atoi(std::strpbrk(reduction.type, "0123456789"))));
          continue;
        }
        check::fail(__FILE__, __LINE__, form);
        break;
      }
    }
}
