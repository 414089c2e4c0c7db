// Stores and reductions that report to an mbarrier or release, and the addresses of other blocks.
#include "../behaviour/check.h"
#include "../proven.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

constexpr unsigned kThreads = 32;

std::string name_of(const std::string &type, unsigned i) {
  const bool wide = type.find("64") != std::string::npos,
             narrow = type.find("16") != std::string::npos;
  return (wide ? "%d3" : narrow ? "%h" : "%r3") + std::to_string(i);
}
// %r30 .., %d30 .. or %h0 .. have four values that depend on the thread.
std::string values(const std::string &type) {
  std::string text;
  for (unsigned i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    text += "mad.lo.u32 %r3" + n + ", %r3, 0x01010107, " + std::to_string(1000 * i + 5) + ";";
    if (type.find("64") != std::string::npos) text += "mov.b64 %d3" + n + ", {%r3" + n + ", %r3};";
    if (type.find("16") != std::string::npos) text += "cvt.u16.u32 %h" + n + ", %r3" + n + ";";
  }
  return text + "\n";
}
uint64_t value(unsigned bytes, uint32_t thread, unsigned i) {
  const uint32_t low = thread * 0x01010107u + 1000 * i + 5;
  return bytes == 8 ? low | uint64_t{thread} << 32 : bytes == 4 ? low : low & 0xffff;
}
unsigned bytes_of(const std::string &type) {
  return static_cast<unsigned>(std::stoi(type.substr(type.find_first_of("136")))) / 8;
}

// Two blocks write to each other's cells of 16 bytes a thread, which hold 1, 2, 3, ... before, and
// wait for the bytes to be told of. %r20, %r21: the thread's cell and the barrier in the other
// block, %d20 and %d21 the same as generic addresses; %r22, %r23: the block's own.
std::string crossing(const std::string &setup, const std::string &text, unsigned bytes) {
  return kernel("k", 1,
                R"(
    .shared .align 16 .b8 cells[512]; .shared .align 8 .b64 bar;
    mov.u32 %r22, cells; mov.u32 %r23, bar; shl.b32 %r24, %r0, 4; add.u32 %r22, %r22, %r24;
    xor.b32 %r25, %r1, 1; mapa.shared::cluster.u32 %r20, %r22, %r25;
    mapa.shared::cluster.u32 %r21, %r23, %r25;
    cvt.u64.u32 %d22, %r22; cvta.shared.u64 %d22, %d22; mapa.u64 %d20, %d22, %r25;
    cvt.u64.u32 %d23, %r23; cvta.shared.u64 %d23, %d23; mapa.u64 %d21, %d23, %r25;
    add.u32 %r26, %r0, 1; st.shared.v4.u32 [%r22], {%r26, 2, 3, 4};
    setp.ne.u32 %p0, %r0, 0; @%p0 bra READY;
    mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], )" +
                    std::to_string(bytes * kThreads) + ";\nREADY: " + setup + R"(
    barrier.cluster.arrive; barrier.cluster.wait;
    )" + text + R"(
    W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra W;
    ld.shared.v4.u32 {%r40, %r41, %r42, %r43}, [%r22];
    mul.wide.u32 %d40, %r3, 16; add.s64 %d40, %d0, %d40;
    st.global.v4.u32 [%d40], {%r40, %r41, %r42, %r43}; barrier.cluster.arrive; barrier.cluster.wait;)");
}
std::string target(const std::string &space, bool object) {
  const int at = object ? 1 : 0;
  if (space.empty()) return "[%d2" + std::to_string(at) + "]";
  return "[%r2" + std::to_string(space == ".shared::cluster" ? at : at + 2) + "]";
}

uint64_t reduced(const std::string &op, const std::string &type, uint64_t old, uint64_t b) {
  const auto x = static_cast<uint32_t>(old), y = static_cast<uint32_t>(b);
  const auto sx = static_cast<int32_t>(x), sy = static_cast<int32_t>(y);
  if (op == "add") return bytes_of(type) == 8 ? old + b : x + y;
  if (op == "inc") return x >= y ? 0 : x + 1;
  if (op == "dec") return x == 0 || x > y ? y : x - 1;
  if (op == "and") return x & y;
  if (op == "or") return x | y;
  if (op == "xor") return x ^ y;
  const bool less = type == "s32" ? sx < sy : x < y;
  return less == (op == "min") ? x : y;
}
constexpr std::pair<const char *, const char *> kReductions[] = {
    {"inc", "u32"}, {"dec", "u32"}, {"min", "u32"}, {"min", "s32"}, {"max", "u32"},
    {"max", "s32"}, {"add", "u32"}, {"add", "s32"}, {"add", "u64"}, {"add", "s64"},
    {"and", "b32"}, {"or", "b32"},  {"xor", "b32"}};

}  // namespace

TEST(stores_to_other_blocks) {
  Device device(2);
  device.cluster = {2, 1, 1};
  auto *out = device.array<uint32_t>(2 * kThreads * 4);
  for (const char *weak : {"", ".weak"})
    for (const std::string space : {"", ".shared", ".shared::cta", ".shared::cluster"})
      for (unsigned vector : {1u, 2u, 4u})
        for (const std::string type : {"b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}) {
          const unsigned bytes = bytes_of(type);
          if (bytes * vector > 16) continue;
          const std::string form = std::string("st.async") + weak + space +
                                   ".mbarrier::complete_tx::bytes" +
                                   (vector > 1 ? ".v" + std::to_string(vector) : "") + "." + type;
          std::string list = name_of(type, 0);
          for (unsigned i = 1; i < vector; ++i) list += ", " + name_of(type, i);
          if (vector > 1) list = "{" + list + "}";
          auto program = device.load(module(crossing(
              values(type),
              form + " " + target(space, false) + ", " + list + ", " + target(space, true) + ";",
              bytes * vector)));
          rig::Status status = device.launch(program, "k", {2}, {kThreads}, Parameters().add(out));
          if (!status.ok()) check::fail(__FILE__, __LINE__, form + ": " + status.message);
          bool right = status.ok();
          for (uint32_t i = 0; i < 2 * kThreads && right; ++i) {
            const bool crossed = space.empty() || space == ".shared::cluster";
            uint32_t want[4] = {i % kThreads + 1, 2, 3, 4};
            for (unsigned k = 0; k < vector; ++k) {
              const uint64_t v = value(bytes, crossed ? i ^ kThreads : i, k);
              std::memcpy(reinterpret_cast<uint8_t *>(want) + k * bytes, &v, bytes);
            }
            right = std::memcmp(want, out + i * 4, 16) == 0;
          }
          if (!right) check::fail(__FILE__, __LINE__, form);
          proven::add(form, 2 * kThreads * vector);
        }
}

TEST(reductions_in_other_blocks) {
  Device device(2);
  device.cluster = {2, 1, 1};
  auto *out = device.array<uint32_t>(2 * kThreads * 4);
  for (const std::string space : {"", ".shared::cluster"})
    for (const auto &[op, type] : kReductions) {
      const unsigned bytes = bytes_of(type);
      const std::string form =
          "red.async.relaxed.cluster" + space + ".mbarrier::complete_tx::bytes." + op + "." + type;
      auto program =
          device.load(module(crossing(values(type),
                                      form + " " + target(space, false) + ", " + name_of(type, 0) +
                                          ", " + target(space, true) + ";",
                                      bytes)));
      CHECK_OK(device.launch(program, "k", {2}, {kThreads}, Parameters().add(out)));
      bool right = true;
      for (uint32_t i = 0; i < 2 * kThreads; ++i) {
        const uint64_t old = (i % kThreads + 1) | (bytes == 8 ? uint64_t{2} << 32 : 0);
        const uint64_t want = reduced(op, type, old, value(bytes, i ^ kThreads, 0));
        right &= std::memcmp(&want, out + i * 4, bytes) == 0;
      }
      if (!right) check::fail(__FILE__, __LINE__, form);
      proven::add(form, 2 * kThreads);
    }
}

// To global memory, in order: who sees the last of them sees all.
TEST(stores_and_reductions_that_release) {
  Device device(2);
  auto *out = device.array<uint64_t>(kThreads);
  auto run = [&](const std::string &form, const std::string &type,
                 const std::function<uint64_t(uint64_t, uint64_t)> &want) {
    const unsigned bytes = bytes_of(type);
    for (uint64_t i = 0; i < kThreads; ++i) out[i] = (i + 1) | i << 40;
    auto program = device.load(
        module(kernel("k", 1,
                      values(type) + "mul.wide.u32 %d40, %r3, 8; add.s64 %d40, %d0, %d40;" + form +
                          " [%d40], " + name_of(type, 0) + ";")));
    rig::Status status = device.launch(program, "k", {1}, {kThreads}, Parameters().add(out));
    if (!status.ok()) return check::fail(__FILE__, __LINE__, form + ": " + status.message);
    for (uint32_t i = 0; i < kThreads; ++i) {
      uint64_t expected = (i + 1) | uint64_t{i} << 40;
      const uint64_t part = want(expected, value(bytes, i, 0));
      std::memcpy(&expected, &part, bytes);
      if (out[i] != expected) return check::fail(__FILE__, __LINE__, form);
    }
    proven::add(form, kThreads);
  };
  for (const char *io : {"", ".mmio"})
    for (const char *scope : {"gpu", "sys"})
      for (const char *space : {"", ".global"}) {
        const std::string middle = std::string(".async") + io + ".release." + scope + space + ".";
        for (const std::string type :
             {"b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"})
          run("st" + middle + type, type, [](uint64_t, uint64_t b) { return b; });
        for (const auto &[op, type] : kReductions)
          run("red" + middle + op + "." + type, type,
              [op = std::string(op), type = std::string(type)](uint64_t old, uint64_t b) {
                return reduced(op, type, old, b);
              });
      }
}

// Zeros in a block's shared memory, and what lies beside them as it was.
TEST(bulk_stores) {
  Device device(1);
  auto *out = device.array<uint32_t>(64);
  for (const char *weak : {"", ".weak"})
    for (const std::string space : {"", ".shared::cta"})
      for (uint32_t bytes : {0u, 8u, 64u, 200u}) {
        const std::string form = std::string("st.bulk") + weak + space,
                          size = std::to_string(bytes);
        const std::string to = space.empty() ? " [%d20+16], " : " [cells+16], ";
        auto program = device.load(module(".shared .align 8 .b8 cells[256];\n" + kernel("k", 1, R"(
              mov.u64 %d20, cells; cvta.shared.u64 %d20, %d20; mov.u64 %d21, )" + size + R"(;
              shl.b32 %r4, %r0, 2; mov.u32 %r5, cells; add.u32 %r4, %r4, %r5; add.u32 %r6, %r0, 1;
              st.shared.u32 [%r4], %r6; bar.sync 0; setp.ne.u32 %p0, %r0, 0;
              @!%p0 )" + form + to + (bytes == 64 ? size : "%d21") + R"(, 0;
              bar.sync 0; ld.shared.u32 %r7, [%r4];)" + store_result("%r7"))));
        CHECK(program);
        CHECK_OK(device.launch(program, "k", {1}, {64}, Parameters().add(out)));
        bool right = true;
        for (uint32_t i = 0; i < 64; ++i)
          right &= out[i] == (i >= 4 && i < 4 + bytes / 4 ? 0 : i + 1);
        if (!right) check::fail(__FILE__, __LINE__, form + " of " + size);
        proven::add(form, 64);
      }
  auto program = device.load(
      module(".shared .align 8 .b8 cells[256];\n" +
             kernel("k", 1, "mov.u32 %r4, cells; st.bulk.shared::cta [%r4+8], %d0, 0;")));
  auto run = [&](uint64_t bytes) {
    return device.launch(program, "k", {1}, {1}, Parameters().add(bytes));
  };
  CHECK_OK(run(248));
  CHECK_FAILS(run(256), 700, "st.bulk", "shared");
  CHECK_FAILS(run(uint64_t{1} << 40), 700, "st.bulk");
  CHECK_FAILS(run(12), 716, "multiple of 8");
}

// Where things lie, and in which block of the cluster.
TEST(addresses_of_other_blocks) {
  struct Form {
    const char *form, *text;
  };
  // Each gives 1 in %r40 if it is right: %r4 is the rank asked for, %d8 what lies there.
  static constexpr Form kForms[] = {
      {"mapa.shared::cluster.u32",
       "mapa.shared::cluster.u32 %r5, %r6, %r4; ld.shared::cluster.u32 %r7, [%r5];"},
      {"mapa.shared::cluster.u32",
       "mapa.shared::cluster.u32 %r5, cell, %r4; ld.shared::cluster.u32 %r7, [%r5];"},
      {"mapa.shared::cluster.u32",
       "mapa.shared::cluster.u32 %r5, pair+4, %r4; ld.shared::cluster.u32 %r7, [%r5];"},
      {"mapa.shared::cluster.u64",
       "cvt.u64.u32 %d4, %r6; mapa.shared::cluster.u64 %d5, %d4, %r4;"
       "ld.shared::cluster.u32 %r7, [%d5];"},
      {"mapa.shared::cluster.u64",
       "mapa.shared::cluster.u64 %d5, cell, %r4; ld.shared::cluster.u32 %r7, [%d5];"},
      {"mapa.u64", "mapa.u64 %d5, %d6, %r4; ld.u32 %r7, [%d5];"},
      {"getctarank.shared::cluster.u32",
       "mapa.shared::cluster.u32 %r5, %r6, %r4; getctarank.shared::cluster.u32 %r7, %r5;"
       "mul.lo.u32 %r7, %r7, 100; add.u32 %r7, %r7, 7;"},
      {"getctarank.shared::cluster.u64",
       "mapa.shared::cluster.u32 %r5, %r6, %r4; cvt.u64.u32 %d5, %r5;"
       "getctarank.shared::cluster.u64 %r7, %d5; mul.lo.u32 %r7, %r7, 100; add.u32 %r7, %r7, 7;"},
      {"getctarank.u64",
       "mapa.u64 %d5, %d6, %r4; getctarank.u64 %r7, %d5; mul.lo.u32 %r7, %r7, 100;"
       "add.u32 %r7, %r7, 7;"},
  };
  constexpr unsigned kBlocks = 4;
  Device device(2);
  device.cluster = {kBlocks, 1, 1};
  auto *out = device.array<uint32_t>(kBlocks * 8);
  for (const Form &one : kForms) {
    auto program = device.load(module(".shared .u32 cell; .shared .align 8 .b8 pair[8];\n" +
                                      kernel("k", 1,
                                             R"(
      mul.lo.u32 %r9, %r1, 100; add.u32 %r9, %r9, 7; st.shared.u32 [cell], %r9;
      st.shared.u32 [pair+4], %r9; mov.u32 %r6, cell; cvt.u64.u32 %d6, %r6; cvta.shared.u64 %d6, %d6;
      barrier.cluster.arrive; barrier.cluster.wait; and.b32 %r4, %r0, 3;
      )" + std::string(one.text) + store_result("%r7") +
                                                 "barrier.cluster.arrive; barrier.cluster.wait;")));
    rig::Status status = device.launch(program, "k", {kBlocks}, {8}, Parameters().add(out));
    if (!status.ok()) {
      check::fail(__FILE__, __LINE__, std::string(one.text) + ": " + status.message);
      continue;
    }
    for (uint32_t i = 0; i < kBlocks * 8; ++i)
      if (out[i] != (i & 3) * 100 + 7) {
        check::fail(__FILE__, __LINE__, one.text);
        break;
      }
    proven::add(one.form, kBlocks * 8);
  }
}

// To generic addresses and back, of what lies in a kernel's parameters and in other blocks.
TEST(conversions_of_addresses) {
  struct Form {
    const char *form, *text;  // gives the first parameter in %d10
  };
  static constexpr Form kForms[] = {
      {"cvta.param.u64", "mov.u64 %d4, p0; cvta.param.u64 %d5, %d4; ld.u64 %d10, [%d5];"},
      {"cvta.to.param.u64",
       "mov.u64 %d4, p0; cvta.param.u64 %d5, %d4; cvta.to.param.u64 %d6, %d5;"
       "ld.param.u64 %d10, [%d6];"},
      {"cvta.const.u64",
       "mov.u64 %d4, seven; cvta.const.u64 %d5, %d4; ld.u64 %d10, [%d5]; sub.s64 %d10, %d10, 7;"
       "add.s64 %d10, %d10, %d0;"},
      {"cvta.to.const.u64",
       "mov.u64 %d4, seven; cvta.const.u64 %d5, %d4; cvta.to.const.u64 %d6, %d5;"
       "ld.const.u64 %d10, [%d6]; sub.s64 %d10, %d10, 7; add.s64 %d10, %d10, %d0;"},
      {"cvta.shared::cta.u64",
       "st.shared.u64 [cell], %d0; mov.u64 %d4, cell; cvta.shared::cta.u64 %d5, %d4;"
       "ld.u64 %d10, [%d5];"},
      {"cvta.to.shared::cta.u64",
       "st.shared.u64 [cell], %d0; mov.u64 %d4, cell; cvta.shared.u64 %d5, %d4;"
       "cvta.to.shared::cta.u64 %d6, %d5; ld.shared.u64 %d10, [%d6];"},
      {"cvta.shared::cluster.u64",
       "st.shared.u64 [cell], %d0; mov.u64 %d4, cell; mapa.shared::cluster.u64 %d4, %d4, 1;"
       "barrier.cluster.arrive; barrier.cluster.wait; cvta.shared::cluster.u64 %d5, %d4;"
       "ld.u64 %d10, [%d5];"},
      {"cvta.to.shared::cluster.u64",
       "st.shared.u64 [cell], %d0; mov.u64 %d4, cell; cvta.shared.u64 %d4, %d4; mapa.u64 %d5, %d4, "
       "1;"
       "barrier.cluster.arrive; barrier.cluster.wait; cvta.to.shared::cluster.u64 %d6, %d5;"
       "ld.shared::cluster.u64 %d10, [%d6];"},
  };
  Device device(2);
  device.cluster = {2, 1, 1};
  auto *out = device.array<uint64_t>(2);
  for (const Form &one : kForms) {
    auto program =
        device.load(module(".shared .align 8 .u64 cell; .const .align 8 .u64 seven = 7;\n" +
                           kernel("k", 1, std::string(one.text) + R"(
          barrier.cluster.arrive; barrier.cluster.wait;
          mul.wide.u32 %d11, %r1, 8; add.s64 %d11, %d0, %d11; st.global.u64 [%d11], %d10;)")));
    CHECK(program);
    out[0] = out[1] = 0;
    CHECK_OK(device.launch(program, "k", {2}, {1}, Parameters().add(out)));
    for (int i = 0; i < 2; ++i)
      if (out[i] != reinterpret_cast<uint64_t>(out)) check::fail(__FILE__, __LINE__, one.form);
    proven::add(one.form, 2);
  }
}

TEST(spaces_of_addresses) {
  // In each row whether a generic address of that kind is in that space.
  static constexpr const char *kSpaces[] = {"global", "const",       "local",
                                            "shared", "shared::cta", "shared::cluster",
                                            "param",  "param::entry"};
  struct Place {
    const char *text;  // to %d10
    const char *in;    // a 1 for each space
  };
  static constexpr Place kPlaces[] = {
      {"mov.u64 %d10, %d0;", "10000000"},
      {"mov.u64 %d10, variable; cvta.global.u64 %d10, %d10;", "10000000"},
      {"mov.u64 %d10, constant; cvta.const.u64 %d10, %d10;", "01000000"},
      {"mov.u64 %d10, mine; cvta.local.u64 %d10, %d10;", "00100000"},
      {"mov.u64 %d10, cell; cvta.shared.u64 %d10, %d10;", "00011100"},
      {"mov.u64 %d10, cell; cvta.shared.u64 %d10, %d10; mapa.u64 %d10, %d10, %r4;", "00000100"},
      {"mov.u64 %d10, p0; cvta.param.u64 %d10, %d10;", "00000011"},
  };
  Device device(2);
  device.cluster = {2, 1, 1};
  auto *out = device.array<uint32_t>(2);
  for (const Place &place : kPlaces)
    for (size_t s = 0; s < std::size(kSpaces); ++s) {
      auto program = device.load(module(
          ".global .u32 variable; .const .u32 constant = 1; .shared .u32 cell;\n" +
          kernel("k", 1,
                 std::string(".local .u32 mine; xor.b32 %r4, %r1, 1;") + place.text + "isspacep." +
                     kSpaces[s] + " %p0, %d10; selp.u32 %r5, 1, 0, %p0;" + store_result("%r5") +
                     "barrier.cluster.arrive; barrier.cluster.wait;")));
      CHECK_OK(device.launch(program, "k", {2}, {1}, Parameters().add(out)));
      for (int i = 0; i < 2; ++i)
        if (out[i] != static_cast<uint32_t>(place.in[s] - '0'))
          check::fail(__FILE__, __LINE__, std::string(place.text) + " in " + kSpaces[s]);
      proven::add(std::string("isspacep.") + kSpaces[s], 2);
    }
}
