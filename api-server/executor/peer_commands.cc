// Memory that the sessions of a program lend each other; and that they end together.
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "dispatch.h"
#include "session.h"
#include "token_words.h"

namespace outboard {

void handle_PeerOffer(Session &s, const wire_PeerOffer &q) {
  Lender *const lender = s.memory().lender();
  answer_token<wire_PeerOffer_reply>(s, q.request.request,
                                     lender ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
                                     lender ? lender->token() : std::nullopt);
}

void handle_PeerJoin(Session &s, const wire_PeerJoin &q) {
  if (q.peer >= kMostPeers || s.memory().has_joined(q.peer)) {
    return s.violation("a number of a peer is used again, or too high");
  }
  std::unique_ptr<PeerLink> link;
  if (s.memory().lender())
    link = PeerLink::join(token_of(q), s.program(), [&s] { return s.is_left_alone(); });
  const bool good = link != nullptr;
  if (good) {
    s.watch_peer(link->fd());
    s.memory().join(q.peer, std::move(link));
  }
  s.answer(q.request.request, good ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

void handle_PeerLend(Session &s, const wire_PeerLend &q) {
  Lender *const lender = s.memory().lender();
  if (!lender) return s.violation("memory is lent where there is nobody to borrow it");
  if (!lender->may_lend(q.loan)) return s.violation("the number of a loan is used again");
  s.posted(WIRE_PeerLend, s.memory().lend(q.address, q.size, q.loan));
}

void handle_PeerMap(Session &s, const wire_PeerMap &q) {
  if (!s.memory().has_joined(q.peer)) return s.violation("a peer was not joined");
  if (const char *what = s.memory().misuse(q.address, q.size)) return s.violation(what);
  s.posted(WIRE_PeerMap, s.memory().borrow(q.address, q.size, q.peer, q.loan, q.flags));
}

void handle_PeerUnmap(Session &s, const wire_PeerUnmap &q) {
  // Mapping it may have failed, which the guest had not heard of.
  const bool there = s.memory().is_borrowed(q.address, q.size);
  s.posted(WIRE_PeerUnmap, there ? s.memory().give_back(q.address) : CUDA_SUCCESS);
}

// ---- the end -----------------------------------------------------------------------------------

void Session::watch_peer(int fd) {
  {
    std::lock_guard lock(end_mutex_);
    peer_fds_.push_back(fd);
  }
  const uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof one) < 0) return;
}

// Until the guest hangs up, or the session is over for another reason.
void Session::watch() {
  // The sessions of a program end one after the other: for so long its own end may take.
  constexpr int kMilliseconds = 500;
  for (;;) {
    std::vector<pollfd> events = {{fd_, POLLRDHUP, 0}, {wake_fd_, POLLIN, 0}};
    {
      std::lock_guard lock(end_mutex_);
      for (int fd : peer_fds_) events.push_back({fd, POLLRDHUP, 0});
    }
    if (poll(events.data(), events.size(), -1) < 0) continue;
    if (events[0].revents || ending_.load()) return;
    uint64_t wakes;
    if (events[1].revents && read(wake_fd_, &wakes, sizeof wakes) < 0) continue;
    if (ending_.load()) return;
    const auto over = [](const pollfd &event) { return event.revents != 0; };
    if (std::none_of(events.begin() + 2, events.end(), over)) continue;
    if (poll(events.data(), 1, kMilliseconds) <= 0) {
      end(EndReason::kStopped, "the session of another device of the program is over");
    }
    return;
  }
}

}  // namespace outboard
