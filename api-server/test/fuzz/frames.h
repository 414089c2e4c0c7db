// Inputs of the fuzzer as sequences of frames: made, changed and crossed by what wire_fields.h says
// of each command.
#pragma once

#include <cstddef>
#include <cstdint>

// Changes bytes as it likes, within `max_size`; the new size.
using ChangeBytes = size_t (*)(uint8_t *data, size_t size, size_t max_size);

// The new size, at most `max_size`.
size_t mutate_frames(uint8_t *data, size_t size, size_t max_size, unsigned seed,
                     ChangeBytes change_bytes);
size_t cross_frames(const uint8_t *one, size_t one_size, const uint8_t *other, size_t other_size,
                    uint8_t *out, size_t max_size, unsigned seed);
