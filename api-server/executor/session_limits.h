// What a guest may have beside mapped memory, so that none can take from the others.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outboard {

// More than any program that we know of uses; a driver takes some of the device's memory for each.
inline constexpr size_t kMostStreams = 4096;
inline constexpr size_t kMostEvents = 1 << 17;
inline constexpr size_t kMostModules = 8192;

// Of the device's memory, for code and variables of modules: beside the session's limit, for a
// guest cannot know it.
inline constexpr uint64_t kModuleMemory = uint64_t{512} << 20;

}  // namespace outboard
