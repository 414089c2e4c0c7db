// Memory that the sessions of a program lend each other; and that they end together.
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "commands/share_names.h"
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

void handle_PeerOffer(Session &s, const wire_PeerOffer &q) {
  Lender *const lender = s.memory().lender();
  answer_share_name<wire_PeerOffer_reply>(
      s, q.request.request, lender ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
      lender ? lender->name() : std::nullopt);
}

void handle_PeerJoin(Session &s, const wire_PeerJoin &q) {
  if (q.peer >= kMostPeers || s.memory().has_joined(q.peer)) {
    return s.violation("a number of a peer is used again, or too high");
  }
  std::unique_ptr<PeerLink> link;
  if (s.memory().lender())
    link = PeerLink::join(share_name_of(q), s.program(), [&s] { return s.is_left_alone(); });
  const bool good = link != nullptr;
  if (good) {
    s.watch_peer(link->fd());
    s.memory().join(q.peer, std::move(link));
  }
  s.answers().send(q.request.request, good ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
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

}  // namespace outboard
