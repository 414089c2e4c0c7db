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
void note_commands(const std::vector<uint8_t> &input, std::set<uint16_t> &reached) {
  walk_frames(input.data(), input.size(), [&](const wire_header &header, size_t) {
    reached.insert(header.op);
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
    note_commands(input, reached);
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
  return inputs == 0 || missing ? 1 : 0;
}
