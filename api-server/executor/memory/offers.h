// What sessions share with others on the same machine: pieces of memory and events, under share
// names. The process that has the session answers for them: on a socket with a name of its own, to
// processes of the same user that know the share name, for sessions of the same tenant on the same
// device. docs/sharing.md.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/local_socket.h"
#include "cuda_driver.h"

namespace outboard {

// What a program passes to another one: 64 bytes.
struct ShareName {
  std::array<uint64_t, 8> words{};
  bool operator<(const ShareName &other) const { return words < other.words; }
  LocalListener::Place place() const { return {words[1], words[2]}; }
};

struct Shared {
  enum Kind : uint64_t { kMemory = 1, kEvent = 2 };
  uint64_t kind = 0;
  uint64_t size = 0;    // of the memory behind the descriptor
  uint64_t offset = 0;  // what is meant of it
  uint64_t length = 0;
  CUipcEventHandle event = {};  // as the driver has it
};

// Who asks, or offers.
struct Sharer {
  uint64_t session;
  std::string tenant;
  CUuuid device;
};

class Offers {
 public:
  // Those of this process.
  static Offers &own();

  // Keeps `fd`, if it is one, in any case. `key` names what it is of, for `withdraw`. Nothing when
  // there are too many, or the system has no socket left.
  std::optional<ShareName> offer(const Sharer &sharer, uint64_t key, const Shared &shared, int fd);
  void withdraw(uint64_t session, uint64_t key);
  void withdraw_all(uint64_t session);

  // Whether the share name is of this process.
  bool is_own(const ShareName &name) const;
  // What a share name is for, wherever that is. False when it is not there or not for the sharer.
  // `*fd`, for memory, is the caller's.
  bool fetch(const ShareName &name, const Sharer &sharer, Shared *shared, int *fd);
  // Whether it still is.
  bool is_offered(const ShareName &name, const Sharer &sharer);

 private:
  struct Entry {
    Shared shared;
    int fd;
    Sharer sharer;
    uint64_t key;
  };

  Offers();
  void answer(int connection);
  bool look_up(const ShareName &name, const Sharer &sharer, Shared *shared, int *fd);
  template <class F>
  void withdraw_if(F f);

  std::mutex mutex_;
  std::map<ShareName, Entry> offers_;
  LocalListener listener_;
};

}  // namespace outboard
