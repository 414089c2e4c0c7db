// Calls of cuBLASLt that sessions make, with a library whose work the tests do.
#include <dlfcn.h>

#include "check.h"
#include "cublaslt_call.h"
#include "fake_cublas.h"
#include "learnt_calls.h"
#include "library_call.h"
#include "world.h"

using namespace outboard;

namespace {

using Words = std::vector<uint64_t>;

const FakeCublas &cublas() {
  void *library = dlopen(FAKE_LIBRARIES "/libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(__FILE__, __LINE__, dlerror());
  return *static_cast<const FakeCublas *>(dlsym(library, "fake_cublas"));
}

struct LtWorld : World {
  static WorldOptions prepared(WorldOptions options) {
    World::libraries = FAKE_LIBRARIES;
    return options;
  }
  explicit LtWorld(WorldOptions options = {}) : World(prepared(std::move(options))) {
    guest.map(base(), WIRE_GRANULE);
    cublas().set_work([](CUstream, int rows) { return rows == 8 ? 0 : 14; });
  }

  int ask(uint32_t function, const Words &words, Words *results = nullptr, uint64_t key = 0) {
    wire_LibraryAsk asked = filled<wire_LibraryAsk>(function, words);
    asked.key = key;
    const uint64_t request = guest.ask(WIRE_LibraryAsk, asked, bytes(words));
    const Answer answer = guest.wait(request);
    CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
    const auto &reply = answer.frame.as<wire_LibraryAsk_reply>();
    if (results) {
      results->resize((reply.results_size + 7) / 8);
      memcpy(results->data(), answer.frame.tail<wire_LibraryAsk_reply>(reply.results_size).data(),
             reply.results_size);
    }
    return reply.status;
  }
  void post(uint32_t function, const Words &words) {
    guest.put(WIRE_LibraryCall, filled<wire_LibraryCall>(function, words), bytes(words));
  }

  // A product of as many rows as that, whose matrices begin there.
  static Words product(int rows, uint64_t at = base(), const Words &algo = {}) {
    lt_matmul m{};
    m.flags = LT_D_IS_LIKE_C | (algo.empty() ? 0 : LT_HAS_ALGO);
    m.a = m.b = m.c = m.d = at;
    Words words(sizeof m / 8);
    memcpy(words.data(), &m, sizeof m);
    words.insert(words.end(), algo.begin(), algo.end());
    words.push_back(1);
    words.push_back(68);
    for (int i = 0; i < 3; i++) {
      const auto n = static_cast<uint64_t>(rows);
      const Words layout = {0b11100, n, n, n};
      words.insert(words.end(), layout.begin(), layout.end());
    }
    return words;
  }
  static Words question() {
    Words words = {2, 1, 68};
    for (int i = 0; i < 4; i++) words.insert(words.end(), {0b11100, 8, 8, 8});
    words.push_back(0);
    return words;
  }

 private:
  static std::string bytes(const Words &words) {
    return {reinterpret_cast<const char *>(words.data()), words.size() * 8};
  }
  template <class Command>
  static Command filled(uint32_t function, const Words &words) {
    Command command{};
    command.library = LIBRARY_CUBLASLT;
    command.function = function;
    command.arguments_size = static_cast<uint32_t>(words.size() * 8);
    return command;
  }
};

}  // namespace

TEST(a_product_is_asked_and_then_posted) {
  {
    LtWorld w;
    CHECK_EQUAL(cublas().lt_live(), 0);
    CHECK_EQUAL(w.ask(LT_MATMUL, w.product(8)), 0);
    CHECK_EQUAL(w.ask(LT_MATMUL, w.product(4)), 14);
    CHECK_EQUAL(cublas().lt_live(), 1);
    w.post(LT_MATMUL, w.product(8));
    CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
    w.post(LT_MATMUL, w.product(4));
    CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  }
  CHECK_EQUAL(cublas().lt_live(), 0);
}

TEST(one_that_was_never_asked_is_not_carried_out) {
  LtWorld w;
  w.post(LT_MATMUL, w.product(8));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_NOT_SUPPORTED);
}

TEST(algorithms_are_those_that_the_library_gave) {
  LtWorld w;
  // The fake library ends the process where it gets any other.
  const Words none = {1, 2, 3, 4, 5, 6, 7, 8};
  CHECK_EQUAL(w.ask(LT_MATMUL, w.product(8, w.base(), none)), 7);
  Words results;
  CHECK_EQUAL(w.ask(LT_HEURISTIC, w.question(), &results), 0);
  CHECK_EQUAL(results.size(), 1 + 2 * sizeof(lt_result) / 8);
  CHECK_EQUAL(results[0], 2u);
  Words algo(results.begin() + 1, results.begin() + 9);
  CHECK_EQUAL(w.ask(LT_MATMUL, w.product(8, w.base(), algo)), 0);
  w.post(LT_MATMUL, w.product(8, w.base(), algo));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
  // As it becomes where an attribute is set, and not as the guest makes it.
  Words set = algo;
  set.insert(set.end(), {1, 4, 5});
  CHECK_EQUAL(w.ask(LT_ALGO_CONFIG_SET, set, &results), 0);
  CHECK_EQUAL(w.ask(LT_MATMUL, w.product(8, w.base(), results)), 0);
  results[3]++;
  CHECK_EQUAL(w.ask(LT_MATMUL, w.product(8, w.base(), results)), 7);
  Words ends = none;
  ends.insert(ends.end(), {0, 4});
  CHECK_EQUAL(w.ask(LT_ALGO_CAP, ends), 7);
  CHECK(!w.session->libraries().empty());
}

TEST(what_the_guest_has_set_of_an_algorithm_is_checked_before_it_is_used) {
  LtWorld w;
  Words algo, changed;
  CHECK_EQUAL(w.ask(LT_ALGO_INIT, {68, 0, 0, 0, 0, 0, 3}, &algo), 0);
  const auto set_to = [&](uint64_t value) {
    Words set = algo;
    set.insert(set.end(), {0, 4, value});
    CHECK_EQUAL(w.ask(LT_ALGO_CONFIG_SET, set, &changed), 0);
    return w.product(8, w.base(), changed);
  };
  CHECK_EQUAL(w.ask(LT_MATMUL, set_to(20)), 0);
  // The fake library ends the process where it gets such a one.
  const Words refused = set_to(200);
  CHECK_EQUAL(w.ask(LT_MATMUL, refused), 15);
  w.post(LT_MATMUL, refused);
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
  // One that does it in a workspace gets none that is smaller.
  Words needy = set_to(60);
  CHECK_EQUAL(w.ask(LT_MATMUL, needy), 7);
  const auto lay = [&](size_t bytes) {
    lt_matmul m;
    memcpy(&m, needy.data(), sizeof m);
    m.workspace = w.base();
    m.workspace_size = bytes;
    memcpy(needy.data(), &m, sizeof m);
    return needy;
  };
  CHECK_EQUAL(w.ask(LT_MATMUL, lay(15)), 7);
  CHECK_EQUAL(w.ask(LT_MATMUL, lay(16)), 0);
}

TEST(what_the_library_has_not_is_not_even_checked) {
  LtWorld w;
  Words algo, changed;
  CHECK_EQUAL(w.ask(LT_ALGO_INIT, {68, 0, 0, 0, 0, 0, 3}, &algo), 0);
  const auto with_tile = [&](uint64_t tile) {
    Words set = changed.empty() ? algo : changed;
    set.insert(set.end(), {1, 4, tile});
    CHECK_EQUAL(w.ask(LT_ALGO_CONFIG_SET, set, &changed), 0);
    Words check = changed;
    check.insert(check.end(), {1, 68});
    for (int i = 0; i < 4; i++) check.insert(check.end(), {0b11100, 8, 8, 8});
    return check;
  };
  CHECK_EQUAL(w.ask(LT_ALGO_CHECK, with_tile(5)), 0);
  // The fake library ends the process where it gets such a one.
  CHECK_EQUAL(w.ask(LT_ALGO_CHECK, with_tile(1 << 25)), 15);
  CHECK_EQUAL(w.ask(LT_MATMUL, w.product(8, w.base(), changed)), 15);
  // It may be set to one that there is again.
  CHECK_EQUAL(w.ask(LT_ALGO_CHECK, with_tile(2)), 0);
  CHECK_EQUAL(w.ask(LT_MATMUL, w.product(8, w.base(), changed)), 0);
}

TEST(there_is_an_end_to_algorithms) {
  LtWorld w;
  int status = 0;
  Words init = {68, 0, 0, 0, 0, 0, 0};
  for (; init[6] < 20000 && status == 0; init[6]++) status = w.ask(LT_ALGO_INIT, init);
  CHECK_EQUAL(status, 3);
  CHECK_EQUAL(init[6], 16385u);
  // Those that there are stay.
  init[6] = 5;
  CHECK_EQUAL(w.ask(LT_ALGO_INIT, init), 0);
}

TEST(answers_have_what_was_asked_for) {
  LtWorld w;
  Words results;
  CHECK_EQUAL(w.ask(LT_ALGO_IDS, {68, 0, 0, 0, 0, 0, 3}, &results), 0);
  CHECK_EQUAL(results[0], 3u);
  Words algo;
  CHECK_EQUAL(w.ask(LT_ALGO_INIT, {68, 0, 0, 0, 0, 0, 3}, &algo), 0);
  CHECK_EQUAL(algo.size(), 8u);
  Words cap = algo;
  cap.insert(cap.end(), {0, 0});
  CHECK_EQUAL(w.ask(LT_ALGO_CAP, cap, &results), 0);
  CHECK_EQUAL(results[0], 4u);
  cap[9] = 3;
  CHECK_EQUAL(w.ask(LT_ALGO_CAP, cap, &results), 7);
  CHECK(results.empty());
  // An attribute that this machine's release does not have.
  Words strange = w.product(8);
  strange[sizeof(lt_matmul) / 8] = 1 | uint64_t{1} << 33;
  strange.insert(strange.begin() + sizeof(lt_matmul) / 8 + 2, 1);
  CHECK_EQUAL(w.ask(LT_MATMUL, strange), 7);
}

TEST(memory_that_is_not_the_guests_is_refused) {
  LtWorld w;
  CHECK_EQUAL(w.ask(LT_MATMUL, w.product(8, w.base() + WIRE_GRANULE - 4)), 7);
  CHECK_EQUAL(w.ask(LT_MATMUL, w.product(8)), 0);
  w.post(LT_MATMUL, w.product(8, w.base() + WIRE_GRANULE - 4));
  CHECK_EQUAL(w.guest.synchronize().async, CUDA_ERROR_INVALID_VALUE);
}

TEST(what_was_learnt_is_told_to_the_next_session) {
  std::vector<uint8_t> learnt;
  Words algo;
  {
    LtWorld w;
    Words results;
    CHECK_EQUAL(w.ask(LT_HEURISTIC, w.question(), &results, 71), 0);
    algo.assign(results.begin() + 1, results.begin() + 9);
    CHECK_EQUAL(w.ask(LT_MATMUL, w.product(8, w.base(), algo), nullptr, 72), 0);
    // What has failed is asked again, and so is what the guest has no key for.
    CHECK_EQUAL(w.ask(LT_MATMUL, w.product(4), nullptr, 73), 14);
    CHECK_EQUAL(w.ask(LT_MATMUL, w.product(8)), 0);
    learnt = w.end().learnt;
    CHECK(!learnt.empty());
  }
  WorldOptions options;
  options.learnt = learnt;
  {
    LtWorld w(options);
    const Answer answer = w.guest.wait(WIRE_LEARNT);
    const uint32_t size = answer.frame.as<wire_LibraryAsk_reply>().results_size;
    const auto told = answer.frame.tail<wire_LibraryAsk_reply>(size);
    learnt_call call;
    memcpy(&call, told.data(), sizeof call);
    CHECK_EQUAL(call.key, 71u);
    CHECK_EQUAL(call.status, 0);
    CHECK_EQUAL(call.size, 8 + 2 * sizeof(lt_result));
    // Its algorithms are this session's now, and the handle is there.
    CHECK(memcmp(told.data() + sizeof call + 8, algo.data(), 64) == 0);
    memcpy(&call, told.data() + sizeof call + call.size, sizeof call);
    CHECK_EQUAL(call.key, 72u);
    CHECK_EQUAL(call.size, 0u);
    CHECK_EQUAL(size, 2 * sizeof call + 8 + 2 * sizeof(lt_result));
    w.post(LT_MATMUL, w.product(8, w.base(), algo));
    CHECK_EQUAL(w.guest.synchronize().async, CUDA_SUCCESS);
    const uint64_t hindered = w.session->counters()->hindrances.load();
    CHECK((hindered & bit_of(Hindrance::kLibraries)) != 0);
    // What it asks beside that is added.
    CHECK_EQUAL(w.ask(LT_ALGO_IDS, {68, 0, 0, 0, 0, 0, 3}, nullptr, 74), 0);
    const auto more = w.end().learnt;
    CHECK(more.size() > learnt.size());
    CHECK(std::equal(learnt.begin(), learnt.end(), more.begin()));
  }
  {
    LtWorld w(options);
    w.guest.wait(WIRE_LEARNT);
    // Who asks no library leaves what is known as it is.
    CHECK(w.end().learnt.empty());
  }
}

TEST(what_others_have_learnt_is_nothing_here) {
  std::vector<uint8_t> learnt;
  {
    LtWorld w;
    CHECK_EQUAL(w.ask(LT_HEURISTIC, w.question(), nullptr, 71), 0);
    learnt = w.end().learnt;
  }
  const auto told = [](const std::vector<uint8_t> &from) {
    WorldOptions options;
    options.learnt = from;
    LtWorld w(options);
    return w.guest.wait(WIRE_LEARNT).frame.as<wire_LibraryAsk_reply>().results_size;
  };
  CHECK(told(learnt) > 0);
  // Of another library, cut short, and anything at all.
  for (size_t i = 0; i < 8; i++) {
    auto other = learnt;
    other[i] ^= 1;
    CHECK_EQUAL(told(other), 0u);
  }
  for (size_t size = 1; size < learnt.size(); size += 7)
    CHECK_EQUAL(told({learnt.begin(), learnt.begin() + static_cast<long>(size)}), 0u);
  for (uint8_t i = 0; i < 64; i++) {
    auto other = learnt;
    for (size_t at = 16; at < other.size(); at += 5)
      other[at] = static_cast<uint8_t>(other[at] + i);
    told(other);
  }
}

TEST(what_was_learnt_has_a_bound) {
  LearntCalls calls("a library");
  for (uint64_t key = 1; key <= 5000; key++) calls.succeeded(key, LearntCalls::kStarts);
  calls.is_used();
  const auto kept = calls.kept();
  CHECK(kept.size() <= LearntCalls::kMostBytes);
  // The last ones stay.
  const auto all = calls.all();
  CHECK_EQUAL(all.back().key, 5000u);
  CHECK(all.front().key > 1);
  LearntCalls next("a library");
  next.take(kept);
  CHECK_EQUAL(next.all().size(), all.size());
  LearntCalls other("another library");
  other.take(kept);
  CHECK(other.all().empty());
}

TEST(what_no_guest_of_ours_sends_ends_the_session) {
  {
    LtWorld w;
    w.post(LT_HEURISTIC, w.question());
    w.expect_violation("that has results was posted");
  }
  {
    LtWorld w;
    w.post(LT_MATMUL, {1, 2, 3});
    w.expect_violation("malformed LibraryCall: it has fewer arguments than its function");
  }
}
