// Memory that the sessions of one program, on devices of one server, lend each other, so that
// kernels of one device reach the memory of another. Each session is in a process of its own. The
// process that has the memory hands out descriptors of it: to processes of the same user that know
// its share name, for sessions of the same program (docs/several-devices.md).
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

// The program that a session belongs to. The monitor says which that is, not the guest.
struct Program {
  std::string tenant;
  uint64_t group = 0;  // 0: the session is its only one
};

// How many sessions have borrowed a piece of memory; the lender's lock guards it. As long as there
// is one, the memory is not given back to the device.
struct Loan {
  unsigned holders = 0;
};

// What comes of asking for a loan. kNot: it cannot be lent. kThere: here it is. kGone: it was lent,
// and its owner has freed it, so that nobody can want it any more.
enum class Borrowed : uint64_t { kNot, kThere, kGone };

// What is lent under a number: a part of a piece of memory.
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

  // All of these are called by the leader, unless it says otherwise.
  //
  // Returns the share name by which other sessions join this one. Nothing when the system has no
  // socket left.
  std::optional<ShareName> name();

  // Whether this number is larger than all that something was lent under.
  bool may_lend(uint64_t number) const { return number > last_; }
  // Lends something under a number that `may_lend` has allowed. `lent` is null for what cannot be
  // lent; who waits for it is told so.
  void lend(uint64_t number, const Lent *lent);
  // Lends no more under this number. Who has borrowed it keeps it.
  void withdraw(uint64_t number);
  // Whether any session has what was lent.
  bool is_held(const Loan &loan);
  // Waits until no session has any of these, but for a minute at most, and not after `hurry`.
  void await(const std::vector<std::shared_ptr<Loan>> &loans);
  // Ends all waits here, and lets nobody wait until `close`. Any thread.
  void hurry();
  // Lends nothing any more, and tells all who have joined to give back what they have.
  void close();

  // Serves a new connection: finds the lender that it is for. Called by the listener's thread.
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

// A session's connection to one that lends to it. Used by the leader alone.
class PeerLink {
 public:
  // Connects to the session of that share name. Null when there is none, or it is not one of the
  // program. `over` says, to any thread, whether nobody is to wait any more.
  static std::unique_ptr<PeerLink> join(const ShareName &name, const Program &program,
                                        std::function<bool()> over);
  ~PeerLink();
  PeerLink(const PeerLink &) = delete;
  PeerLink &operator=(const PeerLink &) = delete;

  // Asks for what is lent under a number, and waits until it is lent, for a minute at most. When it
  // is there, *fd is a descriptor of the piece, which is the caller's, and *offset and *size say in
  // bytes what of the piece is lent.
  Borrowed borrow(uint64_t number, uint64_t *offset, uint64_t *size, int *fd);
  // Says that what was borrowed under this number is not used any more.
  void give_back(uint64_t number);
  // Returns the connection, which hangs up when the other session ends. Any thread.
  int fd() const { return fd_; }

 private:
  PeerLink(int fd, std::function<bool()> over) : fd_(fd), over_(std::move(over)) {}
  bool await_answer() const;
  const int fd_;
  const std::function<bool()> over_;
  bool broken_ = false;
};

}  // namespace outboard
