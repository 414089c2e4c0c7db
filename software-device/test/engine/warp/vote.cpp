// vote, match, redux, elect and activemask: what a group of lanes agrees on.
#include <algorithm>
#include <cmath>
#include <limits>

#include "warp.h"

using namespace warp;

namespace {

// Of all members, few different values so that some agree.
Operands alike(std::mt19937 &random) {
  const uint32_t most = 1 + random() % 3;
  const uint64_t a = random() % most;
  return {random() & 1 ? a : a << 32 | 1, 0, 0};
}
// All the same, mostly; else one or two differ.
Operands agreed(std::mt19937 &random) { return {random() % 24 ? 7u : random() % 4, 0, 0}; }

template <class F>
void each(const Group &group, F f) {
  for (unsigned lane = 0; lane < 32; ++lane)
    if (group.has(lane)) f(lane);
}

uint32_t ballot(const Group &group, bool negated) {
  uint32_t set = 0;
  each(group, [&](unsigned lane) {
    if ((group.a[lane] & 1) != negated) set |= 1u << lane;
  });
  return set;
}

std::vector<Case> votes(bool implicit) {
  std::vector<Case> all;
  for (const char *mode : {"all", "any", "uni", "ballot"})
    for (bool negated : {false, true})
      for (bool alike : {false, true}) {
        const std::string what = mode;
        Case one;
        one.form = std::string("vote.") + (implicit ? "" : "sync.") + mode +
                   (what == "ballot" ? ".b32" : ".pred");
        const std::string operands = (what == "ballot" ? " $d, " : " $p, ") +
                                     std::string(negated ? "!$x" : "$x") +
                                     (implicit ? ";" : ", $m;");
        one.text = one.form + operands;
        one.reference = [=](const Group &group, unsigned, Result *result) {
          const uint32_t set = ballot(group, negated);
          if (what == "all") result->p = set == group.members;
          if (what == "any") result->p = set != 0;
          if (what == "uni") result->p = set == group.members || set == 0;
          if (what == "ballot") result->d = set;
        };
        one.operands = alike ? agreed : [](std::mt19937 &random) -> Operands {
          return {static_cast<uint64_t>(random() & 1), 0, 0};
        };
        one.implicit = implicit;
        all.push_back(one);
        if (implicit) continue;
        // some compilers write .sync later
        one.form = std::string("vote.") + mode + ".sync" + (what == "ballot" ? ".b32" : ".pred");
        one.text = one.form + operands;
        all.push_back(one);
      }
  return all;
}

std::vector<Case> all_matches() {
  std::vector<Case> all;
  for (bool wide : {false, true}) {
    const std::string type = wide ? ".b64" : ".b32", a = wide ? "$A" : "$a";
    auto value = [=](const Group &group, unsigned lane) {
      return wide ? group.a[lane] : static_cast<uint32_t>(group.a[lane]);
    };
    auto same = [=](const Group &group, unsigned as) {
      uint32_t set = 0;
      each(group, [&](unsigned lane) {
        if (value(group, lane) == value(group, as)) set |= 1u << lane;
      });
      return set;
    };
    for (auto *operands : {alike, agreed}) {
      all.push_back({"match.any.sync" + type, "match.any.sync" + type + " $d, " + a + ", $m;",
                     [=](const Group &group, unsigned lane, Result *result) {
                       result->d = same(group, lane);
                     },
                     operands});
      for (bool predicate : {false, true})
        all.push_back({"match.all.sync" + type + (predicate ? "|p" : ""),
                       "match.all.sync" + type + (predicate ? " $d|$p, " : " $d, ") + a + ", $m;",
                       [=](const Group &group, unsigned lane, Result *result) {
                         const bool agree = same(group, lane) == group.members;
                         result->d = agree ? group.members : 0;
                         result->p = predicate && agree;
                       },
                       operands});
    }
  }
  return all;
}

Operands wild(std::mt19937 &random) {
  static constexpr uint32_t kEdges[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x55555555};
  return {random() % 4 ? static_cast<uint32_t>(random()) : kEdges[random() % 6], 0, 0};
}
Operands wild_float(std::mt19937 &random) {
  static constexpr uint32_t kEdges[] = {0,          0x80000000, 1,          0x3f800000, 0xbf800000,
                                        0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f7fffff};
  return {random() % 2 ? static_cast<uint32_t>(random()) : kEdges[random() % 10], 0, 0};
}

std::vector<Case> integer_reductions() {
  using Fold = uint32_t (*)(uint32_t, uint32_t);
  struct Op {
    const char *name;
    Fold fold;
  };
  static constexpr Op kOps[] = {
      {"add.u32", [](uint32_t x, uint32_t y) { return x + y; }},
      {"add.s32", [](uint32_t x, uint32_t y) { return x + y; }},
      {"min.u32", [](uint32_t x, uint32_t y) { return x < y ? x : y; }},
      {"max.u32", [](uint32_t x, uint32_t y) { return x > y ? x : y; }},
      {"min.s32",
       [](uint32_t x, uint32_t y) {
         return static_cast<int32_t>(x) < static_cast<int32_t>(y) ? x : y;
       }},
      {"max.s32",
       [](uint32_t x, uint32_t y) {
         return static_cast<int32_t>(x) > static_cast<int32_t>(y) ? x : y;
       }},
      {"and.b32", [](uint32_t x, uint32_t y) { return x & y; }},
      {"or.b32", [](uint32_t x, uint32_t y) { return x | y; }},
      {"xor.b32", [](uint32_t x, uint32_t y) { return x ^ y; }},
  };
  std::vector<Case> all;
  for (const Op &op : kOps)
    all.push_back({std::string("redux.sync.") + op.name,
                   std::string("redux.sync.") + op.name + " $d, $a, $m;",
                   [fold = op.fold](const Group &group, unsigned lane, Result *result) {
                     result->d = static_cast<uint32_t>(group.a[lane]);
                     each(group, [&](unsigned other) {
                       if (other != lane)
                         result->d = fold(result->d, static_cast<uint32_t>(group.a[other]));
                     });
                   },
                   wild});
  return all;
}

// Of single precision: the least or greatest number; NaNs count only where .NaN says so.
std::vector<Case> float_reductions() {
  std::vector<Case> all;
  for (bool least : {true, false})
    for (bool magnitude : {false, true})
      for (bool nan : {false, true}) {
        const std::string form = std::string("redux.sync.") + (least ? "min" : "max") +
                                 (magnitude ? ".abs" : "") + (nan ? ".NaN" : "") + ".f32";
        all.push_back({form, form + " $d, $a, $m;",
                       [=](const Group &group, unsigned, Result *result) {
                         bool some_nan = false, found = false;
                         float best = 0;
                         each(group, [&](unsigned lane) {
                           auto x = std::bit_cast<float>(static_cast<uint32_t>(group.a[lane]));
                           if (magnitude) x = std::fabs(x);
                           some_nan |= std::isnan(x);
                           if (std::isnan(x)) return;
                           // -0 is less than 0
                           const bool less = x < best || (x == best && std::signbit(x));
                           const bool more = x > best || (x == best && !std::signbit(x));
                           if (!found || (least ? less : more)) best = x;
                           found = true;
                         });
                         result->d = !found || (nan && some_nan) ? 0x7fffffff
                                                                 : std::bit_cast<uint32_t>(best);
                       },
                       wild_float});
      }
  return all;
}

}  // namespace

TEST(votes) { run(votes(false)); }
TEST(votes_without_members) { run(votes(true)); }
TEST(matches) { run(all_matches()); }
TEST(reductions_of_integers) { run(integer_reductions()); }
TEST(reductions_of_floats) { run(float_reductions()); }

// The lowest member leads; which lanes are there, they see themselves.
TEST(leaders_and_lanes) {
  auto lowest = [](const Group &group) {
    return static_cast<uint32_t>(std::countr_zero(group.members));
  };
  run({{"elect.sync", "elect.sync $d|$p, $m;",
        [=](const Group &group, unsigned lane, Result *result) {
          result->d = lowest(group);
          result->p = lane == lowest(group);
        },
        wild},
       {"elect.sync _|p", "elect.sync _|$p, $m;",
        [=](const Group &group, unsigned lane, Result *result) {
          result->p = lane == lowest(group);
        },
        wild}});
  Case mask{"activemask.b32", "activemask.b32 $d;",
            [](const Group &group, unsigned, Result *result) { result->d = group.members; }, wild};
  mask.implicit = true;  // whoever is there
  run({mask});
}
