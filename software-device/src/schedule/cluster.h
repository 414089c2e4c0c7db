// Blocks that run at the same time and see each other's shared memory. Every block is in one; a
// launch without clusters has clusters of one block. All blocks of a cluster run on one worker,
// so what they share needs no atomic access.
#pragma once

#include <memory>
#include <vector>

#include "schedule/grid.h"

namespace softdev {

struct Cluster {
  Cluster(std::shared_ptr<Grid> grid, uint32_t worker);

  // Makes it cluster `index` of the grid.
  void start(uint64_t index);
  Cta::Result run(uint64_t slice);

  // barrier.cluster
  void arrive(Warp &warp, uint32_t mask);
  void leave(Warp &warp, uint32_t mask) {  // lanes that exit
    live_ -= lane_count(mask);
    if (warp.at_cluster) {
      arrived_ -= lane_count(mask & warp.at_cluster);
      warp.at_cluster &= ~mask;
    }
    if (arrived_ && arrived_ >= live_) release();
  }

  std::shared_ptr<Grid> grid;
  std::vector<std::unique_ptr<Cta>> blocks;  // by rank
  uint32_t position[3] = {0, 0, 0};          // among the clusters of the grid
  bool spinning = false;
  // How often it has ended without its grid being told: what the workers share is left alone while
  // one cluster follows another.
  uint64_t untold = 0;

 private:
  void release();

  uint32_t across_, down_;  // clusters in a row and in a plane's column of the grid
  uint32_t live_ = 0;       // threads
  uint32_t arrived_ = 0;    // ... of them, at the barrier
};

}  // namespace softdev
