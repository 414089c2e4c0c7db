// Access of devices to each other's memory, and work that needs it. What one device does in the
// memory of another is waited for, before and after: it is in the order of no stream there.
#include "world.h"

namespace sequences {
namespace {

unsigned some_device(World &world) {
  return world.choices.below(static_cast<uint32_t>(world.contexts.size()));
}

// Kernels that lose what they use would end their context.
void access(World &world, Line &line) {
  const unsigned borrower = some_device(world), owner = some_device(world);
  const bool enable = world.choices.once_in(2);
  if (world.any_capturing()) return;
  world.wait_for(borrower);
  line.arg(borrower).arg(owner).arg(enable);
  CALL(world, cuCtxSetCurrent)(world.contexts[borrower]);
  const CUcontext context = world.contexts[owner];
  const CUresult result = enable ? CALL(world, cuCtxEnablePeerAccess)(context, 0)
                                 : CALL(world, cuCtxDisablePeerAccess)(context);
  if (!line.result(result)) {
    if (enable)
      world.open.insert({borrower, owner});
    else
      world.open.erase({borrower, owner});
  }
  CALL(world, cuCtxSetCurrent)(world.contexts[world.here().device]);
}

void pool_access(World &world, Line &line) {
  Choices &choices = world.choices;
  const auto pool = world.pools.pick(choices);
  if (!pool || world.any_capturing()) return;
  auto &[number, of] = *pool;
  const unsigned borrower = some_device(world);
  const CUmemAccess_flags flags =
      choices.of({CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                  CU_MEM_ACCESS_FLAGS_PROT_NONE, CU_MEM_ACCESS_FLAGS_PROT_READ});
  CUmemAccessDesc description = {};
  description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  description.location.id = static_cast<int>(borrower);
  description.flags = flags;
  line.arg(number).arg(borrower).arg(flags);
  world.wait_for(borrower);
  if (!line.result(CALL(world, cuMemPoolSetAccess)(of.handle, &description, 1))) {
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
      of.borrowers.erase(borrower);
    else if (borrower != of.device)
      of.borrowers.insert(borrower);
  }
  CUmemAccess_flags now = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  if (!CALL(world, cuMemPoolGetAccess)(&now, of.handle, &description.location)) line.out(now);
}

// Memory of another device that this strand's may use.
std::pair<const unsigned, Memory> *some_memory(World &world) {
  const unsigned here = world.here().device;
  return world.memory.pick(world.choices, [&](const Memory &memory) {
    const unsigned there = world.strands[memory.strand].device;
    return (memory.kind == Memory::kPlain || memory.kind == Memory::kOrdered) && !memory.kept &&
           there != here && world.reaches(here, there) && memory.size >= 64;
  });
}

void launch_there(World &world, Line &line) {
  Choices &choices = world.choices;
  const auto memory = some_memory(world);
  const auto function = world.functions.pick(choices);
  if (!memory || !function || world.any_capturing()) return;
  const unsigned there = world.strands[memory->second.strand].device;
  CUdeviceptr pointer = memory->second.address;
  unsigned elements = choices.below(static_cast<uint32_t>(memory->second.size / 4));
  unsigned factor = choices.below(1000);
  line.arg(function->first).arg("m" + std::to_string(memory->first)).arg(elements).arg(factor);
  line.arg(world.strand);
  world.wait_for(there);
  world.wait_for(world.here().device);
  void *values[] = {&pointer, &elements, &factor};
  const CUresult result =
      line.result(CALL(world, cuLaunchKernel)(function->second.handle, (elements + 64) / 64, 1, 1,
                                              64, 1, 1, 0, world.here().stream, values, nullptr));
  if (!result) line.out(CALL(world, cuStreamSynchronize)(world.here().stream));
}

void fill_there(World &world, Line &line) {
  const auto memory = some_memory(world);
  if (!memory || world.any_capturing()) return;
  const unsigned there = world.strands[memory->second.strand].device;
  const size_t size = world.choices.below(static_cast<uint32_t>(memory->second.size)) + 1;
  const auto value = static_cast<uint8_t>(world.choices.below(256));
  line.arg("m" + std::to_string(memory->first)).arg(size).arg(value).arg(world.strand);
  world.wait_for(there);
  world.wait_for(world.here().device);
  line.result(
      CALL(world, cuMemsetD8Async)(memory->second.address, value, size, world.here().stream));
  line.out(CALL(world, cuStreamSynchronize)(world.here().stream));
}

}  // namespace

const std::vector<Entry> &peer_steps() {
  static const std::vector<Entry> steps = {
      {"peer access", 4, access},
      {"cuMemPoolSetAccess", 3, pool_access},
      {"launch there", 14, launch_there},
      {"fill there", 6, fill_there},
  };
  return steps;
}

}  // namespace sequences
