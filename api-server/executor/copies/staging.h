// Pinned host memory between socket and device: chunks of a mebibyte that belong to the device and
// go from session to session. A chunk is busy until the copies that use it are done, which events
// tell.
//
// Lock: mutex_, innermost.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/driver.h"

namespace outboard {

struct Chunk {
  static constexpr size_t kSize = 1 << 20;
  static constexpr size_t kRoom = kSize + 64;  // padding of payloads lands behind them
  static constexpr unsigned kStreams = 4;

  uint8_t *data = nullptr;
  CUevent events[kStreams] = {};  // one per stream whose copies use it
  size_t dirty = 0;               // bytes that hold a tenant's data, from the start
};

class Staging {
 public:
  // Makes `least` chunks, and more on demand up to `most`. Throws Error when the driver refuses.
  Staging(const Driver &driver, unsigned least, unsigned most);
  ~Staging();
  Staging(const Staging &) = delete;
  Staging &operator=(const Staging &) = delete;

  // All of these may be called by any thread; who takes a chunk has to `give` it.
  //
  // Returns a free chunk; null when there are `most` of them, all busy, or when the driver has no
  // more memory.
  Chunk *try_take();
  // Makes and returns a chunk beyond `most`, as long as there are fewer than `limit` in all; null
  // when there are, or when the driver has no more memory.
  Chunk *try_more(unsigned limit);
  // Returns a chunk in any case, beyond `most` if need be, so that who has none never depends on
  // those who have some. Waits only when the driver has no more memory.
  Chunk *take();
  // Takes back a chunk that no copy uses any more.
  void give(Chunk *chunk);
  // To be called between sessions, when all chunks are free: overwrites with zeros what the last
  // session left, and gives the driver back what is beyond `most`.
  void scrub();

 private:
  Chunk *make();
  void destroy(Chunk &chunk);

  const Driver &driver_;
  const unsigned most_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::vector<std::unique_ptr<Chunk>> all_;
  std::vector<Chunk *> free_;  // last in, first out: warm in the caches
};

}  // namespace outboard
