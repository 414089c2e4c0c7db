// What a program has been told of a node's parameters that lies in arrays. Its pointers stay valid
// until the node ends, whatever parameters the node gets meanwhile.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cuda_driver.h"
#include "streams/task.h"

namespace softdev::driver {

class Told {
 public:
  // Has `params`, which are `task`'s, name copies of its arrays. `now`: it is still the node's.
  // With the lock of graphs held.
  void keep(const TaskRef &task, bool now, CUgraphNodeParams *params);
  // The node has got another task.
  void outdate() { current_ = false; }

 private:
  std::byte *room(size_t bytes);

  // The last one is written again for each task that fits in. A larger one is at least twice as
  // large: however often parameters change, all of them are no more than two of the largest.
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  size_t size_ = 0;
  bool current_ = false;  // it is of the node's task
};

}  // namespace softdev::driver
