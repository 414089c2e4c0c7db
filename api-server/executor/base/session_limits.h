// What a guest may have this process and the driver keep, so that none can take from the others:
// docs/limits.md says what is counted, and what comes beyond. Memory of the device is memory.h's.
#pragma once

#include <cstdint>

namespace outboard {

// More than any program that we know of uses. Each has its test in limits.test.cc, or nothing
// builds.
#define OUTBOARD_SESSION_LIMITS(LIMIT)                                                            \
  LIMIT(streams, 4096)      /* a driver takes some of the device's memory for each */             \
  LIMIT(side_streams, 4096) /* that downloads go through while their own are blocked */           \
  LIMIT(downloads, 1 << 16) /* not yet answered */                                                \
  LIMIT(events, 1 << 17)                                                                          \
  LIMIT(queries, 4096)           /* whose events the guest wants to be told of */                 \
  LIMIT(stream_marks, 1 << 15)   /* of which it wants to be told that they are passed */          \
  LIMIT(awaited_values, 4096)    /* that streams wait for, the last ones */                       \
  LIMIT(host_functions, 1 << 19) /* that streams have not called yet, and those of graphs */      \
  LIMIT(modules, 8192)                                                                            \
  LIMIT(coming_images, 16)       /* that no command has used yet: WIRE_IMAGES_COMING, */          \
  LIMIT(coming_bytes, 512 << 20) /* and their bytes: WIRE_IMAGE_MAX, */                           \
  LIMIT(coming_fragments, 4096)  /* and the parts of each that have nothing in between */         \
  LIMIT(link_bytes, 512 << 20)   /* inputs of links: the driver holds what it made of them */     \
  LIMIT(graph_nodes, 1 << 20)    /* with graphs, handles of conditions, and what is long twice */ \
  LIMIT(arrays, 1 << 16)         /* mipmapped ones count once */                                  \
  LIMIT(textures, 1 << 16)       /* and surfaces */                                               \
  LIMIT(physicals, 1 << 17)      /* pieces of memory that the guest manages itself, */            \
  LIMIT(placed, 1 << 18)         /* where they are mapped, with what is borrowed from peers, */   \
  LIMIT(shareable, 4096)         /* and pieces and mappings that a file stands behind, */         \
  LIMIT(lendable, 1 << 14)       /* beside those that peers may borrow */                         \
  LIMIT(offers, 4096)            /* share names for other processes, of this one */               \
  LIMIT(kernel_names, 1 << 16)   /* whose times are kept apart, */                                \
  LIMIT(kernel_name_bytes, 16 << 20) /* and bytes of them all; the rest share one */              \
  LIMIT(printed_bytes, 16 << 20)     /* by kernels, not yet sent */                               \
  LIMIT(assertion_bytes, 1 << 20)                                                                 \
  LIMIT(upload_chunks, 1024)      /* of pinned memory, a mebibyte each */                         \
  LIMIT(late_bytes, 256 << 20)    /* of pinned memory, for payload of copies whose turn comes */  \
  LIMIT(recipe_bytes, 64 << 20)   /* of frames that made what it has: recipes.h */                \
  LIMIT(loads, 1 << 16)           /* and unloads of modules whose order is kept, */               \
  LIMIT(unloaded_bytes, 64 << 20) /* and images of those unloaded: load_log.h */                  \
  LIMIT(read_ahead_bytes, 256 << 20) /* while the driver keeps the leader waiting */

struct SessionLimits {
#define LIMIT(name, most) uint64_t name = most;
  OUTBOARD_SESSION_LIMITS(LIMIT)
#undef LIMIT
};

// Nobody writes to it but tests, which make limits small before there is a session.
inline SessionLimits session_limits;

}  // namespace outboard
