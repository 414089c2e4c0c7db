// What sessions share with others on the same machine: pieces of memory and events, under share
// names. The process of the session that offers something answers who asks for it, on a socket
// with a name of its own. It answers processes of the same user that know the share name, for
// sessions of the same tenant on the same device (docs/sharing.md).
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
  // Returns where the process listens that gave the name.
  LocalListener::Place place() const { return {words[1], words[2]}; }
};

// Whose a piece of memory is, by which who has it asks whether it is still its owner's: the process
// that gave it first, however often it was passed on, and its number there, which is never 0. It
// may have several share names, and outlive all of them.
struct Owner {
  LocalListener::Place place{};
  uint64_t number = 0;
};

// What a share name stands for.
struct Shared {
  enum Kind : uint64_t { kMemory = 1, kEvent = 2 };
  uint64_t kind = 0;
  // Memory: the bytes behind the descriptor, and which of them are shared.
  uint64_t size = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  CUipcEventHandle event = {};  // the driver's handle of an event
  // Of memory. Where it is this process's, it is set when it is offered.
  Owner owner;
};

// A session that offers something, or asks for it.
struct Sharer {
  uint64_t session;
  std::string tenant;
  CUuuid device;
  int connection = -1;  // to its guest, by which it is seen to have left
};

// Any thread.
class Offers {
 public:
  // Returns the offers of this process.
  static Offers &own();

  // Offers something, and returns its share name: always the same one for the same thing. `key`
  // says to `withdraw` what it is of. `fd` is that of memory, or -1; it belongs to this from now
  // on, whatever is returned. Nothing when the process has as many offers as it may, or the system
  // has no socket left.
  std::optional<ShareName> offer(const Sharer &sharer, uint64_t key, const Shared &shared, int fd);
  // Ends the share names of a part of what the key says: that part was freed. Who has it keeps it.
  void end(uint64_t session, uint64_t key, uint64_t offset, uint64_t length);
  // Ends all share names of a session, whose guest has left.
  void end_all(uint64_t session);
  // Ends a session's offers of that key: names, and what has them.
  void withdraw(uint64_t session, uint64_t key);
  // Ends all offers of a session.
  void withdraw_all(uint64_t session);

  // Whether this process has given the share name.
  bool is_own(const ShareName &name) const;
  // Finds what a share name stands for, in this process or another. False when it stands for
  // nothing, or for nothing that this sharer may have. *fd is the caller's, or -1 when it is no
  // memory.
  bool fetch(const ShareName &name, const Sharer &sharer, Shared *shared, int *fd);
  // Whether the share name still stands for something that this sharer may have.
  bool is_offered(const ShareName &name, const Sharer &sharer);
  // Whether memory is still its owner's, who will overwrite it, whether or not a name of it stands.
  bool is_owned(const Owner &owner, const Sharer &sharer);

 private:
  struct Entry {
    Shared shared;
    int fd;
    Sharer sharer;
    uint64_t key;
  };

  // What has share names, or had some.
  struct Owned {
    uint64_t key;
    Sharer sharer;
  };

  Offers();
  void answer(int connection);
  uint64_t number_of(const Sharer &sharer, uint64_t key);
  bool look_up(uint64_t number, const Sharer &sharer);
  bool look_up(const ShareName &name, const Sharer &sharer, Shared *shared, int *fd);
  bool ask(const LocalListener::Place &place, const ShareName &name, uint64_t number,
           const Sharer &sharer, Shared *shared, int *fd);
  template <class F>
  void end_if(F f);

  std::mutex mutex_;
  std::map<ShareName, Entry> offers_;
  std::map<uint64_t, Owned> owned_;  // by number
  uint64_t last_number_ = 0;
  LocalListener listener_;
};

}  // namespace outboard
