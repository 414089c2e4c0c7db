#include "session/carried_pages.h"

#include <algorithm>
#include <cstring>

namespace outboard {

bool CarriedPages::concerns(uint16_t op) {
  return op == WIRE_PagesUpload || op == WIRE_PagesFetch || op == WIRE_PagesChanged ||
         op == WIRE_MemoryMap || op == WIRE_PinnedMap || op == WIRE_MemoryUnmap;
}

bool CarriedPages::is_there(uint64_t address, uint64_t size) const {
  return memory_.holds(address, size) && std::ranges::none_of(changing_, [&](const auto &range) {
           return address < range.first + range.second && range.first < address + size;
         });
}

// ---- before their turn -------------------------------------------------------------------------

bool CarriedPages::pass(const Receiver &receiver, size_t at, const wire_header &head,
                        uint64_t sequence) {
  if (taken_.contains(sequence)) return true;
  switch (head.op) {
    case WIRE_MemoryMap:
    case WIRE_PinnedMap:
    case WIRE_MemoryUnmap: {
      wire_MemoryUnmap frame;  // they begin alike
      if (!receiver.look_ahead(at, &frame, sizeof frame)) return false;
      changing_.emplace_back(frame.address, frame.size);
      return true;
    }
    case WIRE_PagesUpload:
      return pass_upload(receiver, at, head, sequence);
    case WIRE_PagesFetch: {
      wire_PagesFetch frame;
      if (head.size != sizeof frame || !receiver.look_ahead(at, &frame, sizeof frame)) return false;
      // Who waits for all work is no function.
      if (!frame.wait && fetch(frame)) taken_[sequence];
      return true;
    }
    default:
      if (pass_changed(receiver, at, head)) taken_[sequence];
      return true;
  }
}

bool CarriedPages::pass_upload(const Receiver &receiver, size_t at, const wire_header &head,
                               uint64_t sequence) {
  wire_PagesUpload frame;
  if (!porter_ || head.size < sizeof frame || !receiver.look_ahead(at, &frame, sizeof frame) ||
      frame.length > PagePorter::kArea || frame.length > head.size - sizeof frame ||
      !receiver.look_ahead(at + sizeof frame, payload(), frame.length))
    return false;
  std::vector<uint32_t> left;
  const uint64_t runs = frame.runs ? frame.runs : 1;
  const bool all = upload(frame, &left);
  if (all || (left.size() > 0 && left.size() < runs)) taken_[sequence] = std::move(left);
  return all;
}

bool CarriedPages::pass_changed(const Receiver &receiver, size_t at, const wire_header &head) {
  wire_PagesChanged frame;
  uint8_t hashes[WIRE_PAGES_MAX * sizeof(uint64_t)];
  if (head.size < sizeof frame || !receiver.look_ahead(at, &frame, sizeof frame) ||
      frame.hashes_size > sizeof hashes || frame.hashes_size > head.size - sizeof frame ||
      !receiver.look_ahead(at + sizeof frame, hashes, frame.hashes_size))
    return false;
  return changed(frame, {hashes, frame.hashes_size});
}

bool CarriedPages::took(uint64_t sequence, std::vector<uint32_t> *left) {
  const auto at = taken_.find(sequence);
  if (at == taken_.end()) return false;
  *left = std::move(at->second);
  taken_.erase(at);
  return true;
}

// ---- carrying ----------------------------------------------------------------------------------

bool CarriedPages::upload(const wire_PagesUpload &q, std::vector<uint32_t> *left) {
  if (!porter_ || q.length == 0 || q.length > PagePorter::kArea ||
      q.runs > q.length / sizeof(wire_page_run))
    return false;
  const uint8_t *const payload = porter_->area();
  const uint64_t table = q.length - q.runs * sizeof(wire_page_run);
  const auto runs = static_cast<uint32_t>(q.runs ? q.runs : 1);
  bool all = true;
  uint32_t first = 0;  // of those that are ordered
  const auto carry = [&](uint32_t next) {
    if (!orders_.empty() && !porter_->carry(orders_)) {
      all = false;
      for (uint32_t i = first; i < runs; i++)
        if (!std::ranges::binary_search(*left, i)) left->push_back(i);
      std::ranges::sort(*left);
    }
    orders_.clear();
    first = next;
    return all;
  };
  orders_.clear();
  uint64_t at = 0;
  for (uint32_t i = 0; i < runs; i++) {
    wire_page_run run{q.address, q.length};
    if (q.runs) memcpy(&run, payload + table + i * sizeof run, sizeof run);
    if (run.size > table - at) {
      // The leader will find out.
      if (first == 0) orders_.clear();
      return false;
    }
    if (run.size == 0 || !is_there(run.address, run.size))
      left->push_back(i);
    else
      orders_.push_back({reinterpret_cast<uint64_t>(payload + at), run.address, run.size});
    at += run.size;
    if (orders_.size() == PagePorter::kMostOrders && !carry(i + 1)) return false;
  }
  return carry(runs);
}

bool CarriedPages::bring(uint64_t address, uint64_t size, unsigned area) {
  const PagePorter::Order order{address, reinterpret_cast<uint64_t>(porter_->area(area)), size};
  return porter_->carry({&order, 1});
}

bool CarriedPages::fetch(const wire_PagesFetch &q) {
  if (!porter_ || q.length == 0 || !is_there(q.address, q.length)) return false;
  const uint64_t request = q.request.request;
  for (uint64_t at = 0; at < q.length;) {
    const uint64_t part = std::min<uint64_t>(PagePorter::kArea, q.length - at);
    if (!bring(q.address + at, part, 0)) {
      if (at == 0) return false;
      // The guest has some of it, and cannot be sent all of it again.
      answers_.send(request, CUDA_ERROR_UNKNOWN);
      return true;
    }
    answers_.data(request, at, porter_->area(), part);
    at += part;
  }
  answers_.send(request, CUDA_SUCCESS);
  return true;
}

bool CarriedPages::changed(const wire_PagesChanged &q, std::span<const uint8_t> hashes) {
  // Again, until nothing has changed since, as in Reading::steady (commands/pages.cc).
  constexpr unsigned kTries = 4;
  if (!porter_ || !Differences::can_tell(q.address, q.length, hashes) ||
      !is_there(q.address, q.length))
    return false;
  const Differences differences(q.address, q.length, hashes);
  unsigned area = 0;
  if (!bring(q.address, q.length, area)) return false;
  for (unsigned i = 0; i < kTries && differences.any(porter_->area(area)); i++) {
    const unsigned again = 1 - area;
    if (!bring(q.address, q.length, again)) return false;
    const bool same = memcmp(porter_->area(0), porter_->area(1), q.length) == 0;
    area = again;
    if (same) break;
  }
  differences.tell(answers_, q.request.request, porter_->area(area), false);
  return true;
}

}  // namespace outboard
