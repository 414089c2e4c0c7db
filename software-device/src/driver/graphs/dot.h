// A graph as text in the DOT language, for people to look at.
#pragma once

#include <string>

#include "graphs/graph.h"

namespace softdev::driver {

// With the lock of graphs held. `flags` are of CUgraphDebugDot_flags.
std::string dot_of(const Graph &graph, unsigned flags);

}  // namespace softdev::driver
