// The stored inputs, and what they reach: every command there is must be in one that a session
// takes to its end, or the fuzzer would have to find out for itself how that command is written.
#include <dirent.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "dispatch.h"
#include "frame_walk.h"
#include "fuzz_session.h"

using namespace outboard;

namespace {

std::vector<uint8_t> bytes_of_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The guest may end within a frame.
void note_commands(const std::vector<uint8_t> &input, std::set<uint16_t> &reached,
                   std::set<uint32_t> &states) {
  walk_frames(input.data(), input.size(), [&](const wire_header &header, size_t at) {
    reached.insert(header.op);
    wire_MoveState state;
    if (header.op == WIRE_MoveState && header.size >= sizeof state) {
      memcpy(&state, input.data() + at, sizeof state);
      states.insert(state.kind);
    }
    return true;
  });
}

}  // namespace

int main(int count, char **arguments) {
  DIR *folder = count == 2 ? opendir(arguments[1]) : nullptr;
  if (!folder) {
    fprintf(stderr, "usage: %s FOLDER\n", arguments[0]);
    return 2;
  }
  std::set<uint16_t> reached;
  std::set<uint32_t> states;
  unsigned inputs = 0, whole = 0;
  while (const dirent *entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;
    const std::vector<uint8_t> input =
        bytes_of_file(std::string(arguments[1]) + "/" + entry->d_name);
    const SessionEnd end = serve_input(input.data(), input.size(), std::chrono::seconds(10));
    inputs++;
    if (end.reason != EndReason::kClosed) {
      printf("%s: %s\n", entry->d_name, end.message.c_str());
      continue;
    }
    whole++;
    note_commands(input, reached, states);
  }
  closedir(folder);
  printf("%u inputs, %u of them taken to the end\n", inputs, whole);
  int missing = 0;
  // A guest sends it when it is asked to, which a stored input does not wait for.
  reached.insert(WIRE_LatePayload);
#define LOOK(id, name)                                             \
  if (!reached.contains(id)) {                                     \
    fprintf(stderr, "no stored input gets as far as %s\n", #name); \
    missing++;                                                     \
  }
  WIRE_OPS(LOOK)
#undef LOOK
  // What keys of TLS are nobody can make up.
  states.insert(WIRE_MOVE_TLS);
  for (uint32_t kind = 0; kind < WIRE_MOVE_KINDS; kind++) {
    if (states.contains(kind)) continue;
    fprintf(stderr, "no stored input moves a session with its state %u\n", kind);
    missing++;
  }
  return inputs == 0 || missing ? 1 : 0;
}
