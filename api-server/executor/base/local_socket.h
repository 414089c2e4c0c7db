// How API server processes of one machine talk to each other: sockets in the abstract name space,
// so that nothing is left in any file system, between processes of the same user, with messages
// that descriptors may come with.
#pragma once

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

  // `kind` is part of the name, `thread` the name of the thread.
  LocalListener(const char *kind, const char *thread, std::function<void(int)> serve);

  const Place &place() const { return place_; }
  // Before anybody is told of the place; by one thread at a time. False when the system has no
  // socket left, or no randomness for a name.
  bool listen();

 private:
  const char *const kind_;
  const char *const thread_;
  const std::function<void(int)> serve_;
  Place place_{};
  bool listening_ = false;
};

// A connection to a place of this kind, or -1, on which nobody waits for longer than so many
// seconds.
int connect_local(const char *kind, const LocalListener::Place &place, int seconds);
// 0: for ever.
void set_patience(int connection, int seconds);

bool send_message(int connection, const void *bytes, size_t size, int fd = -1);
// A message of just this size; false: there is none. `*fd` is -1 where no descriptor came with it.
bool receive_message(int connection, void *bytes, size_t size, int *fd = nullptr);
void close_fd(int fd);

}  // namespace outboard
