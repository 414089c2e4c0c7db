// Pages that host and device share, carried past the driver (copies/page_porter.h) while a function
// of the guest is pending: to the device, what it has written, before its return is heard; to the
// guest, what it touches. Commands that are carried out so before it is their turn are noted, and
// passed over when it is. Used by who reads the connection: the leader, or the watchman in its
// place.
//
// What of a command's pages is not the device's yet, because a command before it maps or unmaps
// there, is left for the command's turn: nothing that is queued by then can use it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "copies/page_porter.h"
#include "memory/memory.h"
#include "session/answers.h"
#include "session/page_differences.h"
#include "wire/receiver.h"
#include "wire_calls.h"

namespace outboard {

class CarriedPages {
 public:
  // `porter` may be null: then nothing is carried.
  CarriedPages(PagePorter *porter, const Memory &memory, Answers &answers)
      : porter_(porter), memory_(memory), answers_(answers) {}

  // Nothing has been passed over.
  void begin() { changing_.clear(); }

  // ---- for the watchman ------------------------------------------------------------------------

  // Passes over a command, which is all there at `at`, or carries it out. False when its pages
  // should have been carried and could not be.
  bool pass(const Receiver &receiver, size_t at, const wire_header &head, uint64_t sequence);
  // Whether `pass` has to see a command whole.
  static bool concerns(uint16_t op);

  // ---- for the leader --------------------------------------------------------------------------

  bool any_taken() const { return !taken_.empty(); }
  // Whether the command has been carried out. `left`: which of its runs were not.
  bool took(uint64_t sequence, std::vector<uint32_t> *left);

  // Room for the payload of PagesUpload, of up to PagePorter::kArea bytes and padding; null without
  // a porter.
  uint8_t *payload() { return porter_ ? porter_->area() : nullptr; }
  // Carry a command out. False: nothing was, or some of `left` was not. Without a payload's table
  // being right, nothing is.
  bool upload(const wire_PagesUpload &q, std::vector<uint32_t> *left);
  bool fetch(const wire_PagesFetch &q);
  bool changed(const wire_PagesChanged &q, std::span<const uint8_t> hashes);

 private:
  bool is_there(uint64_t address, uint64_t size) const;
  bool bring(uint64_t address, uint64_t size, unsigned area);
  bool pass_upload(const Receiver &receiver, size_t at, const wire_header &head, uint64_t sequence);
  bool pass_changed(const Receiver &receiver, size_t at, const wire_header &head);

  PagePorter *const porter_;
  const Memory &memory_;
  Answers &answers_;
  std::vector<PagePorter::Order> orders_;
  // Addresses and sizes of what commands that were passed over map and unmap.
  std::vector<std::pair<uint64_t, uint64_t>> changing_;
  // Commands that were carried out before their turn, and which runs of each were not.
  std::map<uint64_t, std::vector<uint32_t>> taken_;
};

}  // namespace outboard
