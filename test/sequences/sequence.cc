#include "sequence.h"

namespace sequences {
namespace {

const std::vector<Entry> &all_steps() {
  static const std::vector<Entry> all = [] {
    std::vector<Entry> all;
    for (const auto *steps :
         {&memory_steps(), &copy_steps(), &stream_steps(), &graph_steps(), &module_steps()})
      all.insert(all.end(), steps->begin(), steps->end());
    return all;
  }();
  return all;
}

std::vector<Entry> steps_of_several_devices(bool peers) {
  std::vector<Entry> all = all_steps();
  if (peers) all.insert(all.end(), peer_steps().begin(), peer_steps().end());
  return all;
}

const Entry &choose(Choices &choices, const std::vector<Entry> &steps) {
  unsigned total = 0;
  for (const Entry &entry : steps) total += entry.weight;
  unsigned left = choices.below(total);
  for (const Entry &entry : steps) {
    if (left < entry.weight) return entry;
    left -= entry.weight;
  }
  return steps.front();
}

void make(World &world, const Entry &entry, unsigned number, FILE *transcript) {
  Line line(entry.name);
  entry.run(world, line);
  // Nothing was there to make it with.
  if (line.text().find('=') == std::string::npos) return;
  fprintf(transcript, "%u %s\n", number, line.text().c_str());
  fflush(transcript);
}

const Entry &named(const char *name) {
  for (const Entry &entry : all_steps())
    if (std::string(entry.name) == name) return entry;
  return all_steps().front();
}

// The strand's context becomes the current one.
void go_there(World &world) {
  if (world.contexts.size() > 1) CALL(world, cuCtxSetCurrent)(world.contexts[world.here().device]);
}

}  // namespace

void run(World &world, unsigned steps, unsigned devices, bool peers,
         void *(*symbol)(const char *name), FILE *transcript) {
  world.symbol = symbol;
  const CUresult ready = CALL(world, cuInit)(0);
  for (unsigned device = 0; device < devices; device++) {
    CUcontext context = nullptr;
    if (ready || CALL(world, cuDevicePrimaryCtxRetain)(&context, static_cast<int>(device)) ||
        CALL(world, cuCtxSetCurrent)(context)) {
      fprintf(transcript, "no device %u: %d\n", device, ready);
      return;
    }
    world.contexts.push_back(context);
    world.add_strand(nullptr, device);
  }
  const std::vector<Entry> possible = devices > 1 ? steps_of_several_devices(peers) : all_steps();
  unsigned number = 0;
  // Something to work with.
  for (world.strand = 0; world.strand < devices; world.strand++) {
    go_there(world);
    for (const char *name :
         {"cuMemAlloc", "cuModuleLoadData", "cuModuleGetFunction", "cuEventCreate"})
      make(world, named(name), number++, transcript);
  }
  while (number < steps && !world.choices.over()) {
    do world.strand = world.choices.below(static_cast<uint32_t>(world.strands.size()));
    while (!world.here().live);
    go_there(world);
    make(world, choose(world.choices, possible), number++, transcript);
  }
  // What is captured yet would forbid the looks, and with them the waits for what uses host memory.
  for (world.strand = 0; world.strand < world.strands.size(); world.strand++) {
    go_there(world);
    if (world.here().live && world.capturing())
      make(world, named("cuStreamEndCapture"), number++, transcript);
  }
  // What all of it came to.
  for (world.strand = 0; world.strand < world.strands.size(); world.strand++) {
    go_there(world);
    if (world.here().live) make(world, named("look"), number++, transcript);
  }
  for (unsigned device = 0; device < devices; device++)
    fprintf(transcript, "end %d\n",
            CALL(world, cuDevicePrimaryCtxRelease_v2)(static_cast<int>(device)));
}

}  // namespace sequences
