// What a guest may have beside mapped memory, so that none can take from the others.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outboard {

// More than any program that we know of uses; a driver takes some of the device's memory for each.
inline constexpr size_t kMostStreams = 4096;
inline constexpr size_t kMostEvents = 1 << 17;
inline constexpr size_t kMostModules = 8192;
// Of graphs: nodes, and graphs themselves; and handles of conditions in each.
inline constexpr uint64_t kMostGraphNodes = 1 << 20;
inline constexpr unsigned kMostConditions = 1 << 12;
inline constexpr size_t kMostTextures = 1 << 16;  // and surfaces
inline constexpr size_t kMostArrays = 1 << 16;    // mipmapped ones count once
// Names of kernels whose times are kept apart, and bytes of them all; the rest share one.
inline constexpr size_t kMostKernelNames = 1 << 16;
inline constexpr size_t kMostKernelNameBytes = 16 << 20;
// Streams that downloads go through while their own are blocked.
inline constexpr unsigned kMostSideStreams = 4096;
// Functions of the program that streams have not called yet, and those of graphs.
inline constexpr size_t kMostHostFunctions = 1 << 19;
// Memory that the guest manages itself: pieces, those of them that a file stands behind, mappings.
inline constexpr size_t kMostPhysicals = 1 << 17;
inline constexpr size_t kMostShareable = 4096;
inline constexpr size_t kMostPlaced = 1 << 18;  // with what is borrowed from peers
// Memory that peers may borrow: a file may stand behind each piece, too.
inline constexpr size_t kMostLendable = 1 << 14;
// Tokens for other processes, of a process.
inline constexpr size_t kMostShared = 4096;

}  // namespace outboard
