// How API server processes of one machine talk to each other: sockets in the abstract name space,
// so that nothing is left in any file system, between processes of the same user, with messages
// that descriptors may come with.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace outboard {

// A socket with a random name. Its thread gives each connection to `serve`, which closes it, and
// runs for the life of the process.
class LocalListener {
 public:
  using Place = std::array<uint64_t, 2>;

  // `kind` is part of the socket's name, `thread` is the name of the thread. Both outlive this.
  LocalListener(const char *kind, const char *thread, std::function<void(int)> serve);

  // Returns where it listens, after `listen`.
  const Place &place() const { return place_; }
  // Begins to listen, unless it does. To be called before anybody is told of the place, by one
  // thread at a time. False when the system has no socket left, or no randomness for a name.
  bool listen();

 private:
  const char *const kind_;
  const char *const thread_;
  const std::function<void(int)> serve_;
  Place place_{};
  bool listening_ = false;
};

// Returns a connection to a place of this kind, or -1. Sending and receiving wait for so many
// seconds at most.
int connect_local(const char *kind, const LocalListener::Place &place, int seconds);
// Sets for how many seconds sending and receiving wait; 0: for ever.
void set_patience(int connection, int seconds);

// Sends a message, and a descriptor with it unless `fd` is -1; that stays the caller's. False when
// it was not sent whole.
bool send_message(int connection, const void *bytes, size_t size, int fd = -1);
// Receives a message of just this size. False when none came. *fd is the descriptor that came with
// it, which is the caller's, or -1.
bool receive_message(int connection, void *bytes, size_t size, int *fd = nullptr);
// Receives what there is, without waiting, as recv does. *fd becomes the descriptor that came with
// it, if one did; what it was before is closed then.
ssize_t receive_some(int connection, void *bytes, size_t size, int *fd);
// The same of several parts, as recvmsg does with these flags.
ssize_t receive_parts(int connection, const iovec *parts, int count, int flags, int *fd);
// Closes a descriptor, unless it is -1.
void close_fd(int fd);

}  // namespace outboard
