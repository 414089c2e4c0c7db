// The disorder mode: work whose turn has come is kept back for a while, for times drawn from a
// seed, so that all that CUDA leaves unordered happens in another order and late. A program (or a
// layer in between) that lacks a synchronisation then fails here, not one day on a GPU. What CUDA
// orders stays ordered: only what waits for nothing is kept back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace softdev::driver::disorder {

// Before the first work is queued. 0: none.
void begin(uint64_t seed);
bool on();

// Calls `start` later, on another thread.
void keep_back(std::function<void()> start);

// How many pieces a copy of this size is made in, with pause() between them.
size_t pieces(size_t bytes);
void pause();

}  // namespace softdev::driver::disorder
