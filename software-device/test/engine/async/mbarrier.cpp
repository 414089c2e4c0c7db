// mbarriers in every spelling: scripts by chance of what one thread does to one, beside a model of
// what the ISA says of it.
#include <random>

#include "../behaviour/check.h"
#include "../proven.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

struct Model {
  uint32_t expected = 0, pending = 0;
  int64_t bytes = 0;
  bool phase = false;

  void init(uint32_t count) { *this = {count, count, 0, false}; }
  void settle() {
    if (pending || bytes) return;
    phase = !phase;
    pending = expected;
  }
  void arrive(uint32_t count) {
    pending -= count;
    settle();
  }
  void drop(uint32_t count) {
    expected -= count;
    arrive(count);
  }
  void complete(int64_t count) {
    bytes -= count;
    settle();
  }
};

enum class Kind {
  Init,
  Inval,
  Arrive,
  Drop,
  ArriveExpect,
  DropExpect,
  ArrivePartly,
  DropPartly,
  Expect,
  Complete,
  Wait,
  WaitParity,
  CopyArrive,       // what copies of before do, when they are there: nothing that is seen
  CopyArriveNoInc,  // they arrive
};

struct Form {
  Kind kind;
  std::string text;  // with modifiers
  std::string space = {};
  bool state = false;         // gives one
  bool count = false;         // takes one
  bool limit = false;         // of time
  std::string operands = {};  // told in the table
};

constexpr uint32_t kCount = 7;  // arrivals of a phase

std::string address(const std::string &space) {
  return space.empty() ? "[%d10]" : space == ".shared::cluster" ? "[%r5]" : "[%r4]";
}

// One kernel and what it should write.
class Script {
 public:
  explicit Script(const Form &form) : form_(form) {
    text_ =
        "mov.u32 %r4, bar; mapa.shared::cluster.u32 %r5, %r4, 0; mov.u64 %d10, bar;"
        "cvta.shared.u64 %d10, %d10;\n";
    init(form.kind == Kind::Init ? form.text + " " + address(form.space)
                                 : "mbarrier.init.shared.b64 [%r4]");
    for (int step = 0; step < 40; ++step) {
      if (random_() % 3)
        tested();
      else
        helper();
      look(Kind::WaitParity, "mbarrier.test_wait.parity.shared.b64", "[%r4]", "");
    }
    text_ += "mbarrier.inval.shared.b64 [%r4];\n";
  }
  const std::string &text() const { return text_; }
  const std::vector<uint32_t> &want() const { return want_; }
  size_t states() const { return states_; }  // asked how many were pending

 private:
  void init(const std::string &text) {
    text_ += text + ", " + std::to_string(kCount) + ";\n";
    model_.init(kCount);
  }
  void record(const std::string &reg, uint32_t want) {
    text_ += "st.global.u32 [%d0+" + std::to_string(4 * want_.size()) + "], " + reg + ";\n";
    want_.push_back(want);
  }
  void look(Kind kind, const std::string &text, const std::string &at, const std::string &limit) {
    if (kind == Kind::WaitParity) {
      const uint32_t parity = random_() & 1;
      text_ += text + " %p1, " + at + ", " + std::to_string(parity) + limit;
      text_ += "; selp.u32 %r6, 1, 0, %p1;\n";
      record("%r6", model_.phase != static_cast<bool>(parity));
      return;
    }
    // The phase that a state was given in, or the one after it: not of longer ago.
    if (!known_) {
      text_ += "mbarrier.arrive.shared.b64 %d12, [%r4];\n";
      remember();
      model_.arrive(1);
    }
    text_ += text + " %p1, " + at + ", %d12" + limit + "; selp.u32 %r6, 1, 0, %p1;\n";
    record("%r6", flips_ != flips_then_);
    if (flips_ != flips_then_) known_ = false;
  }
  void remember() {
    known_ = true;
    flips_then_ = flips_;
  }
  // Something else that moves the barrier on.
  void helper() {
    const std::string at = "[%r4]";
    if (model_.bytes > 0)
      apply(Kind::Complete, "mbarrier.complete_tx.shared.b64", at, model_.bytes);
    else if (model_.bytes < 0)
      apply(Kind::Expect, "mbarrier.expect_tx.shared.b64", at, -model_.bytes);
    else
      apply(Kind::Arrive, "mbarrier.arrive.shared.b64 _,", at, 0);
  }
  void tested() {
    const std::string at = address(form_.space), limit = form_.limit ? ", 100" : "";
    switch (form_.kind) {
      case Kind::Init:
      case Kind::Inval:
        text_ += form_.kind == Kind::Inval ? form_.text + " " + at + ";\n"
                                           : "mbarrier.inval.shared.b64 [%r4];\n";
        known_ = false;
        return init(form_.kind == Kind::Init ? form_.text + " " + at
                                             : "mbarrier.init.shared.b64 [%r4]");
      case Kind::Wait:
      case Kind::WaitParity:
        return look(form_.kind, form_.text, at, limit);
      default:
        break;
    }
    std::string to;
    const bool arrives = form_.kind >= Kind::Arrive && form_.kind <= Kind::DropPartly;
    if (arrives) to = form_.state ? " %d11," : " _,";
    const uint32_t before = model_.pending;
    const uint32_t count = form_.count ? 1 + random_() % 3 : 1;
    const int64_t bytes = 16 * (1 + random_() % 4);
    if (!apply(form_.kind, form_.text + to, at, bytes, count, form_.count) || !form_.state) return;
    text_ += "mbarrier.pending_count.b64 %r6, %d11;\n";
    record("%r6", before);
    ++states_;
  }
  // Whether it may be done now, and was.
  bool apply(Kind kind, const std::string &text, const std::string &at, int64_t bytes,
             uint32_t count = 1, bool counted = false) {
    if (kind == Kind::ArriveExpect || kind == Kind::DropExpect) count = 1;
    const bool drops = kind == Kind::Drop || kind == Kind::DropExpect || kind == Kind::DropPartly;
    const bool partly = kind == Kind::ArrivePartly || kind == Kind::DropPartly;
    const Model before = model_;
    if (kind != Kind::Expect && kind != Kind::Complete && kind != Kind::CopyArrive) {
      if (model_.pending < count + partly) return false;
      if (drops && model_.expected < count + 2) return false;
      // Bytes that came too early would have to be expected by nobody's arrival.
      if (model_.bytes < 0 && model_.pending == count) return false;
    }
    std::string number;
    switch (kind) {
      case Kind::Arrive:
      case Kind::ArrivePartly:
      case Kind::CopyArriveNoInc:
        model_.arrive(count);
        break;
      case Kind::Drop:
      case Kind::DropPartly:
        model_.drop(count);
        break;
      case Kind::ArriveExpect:
        model_.bytes += bytes;
        model_.arrive(1);
        break;
      case Kind::DropExpect:
        model_.bytes += bytes;
        model_.drop(1);
        break;
      case Kind::Expect:
        model_.bytes += bytes;
        break;
      case Kind::Complete:
        model_.complete(bytes);
        break;
      default:
        break;
    }
    if (kind == Kind::ArriveExpect || kind == Kind::DropExpect || kind == Kind::Expect ||
        kind == Kind::Complete)
      number = ", " + std::to_string(bytes);
    else if (counted)
      number = ", " + std::to_string(count);
    if (model_.phase != before.phase) ++flips_;
    if (known_ && flips_ > flips_then_ + 1) known_ = false;
    text_ += text + " " + at + number + ";\n";
    return true;
  }

  const Form &form_;
  Model model_;
  std::mt19937 random_{17};
  std::string text_;
  std::vector<uint32_t> want_;
  bool known_ = false;  // %d12 is the state of a phase that may be asked for
  unsigned flips_ = 0, flips_then_ = 0;
  size_t states_ = 0;
};

void run(const std::vector<Form> &forms) {
  Device device(1);
  std::string text = ".shared .align 8 .b64 bar;\n";
  std::vector<std::vector<uint32_t>> want;
  for (size_t i = 0; i < forms.size(); ++i) {
    Script script(forms[i]);
    text += kernel("k" + std::to_string(i), 1, script.text());
    want.push_back(script.want());
    if (script.states()) proven::add("mbarrier.pending_count.b64", script.states());
  }
  auto program = device.load(module(text));
  CHECK(program);
  if (!program) return;
  auto *out = device.array<uint32_t>(512);
  for (size_t i = 0; i < forms.size(); ++i) {
    const std::string form = forms[i].text + forms[i].operands;
    rig::Status status =
        device.launch(program, ("k" + std::to_string(i)).c_str(), {1}, {1}, Parameters().add(out));
    if (!status.ok()) check::fail(__FILE__, __LINE__, form + ": " + status.message);
    for (size_t n = 0; n < want[i].size() && status.ok(); ++n) {
      if (out[n] == want[i][n]) continue;
      check::fail(__FILE__, __LINE__, form + ": result " + std::to_string(n));
      break;
    }
    proven::add(form, want[i].size());
  }
}

constexpr const char *kSpaces[] = {"", ".shared", ".shared::cta", ".shared::cluster"};
// All but the last, which is for what may be done to another block's.
constexpr const char *kOwn[] = {"", ".shared", ".shared::cta"};

// ".sem.scope", or nothing
std::vector<std::string> orders(const char *first) {
  std::vector<std::string> all = {""};
  for (const char *order : {first, ".relaxed"})
    for (const char *scope : {".cta", ".cluster"}) all.push_back(std::string(order) + scope);
  return all;
}

}  // namespace

TEST(mbarriers_are_made_and_ended) {
  std::vector<Form> forms;
  for (const char *space : kOwn) {
    forms.push_back({Kind::Init, std::string("mbarrier.init") + space + ".b64", space});
    forms.push_back({Kind::Inval, std::string("mbarrier.inval") + space + ".b64", space});
  }
  run(forms);
}

TEST(mbarriers_are_arrived_at) {
  std::vector<Form> forms;
  for (bool drop : {false, true}) {
    const std::string name = drop ? "mbarrier.arrive_drop" : "mbarrier.arrive";
    for (const char *space : kSpaces)
      for (const std::string &order : orders(".release")) {
        const std::string tail = order + space + ".b64";
        for (bool state : {false, true}) {
          if (state && std::string(space) == ".shared::cluster") continue;
          const std::string d = state ? " state, [a]" : " _, [a]";
          for (bool count : {false, true})
            forms.push_back({drop ? Kind::Drop : Kind::Arrive, name + tail, space, state, count,
                             false, d + (count ? ", n" : "")});
          forms.push_back({drop ? Kind::DropExpect : Kind::ArriveExpect, name + ".expect_tx" + tail,
                           space, state, true, false, d + ", n"});
          if (std::string(space) == ".shared::cluster" || (order != "" && order != ".release.cta"))
            continue;
          forms.push_back({drop ? Kind::DropPartly : Kind::ArrivePartly,
                           name + ".noComplete" + tail, space, state, true, false, d + ", n"});
        }
      }
  }
  run(forms);
}

TEST(mbarriers_count_bytes) {
  std::vector<Form> forms;
  for (const char *space : kSpaces)
    for (const char *order : {"", ".relaxed.cta", ".relaxed.cluster"})
      for (bool expect : {false, true})
        forms.push_back({expect ? Kind::Expect : Kind::Complete,
                         std::string("mbarrier.") + (expect ? "expect_tx" : "complete_tx") + order +
                             space + ".b64",
                         space});
  run(forms);
}

TEST(mbarriers_are_waited_for) {
  std::vector<Form> forms;
  for (bool tries : {false, true})
    for (bool parity : {false, true})
      for (bool limit : {false, true}) {
        if (limit && !tries) continue;
        for (const char *space : kOwn)
          for (const std::string &order : orders(".acquire"))
            forms.push_back({parity ? Kind::WaitParity : Kind::Wait,
                             std::string("mbarrier.") + (tries ? "try_wait" : "test_wait") +
                                 (parity ? ".parity" : "") + order + space + ".b64",
                             space, false, false, limit, limit ? " p, [a], phase, limit" : ""});
      }
  run(forms);
}

TEST(mbarriers_are_arrived_at_by_copies) {
  std::vector<Form> forms;
  for (const char *space : kOwn)
    for (bool more : {false, true})
      forms.push_back(
          {more ? Kind::CopyArrive : Kind::CopyArriveNoInc,
           std::string("cp.async.mbarrier.arrive") + (more ? "" : ".noinc") + space + ".b64",
           space});
  run(forms);
}
