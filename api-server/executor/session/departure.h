// A session goes to another process, on another GPU or the same: this is its end of the way
// (docs/moving.md). A thread of its own has the target load the modules while the session runs;
// then the leader parks, and what the session has goes over: objects, memory, what was received and
// not carried out. With the answer to MoveCommit the session is there. Before it, whatever fails,
// the session goes on here.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "memory/memory.h"
#include "session/load_log.h"
#include "session/move_area.h"
#include "wire/move_link.h"

namespace outboard {

class Session;

class Departure {
 public:
  // `why`: the end of a sentence, where it has not moved. `stopped_ns`: for how long its commands
  // were not carried out.
  using Done = std::function<void(bool moved, const std::string &why, uint64_t stopped_ns)>;

  // Begins. `link` leads to the target's session and is this one's. `done` is called once, from a
  // thread of this one's.
  Departure(Session &session, int link, Done done);
  // Waits for its end.
  ~Departure();
  Departure(const Departure &) = delete;

  // Whether it needs nothing of the device any more, of which `done` does not tell. Waits for a
  // moment where it is about to. False for as long as work on the device does not end.
  bool over() const;

 private:
  // A variable that the target has at the same address.
  struct Placed {
    std::string name;
    uint64_t address, size;
  };

  // Bytes that the target is to have. `from`: where they are here. `zeroed`: its own are all zeros.
  struct Part {
    uint64_t from, address, size;
    bool zeroed;
  };

  // Says in the log, at its end, how long each part of the stop took.
  void took(const char *what);

  void run();
  bool go();
  bool refuse(const std::string &why);
  bool hindered();
  bool replay();
  bool load(const LoadLog::Load &load, uint32_t number);
  bool unload(const LoadLog::Load &load, uint32_t number);
  bool send_image(const Image &image, const Hash &hash, uint64_t from, uint64_t to);
  bool note_variables(const LoadLog::Load &load, uint32_t number);
  bool expect(const LoadLog::Load &load, const std::string &name, std::vector<uint8_t> *reply);
  bool open(const LoadLog::Load &load, std::vector<uint8_t> *reply);
  bool compare(const LoadLog::Load &load, uint32_t number);
  bool take_expected();
  bool objects();
  bool changes();
  bool open_area();
  bool memory_ahead();
  bool map_like(const std::map<uint64_t, Memory::Mapping> &mappings, bool *changed);
  bool settled();
  bool memory();
  bool pieces();
  bool is_readable(const Memory::Placement &placement);
  bool place(const Memory::Placement &placement);
  bool open_to_work(uint64_t address, uint64_t size, uint64_t flags);
  bool open_like(const Memory::Placement &placement);
  bool piece_aside(const Memory::Piece &piece);
  bool contents(const std::vector<Part> &parts);
  bool send(unsigned piece, const uint8_t *bytes, const Part &part);
  bool settle(bool wait);
  bool coming_images();
  bool states();
  bool state(uint32_t kind, const void *bytes, size_t size);
  bool barrier();
  bool region();
  bool keys();
  bool kept(uint64_t until, bool stopped);
  bool stream();
  bool commit();

  Session &s_;
  MoveLink link_;
  const Done done_;
  std::string why_;
  size_t steps_ = 0;  // of the log, that the target has done
  // By number of the load: what it was, without its library; and its variables.
  std::map<uint32_t, LoadLog::Load> loads_;
  std::map<uint32_t, std::vector<Placed>> variables_;
  std::map<uint64_t, Memory::Mapping> mapped_;  // by address, what the target has mapped
  uint64_t kept_ = 0;  // bytes of what was sent to the guest, up to which the target has it
  std::unique_ptr<MoveArea> area_;
  // Of its pieces, a bit each: those that can be filled; those that the target has and may still
  // use; and of these, those that it is being asked about.
  uint64_t free_ = 0, sent_ = 0, asked_ = 0;
  // When the target has said last that it was done with one.
  std::chrono::steady_clock::time_point used_at_;
  std::chrono::steady_clock::time_point since_;
  std::string parts_;
  std::atomic<bool> told_{false};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace outboard
