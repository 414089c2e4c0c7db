#include "gate/turn_page.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>

#include "base/error.h"
#include "gate/launch_group.h"

namespace outboard {

namespace {

uint64_t turn_magic() {
  uint64_t word;
  memcpy(&word, TurnPage::kMagic, sizeof word);
  return word;
}

TurnWords *map_turns(int fd) {
  void *memory = mmap(nullptr, TurnPage::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    throw Error("OB_INTERNAL", std::string("a turn page cannot be mapped: ") + strerror(errno));
  return static_cast<TurnWords *>(memory);
}

}  // namespace

static_assert(sizeof(TurnWords) <= TurnPage::kBytes);

std::shared_ptr<TurnPage> TurnPage::create() {
  // Slots' processes may write there, but not take the page away under the others.
  const int fd = memfd_create("outboard-turns", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, kBytes) < 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
    const std::string why = strerror(errno);
    if (fd >= 0) close(fd);
    throw Error("OB_INTERNAL", "no shared memory for a turn page: " + why);
  }
  TurnWords *words;
  try {
    words = map_turns(fd);
  } catch (...) {
    close(fd);
    throw;
  }
  words->magic.store(turn_magic());
  return std::shared_ptr<TurnPage>(new TurnPage(words, fd));
}

std::shared_ptr<TurnPage> TurnPage::open(int fd) {
  struct stat about;
  if (fstat(fd, &about) < 0 || about.st_size < static_cast<off_t>(kBytes))
    throw Error("OB_INTERNAL", "descriptor " + std::to_string(fd) + " is no turn page");
  std::shared_ptr<TurnPage> page(new TurnPage(map_turns(fd), -1));
  if (page->words_->magic.load() != turn_magic())
    throw Error("OB_INTERNAL",
                "descriptor " + std::to_string(fd) + " is no turn page, or one of another version");
  return page;
}

TurnPage::~TurnPage() {
  munmap(words_, kBytes);
  if (fd_ >= 0) close(fd_);
}

int TurnPage::release_fd() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

bool TurnPage::take(unsigned slot) {
  uint32_t owner = 0;
  if (words_->owner.compare_exchange_strong(owner, slot + 1)) {
    words_->since.store(static_cast<uint64_t>(now_ns()));
  } else if (owner != slot + 1) {
    return false;
  }
  wait_no_more(slot);
  return true;
}

bool TurnPage::take_or_wait(unsigned slot) {
  if (take(slot)) return true;
  const auto now = static_cast<uint64_t>(now_ns());
  TurnWords::Word &mine = words_->slots[slot].waits_since;
  uint64_t since = mine.load();
  if (since == 0) {
    mine.store(since = now);
    // It may have been given up before anybody could see that we wait.
    return take(slot);
  }
  uint32_t owner = words_->owner.load();
  since = std::max(since, words_->since.load());
  if (static_cast<int64_t>(now - since) < kMostWaitNs) return false;
  if (owner == 0 || !words_->owner.compare_exchange_strong(owner, slot + 1)) return take(slot);
  words_->since.store(now);
  wait_no_more(slot);
  return true;
}

void TurnPage::pass_on(unsigned slot) { pass_on(*words_, slot); }

// Whoever begins to wait looks afterwards whether it is nobody's turn; here it is the other way
// round, so that one of the two sees the other.
void TurnPage::pass_on(TurnWords &words, unsigned slot) {
  for (;;) {
    const unsigned next = longest_waiting(words, slot);
    uint32_t owner = slot + 1;
    if (!words.owner.compare_exchange_strong(owner, next == kMostSlots ? 0 : next + 1)) return;
    if (next != kMostSlots) {
      words.since.store(static_cast<uint64_t>(now_ns()));
      return wake(words, next);
    }
    owner = 0;
    if (longest_waiting(words, slot) == kMostSlots ||
        !words.owner.compare_exchange_strong(owner, slot + 1))
      return;
  }
}

void TurnPage::leave(TurnWords &words, unsigned slot) {
  if (slot >= kMostSlots) return;
  words.slots[slot].waits_since.store(0);
  pass_on(words, slot);
}

unsigned TurnPage::longest_waiting(const TurnWords &words, unsigned except) {
  unsigned found = kMostSlots;
  uint64_t longest = UINT64_MAX;
  for (unsigned slot = 0; slot < kMostSlots; slot++) {
    const uint64_t since = words.slots[slot].waits_since.load();
    if (since == 0 || since >= longest || slot == except) continue;
    longest = since;
    found = slot;
  }
  return found;
}

void TurnPage::wait(unsigned slot, uint32_t seen) {
  syscall(SYS_futex, &words_->slots[slot].wake, FUTEX_WAIT, seen, nullptr, nullptr, 0);
}

void TurnPage::wake(TurnWords &words, unsigned slot) {
  words.slots[slot].wake.fetch_add(1);
  syscall(SYS_futex, &words.slots[slot].wake, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace outboard
