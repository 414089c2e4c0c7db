// Memory that the sessions of one program, on devices of one server, lend each other, so that
// kernels of one device reach the memory of another. Each session is in a process of its own: the
// one that has the memory hands out descriptors, to processes of the same user that know its name,
// for sessions of the same program (docs/several-devices.md).
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/driver.h"
#include "memory/offers.h"

namespace outboard {

inline constexpr unsigned kMostPeers = 8;

// Which program's: the monitor says so, not the guest.
struct Program {
  std::string tenant;
  uint64_t group = 0;  // 0: the session is its only one
};

// Who has borrowed a piece of memory; the lender's lock guards it. The memory is not given away
// before nobody has.
struct Loan {
  unsigned holders = 0;
};

// What becomes of a wish to borrow. kGone: it was lent, and its owner has it no more, so that
// nobody can want it.
enum class Borrowed : uint64_t { kNot, kThere, kGone };

// The part of a piece that is lent.
struct Lent {
  CUmemGenericAllocationHandle memory;
  uint64_t offset;
  uint64_t size;
  std::shared_ptr<Loan> loan;
};

// What a session lends.
class Lender : public std::enable_shared_from_this<Lender> {
 public:
  // `bind` makes the device's context current.
  Lender(const Driver &driver, Program program, std::function<void()> bind)
      : driver_(driver), program_(std::move(program)), bind_(std::move(bind)) {}

  // By which others find it. Nothing when the system has no socket left.
  std::optional<ShareName> name();

  // By the leader. Numbers grow; `lent` is null for what cannot be lent, so that nobody waits.
  bool may_lend(uint64_t number) const { return number > last_; }
  void lend(uint64_t number, const Lent *lent);
  // From now on nobody can borrow it; those who have keep it.
  void withdraw(uint64_t number);
  bool is_held(const Loan &loan);
  // Waits until nobody has any of these, or for a minute altogether, or until `hurry`.
  void await(const std::vector<std::shared_ptr<Loan>> &loans);
  // Who waits does not any more, until it is closed. From any thread.
  void hurry();
  // Nothing more, and all who have joined are told to give back what they have.
  void close();

  // By the listener's thread: finds the one that a connection is for.
  static void welcome(int connection);

 private:
  void serve(int connection);
  Borrowed borrow(uint64_t number, Lent *lent, int *fd);

  const Driver &driver_;
  const Program program_;
  const std::function<void()> bind_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Lent> lent_;
  uint64_t last_ = 0;
  bool closed_ = false;
  bool hurried_ = false;
  std::optional<ShareName> name_;
  std::vector<int> connections_;
};

// A session's way to one that lends. By the leader alone, but for the descriptor.
class PeerLink {
 public:
  // Null when the share name leads nowhere, or not to another session of the program. `over` says,
  // to any thread, whether nobody is to wait any more.
  static std::unique_ptr<PeerLink> join(const ShareName &name, const Program &program,
                                        std::function<bool()> over);
  ~PeerLink();
  PeerLink(const PeerLink &) = delete;
  PeerLink &operator=(const PeerLink &) = delete;

  // Waits until it is lent, for a minute. `*fd` is the caller's.
  Borrowed borrow(uint64_t number, uint64_t *offset, uint64_t *size, int *fd);
  void give_back(uint64_t number);
  // Ends when the other session does.
  int fd() const { return fd_; }

 private:
  PeerLink(int fd, std::function<bool()> over) : fd_(fd), over_(std::move(over)) {}
  bool await_answer() const;
  const int fd_;
  const std::function<bool()> over_;
  bool broken_ = false;
};

}  // namespace outboard
