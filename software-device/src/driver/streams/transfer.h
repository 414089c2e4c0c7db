// Copies and fills, with CUDA's rules on what a call waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda_driver.h"
#include "streams/task.h"

namespace softdev::driver {

// What the caller says an address is. kEither: the driver finds out. kArray: of an array, where
// no other end may lead.
enum class Side { kHost, kDevice, kEither, kArray };

// One end of a copy: rows of `width` bytes, `pitch` apart, in slices `slice` apart.
struct End {
  uint64_t address = 0;
  size_t pitch = 0;
  size_t slice = 0;
  Side side = Side::kEither;
  // Of an array, which a graph tells the program of.
  CUarray array = nullptr;
  size_t x = 0, y = 0, z = 0;
};

struct Box {
  size_t width = 0;
  size_t height = 1;
  size_t depth = 1;
};

struct Region;

// The memory of a task while it is queued: what is freed meanwhile is unmapped later.
using Held = std::shared_ptr<const Region>;

class CopyTask : public Task {
 public:
  CopyTask(std::shared_ptr<Context> in, const End &into, const End &out_of, const Box &of)
      : Task(std::move(in)), to(into), from(out_of), box(of) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEMCPY; }
  Work operation(Uses) override;
  bool reachable() const override;

  const End to, from;
  const Box box;
  std::weak_ptr<const Region> regions[2];          // of both, where they are ours
  std::shared_ptr<const CUDA_MEMCPY3D> described;  // how the program described it for a graph
};

class FillTask : public Task {
 public:
  FillTask(std::shared_ptr<Context> in, const End &at, const Box &of, uint32_t value,
           unsigned bytes_of_pattern, bool may_drop)
      : Task(std::move(in)),
        to(at),
        box(of),
        pattern(value),
        pattern_bytes(bytes_of_pattern),
        droppable(may_drop) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEMSET; }
  Work operation(Uses) override;
  bool reachable() const override;

  const End to;
  const Box box;
  const uint32_t pattern;
  const unsigned pattern_bytes;
  const bool droppable;  // pages may be given back to become zero
  std::weak_ptr<const Region> region;
};

// Check all that can be checked before it is done.
CUresult make_copy(const std::shared_ptr<Context> &context, const End &to, const End &from,
                   const Box &box, std::shared_ptr<CopyTask> *task);
CUresult make_fill(const std::shared_ptr<Context> &context, const End &to, const Box &box,
                   uint32_t pattern, unsigned pattern_bytes, std::shared_ptr<FillTask> *task);

// An asynchronous copy returns when it is queued, except that the program may use pageable host
// memory again at once. A synchronous one returns when it is done if the host is involved.
CUresult copy(const StreamRef &stream, const End &to, const End &from, const Box &box,
              bool asynchronous);

// Fills with a pattern of 1, 2 or 4 bytes; box.width is in bytes.
CUresult fill(const StreamRef &stream, const End &to, const Box &box, uint32_t pattern,
              unsigned pattern_bytes, bool asynchronous);

// Waits for a stream, prints what kernels printed, and returns the context's error.
CUresult synchronise(const StreamRef &stream);
CUresult synchronise(const std::shared_ptr<Context> &context);

}  // namespace softdev::driver
