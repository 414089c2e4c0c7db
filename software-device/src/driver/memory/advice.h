// What a program has advised for the pages of one managed allocation. It moves nothing here: host
// and devices reach the same memory. But programs ask for it back.
#pragma once

#include <cstdint>
#include <map>

namespace softdev::driver {

struct Home {
  int type = 0;  // a CUmemLocationType; 0: none
  int id = 0;
  bool operator==(const Home &) const = default;
};

struct Advice {
  bool read_mostly = false;
  Home preferred, prefetched;
  uint64_t accessed_by = 0;  // one bit per device
  bool accessed_by_host = false;
  bool operator==(const Advice &) const = default;
};

class AdviceMap {
 public:
  static constexpr uint64_t kPage = 4096;

  // Changes what holds for all pages that [begin, end) touches.
  template <class Change>
  void change(uint64_t begin, uint64_t end, Change how) {
    begin = begin / kPage * kPage;
    end = (end + kPage - 1) / kPage * kPage;
    cut(begin);
    cut(end);
    for (auto at = parts_.lower_bound(begin); at != parts_.end() && at->first < end; ++at)
      how(at->second);
  }

  // Calls `visit` with the advice of each part of [begin, end).
  template <class Visit>
  void each(uint64_t begin, uint64_t end, Visit visit) const {
    auto at = parts_.upper_bound(begin);
    if (at != parts_.begin()) --at;
    if (at == parts_.end()) return visit(Advice{});
    for (; at != parts_.end() && at->first < end; ++at) visit(at->second);
  }

 private:
  // A part begins at `offset` from now on.
  void cut(uint64_t offset) {
    if (parts_.empty()) parts_[0] = {};
    auto after = parts_.upper_bound(offset);
    --after;  // the first part begins at 0
    if (after->first != offset) parts_.emplace(offset, after->second);
  }

  std::map<uint64_t, Advice> parts_;  // by the offset where each begins
};

}  // namespace softdev::driver
