#include "offers.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cinttypes>
#include <cstring>
#include <thread>

#include "session_limits.h"

namespace outboard {

namespace {

constexpr uint64_t kMagic = 0x3165726168536b4f;  // changes with the layout of what is said

// What one process asks of another.
struct Request {
  uint64_t magic;
  Token token;
  CUuuid device;
  uint64_t tenant_length;
  char tenant[256];
};

struct Response {
  uint64_t magic;
  uint64_t there;
  Ware ware;
};

bool same(const CUuuid &a, const CUuuid &b) { return memcmp(a.bytes, b.bytes, 16) == 0; }

sockaddr_un name_of(const std::array<uint64_t, 2> &place, socklen_t *size) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // In the abstract name space: nothing is left in any file system.
  const int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1,
                              "outboard-share-%016" PRIx64 "%016" PRIx64, place[0], place[1]);
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  return name;
}

bool same_user(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

// Nobody waits for long for the other side.
void set_patience(int connection) {
  const timeval patience{.tv_sec = 2, .tv_usec = 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

bool send_message(int connection, const void *bytes, size_t size, int fd) {
  iovec part{const_cast<void *>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return sendmsg(connection, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

bool receive_message(int connection, void *bytes, size_t size, int *fd) {
  iovec part{bytes, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const bool whole = recvmsg(connection, &message, MSG_CMSG_CLOEXEC) == static_cast<ssize_t>(size);
  int got = -1;
  for (cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
      memcpy(&got, CMSG_DATA(h), sizeof got);
    }
  }
  if (whole && fd) {
    *fd = got;
  } else if (got >= 0) {
    close(got);
  }
  return whole;
}

void close_fd(int fd) {
  if (fd >= 0) close(fd);
}

}  // namespace

Offers &Offers::own() {
  static auto *const offers = new Offers;
  return *offers;
}

Offers::Offers() {
  if (getrandom(place_.data(), sizeof place_, 0) != sizeof place_) place_ = {};
}

// With the lock held.
bool Offers::listen() {
  if (listening_) return true;
  if (place_[0] == 0 && place_[1] == 0) return false;  // there was no randomness for a name
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (listener < 0) return false;
  socklen_t size;
  const sockaddr_un name = name_of(place_, &size);
  if (bind(listener, reinterpret_cast<const sockaddr *>(&name), size) < 0 ||
      ::listen(listener, 64) < 0) {
    close(listener);
    return false;
  }
  listening_ = true;
  std::thread([this, listener] {
    pthread_setname_np(pthread_self(), "outboard-offers");
    for (;;) {
      const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      if (same_user(connection)) answer(connection);
      close(connection);
    }
  }).detach();
  return true;
}

void Offers::answer(int connection) {
  set_patience(connection);
  Request request;
  if (!receive_message(connection, &request, sizeof request, nullptr) || request.magic != kMagic ||
      request.tenant_length > sizeof request.tenant) {
    return;
  }
  const Sharer sharer{0, {request.tenant, request.tenant_length}, request.device};
  Response response{};
  response.magic = kMagic;
  int fd = -1;
  response.there = look_up(request.token, sharer, &response.ware, &fd);
  send_message(connection, &response, sizeof response, fd);
  close_fd(fd);
}

// The same is always offered under the same token.
std::optional<Token> Offers::offer(const Sharer &sharer, uint64_t key, const Ware &ware, int fd) {
  std::lock_guard lock(mutex_);
  for (const auto &[token, offer] : offers_) {
    if (offer.sharer.session == sharer.session && offer.key == key &&
        offer.ware.kind == ware.kind && offer.ware.offset == ware.offset &&
        offer.ware.length == ware.length) {
      close_fd(fd);
      return token;
    }
  }
  Token token;
  token.words[0] = kMagic;
  token.words[1] = place_[0];
  token.words[2] = place_[1];
  if (offers_.size() >= kMostShared || !listen() ||
      getrandom(&token.words[3], 4 * sizeof(uint64_t), 0) != 4 * sizeof(uint64_t)) {
    close_fd(fd);
    return std::nullopt;
  }
  offers_[token] = {ware, fd, sharer, key};
  return token;
}

template <class F>
void Offers::withdraw_if(F f) {
  std::lock_guard lock(mutex_);
  for (auto at = offers_.begin(); at != offers_.end();) {
    if (f(at->second)) {
      close_fd(at->second.fd);
      at = offers_.erase(at);
    } else {
      ++at;
    }
  }
}

void Offers::withdraw(uint64_t session, uint64_t key) {
  withdraw_if([=](const Entry &o) { return o.sharer.session == session && o.key == key; });
}

void Offers::withdraw_all(uint64_t session) {
  withdraw_if([=](const Entry &o) { return o.sharer.session == session; });
}

bool Offers::look_up(const Token &token, const Sharer &sharer, Ware *ware, int *fd) {
  std::lock_guard lock(mutex_);
  auto found = offers_.find(token);
  if (found == offers_.end()) return false;
  const Entry &offer = found->second;
  if (offer.sharer.tenant != sharer.tenant || !same(offer.sharer.device, sharer.device)) {
    return false;
  }
  *ware = offer.ware;
  if (!fd || offer.fd < 0) return true;
  *fd = fcntl(offer.fd, F_DUPFD_CLOEXEC, 3);
  return *fd >= 0;
}

bool Offers::is_own(const Token &token) const {
  return token.words[1] == place_[0] && token.words[2] == place_[1];
}

bool Offers::fetch(const Token &token, const Sharer &sharer, Ware *ware, int *fd) {
  *fd = -1;
  if (token.words[0] != kMagic) return false;
  if (is_own(token)) return look_up(token, sharer, ware, fd);
  Request request{};
  if (sharer.tenant.size() > sizeof request.tenant) return false;
  request.magic = kMagic;
  request.token = token;
  request.device = sharer.device;
  request.tenant_length = sharer.tenant.size();
  memcpy(request.tenant, sharer.tenant.data(), sharer.tenant.size());
  const int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connection < 0) return false;
  set_patience(connection);
  socklen_t size;
  const sockaddr_un name = name_of({token.words[1], token.words[2]}, &size);
  Response response{};
  const bool there = connect(connection, reinterpret_cast<const sockaddr *>(&name), size) == 0 &&
                     same_user(connection) &&
                     send_message(connection, &request, sizeof request, -1) &&
                     receive_message(connection, &response, sizeof response, fd) &&
                     response.magic == kMagic && response.there;
  close(connection);
  if (there) {
    *ware = response.ware;
  } else {
    close_fd(*fd);
    *fd = -1;
  }
  return there;
}

bool Offers::is_offered(const Token &token, const Sharer &sharer) {
  Ware ware;
  int fd;
  const bool there = fetch(token, sharer, &ware, &fd);
  close_fd(fd);
  return there;
}

}  // namespace outboard
