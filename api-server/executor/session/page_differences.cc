#include "session/page_differences.h"

#include <algorithm>
#include <cstring>

#include "copies/staging.h"
#include "page_hash.h"
#include "wire_calls.h"

namespace outboard {

bool Differences::can_tell(uint64_t address, uint64_t length, std::span<const uint8_t> hashes) {
  if (length == 0 || length > Chunk::kSize) return false;
  const uint64_t pages = (address % WIRE_PAGE + length + WIRE_PAGE - 1) / WIRE_PAGE;
  return pages <= WIRE_PAGES_MAX && (hashes.empty() || hashes.size() == pages * sizeof(uint64_t));
}

Differences::Differences(uint64_t address, uint64_t length, std::span<const uint8_t> hashes)
    : address_(address), length_(length), all_(hashes.empty()) {
  // The frame does not stay where it is.
  if (!all_) memcpy(known_, hashes.data(), hashes.size());
}

// Calls visit(page, begin, end) for each, in bytes from the first.
template <class Visit>
void Differences::each(const uint8_t *data, Visit visit) const {
  for (uint64_t i = 0, at = 0; at < length_; i++) {
    const uint64_t end = std::min(length_, (i + 1) * WIRE_PAGE - address_ % WIRE_PAGE);
    if (all_ || wire_page_hash(data + at, end - at) != known_[i]) visit(i, at, end);
    at = end;
  }
}

bool Differences::any(const uint8_t *data) const {
  bool some = false;
  each(data, [&](uint64_t, uint64_t, uint64_t) { some = true; });
  return some;
}

void Differences::tell(Answers &answers, uint64_t request, const uint8_t *data,
                       bool settled) const {
  wire_PagesChanged_reply reply{};
  uint64_t *const changed[] = {&reply.changed0, &reply.changed1, &reply.changed2, &reply.changed3};
  uint64_t run = 0, run_end = 0;  // bytes that are to be sent
  const auto send = [&] {
    if (run_end > run) answers.data(request, run, data + run, run_end - run);
  };
  each(data, [&](uint64_t page, uint64_t begin, uint64_t end) {
    *changed[page / 64] |= uint64_t{1} << page % 64;
    if (run_end != begin) {
      send();
      run = begin;
    }
    run_end = end;
  });
  send();
  reply.settled = settled;
  answers.send(request, CUDA_SUCCESS, &reply.reply, sizeof reply);
}

}  // namespace outboard
