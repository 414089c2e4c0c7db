// Barriers of blocks, warps and clusters in every spelling. Each stands where threads hand values
// to others through shared memory: who passes too early, or not at all, shows in the results.
#include "../behaviour/check.h"
#include "../proven.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

constexpr unsigned kThreads = 128, kRounds = 5;

struct Spelling {
  std::string prefix;  // bar, barrier.cta, ...
  std::string aligned;
  bool diverged;  // what is not aligned is reached on two ways
};
std::vector<Spelling> spellings() {
  std::vector<Spelling> all;
  for (const char *cta : {"", ".cta"}) {
    all.push_back({std::string("bar") + cta, "", false});  // short for barrier.cta....aligned
    all.push_back({std::string("barrier") + cta, "", true});
    all.push_back({std::string("barrier") + cta, ".aligned", false});
  }
  return all;
}

// Even and odd threads come to it at different places.
std::string on_ways(const std::string &text, bool diverged) {
  if (!diverged) return text + "\n";
  return "{ @%p8 bra ODD; " + text + " bra JOIN; ODD: " + text + " JOIN: }\n";
}

uint32_t value(unsigned thread, unsigned round) { return thread * 2654435761u + round * 40503u; }

// %r30: the thread; each round it writes a value to its cell, waits, reads another's, waits.
std::string prologue(const std::string &name) {
  return ".shared .align 4 .b8 cells_" + name + "[512];\n" +
         kernel(name, 1,
                "and.b32 %r31, %r0, 1; setp.eq.u32 %p8, %r31, 1; mov.u32 %r32, cells_" + name +
                    "; shl.b32 %r33, %r0, 2; add.u32 %r33, %r33, %r32; mov.u32 %r40, 0;"
                    "mov.u32 %r41, 0; shr.u32 %r42, %r0, 6;\n@BODY@" +
                    store_result("%r40"));
}
std::string with_body(std::string text, const std::string &body) {
  return text.replace(text.find("@BODY@"), 6, body);
}
// A loop over rounds in %r41, around code that adds to %r40.
std::string rounds(const std::string &body) {
  return "AGAIN: mul.lo.u32 %r43, %r0, 0x9e3779b1; mad.lo.u32 %r43, %r41, 40503, %r43;\n" + body +
         "add.u32 %r41, %r41, 1; setp.lt.u32 %p9, %r41, " + std::to_string(kRounds) +
         "; @%p9 bra AGAIN;\n";
}

struct Case {
  std::string form, body;
  uint32_t (*want)(unsigned thread);
};

void run(const std::vector<Case> &cases) {
  Device device(1);
  auto *out = device.array<uint32_t>(kThreads);
  for (const Case &one : cases) {
    auto program = device.load(module(with_body(prologue("k"), one.body)));
    CHECK(program);
    if (!program) return;
    for (unsigned i = 0; i < kThreads; ++i) out[i] = 0;
    rig::Status status = device.launch(program, "k", {1}, {kThreads}, Parameters().add(out));
    if (!status.ok()) check::fail(__FILE__, __LINE__, one.form + ": " + status.message);
    for (unsigned i = 0; i < kThreads && status.ok(); ++i) {
      if (out[i] == one.want(i)) continue;
      check::fail(__FILE__, __LINE__, one.form + ": thread " + std::to_string(i));
      break;
    }
    proven::add(one.form, kThreads * kRounds);
  }
}

// What the thread `apart` further on in the block, or in its half, wrote in all rounds.
uint32_t sum_of(unsigned thread) {
  uint32_t sum = 0;
  for (unsigned round = 0; round < kRounds; ++round) sum += value(thread, round);
  return sum;
}

}  // namespace

TEST(barriers_that_wait) {
  std::vector<Case> cases;
  for (const Spelling &s : spellings()) {
    const std::string form = s.prefix + ".sync" + s.aligned;
    for (const char *number : {"3", "%r44"}) {
      // all of the block
      std::string wait = on_ways(form + " " + number + ";", s.diverged);
      cases.push_back({form + " a",
                       "mov.u32 %r44, 15; add.u32 %r34, %r0, 37; and.b32 %r34, %r34, 127;"
                       "shl.b32 %r34, %r34, 2; add.u32 %r34, %r34, %r32;\n" +
                           rounds("st.shared.u32 [%r33], %r43;\n" + wait +
                                  "ld.shared.u32 %r35, [%r34]; add.u32 %r40, %r40, %r35;\n" + wait),
                       [](unsigned thread) { return sum_of((thread + 37) % kThreads); }});
    }
    // each half on its own, by a barrier of 64 threads
    for (const char *count : {"64", "%r45"}) {
      std::string wait = on_ways(form + " %r44, " + count + ";", s.diverged);
      cases.push_back(
          {form + " a, b",
           "mov.u32 %r45, 64; add.u32 %r44, %r42, 4; add.u32 %r34, %r0, 37;"
           "and.b32 %r34, %r34, 63; mad.lo.u32 %r34, %r42, 64, %r34;"
           "shl.b32 %r34, %r34, 2; add.u32 %r34, %r34, %r32;\n" +
               rounds("st.shared.u32 [%r33], %r43;\n" + wait +
                      "ld.shared.u32 %r35, [%r34]; add.u32 %r40, %r40, %r35;\n" + wait),
           [](unsigned thread) { return sum_of((thread & 64) | ((thread + 37) & 63)); }});
    }
  }
  run(cases);
}

// The second half only arrives when it has written, and waits until it may write again.
TEST(barriers_that_are_only_arrived_at) {
  std::vector<Case> cases;
  for (const Spelling &s : spellings())
    for (const char *count : {"128", "%r45"}) {
      const std::string form = s.prefix + ".arrive" + s.aligned, full = std::string(" 1, ") + count;
      const std::string empty = std::string(" 2, ") + count;
      auto sync = [&](const std::string &at) { return "bar.sync" + at + ";\n"; };
      auto arrive = [&](const std::string &at) { return on_ways(form + at + ";", s.diverged); };
      cases.push_back(
          {form + " a, b",
           "mov.u32 %r45, 128; setp.eq.u32 %p10, %r42, 1; @%p10 bra SECOND;\n{" +
               rounds(sync(full) + "ld.shared.u32 %r35, [%r33+256]; add.u32 %r40, %r40, %r35;\n" +
                      arrive(empty)) +
               "}\nbra END;\nSECOND: {" +
               rounds("st.shared.u32 [%r33], %r43;\n" + arrive(full) + sync(empty)) + "}\nEND:\n",
           [](unsigned thread) { return thread < 64 ? sum_of(thread + 64) : 0u; }});
    }
  run(cases);
}

TEST(barriers_that_reduce) {
  struct Op {
    const char *name, *type;
    uint32_t (*want)(unsigned true_ones, unsigned of);
  };
  static constexpr Op kOps[] = {
      {"popc", "u32", [](unsigned n, unsigned) { return uint32_t{n}; }},
      {"and", "pred", [](unsigned n, unsigned of) { return n == of ? 1u : 0u; }},
      {"or", "pred", [](unsigned n, unsigned) { return n ? 1u : 0u; }},
  };
  // In round r those threads vote yes whose number ANDed with r * 37 is 0, in the last one none.
  constexpr unsigned kVotes = 6;
  Device device(1);
  auto *out = device.array<uint32_t>(kThreads * kVotes);
  for (const Spelling &s : spellings())
    for (const Op &op : kOps)
      for (bool counted : {false, true})
        for (bool negated : {false, true}) {
          const std::string form = s.prefix + ".red." + op.name + s.aligned + "." + op.type;
          const bool popc = std::string(op.type) == "u32";
          std::string body =
              "mov.u32 %r45, 64; add.u32 %r44, %r42, 4; mul.lo.u32 %r48, %r3, 24;"
              "cvt.u64.u32 %d20, %r48; add.s64 %d20, %d0, %d20;\n"
              "AGAIN: mul.lo.u32 %r46, %r41, 37; and.b32 %r46, %r46, %r0;"
              "setp.eq.u32 %p11, %r46, 0; setp.lt.u32 %p12, %r41, 5; and.pred %p11, %p11, %p12;" +
              std::string(negated ? "not.pred %p11, %p11;\n" : "\n") +
              on_ways(form + (popc ? " %r47, " : " %p13, ") + (counted ? "%r44, %r45" : "7") +
                          ", " + (negated ? "!" : "") + "%p11;",
                      s.diverged) +
              (popc ? "" : "selp.u32 %r47, 1, 0, %p13;") +
              "st.global.u32 [%d20], %r47; add.s64 %d20, %d20, 4; add.u32 %r41, %r41, 1;"
              "setp.lt.u32 %p9, %r41, 6; @%p9 bra AGAIN; ret;\n";
          auto program = device.load(module(with_body(prologue("k"), body)));
          CHECK_OK(device.launch(program, "k", {1}, {kThreads}, Parameters().add(out)));
          bool right = true;
          for (unsigned thread = 0; thread < kThreads; ++thread)
            for (unsigned round = 0; round < kVotes; ++round) {
              const unsigned first = counted ? thread & 64 : 0, of = counted ? 64 : kThreads;
              unsigned yes = 0;
              for (unsigned t = first; t < first + of; ++t)
                yes += round < 5 && ((round * 37) & t) == 0;
              right &= out[thread * kVotes + round] == op.want(yes, of);
            }
          if (!right) check::fail(__FILE__, __LINE__, form);
          proven::add(form + (counted ? " d, a, b, c" : " d, a, c"), kThreads * kVotes);
        }
}

// Lanes hand values on within groups of a warp, each group on two ways.
TEST(barriers_of_warps) {
  Device device(1);
  auto *out = device.array<uint32_t>(kThreads);
  for (const char *mask : {"-1", "%r50"}) {
    // groups of eight lanes where a register holds the mask
    const bool groups = *mask == '%';
    const std::string wait = std::string("bar.warp.sync ") + mask + ";\n";
    auto program = device.load(module(with_body(
        prologue("k"),
        "and.b32 %r51, %r0, 24; mov.u32 %r50, 255; shl.b32 %r50, %r50, %r51;\n" +
            std::string(groups ? "add.u32 %r34, %r0, 3; and.b32 %r34, %r34, 7;"
                                 "and.b32 %r35, %r0, 120; or.b32 %r34, %r34, %r35;"
                               : "xor.b32 %r34, %r0, 21;") +
            "shl.b32 %r34, %r34, 2; add.u32 %r34, %r34, %r32;\n" +
            rounds(on_ways("st.shared.u32 [%r33], %r43;\n" + wait +
                               "ld.shared.u32 %r35, [%r34]; add.u32 %r40, %r40, %r35;\n" + wait,
                           true)))));
    CHECK_OK(device.launch(program, "k", {1}, {kThreads}, Parameters().add(out)));
    for (unsigned i = 0; i < kThreads; ++i)
      CHECK(out[i] == sum_of(groups ? (i & 120) | ((i + 3) & 7) : i ^ 21));
    proven::add("bar.warp.sync", kThreads * kRounds);
  }
}

// Blocks of a cluster read what the next one has in its shared memory.
TEST(barriers_of_clusters) {
  constexpr unsigned kBlocks = 4;
  Device device(2);
  device.cluster = {kBlocks, 1, 1};
  auto *out = device.array<uint32_t>(2 * kBlocks * kThreads);
  for (const char *aligned : {"", ".aligned"})
    for (const char *release : {"", ".release", ".relaxed"})
      for (const char *acquire : {"", ".acquire"}) {
        const std::string arrive = std::string("barrier.cluster.arrive") + release + aligned;
        const std::string wait = std::string("barrier.cluster.wait") + acquire + aligned;
        // One that orders nothing needs a fence before it.
        const std::string both = std::string(*release && release[3] == 'l' && release[4] == 'a'
                                                 ? "fence.acq_rel.cluster; "
                                                 : "") +
                                 on_ways(arrive + "; " + wait + ";", !*aligned);
        auto program = device.load(module(with_body(
            prologue("k"),
            "mov.u32 %r50, %cluster_ctarank; add.u32 %r50, %r50, 1; and.b32 %r50, %r50, 3;"
            "mapa.shared::cluster.u32 %r34, %r33, %r50; mad.lo.u32 %r51, %r1, 977, 0;\n" +
                rounds("add.u32 %r43, %r43, %r51; st.shared.u32 [%r33], %r43;\n" + both +
                       "ld.shared::cluster.u32 %r35, [%r34]; add.u32 %r40, %r40, %r35;\n" +
                       both))));
        CHECK_OK(device.launch(program, "k", {2 * kBlocks}, {kThreads}, Parameters().add(out)));
        bool right = true;
        for (unsigned i = 0; i < 2 * kBlocks * kThreads; ++i) {
          const unsigned block = i / kThreads, next = (block & ~3u) | ((block + 1) & 3);
          right &= out[i] == sum_of(i % kThreads) + kRounds * next * 977;
        }
        if (!right) check::fail(__FILE__, __LINE__, arrive + " " + wait);
        for (const std::string &form : {arrive, wait})
          proven::add(form, 2 * kBlocks * kThreads * kRounds);
      }
}
