#include "streams/event_board.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "core/driver.h"

namespace softdev::driver {
namespace {

constexpr uint64_t kSlots = 64;          // records that can be under way at once
constexpr size_t kPageBytes = kGranule;  // of which few are touched

}  // namespace

// Written by all processes: any value is possible.
struct EventBoard::Page {
  std::atomic<uint64_t> latest;
  struct Slot {
    std::atomic<uint64_t> done;  // the highest record of this slot that is done
    std::atomic<uint64_t> started;
    std::atomic<int32_t> process;
    std::atomic<uint64_t> record;  // that the two above are of; written last
  } slots[kSlots];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

std::shared_ptr<EventBoard> EventBoard::join(std::shared_ptr<File> file) {
  struct stat about;
  if (!file || fstat(file->number(), &about) != 0 || about.st_size != kPageBytes) return nullptr;
  void *at = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file->number(), 0);
  if (at == MAP_FAILED) return nullptr;
  return std::shared_ptr<EventBoard>(new EventBoard(std::move(file), static_cast<Page *>(at)));
}

std::shared_ptr<EventBoard> EventBoard::create(const CUuuid &device) {
  auto board = join(create_shared_file(kPageBytes, device));
  if (board) board->device_ = device;
  return board;
}

EventBoard::~EventBoard() { munmap(page_, sizeof(Page)); }

uint64_t EventBoard::begin() {
  static const uint64_t started = process_start(getpid());
  uint64_t record = page_->latest.fetch_add(1) + 1;
  Page::Slot &slot = page_->slots[record % kSlots];
  slot.started = started;
  slot.process = getpid();
  slot.record = record;
  return record;
}

void EventBoard::finish(uint64_t record) {
  std::atomic<uint64_t> &done = page_->slots[record % kSlots].done;
  uint64_t before = done.load();
  while (before < record && !done.compare_exchange_weak(before, record)) {
  }
}

uint64_t EventBoard::latest() const { return page_->latest.load(); }

bool EventBoard::done(uint64_t record) const {
  if (!record) return true;
  const Page::Slot &slot = page_->slots[record % kSlots];
  if (slot.done.load() >= record) return true;
  if (slot.record.load() != record) return false;
  int32_t process = slot.process.load();
  if (process == getpid()) return false;
  return !process_lives(process, slot.started.load());
}

const ShareName *EventBoard::name() {
  if (!share_) share_ = Share::offer(SharedKind::kEvent, file_->number(), {device_, 0, 0, {}});
  return share_ ? &share_->name() : nullptr;
}

void record(Event &event, const StreamRef &stream) {
  Queue::record(event, stream);
  if (!event.board) return;
  auto told = std::make_shared<Operation>(stream.context, Where::kInline);
  told->always = true;  // nobody waits for ever for a context that failed
  told->run = [board = event.board, number = event.board->begin()](Operation &) {
    board->finish(number);
  };
  Queue::push(*stream, told);
}

void wait_for_board(const StreamRef &stream, const Event &event) {
  uint64_t number = event.board->latest();
  if (event.board->done(number)) return;
  auto work = std::make_shared<Operation>(stream.context, Where::kEngine);
  work->run = [board = event.board, number](Operation &operation) {
    driver()->watcher.watch(operation.shared_from_this(),
                            [board, number] { return board->done(number); });
  };
  Queue::push(*stream, work);
}

}  // namespace softdev::driver
