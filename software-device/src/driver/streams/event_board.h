// An event that several processes record and wait for: a page of memory that they share. A record
// takes a number, and its slot says who does it and when it is done.
#pragma once

#include <memory>

#include "memory/shared.h"
#include "streams/stream.h"

namespace softdev::driver {

class EventBoard {
 public:
  // Makes one, ready to be shared. nullptr when the system has no memory file for it.
  static std::shared_ptr<EventBoard> create(const CUuuid &device);
  // Takes part in one of another process. nullptr when the file is not of that kind.
  static std::shared_ptr<EventBoard> join(std::shared_ptr<File> file);
  ~EventBoard();
  EventBoard(const EventBoard &) = delete;
  EventBoard &operator=(const EventBoard &) = delete;

  // A record begins; its number.
  uint64_t begin();
  void finish(uint64_t record);

  uint64_t latest() const;           // 0: never recorded
  bool done(uint64_t record) const;  // also true when its process is gone
  // A share name for other processes; nullptr when the system has no descriptor left.
  const ShareName *name();

 private:
  struct Page;
  EventBoard(std::shared_ptr<File> file, Page *page) : file_(std::move(file)), page_(page) {}

  std::shared_ptr<File> file_;
  Page *const page_;
  CUuuid device_ = {};
  std::shared_ptr<Share> share_;
};

// Records the event in the stream; its board, if it has one, learns of it.
void record(Event &event, const StreamRef &stream);

// Lets the stream wait for the last record of an event with a board.
void wait_for_board(const StreamRef &stream, const Event &event);

}  // namespace softdev::driver
