#include "memory/offers.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstring>

#include "base/session_limits.h"

namespace outboard {

namespace {

constexpr const char *kSocket = "shared";
constexpr int kPatience = 2;  // seconds

constexpr uint64_t kMagic = 0x3165726168536b4f;  // changes with the layout of what is said

// What one process asks of another.
struct Request {
  uint64_t magic;
  ShareName name;
  CUuuid device;
  uint64_t tenant_length;
  char tenant[256];
};

struct Response {
  uint64_t magic;
  uint64_t there;
  Shared shared;
};

bool same(const CUuuid &a, const CUuuid &b) { return memcmp(a.bytes, b.bytes, 16) == 0; }

}  // namespace

Offers &Offers::own() {
  static auto *const offers = new Offers;
  return *offers;
}

Offers::Offers()
    : listener_(kSocket, "outboard-offers", [this](int connection) {
        answer(connection);
        close(connection);
      }) {}

void Offers::answer(int connection) {
  set_patience(connection, kPatience);
  Request request;
  if (!receive_message(connection, &request, sizeof request) || request.magic != kMagic ||
      request.tenant_length > sizeof request.tenant) {
    return;
  }
  const Sharer sharer{0, {request.tenant, request.tenant_length}, request.device};
  Response response{};
  response.magic = kMagic;
  int fd = -1;
  response.there = look_up(request.name, sharer, &response.shared, &fd);
  send_message(connection, &response, sizeof response, fd);
  close_fd(fd);
}

// The same is always offered under the same name.
std::optional<ShareName> Offers::offer(const Sharer &sharer, uint64_t key, const Shared &shared,
                                       int fd) {
  std::lock_guard lock(mutex_);
  for (const auto &[name, offer] : offers_) {
    if (offer.sharer.session == sharer.session && offer.key == key &&
        offer.shared.kind == shared.kind && offer.shared.offset == shared.offset &&
        offer.shared.length == shared.length) {
      close_fd(fd);
      return name;
    }
  }
  ShareName name;
  name.words[0] = kMagic;
  name.words[1] = listener_.place()[0];
  name.words[2] = listener_.place()[1];
  if (offers_.size() >= session_limits.offers || !listener_.listen() ||
      getrandom(&name.words[3], 4 * sizeof(uint64_t), 0) != 4 * sizeof(uint64_t)) {
    close_fd(fd);
    return std::nullopt;
  }
  offers_[name] = {shared, fd, sharer, key};
  return name;
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

bool Offers::look_up(const ShareName &name, const Sharer &sharer, Shared *shared, int *fd) {
  std::lock_guard lock(mutex_);
  auto found = offers_.find(name);
  if (found == offers_.end()) return false;
  const Entry &offer = found->second;
  if (offer.sharer.tenant != sharer.tenant || !same(offer.sharer.device, sharer.device)) {
    return false;
  }
  *shared = offer.shared;
  if (!fd || offer.fd < 0) return true;
  *fd = fcntl(offer.fd, F_DUPFD_CLOEXEC, 3);
  return *fd >= 0;
}

bool Offers::is_own(const ShareName &name) const { return name.place() == listener_.place(); }

bool Offers::fetch(const ShareName &name, const Sharer &sharer, Shared *shared, int *fd) {
  *fd = -1;
  if (name.words[0] != kMagic) return false;
  if (is_own(name)) return look_up(name, sharer, shared, fd);
  Request request{};
  if (sharer.tenant.size() > sizeof request.tenant) return false;
  request.magic = kMagic;
  request.name = name;
  request.device = sharer.device;
  request.tenant_length = sharer.tenant.size();
  memcpy(request.tenant, sharer.tenant.data(), sharer.tenant.size());
  const int connection = connect_local(kSocket, name.place(), kPatience);
  if (connection < 0) return false;
  Response response{};
  const bool there = send_message(connection, &request, sizeof request) &&
                     receive_message(connection, &response, sizeof response, fd) &&
                     response.magic == kMagic && response.there;
  close(connection);
  if (there) {
    *shared = response.shared;
  } else {
    close_fd(*fd);
    *fd = -1;
  }
  return there;
}

bool Offers::is_offered(const ShareName &name, const Sharer &sharer) {
  Shared shared;
  int fd;
  const bool there = fetch(name, sharer, &shared, &fd);
  close_fd(fd);
  return there;
}

}  // namespace outboard
