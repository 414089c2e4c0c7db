// The shapes of the literature (message passing, store buffering, load buffering, IRIW, WRC,
// coherence) between lanes of a warp, warps of a block, blocks of a cluster and of a grid.
//
// Nobody waits for anybody: each thread stores its turn, which only grows, and notes what it has
// loaded. What of two threads cannot both be is looked for afterwards among all of their turns.
#include <algorithm>
#include <map>
#include <vector>

#include "racing.h"

using namespace check;
using namespace racing;
using rig::Device;
using rig::Parameters;

namespace {

enum class Scope { Warp, Block, Cluster, Grid };
constexpr const char *kScopes[] = {"lanes", "warps", "blocks of a cluster", "blocks"};

struct Means {
  const char *store, *load, *fence;  // $ is the scope
};

// Blocks run beside one another on processors: only there is anything to be seen.
constexpr uint32_t turns_in(Scope scope) { return (scope == Scope::Grid ? 30000 : 1000) / kEvery; }

// What a thread does in each turn, which is %r10: X and Y are places, A and B what it notes.
struct Shape {
  const char *name;
  std::vector<std::string> roles;
};

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

struct Note {
  uint32_t a, b;
};

class Race {
 public:
  const uint32_t turns;

  Race(const Shape &shape, const Means &means, Scope scope)
      : turns(turns_in(scope)),
        roles_(static_cast<unsigned>(shape.roles.size())),
        instances_(scope == Scope::Warp ? 32 / roles_ : 32),
        device_(roles_) {
    what_ = std::string(shape.name) + " between " + kScopes[static_cast<int>(scope)] + ", " +
            means.store + " " + means.load + " " + means.fence;
    auto *roles = device_.array<uint32_t>(17);
    auto *places = device_.array<uint8_t>(32 * 128);
    notes_ = device_.array<Note>(size_t{roles_} * instances_ * turns);
    std::memset(places, 0, 32 * 128);
    std::memset(roles, 0, 17 * 4);
    // %r11: the role, %r12: the instance
    std::string text = scope == Scope::Grid ? take_role(roles_) : std::string();
    text += scope == Scope::Warp ? "div.u32 %r11, %r0, " + number(instances_) +
                                       "; rem.u32 %r12, %r0, " + number(instances_) + ";\n"
            : scope == Scope::Block ? "shr.u32 %r11, %r0, 5; and.b32 %r12, %r0, 31;\n"
                                    : "mov.u32 %r11, %r1; mov.u32 %r12, %r0;\n";
    text +=
        "mul.wide.u32 %d4, %r12, 128; add.s64 %d10, %d1, %d4; add.s64 %d11, %d10, 64;\n"
        "mad.lo.u32 %r13, %r11, " +
        number(instances_) + ", %r12; mul.wide.u32 %d4, %r13, " + number(turns * sizeof(Note)) +
        "; add.s64 %d12, %d2, %d4; mov.u32 %r10, 0;\n";
    for (unsigned role = 0; role < roles_; ++role)
      text += "setp.eq.u32 %p2, %r11, " + number(role) + "; @%p2 bra ROLE" + number(role) + ";\n";
    text += "bra END;\n";
    for (unsigned role = 0; role < roles_; ++role)
      text += "ROLE" + number(role) +
              ": add.u32 %r10, %r10, 1; mov.u32 %r20, 0; mov.u32 %r21, 0;\n" +
              spelled(shape.roles[role], means, scope) +
              "st.global.v2.u32 [%d12], {%r20, %r21}; add.s64 %d12, %d12, 8;\n"
              "setp.lt.u32 %p3, %r10, " +
              number(turns) + "; @%p3 bra ROLE" + number(role) + "; bra END;\n";
    auto program = device_.load(module(kernel("k", 3, text + "END:")));
    if (scope == Scope::Cluster) device_.cluster = {roles_, 1, 1};
    const unsigned grid = scope == Scope::Grid ? kBlocks : scope == Scope::Cluster ? roles_ : 1;
    const rig::Status status =
        device_.launch(program, "k", {grid}, {scope == Scope::Block ? 32 * roles_ : 32},
                       Parameters().add(roles).add(places).add(notes_));
    if (!status.ok()) fail(__FILE__, __LINE__, what_ + ": " + status.message);
  }

  unsigned instances() const { return instances_; }
  const Note *notes(unsigned role, unsigned instance) const {
    return notes_ + (size_t{role} * instances_ + instance) * turns;
  }
  void judge(uint32_t seen) const {
    if (seen) fail(__FILE__, __LINE__, what_ + ": " + number(seen) + " times what cannot be");
  }

 private:
  static std::string spelled(std::string text, const Means &means, Scope scope) {
    text = replaced(text, "STORE", std::string("st") + means.store + ".global.u32");
    text = replaced(text, "LOAD", std::string("ld") + means.load + ".global.u32");
    text = replaced(text, "FENCE", *means.fence ? std::string(means.fence) + ";" : "");
    const bool old = text.find("membar") != std::string::npos;
    text = replaced(text, "$",
                    scope == Scope::Grid      ? old ? "gl" : "gpu"
                    : scope == Scope::Cluster ? old ? "gl" : "cluster"
                                              : "cta");
    for (auto [name, reg] : {std::pair{"[X]", "[%d10]"}, {"[Y]", "[%d11]"}})
      text = replaced(text, name, reg);
    text = replaced(text, "TURN", "%r10");
    text = replaced(text, " A,", " %r20,");
    return replaced(text, " B,", " %r21,") + "\n";
  }

  unsigned roles_, instances_;
  Device device_;
  Note *notes_;
  std::string what_;
};

// Counts over the instances of a race in every scope.
template <class F>
void race(const Shape &shape, const std::vector<Means> &all, F count) {
  for (const Means &means : all)
    for (Scope scope : {Scope::Warp, Scope::Block, Scope::Cluster, Scope::Grid}) {
      Race run(shape, means, scope);
      uint32_t seen = 0;
      for (unsigned i = 0; i < run.instances(); ++i) seen += count(run, i);
      run.judge(seen);
    }
}

const std::vector<Means> kInOrder = {{".volatile", ".volatile", "membar.$"},
                                     {".relaxed.sys", ".relaxed.sys", "fence.acq_rel.$"},
                                     {".release.sys", ".acquire.sys", ""},
                                     {"", "", "fence.sc.$"},
                                     {".volatile", ".volatile", ""}};
const std::vector<Means> kSequential = {{".volatile", ".volatile", "membar.$"},
                                        {".relaxed.sys", ".relaxed.sys", "fence.sc.$"},
                                        {"", "", "membar.$"}};

}  // namespace

TEST(message_passing) {
  const Shape shape = {
      "message passing",
      {"STORE [X], TURN; FENCE STORE [Y], TURN;", "LOAD A, [Y]; FENCE LOAD B, [X];"}};
  race(shape, kInOrder, [](const Race &run, unsigned i) {
    const Note *seen = run.notes(1, i);
    return static_cast<uint32_t>(
        std::count_if(seen, seen + run.turns, [](Note note) { return note.b < note.a; }));
  });
}

// Neither may miss the other's store.
TEST(store_buffering) {
  const Shape shape = {
      "store buffering",
      {"STORE [X], TURN; FENCE LOAD A, [Y];", "STORE [Y], TURN; FENCE LOAD A, [X];"}};
  race(shape, kSequential, [](const Race &run, unsigned i) {
    uint32_t count = 0;
    const Note *one = run.notes(0, i), *other = run.notes(1, i);
    for (uint32_t turn = 1; turn <= run.turns; ++turn) {
      const uint32_t missed = one[turn - 1].a + 1;  // the first store that was not seen
      count += missed <= run.turns && other[missed - 1].a < turn;
    }
    return count;
  });
}

// Neither may see what the other stores only later.
TEST(load_buffering) {
  const Shape shape = {
      "load buffering",
      {"LOAD A, [X]; FENCE STORE [Y], TURN;", "LOAD A, [Y]; FENCE STORE [X], TURN;"}};
  race(shape, kInOrder, [](const Race &run, unsigned i) {
    uint32_t count = 0;
    const Note *one = run.notes(0, i), *other = run.notes(1, i);
    for (uint32_t turn = 1; turn <= run.turns; ++turn) {
      const uint32_t saw = one[turn - 1].a;
      count += saw && other[saw - 1].a >= turn;
    }
    return count;
  });
}

// Two that look at two stores agree which came first.
TEST(independent_reads_of_independent_writes) {
  const Shape shape = {"IRIW",
                       {"STORE [X], TURN;", "STORE [Y], TURN;", "LOAD A, [X]; FENCE LOAD B, [Y];",
                        "LOAD A, [Y]; FENCE LOAD B, [X];"}};
  race(shape, kSequential, [](const Race &run, unsigned i) {
    uint32_t count = 0, before = 0;
    const Note *one = run.notes(2, i), *other = run.notes(3, i);
    for (uint32_t turn = 0; turn < run.turns; ++turn) {
      // The other's last turn that had not seen the store to X yet.
      while (before < run.turns && other[before].b < one[turn].a) ++before;
      count += before && other[before - 1].a > one[turn].b;
    }
    return count;
  });
}

// What was seen before another store was made is seen by whoever sees that.
TEST(write_to_read_causality) {
  const Shape shape = {"WRC",
                       {"STORE [X], TURN;", "LOAD A, [X]; FENCE STORE [Y], %r20;",
                        "LOAD A, [Y]; FENCE LOAD B, [X];"}};
  race(shape, kInOrder, [](const Race &run, unsigned i) {
    const Note *seen = run.notes(2, i);
    return static_cast<uint32_t>(
        std::count_if(seen, seen + run.turns, [](Note note) { return note.b < note.a; }));
  });
}

// All see the stores to one place in one order, and none again that was followed by another.
TEST(coherence) {
  const Shape shape = {"coherence",
                       {"STORE [X], TURN;", "or.b32 %r14, %r10, 0x10000; STORE [X], %r14;",
                        "LOAD A, [X]; LOAD B, [X];", "LOAD A, [X]; LOAD B, [X];"}};
  race(shape, {{"", "", ""}, {".volatile", ".volatile", ""}, {".relaxed.sys", ".relaxed.sys", ""}},
       [](const Race &run, unsigned i) {
         uint32_t count = 0;
         std::map<uint32_t, size_t> first_at;
         for (unsigned role : {2u, 3u}) {
           std::vector<uint32_t> order;
           const Note *notes = run.notes(role, i);
           for (uint32_t turn = 0; turn < run.turns; ++turn)
             for (uint32_t value : {notes[turn].a, notes[turn].b})
               if (order.empty() || order.back() != value) order.push_back(value);
           std::vector<uint32_t> sorted(order);
           std::sort(sorted.begin(), sorted.end());
           count += std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
           size_t last = 0;
           for (size_t at = 0; at < order.size(); ++at) {
             if (role == 2) {
               first_at[order[at]] = at;
             } else if (auto found = first_at.find(order[at]); found != first_at.end()) {
               count += found->second < last;
               last = found->second;
             }
           }
         }
         return count;
       });
}
