// How processors without AVX access 16 bytes at once, which this one may be too new to choose.
#define SOFTDEV_ISA probe
#include <atomic>
#include <thread>

#include "execute/ops/memory/whole.h"
#include "racing.h"

TEST(exchanges_are_whole) {
  using namespace softdev::probe;
  constexpr uint64_t kTurns = 300000 / racing::kEvery;
  alignas(16) Pair place = {0, 0};
  std::atomic<int> ready{0};
  auto begin = [&] {
    for (++ready; ready < 2;) std::this_thread::yield();
  };
  std::thread storing([&] {
    begin();
    for (uint64_t turn = 1; turn <= kTurns; ++turn) store_by_exchange(&place, Pair{turn, ~turn});
  });
  begin();
  uint64_t torn = 0, last = 0;
  for (uint64_t turn = 0; turn < kTurns; ++turn) {
    const Pair seen = load_by_exchange(&place);
    torn += seen[0] != 0 && seen[1] != ~seen[0];
    torn += seen[0] < last;
    last = seen[0];
  }
  storing.join();
  CHECK(torn == 0);
  CHECK(load_by_exchange(&place)[0] == kTurns);
}
