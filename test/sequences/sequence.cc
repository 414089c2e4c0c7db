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

const Entry &choose(Choices &choices) {
  unsigned total = 0;
  for (const Entry &entry : all_steps()) total += entry.weight;
  unsigned left = choices.below(total);
  for (const Entry &entry : all_steps()) {
    if (left < entry.weight) return entry;
    left -= entry.weight;
  }
  return all_steps().front();
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

}  // namespace

void run(Choices choices, unsigned steps, void *(*symbol)(const char *name), FILE *transcript) {
  World world(choices);
  world.symbol = symbol;
  CUcontext context = nullptr;
  const CUresult ready = CALL(world, cuInit)(0);
  if (ready || CALL(world, cuDevicePrimaryCtxRetain)(&context, 0) ||
      CALL(world, cuCtxSetCurrent)(context)) {
    fprintf(transcript, "no device: %d\n", ready);
    return;
  }
  world.add_lane(nullptr);
  unsigned number = 0;
  // Something to work with.
  for (const char *name :
       {"cuMemAlloc", "cuModuleLoadData", "cuModuleGetFunction", "cuEventCreate"})
    make(world, named(name), number++, transcript);
  while (number < steps && !world.choices.over()) {
    do world.lane = world.choices.below(static_cast<uint32_t>(world.lanes.size()));
    while (!world.here().live);
    make(world, choose(world.choices), number++, transcript);
  }
  // What all of it came to.
  for (world.lane = 0; world.lane < world.lanes.size(); world.lane++)
    if (world.here().live) make(world, named("look"), number++, transcript);
  fprintf(transcript, "end %d\n", CALL(world, cuDevicePrimaryCtxRelease_v2)(0));
}

}  // namespace sequences
