#include "memory/offers.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstring>

#include "base/session_limits.h"

namespace outboard {

namespace {

constexpr const char *kSocket = "shared";
constexpr int kPatience = 2;  // seconds

constexpr uint64_t kMagic = 0x3365726168536b4f;  // changes with the layout of what is said

// What one process asks of another.
struct Request {
  uint64_t magic;
  ShareName name;
  uint64_t number;  // not 0: asks for the memory of this number, whatever its names are
  CUuuid device;
  uint64_t tenant_length;
  char tenant[256];
};

struct Response {
  uint64_t magic;
  uint64_t there;
  Shared shared;
};

bool same(const Sharer &a, const Sharer &b) {
  return a.tenant == b.tenant && memcmp(a.device.bytes, b.device.bytes, 16) == 0;
}

// A guest that has ended is known to have ended before its session has noticed.
bool has_left(const Sharer &sharer) {
  pollfd guest{sharer.connection, POLLRDHUP, 0};  // one below 0 is passed over
  return poll(&guest, 1, 0) > 0;
}

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
  response.there = request.number ? look_up(request.number, sharer)
                                  : look_up(request.name, sharer, &response.shared, &fd);
  send_message(connection, &response, sizeof response, fd);
  close_fd(fd);
}

// With the lock held.
uint64_t Offers::number_of(const Sharer &sharer, uint64_t key) {
  for (const auto &[number, owned] : owned_) {
    if (owned.sharer.session == sharer.session && owned.key == key) return number;
  }
  owned_[++last_number_] = {key, sharer};
  return last_number_;
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
  if (shared.kind == Shared::kMemory && shared.owner.number == 0) {
    offers_[name].shared.owner = {listener_.place(), number_of(sharer, key)};
  }
  return name;
}

template <class F>
void Offers::end_if(F f) {
  for (auto at = offers_.begin(); at != offers_.end();) {
    if (f(at->second)) {
      close_fd(at->second.fd);
      at = offers_.erase(at);
    } else {
      ++at;
    }
  }
}

void Offers::end(uint64_t session, uint64_t key, uint64_t offset, uint64_t length) {
  std::lock_guard lock(mutex_);
  end_if([=](const Entry &o) {
    return o.sharer.session == session && o.key == key && o.shared.kind == Shared::kMemory &&
           o.shared.offset == offset && o.shared.length == length;
  });
}

void Offers::end_all(uint64_t session) {
  std::lock_guard lock(mutex_);
  end_if([=](const Entry &o) { return o.sharer.session == session; });
}

void Offers::withdraw(uint64_t session, uint64_t key) {
  std::lock_guard lock(mutex_);
  end_if([=](const Entry &o) { return o.sharer.session == session && o.key == key; });
  std::erase_if(owned_, [=](const auto &at) {
    return at.second.sharer.session == session && at.second.key == key;
  });
}

void Offers::withdraw_all(uint64_t session) {
  std::lock_guard lock(mutex_);
  end_if([=](const Entry &o) { return o.sharer.session == session; });
  std::erase_if(owned_, [=](const auto &at) { return at.second.sharer.session == session; });
}

bool Offers::look_up(uint64_t number, const Sharer &sharer) {
  std::lock_guard lock(mutex_);
  auto found = owned_.find(number);
  return found != owned_.end() && same(found->second.sharer, sharer);
}

bool Offers::look_up(const ShareName &name, const Sharer &sharer, Shared *shared, int *fd) {
  std::lock_guard lock(mutex_);
  auto found = offers_.find(name);
  if (found == offers_.end()) return false;
  const Entry &offer = found->second;
  if (!same(offer.sharer, sharer) || has_left(offer.sharer)) return false;
  *shared = offer.shared;
  if (!fd || offer.fd < 0) return true;
  *fd = fcntl(offer.fd, F_DUPFD_CLOEXEC, 3);
  return *fd >= 0;
}

bool Offers::is_own(const ShareName &name) const { return name.place() == listener_.place(); }

bool Offers::ask(const LocalListener::Place &place, const ShareName &name, uint64_t number,
                 const Sharer &sharer, Shared *shared, int *fd) {
  Request request{};
  if (sharer.tenant.size() > sizeof request.tenant) return false;
  request.magic = kMagic;
  request.name = name;
  request.number = number;
  request.device = sharer.device;
  request.tenant_length = sharer.tenant.size();
  memcpy(request.tenant, sharer.tenant.data(), sharer.tenant.size());
  const int connection = connect_local(kSocket, place, kPatience);
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

bool Offers::fetch(const ShareName &name, const Sharer &sharer, Shared *shared, int *fd) {
  *fd = -1;
  if (name.words[0] != kMagic) return false;
  return is_own(name) ? look_up(name, sharer, shared, fd)
                      : ask(name.place(), name, 0, sharer, shared, fd);
}

bool Offers::is_offered(const ShareName &name, const Sharer &sharer) {
  Shared shared;
  int fd;
  const bool there = fetch(name, sharer, &shared, &fd);
  close_fd(fd);
  return there;
}

bool Offers::is_owned(const Owner &owner, const Sharer &sharer) {
  if (owner.place == listener_.place()) return look_up(owner.number, sharer);
  Shared shared;
  int fd = -1;
  const bool there = ask(owner.place, ShareName{}, owner.number, sharer, &shared, &fd);
  close_fd(fd);
  return there;
}

}  // namespace outboard
