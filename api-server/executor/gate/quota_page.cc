#include "gate/quota_page.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string>

#include "base/error.h"

namespace outboard {

namespace {

uint64_t magic() {
  uint64_t word;
  memcpy(&word, QuotaPage::kMagic, sizeof word);
  return word;
}

QuotaWords *map(int fd) {
  void *memory = mmap(nullptr, QuotaPage::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    throw Error("OB_INTERNAL", std::string("a quota page cannot be mapped: ") + strerror(errno));
  }
  return static_cast<QuotaWords *>(memory);
}

}  // namespace

std::shared_ptr<QuotaPage> QuotaPage::create() {
  // The slot's process has it, too: it may write there, but not take the page away under us.
  const int fd = memfd_create("outboard-tokens", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, kBytes) < 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
    const std::string why = strerror(errno);
    if (fd >= 0) close(fd);
    throw Error("OB_INTERNAL", "no shared memory for a quota page: " + why);
  }
  QuotaWords *words;
  try {
    words = map(fd);
  } catch (...) {
    close(fd);
    throw;
  }
  words->limit.store(kNoLimit, std::memory_order_relaxed);
  words->unit.store(kModeDeviceTime, std::memory_order_relaxed);
  words->magic.store(magic(), std::memory_order_release);
  return std::shared_ptr<QuotaPage>(new QuotaPage(words, fd));
}

std::shared_ptr<QuotaPage> QuotaPage::open(int fd) {
  struct stat about;
  if (fstat(fd, &about) < 0 || about.st_size < static_cast<off_t>(kBytes)) {
    throw Error("OB_INTERNAL", "descriptor " + std::to_string(fd) + " is no quota page");
  }
  QuotaWords *words = map(fd);
  std::shared_ptr<QuotaPage> page(new QuotaPage(words, -1));
  if (words->magic.load(std::memory_order_acquire) != magic()) {
    throw Error("OB_INTERNAL", "descriptor " + std::to_string(fd) +
                                   " is no quota page, or one of another version");
  }
  return page;
}

QuotaPage::~QuotaPage() {
  munmap(words_, kBytes);
  if (fd_ >= 0) close(fd_);
}

int QuotaPage::release_fd() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

void QuotaPage::wake(QuotaWords &words) {
  words.wake.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &words.wake, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void QuotaPage::wait(uint32_t seen, std::chrono::nanoseconds most) {
  constexpr int64_t kSecond = 1'000'000'000;
  const timespec limit{.tv_sec = most.count() / kSecond, .tv_nsec = most.count() % kSecond};
  syscall(SYS_futex, &words_->wake, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

}  // namespace outboard
