#include "copies/page_porter.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "base/log.h"

namespace outboard {

namespace {

constexpr unsigned kPorterThreads = 512;
// Fewer than a stream takes of any driver's; each is two operations.
constexpr uint32_t kMostPorters = 128;
// How long a porter is waited for that does not begin, as where other kernels leave it no room.
constexpr std::chrono::seconds kUntilItBegins{2};
// And one that has begun: it does not end any more where the context is broken.
constexpr std::chrono::seconds kUntilItIsDone{20};
// Between one look and the next, after some without a pause.
constexpr std::chrono::microseconds kBetweenOrderLooks{20};
constexpr int kLooksAtOnce = 200;

// The first thread looks for orders, tells the others how many, and tells the host. What it has
// been told of as released it looks at before it looks for orders: who orders after that finds that
// it is gone. All memory of the host's, and of the device's that work has just written, is read
// past the caches (volatile). Words that can be are carried whole.
constexpr char kPorterText[] = R"(.version 6.3
.target sm_70
.address_size 64
.visible .entry outboard_porter(.param .u64 at, .param .u32 number)
{
  .reg .pred %p<4>;
  .reg .b16 %h<2>;
  .reg .b32 %r<16>;
  .reg .b64 %d<16>;
  .shared .align 4 .u32 orders;
  ld.param.u64 %d0, [at];
  ld.param.u32 %r0, [number];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ntid.x;
  setp.eq.u32 %p0, %r1, 0;
  @!%p0 bra meet;
  st.volatile.global.u32 [%d0+68], %r0;
  membar.sys;
look:
  ld.volatile.global.u32 %r3, [%d0+4];
  membar.sys;
  ld.volatile.global.u32 %r4, [%d0+8];
  ld.volatile.global.u32 %r5, [%d0+64];
  setp.ne.u32 %p1, %r4, %r5;
  @%p1 bra ordered;
  sub.u32 %r6, %r3, %r0;
  setp.ge.s32 %p1, %r6, 0;
  mov.u32 %r6, 0xffffffff;
  @%p1 bra tell;
  nanosleep.u32 500;
  bra look;
ordered:
  membar.sys;
  ld.volatile.global.u32 %r6, [%d0+12];
tell:
  st.shared.u32 [orders], %r6;
meet:
  bar.sync 0;
  ld.shared.u32 %r7, [orders];
  setp.eq.u32 %p1, %r7, 0xffffffff;
  @%p1 bra leave;
  mov.u32 %r8, 0;
  add.u64 %d1, %d0, 128;
place:
  setp.ge.u32 %p1, %r8, %r7;
  @%p1 bra carried;
  ld.volatile.global.u64 %d2, [%d1];
  ld.volatile.global.u64 %d3, [%d1+8];
  ld.volatile.global.u64 %d4, [%d1+16];
  ld.volatile.global.u64 %d5, [%d1+24];
  cvt.u64.u32 %d6, %r1;
  mul.lo.u64 %d6, %d6, %d5;
  cvt.u64.u32 %d7, %r2;
  mul.lo.u64 %d7, %d7, %d5;
  setp.eq.u64 %p2, %d5, 8;
  setp.eq.u64 %p3, %d5, 4;
next:
  setp.ge.u64 %p1, %d6, %d4;
  @%p1 bra placed;
  add.u64 %d8, %d2, %d6;
  add.u64 %d9, %d3, %d6;
  add.u64 %d6, %d6, %d7;
  @%p2 bra eight;
  @%p3 bra four;
  ld.volatile.global.u8 %h0, [%d8];
  st.volatile.global.u8 [%d9], %h0;
  bra next;
four:
  ld.volatile.global.u32 %r9, [%d8];
  st.volatile.global.u32 [%d9], %r9;
  bra next;
eight:
  ld.volatile.global.u64 %d10, [%d8];
  st.volatile.global.u64 [%d9], %d10;
  bra next;
placed:
  add.u64 %d1, %d1, 32;
  add.u32 %r8, %r8, 1;
  bra place;
carried:
  membar.sys;
  bar.sync 0;
  @!%p0 bra meet;
  membar.sys;
  st.volatile.global.u32 [%d0+64], %r4;
  bra look;
leave:
  @!%p0 bra end;
  membar.sys;
  st.volatile.global.u32 [%d0+72], %r0;
end:
  ret;
}
)";

}  // namespace

uint32_t PagePorter::get(const uint32_t &word) {
  return std::atomic_ref(const_cast<uint32_t &>(word)).load();
}

void PagePorter::put(uint32_t &word, uint32_t value) { std::atomic_ref(word).store(value); }

void PagePorter::raise(uint32_t &word, uint32_t value) {
  std::atomic_ref<uint32_t> at(word);
  for (uint32_t now = at.load(); !reaches(now, value) && !at.compare_exchange_weak(now, value);) {
  }
}

std::unique_ptr<PagePorter> PagePorter::open(const Driver &driver) {
  std::unique_ptr<PagePorter> porter(new PagePorter(driver));
  if (porter->load()) return porter;
  log_line(LogLevel::kInfo, 0, "no porter of pages: this device does not run its kernel");
  return nullptr;
}

bool PagePorter::load() {
  static_assert(offsetof(Words, released) == 4 && offsetof(Words, asked) == 8 &&
                offsetof(Words, count) == 12 && offsetof(Words, done) == 64 &&
                offsetof(Words, begun) == 68 && offsetof(Words, gone) == 72 &&
                offsetof(Words, places) == 128 && sizeof(Words::Place) == 32);
  CUkernel kernel = nullptr;
  void *words = nullptr, *areas = nullptr;
  if (driver_.cuLibraryLoadData(&library_, kPorterText, nullptr, nullptr, 0, nullptr, nullptr, 0) !=
          CUDA_SUCCESS ||
      driver_.cuLibraryGetKernel(&kernel, library_, "outboard_porter") != CUDA_SUCCESS ||
      driver_.cuKernelGetFunction(&function_, kernel) != CUDA_SUCCESS ||
      driver_.cuMemHostAlloc(&words, sizeof *words_, CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS)
    return false;
  words_ = static_cast<Words *>(words);
  if (driver_.cuMemHostAlloc(&areas, kAreas * kAreaRoom, CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS)
    return false;
  areas_ = static_cast<uint8_t *>(areas);
  // A device that does nothing has not written that it has ended.
  begin();
  if (!stand_by(0)) return false;
  release_all();
  const bool ran = driver_.cuStreamSynchronize(stream_) == CUDA_SUCCESS && get(words_->gone) == 1;
  return rest() == CUDA_SUCCESS && ran;
}

PagePorter::~PagePorter() {
  if (stream_) driver_.cuStreamDestroy_v2(stream_);
  if (areas_) driver_.cuMemFreeHost(areas_);
  if (words_) driver_.cuMemFreeHost(words_);
  if (library_) driver_.cuLibraryUnload(library_);
}

bool PagePorter::queue(uint32_t turn) {
  CUstreamBatchMemOpParams entry{};
  entry.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  entry.waitValue.address = reinterpret_cast<CUdeviceptr>(&words_->go);
  entry.waitValue.value = turn;
  entry.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  const WorkCalls &work = driver_.work.calls_;
  if (work.cuStreamBatchMemOp_v2(stream_, 1, &entry, 0) != CUDA_SUCCESS) return false;
  uint64_t at = reinterpret_cast<uint64_t>(words_);
  void *parameters[] = {&at, &turn};
  return work.cuLaunchKernel(function_, 1, 1, 1, kPorterThreads, 1, 1, 0, stream_, parameters,
                             nullptr) == CUDA_SUCCESS;
}

bool PagePorter::stand_by(unsigned most) {
  if (lost_.load(std::memory_order_relaxed)) return false;
  const uint32_t turn = queued_.load(std::memory_order_relaxed) + 1;
  const uint32_t room = most ? std::min(kMostPorters, most / 2) : kMostPorters;
  if (turn - get(words_->gone) > room) return false;
  if (!stream_ &&
      driver_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS) {
    stream_ = nullptr;
    return false;
  }
  {
    std::lock_guard lock(mutex_);
    standing_ = turn;
  }
  if (!queue(turn)) {
    // What waits without a kernel behind it is let go; no turn follows that nobody takes.
    lost_.store(true);
    raise(words_->go, turn);
    return false;
  }
  queued_.store(turn);
  if (over_.load()) release_all();
  return true;
}

void PagePorter::settled(unsigned most, bool is_there) {
  const auto end = [this] {
    std::lock_guard lock(mutex_);
    return std::exchange(standing_, 0) != 0;
  };
  const bool stood = end();
  if (!is_there) return release_one();
  if (stood || !stand_by(most)) return;
  end();
  // One of the two is nobody's.
  release_one();
}

CUresult PagePorter::mark(CUstream stream) {
  CUstreamBatchMemOpParams entry{};
  entry.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  entry.writeValue.address = reinterpret_cast<CUdeviceptr>(&words_->landed);
  entry.writeValue.value = marks_ + 1;
  const CUresult result = driver_.work.calls_.cuStreamBatchMemOp_v2(stream, 1, &entry, 0);
  if (result == CUDA_SUCCESS) ++marks_;
  return result;
}

bool PagePorter::has_landed() const { return reaches(get(words_->landed), marks_); }

// It is on the device until it is released, or there never was one.
void PagePorter::tell_time(bool goes_on) {
  if (since_.load() == 0) return;
  const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  const int64_t since = since_.exchange(goes_on ? now : 0);
  if (since != 0 && ran_) ran_(static_cast<uint64_t>(now - since));
}

// With the lock held.
void PagePorter::release() {
  const uint32_t released = std::atomic_ref(words_->released).fetch_add(1) + 1;
  raise(words_->go, released);
}

// The others carry pages for functions that the driver may wait for just so.
uint32_t PagePorter::let_go(uint32_t stood) {
  std::lock_guard lock(mutex_);
  if (standing_ == 0 || standing_ != stood || get(words_->released) != stood - 1) return standing_;
  standing_ = 0;
  ++owed_;
  release();
  return 0;
}

void PagePorter::release_one() {
  tell_time(false);
  std::lock_guard lock(mutex_);
  if (owed_ > 0) {
    --owed_;
    return;
  }
  release();
}

void PagePorter::release_all() {
  over_.store(true);
  tell_time(false);
  std::lock_guard lock(mutex_);
  const uint32_t queued = queued_.load();
  raise(words_->released, queued);
  raise(words_->go, queued);
}

// Takes orders back that no porter has begun to look for. False: one may have.
bool PagePorter::cancel(uint32_t number, uint32_t turn) {
  put(words_->asked, number - 1);
  if (!reaches(get(words_->begun), turn)) return true;
  put(words_->asked, number);
  return false;
}

bool PagePorter::carry(std::span<const Order> orders) {
  if (lost_.load() || orders.empty() || orders.size() > kMostOrders) return orders.empty();
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  int looks = 0;
  const auto pause = [&looks] {
    if (++looks > kLooksAtOnce) std::this_thread::sleep_for(kBetweenOrderLooks);
  };
  while (!has_landed()) {
    if (over_.load() || Clock::now() - began > kUntilItBegins) return false;
    pause();
  }
  for (size_t i = 0; i < orders.size(); i++) {
    const Order &order = orders[i];
    const uint64_t all = order.from | order.to | order.size;
    const uint64_t unit = all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : 1;
    words_->places[i] = {order.from, order.to, order.size, unit};
  }
  put(words_->count, static_cast<uint32_t>(orders.size()));
  const uint32_t number = get(words_->done) + 1;
  put(words_->asked, number);
  for (;;) {
    // One that ends now may not have seen them, and the next one's turn is it then.
    const uint32_t next = get(words_->released) + 1, queued = queued_.load();
    if (reaches(queued, next)) {
      int64_t none = 0;
      since_.compare_exchange_strong(none, Clock::now().time_since_epoch().count());
      raise(words_->go, next);
    }
    const bool all_gone = !reaches(queued, next) && reaches(get(words_->gone), queued);
    if (get(words_->done) == number) {
      tell_time(true);
      return true;
    }
    const auto waited = Clock::now() - began;
    if (all_gone || over_.load() || waited > kUntilItBegins) {
      if ((all_gone || !reaches(get(words_->begun), next)) && cancel(number, next)) return false;
      if (waited > kUntilItIsDone) {
        lost_.store(true);
        return false;
      }
    }
    pause();
  }
}

CUresult PagePorter::rest() {
  // Payloads come there also for what nobody carries then.
  if (used_) memset(areas_, 0, kAreas * kAreaRoom);
  used_ = false;
  since_.store(0);
  ran_ = nullptr;
  if (!stream_) return CUDA_SUCCESS;
  const CUresult result = driver_.cuStreamDestroy_v2(stream_);
  stream_ = nullptr;
  // Those that the driver has dropped count as gone.
  const uint32_t queued = queued_.load();
  raise(words_->released, queued);
  raise(words_->go, queued);
  raise(words_->gone, queued);
  put(words_->asked, get(words_->done));
  return result;
}

void PagePorter::begin() {
  memset(words_, 0, sizeof *words_);
  marks_ = 0;
  standing_ = owed_ = 0;
  queued_.store(0);
  over_.store(false);
  lost_.store(false);
}

}  // namespace outboard
