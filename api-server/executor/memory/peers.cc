#include "memory/peers.h"

#include <poll.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace outboard {

namespace {

constexpr const char *kPeerSocket = "peer";
constexpr uint64_t kPeerMagic = 0x3172656570536b4f;  // changes with the layout of what is said
// The guest says to lend before it says to borrow, and to give back before it frees. So who waits
// does so until another process has taken up what it was sent, which may have to wait for its
// device; and longer only for a guest that says nonsense.
constexpr std::chrono::seconds kPeerPatience{60};
constexpr int kSecondsToJoin = 5;
constexpr int kLookMilliseconds = 100;
constexpr size_t kMostConnections = 16;

struct Hello {
  uint64_t magic;
  ShareName name;
  uint64_t group;
  uint64_t tenant_length;
  char tenant[256];
};

struct Ask {
  enum Kind : uint64_t { kBorrow = 1, kGiveBack = 2 };
  uint64_t kind;
  uint64_t number;
};

struct Answer {
  uint64_t magic;
  Borrowed borrowed;
  uint64_t offset;
  uint64_t size;
};

// The lenders of this process, by name. It has one session at a time, and maybe one that ends.
struct Lenders {
  std::mutex mutex;
  std::map<ShareName, std::weak_ptr<Lender>> by_name;
  LocalListener listener{kPeerSocket, "outboard-peers", Lender::welcome};
};

Lenders &lenders() {
  static auto *const all = new Lenders;
  return *all;
}

}  // namespace

// ---- lending -----------------------------------------------------------------------------------

std::optional<ShareName> Lender::name() {
  if (name_) return name_;
  Lenders &all = lenders();
  std::lock_guard lock(all.mutex);
  ShareName name;
  name.words[0] = kPeerMagic;
  name.words[1] = all.listener.place()[0];
  name.words[2] = all.listener.place()[1];
  if (!all.listener.listen() ||
      getrandom(&name.words[3], 4 * sizeof(uint64_t), 0) != 4 * sizeof(uint64_t)) {
    return std::nullopt;
  }
  std::erase_if(all.by_name, [](const auto &one) { return one.second.expired(); });
  all.by_name[name] = weak_from_this();
  name_ = name;
  return name_;
}

void Lender::lend(uint64_t number, const Lent *lent) {
  std::lock_guard lock(mutex_);
  last_ = number;
  if (lent) lent_[number] = *lent;
  changed_.notify_all();
}

void Lender::withdraw(uint64_t number) {
  std::lock_guard lock(mutex_);
  lent_.erase(number);
}

bool Lender::is_held(const Loan &loan) {
  std::lock_guard lock(mutex_);
  return loan.holders != 0;
}

void Lender::await(const std::vector<std::shared_ptr<Loan>> &loans) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPeerPatience, [&] {
    return hurried_ || std::all_of(loans.begin(), loans.end(),
                                   [](const auto &loan) { return loan->holders == 0; });
  });
}

void Lender::hurry() {
  std::lock_guard lock(mutex_);
  hurried_ = true;
  changed_.notify_all();
}

void Lender::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  hurried_ = false;
  lent_.clear();
  // The other way stays: it ends when they have given everything back.
  for (int connection : connections_) shutdown(connection, SHUT_WR);
  changed_.notify_all();
}

void Lender::welcome(int connection) {
  set_patience(connection, 2);
  Hello hello;
  std::shared_ptr<Lender> lender;
  if (receive_message(connection, &hello, sizeof hello) && hello.magic == kPeerMagic &&
      hello.tenant_length <= sizeof hello.tenant) {
    Lenders &all = lenders();
    std::lock_guard lock(all.mutex);
    const auto found = all.by_name.find(hello.name);
    if (found != all.by_name.end()) lender = found->second.lock();
  }
  if (!lender || lender->program_.group != hello.group ||
      lender->program_.tenant != std::string_view(hello.tenant, hello.tenant_length)) {
    return close_fd(connection);
  }
  {
    std::lock_guard lock(lender->mutex_);
    if (lender->closed_ || lender->connections_.size() >= kMostConnections) {
      return close_fd(connection);
    }
    lender->connections_.push_back(connection);
  }
  set_patience(connection, 0);
  std::thread([lender, connection] {
    pthread_setname_np(pthread_self(), "outboard-peer");
    lender->serve(connection);
  }).detach();
}

// One who has joined, until it leaves.
void Lender::serve(int connection) {
  std::map<uint64_t, std::shared_ptr<Loan>> held;
  const Answer greeting{kPeerMagic, Borrowed::kNot, 0, 0};
  send_message(connection, &greeting, sizeof greeting);
  // Whoever hears nothing any more may still have something.
  for (Ask ask; receive_message(connection, &ask, sizeof ask);) {
    if (ask.kind == Ask::kGiveBack) {
      std::lock_guard lock(mutex_);
      if (const auto found = held.find(ask.number); found != held.end()) {
        --found->second->holders;
        held.erase(found);
        changed_.notify_all();
      }
      continue;
    }
    Lent lent{};
    int fd = -1;
    const Borrowed borrowed =
        held.contains(ask.number) ? Borrowed::kNot : borrow(ask.number, &lent, &fd);
    if (borrowed == Borrowed::kThere) held[ask.number] = lent.loan;
    const Answer answer{kPeerMagic, borrowed, lent.offset, lent.size};
    send_message(connection, &answer, sizeof answer, fd);
    close_fd(fd);
  }
  std::lock_guard lock(mutex_);
  for (const auto &[number, loan] : held) --loan->holders;
  std::erase(connections_, connection);
  close_fd(connection);
  changed_.notify_all();
}

Borrowed Lender::borrow(uint64_t number, Lent *lent, int *fd) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kPeerPatience, [&] { return closed_ || last_ >= number; });
  const auto found = lent_.find(number);
  if (found == lent_.end()) {
    return last_ >= number && !closed_ ? Borrowed::kGone : Borrowed::kNot;
  }
  // With the lock, so that the leader does not give the memory away meanwhile.
  bind_();
  if (driver_.cuMemExportToShareableHandle(
          fd, found->second.memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS) {
    *fd = -1;
    return Borrowed::kNot;
  }
  *lent = found->second;
  ++lent->loan->holders;
  return Borrowed::kThere;
}

// ---- borrowing ---------------------------------------------------------------------------------

std::unique_ptr<PeerLink> PeerLink::join(const ShareName &name, const Program &program,
                                         std::function<bool()> over) {
  Hello hello{};
  // A session that asked its own process would wait for itself.
  if (name.words[0] != kPeerMagic || name.place() == lenders().listener.place() ||
      program.tenant.size() > sizeof hello.tenant) {
    return nullptr;
  }
  hello.magic = kPeerMagic;
  hello.name = name;
  hello.group = program.group;
  hello.tenant_length = program.tenant.size();
  memcpy(hello.tenant, program.tenant.data(), program.tenant.size());
  const int fd = connect_local(kPeerSocket, name.place(), kSecondsToJoin);
  if (fd < 0) return nullptr;
  std::unique_ptr<PeerLink> link(new PeerLink(fd, std::move(over)));
  Answer greeting;
  if (!send_message(fd, &hello, sizeof hello) || !receive_message(fd, &greeting, sizeof greeting) ||
      greeting.magic != kPeerMagic) {
    return nullptr;
  }
  return link;
}

PeerLink::~PeerLink() { close_fd(fd_); }

bool PeerLink::await_answer() const {
  const auto until = std::chrono::steady_clock::now() + kPeerPatience;
  while (!over_() && std::chrono::steady_clock::now() < until) {
    pollfd event{fd_, POLLIN, 0};
    if (poll(&event, 1, kLookMilliseconds) > 0) return true;
  }
  return false;
}

Borrowed PeerLink::borrow(uint64_t number, uint64_t *offset, uint64_t *size, int *fd) {
  const Ask ask{Ask::kBorrow, number};
  Answer answer{};
  *fd = -1;
  if (broken_) return Borrowed::kNot;
  // Whoever answers too late would be taken to answer the next question.
  broken_ = !send_message(fd_, &ask, sizeof ask) || !await_answer() ||
            !receive_message(fd_, &answer, sizeof answer, fd) || answer.magic != kPeerMagic;
  if (broken_ || answer.borrowed != Borrowed::kThere || *fd < 0) {
    close_fd(*fd);
    *fd = -1;
    return !broken_ && answer.borrowed == Borrowed::kGone ? Borrowed::kGone : Borrowed::kNot;
  }
  *offset = answer.offset;
  *size = answer.size;
  return Borrowed::kThere;
}

void PeerLink::give_back(uint64_t number) {
  const Ask ask{Ask::kGiveBack, number};
  send_message(fd_, &ask, sizeof ask);
}

}  // namespace outboard
