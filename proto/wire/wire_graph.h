// How graphs travel: the payload of GraphBuild and GraphSet is records, each a struct
// wire_graph_node, its edges, and what its type adds; all of it padded to 8. Nodes are numbered in
// the order of their records, from 0, in all of an executable graph; so are the graphs in it, of
// which 0 is the root, and those that a child graph or a condition brings get the next numbers.
#ifndef OUTBOARD_WIRE_GRAPH_H
#define OUTBOARD_WIRE_GRAPH_H

#include "wire.h"

// Types of nodes are CUgraphNodeType. What the server has no need to know of travels as empty.
struct wire_graph_node {
  uint32_t size;  // of the record
  uint32_t type;
  uint32_t graph;  // GraphBuild: that it is in. GraphSet: the number of the node
  uint32_t edges;
};

struct wire_graph_edge {
  uint32_t from;  // a node of the same graph, with a smaller number
  uint8_t from_port;
  uint8_t to_port;
  uint8_t type;
  uint8_t pad;
};

// The parameters follow, packed as the kernel sees them. Clusters of 0: none asked for.
struct wire_graph_kernel {
  uint64_t function;
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared;
  uint32_t cooperative;
  int32_t priority;
  uint32_t parameter_bytes;
  uint32_t pad;
};

// Between places in device memory. Where wire_graph_arrays follows, an end that has an array there
// is in it: the address is the byte in a row, the pitch the row, the rows the slice.
struct wire_graph_copy {
  uint64_t to, to_pitch, to_rows;
  uint64_t from, from_pitch, from_rows;
  uint64_t width, height, depth;
};
struct wire_graph_arrays {
  uint64_t to, from;  // handles, or 0
};

struct wire_graph_fill {
  uint64_t address, pitch;
  uint64_t width, height;  // in elements, and rows
  uint32_t value, unit;
};

struct wire_graph_event {
  uint64_t event;
};

// `count` of wire_graph_value follow.
struct wire_graph_values {
  uint32_t count, pad;
};
struct wire_graph_value {
  uint32_t operation, flags;
  uint64_t address, value;
};

struct wire_graph_condition {
  uint64_t handle;
  uint32_t kind, bodies;
};

// A function of the guest program, by the number that it was kept under.
struct wire_graph_host {
  uint64_t function;
};

WIRE_CHECK(sizeof(struct wire_graph_node) == 16, "wire_graph_node");
WIRE_CHECK(sizeof(struct wire_graph_edge) == 8, "wire_graph_edge");
WIRE_CHECK(sizeof(struct wire_graph_kernel) == 64, "wire_graph_kernel");
WIRE_CHECK(sizeof(struct wire_graph_copy) == 72, "wire_graph_copy");
WIRE_CHECK(sizeof(struct wire_graph_arrays) == 16, "wire_graph_arrays");
WIRE_CHECK(sizeof(struct wire_graph_fill) == 40, "wire_graph_fill");
WIRE_CHECK(sizeof(struct wire_graph_event) == 8, "wire_graph_event");
WIRE_CHECK(sizeof(struct wire_graph_values) == 8, "wire_graph_values");
WIRE_CHECK(sizeof(struct wire_graph_value) == 24, "wire_graph_value");
WIRE_CHECK(sizeof(struct wire_graph_condition) == 16, "wire_graph_condition");
WIRE_CHECK(sizeof(struct wire_graph_host) == 8, "wire_graph_host");

#endif
