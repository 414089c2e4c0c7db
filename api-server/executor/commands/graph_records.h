// Decodes nodes of graphs as they travel (wire_graph.h), where they lie. Bounds are checked, and
// every handle and address as for the command that does the same without a graph. Used by the
// leader alone.
#pragma once

#include <cstdint>
#include <span>

#include "session/session.h"
#include "wire_graph.h"

namespace outboard {

class GraphRecords {
 public:
  GraphRecords(Session &s, std::span<const uint8_t> bytes) : s_(s), bytes_(bytes) {}

  // Goes to the next record and returns it. Null at the end, or when it makes no sense.
  const wire_graph_node *next();
  // Returns what is wrong with the bytes, or null.
  const char *why() const { return why_; }

  // All of these are of the current record.
  //
  // Returns the edges that lead to the node.
  std::span<const wire_graph_edge> edges() const { return edges_; }
  // Fills in the node's parameters. What they point to lies here and in the record, until `next`.
  CUresult params(CUgraphNodeParams *params);

  // Return what a kernel node launches.
  const wire_graph_kernel *kernel() const { return kernel_; }
  const Function *function() const { return function_; }
  // Returns the handles of the arrays of a copy; 0 for an end that is in memory.
  const wire_graph_arrays &arrays() const { return arrays_; }
  // Returns how many graphs the node brings.
  uint32_t bodies() const { return bodies_; }

 private:
  template <class T>
  const T *take(size_t count = 1);
  CUresult fail(const char *why);
  CUresult kernel_params(CUgraphNodeParams *params);
  CUresult copy_params(CUgraphNodeParams *params);
  CUresult fill_params(CUgraphNodeParams *params);
  CUresult event_params(CUgraphNodeParams *params);
  CUresult host_params(CUgraphNodeParams *params);
  CUresult values_params(CUgraphNodeParams *params);
  CUresult condition_params(CUgraphNodeParams *params);
  CUresult decode(CUgraphNodeParams *params);

  Session &s_;
  std::span<const uint8_t> bytes_;   // records not looked at yet
  std::span<const uint8_t> record_;  // what is left of the current one
  const wire_graph_node *head_ = nullptr;
  std::span<const wire_graph_edge> edges_;
  const char *why_ = nullptr;

  const wire_graph_kernel *kernel_ = nullptr;
  Function *function_ = nullptr;
  uint32_t bodies_ = 0;
  wire_graph_arrays arrays_{};
  size_t packed_size_ = 0;
  void *packed_[5] = {};
  std::vector<CUstreamBatchMemOpParams> values_;
};

}  // namespace outboard
