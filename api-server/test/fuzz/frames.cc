#include "frames.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "frame_maker.h"
#include "frame_walk.h"

namespace {

using Bytes = std::string;

struct Stream {
  std::vector<Bytes> frames;
  Bytes rest;  // where no frame begins
};

Stream split(const uint8_t *data, size_t size) {
  Stream stream;
  const size_t at = walk_frames(data, size, [&](const wire_header &header, size_t from) {
    stream.frames.emplace_back(reinterpret_cast<const char *>(data) + from, header.size);
    return true;
  });
  stream.rest.assign(reinterpret_cast<const char *>(data) + at, size - at);
  return stream;
}

// Whole frames as far as they fit.
size_t join(const Stream &stream, uint8_t *out, size_t max_size) {
  size_t size = 0;
  for (const Bytes &frame : stream.frames) {
    if (frame.size() > max_size - size) return size;
    memcpy(out + size, frame.data(), frame.size());
    size += frame.size();
  }
  const size_t rest = std::min(stream.rest.size(), max_size - size);
  memcpy(out + size, stream.rest.data(), rest);
  return size + rest;
}

size_t place(Random &random, const Stream &stream) {
  return random.below(stream.frames.size() + 1);
}

// What stands behind a frame's fixed part, with sizes that agree with it again.
void change_tail(Random &random, Bytes &frame, ChangeBytes change_bytes) {
  const wire_command *command = find_command(frame);
  if (!command || (!command->blobs && !command->bulk) || frame.size() < command->size) return;
  Bytes tail = frame.substr(command->size);
  const size_t room = std::min<size_t>(tail.size() + 64, 4096);
  tail.resize(std::max(room, tail.size()));
  const size_t size = change_bytes(reinterpret_cast<uint8_t *>(tail.data()),
                                   frame.size() - command->size, tail.size());
  tail.resize(size);
  frame.resize(command->size);
  frame += tail;
  seal(frame, static_cast<uint32_t>(random.below(4) ? tail.size() : tail.size() / 2));
}

void change_header(Random &random, Bytes &frame) {
  wire_header header;
  memcpy(&header, frame.data(), sizeof header);
  switch (random.below(4)) {
    case 0:
      header.op = static_cast<uint16_t>(wire_commands[random.below(WIRE_OP_COUNT)].op);
      break;
    case 1:
      header.size += 8;
      break;
    case 2:
      header.size -= 8;
      break;
    default:
      header.flags ^= static_cast<uint16_t>(1u << random.below(16));
      break;
  }
  memcpy(frame.data(), &header, sizeof header);
}

}  // namespace

size_t mutate_frames(uint8_t *data, size_t size, size_t max_size, unsigned seed,
                     ChangeBytes change_bytes) {
  Random random(seed);
  FrameMaker maker(random);
  Stream stream = split(data, size);
  std::vector<Bytes> &frames = stream.frames;
  // Several changes at a time: a new command often needs another one before it.
  for (size_t change = 1 + random.below(4); change > 0; change--) {
    if (frames.empty() || random.below(3) == 0) {
      const std::vector<Bytes> made = maker.make(wire_commands[random.below(WIRE_OP_COUNT)]);
      frames.insert(frames.begin() + static_cast<ptrdiff_t>(place(random, stream)), made.begin(),
                    made.end());
      continue;
    }
    const size_t which = random.below(frames.size());
    const auto at = frames.begin() + static_cast<ptrdiff_t>(which);
    switch (random.below(12)) {
      case 0:
        frames.erase(at);
        break;
      case 1: {
        const Bytes copy = *at;
        frames.insert(frames.begin() + static_cast<ptrdiff_t>(place(random, stream)), copy);
        break;
      }
      case 2:
        std::swap(*at, frames[random.below(frames.size())]);
        break;
      case 3:
        change_header(random, *at);
        break;
      case 4:
      case 5:
      case 6:
        change_tail(random, *at, change_bytes);
        break;
      case 7:
        stream.rest.clear();
        break;
      default:
        maker.change(*at);
        break;
    }
  }
  return join(stream, data, max_size);
}

size_t cross_frames(const uint8_t *one, size_t one_size, const uint8_t *other, size_t other_size,
                    uint8_t *out, size_t max_size, unsigned seed) {
  Random random(seed);
  const Stream first = split(one, one_size);
  const Stream second = split(other, other_size);
  Stream stream;
  const auto cut = first.frames.begin() + static_cast<ptrdiff_t>(place(random, first));
  stream.frames.assign(first.frames.begin(), cut);
  const size_t from = place(random, second), to = place(random, second);
  const auto begin = second.frames.begin();
  stream.frames.insert(stream.frames.end(), begin + static_cast<ptrdiff_t>(std::min(from, to)),
                       begin + static_cast<ptrdiff_t>(std::max(from, to)));
  stream.frames.insert(stream.frames.end(), cut, first.frames.end());
  return join(stream, out, max_size);
}
