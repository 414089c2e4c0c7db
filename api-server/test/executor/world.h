// A session on the fake driver and the guest on its other side.
#pragma once

#include <future>
#include <memory>
#include <optional>

#include "fake_driver.h"
#include "guest.h"
#include "session/session.h"

struct WorldOptions {
  uint64_t memory = uint64_t{1} << 30;
  uint64_t pinned = 0;
  uint64_t modules = uint64_t{512} << 20;
  uint64_t images = 0;
  std::chrono::milliseconds patience{60000};
  std::chrono::milliseconds stop_patience{60000};
  std::chrono::milliseconds rest_patience{5000};
  std::chrono::milliseconds most_kernel{0};
  std::chrono::milliseconds grace{0};
  std::function<void(const std::optional<outboard::Away> &)> on_away;
  std::string leftover;
  outboard::GateOptions gate;
  outboard::TraceOptions trace;
  std::string tenant;
  uint64_t group = 0;
  bool upload_cache = false;
  std::vector<outboard::ExpectedModule> expected;
  std::vector<uint8_t> learnt;
  bool arrives = false;
};

// Whether that is how a guest's own end looks. One that has not read everything resets its
// connection.
bool guest_went(const outboard::SessionEnd &end);

class World {
 public:
  explicit World(WorldOptions options = {});
  ~World();

  // Closes the guest's side, if it is open, and waits for the session to be over.
  outboard::SessionEnd end();
  // Waits for the session to end by itself.
  outboard::SessionEnd ended();
  // Sends nothing more, expects to be told of a violation that has `words` in its sentence.
  void expect_violation(const std::string &words);

  // The device's memory, and a few functions of the fake driver.
  static uint64_t base();
  static const FakeControls &fake();
  static std::shared_ptr<outboard::Device> device();
  // Where the device keeps uploads, and how much: set before there is one.
  static inline std::string upload_folder{};
  static inline uint64_t upload_bytes = 0;
  // Where it has cuBLAS from, likewise.
  static inline std::optional<std::string> libraries{};
  static inline bool warm_handles = true;
  // The quota page of that device, as the monitor has it.
  static outboard::QuotaPage &quota_page();
  // The turn page, on which the device is slot 0.
  static outboard::TurnPage &turn_page();
  // Loads the fake driver's kernels: functions by these numbers.
  enum Kernels { kNothing, kGate, kAdd, kPrint, kCrash };
  void load_kernels();
  void gate(uint32_t number, uint64_t stream);

  // Another connection of the guest, who has received so many bytes: its end, which is the
  // caller's.
  int come_back(uint64_t received, uint32_t epoch);

  // The guest's end of the connection.
  int source_fd = -1;
  Guest guest;
  std::shared_ptr<outboard::Session> session;

 private:
  World(WorldOptions options, int fds[2]);
  std::promise<outboard::SessionEnd> over_;
  std::future<outboard::SessionEnd> end_;
  bool done_ = false;
};
