// Calls that make, end and describe memory.
#include "world.h"

namespace sequences {
namespace {

size_t some_size(Choices &choices) {
  if (choices.once_in(20)) return choices.of<size_t>({0, size_t{1} << 60, ~size_t{0}});
  return choices.of<size_t>({1, 4, 100, 512, 4096, 5000, 65536, 100000, 200000});
}

// What is not defined must not be shown, so all of it is written at once.
bool define(World &world, CUdeviceptr address, size_t size, bool ordered) {
  const CUstream stream = world.here().stream;
  const CUresult result = ordered ? CALL(world, cuMemsetD8Async)(address, 0x5a, size, stream)
                                  : CALL(world, cuMemsetD8_v2)(address, 0x5a, size);
  // The legacy stream is not in the order of all others.
  return !result && (ordered || !CALL(world, cuStreamSynchronize)(nullptr));
}

void keep(World &world, Line &line, CUdeviceptr address, size_t size, Memory::Kind kind) {
  const bool ordered = kind == Memory::kOrdered || kind == Memory::kCapture;
  // Where a capture forbids that, it is not used.
  if (define(world, address, size, ordered))
    line.out("m" + std::to_string(world.memory.add({address, size, world.strand, kind})));
}

void alloc(World &world, Line &line) {
  const size_t size = some_size(world.choices);
  CUdeviceptr address = 0;
  if (!line.arg(size).result(CALL(world, cuMemAlloc_v2)(&address, size)))
    keep(world, line, address, size, Memory::kPlain);
}

void alloc_pitch(World &world, Line &line) {
  Choices &choices = world.choices;
  const size_t width = choices.of<size_t>({1, 30, 512, 700, 0}), height = choices.below(40);
  const unsigned element = choices.of<unsigned>({4, 8, 16, 4, 8, 16, 3});
  CUdeviceptr address = 0;
  size_t pitch = 0;
  line.arg(width).arg(height).arg(element);
  if (line.result(CALL(world, cuMemAllocPitch_v2)(&address, &pitch, width, height, element)))
    return;
  line.out(pitch);
  keep(world, line, address, pitch * height, Memory::kPlain);
}

void alloc_managed(World &world, Line &line) {
  const size_t size = some_size(world.choices);
  const unsigned flags = world.choices.of<unsigned>({1, 1, 2, 1, 1, 0, 3});
  CUdeviceptr address = 0;
  line.arg(size).arg(flags);
  if (!line.result(CALL(world, cuMemAllocManaged)(&address, size, flags)))
    keep(world, line, address, size, Memory::kManaged);
}

void alloc_async(World &world, Line &line) {
  const size_t size = some_size(world.choices);
  const bool captures = world.capturing();
  CUdeviceptr address = 0;
  line.arg(size).arg(world.strand);
  if (line.result(CALL(world, cuMemAllocAsync)(&address, size, world.here().stream))) return;
  keep(world, line, address, size, captures ? Memory::kCapture : Memory::kOrdered);
}

void alloc_from_pool(World &world, Line &line) {
  const auto pool = world.pools.pick(
      world.choices, [&](const MemoryPool &of) { return of.device == world.here().device; });
  if (!pool || world.capturing()) return;
  const size_t size = some_size(world.choices);
  CUdeviceptr address = 0;
  line.arg(size).arg(pool->first).arg(world.strand);
  const CUstream stream = world.here().stream;
  if (!line.result(
          CALL(world, cuMemAllocFromPoolAsync)(&address, size, pool->second.handle, stream)))
    keep(world, line, address, size, Memory::kOrdered);
}

void free_plain(World &world, Line &line) {
  const auto found = world.memory.pick(world.choices, [&](const Memory &memory) {
    return memory.strand == world.strand && memory.kind != Memory::kCapture && !memory.kept;
  });
  if (!found) return;
  const auto [number, memory] = *found;
  const CUdeviceptr address = memory.address + (world.choices.once_in(12) ? 16 : 0);
  // The legacy stream does not wait for a stream that is not blocking.
  CALL(world, cuStreamSynchronize)(world.here().stream);
  if (!line.arg(world.name(address)).result(CALL(world, cuMemFree_v2)(address)))
    world.memory.live.erase(number);
}

void free_async(World &world, Line &line) {
  const bool captures = world.capturing();
  const auto found = world.memory.pick(world.choices, [&](const Memory &memory) {
    return memory.strand == world.strand && !(memory.kept && memory.kind != Memory::kCapture) &&
           (memory.kind == Memory::kCapture) == captures && memory.kind != Memory::kVariable;
  });
  if (!found) return;
  const auto [number, memory] = *found;
  line.arg(world.name(memory.address)).arg(world.strand);
  if (!line.result(CALL(world, cuMemFreeAsync)(memory.address, world.here().stream)))
    world.memory.live.erase(number);
}

void address_range(World &world, Line &line) {
  const Range part = range(world);
  CUdeviceptr base = 0;
  size_t size = 0;
  line.arg(part.text);
  if (!line.result(CALL(world, cuMemGetAddressRange_v2)(&base, &size, part.address)))
    line.out(world.name(base)).out(size);
}

void pointer_attribute(World &world, Line &line) {
  const Range part = range(world);
  const int attribute = static_cast<int>(world.choices.below(22));
  // Handles, tokens and ids are each library's own.
  if (attribute == 1 || attribute == 5 || attribute == 7 || attribute == 17 || attribute == 20)
    return;
  uint64_t value[8] = {};
  line.arg(std::to_string(attribute)).arg(part.text);
  if (line.result(CALL(world, cuPointerGetAttribute)(
          value, static_cast<CUpointer_attribute>(attribute), part.address)))
    return;
  // Addresses: of the device, of the host, and where the range begins.
  if (attribute == 3 || attribute == 4 || attribute == 11 || attribute == 19)
    line.out(world.name(value[0]));
  else
    line.out(value[0]);
}

void pool_create(World &world, Line &line) {
  Choices &choices = world.choices;
  CUmemPoolProps props = {};
  props.allocType =
      choices.once_in(8) ? CU_MEM_ALLOCATION_TYPE_INVALID : CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type =
      choices.once_in(8) ? CU_MEM_LOCATION_TYPE_INVALID : CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = choices.once_in(8) ? 77 : static_cast<int>(world.here().device);
  props.maxSize = choices.of<size_t>({0, 0, 1 << 20});
  CUmemoryPool pool = nullptr;
  line.arg(props.allocType).arg(props.location.type).arg(uint64_t(props.location.id));
  line.arg(props.maxSize);
  if (!line.result(CALL(world, cuMemPoolCreate)(&pool, &props)))
    line.out("p" + std::to_string(world.pools.add({pool, world.here().device})));
}

void pool_attribute(World &world, Line &line) {
  const auto pool = world.pools.pick(world.choices);
  if (!pool) return;
  const auto attribute = static_cast<CUmemPool_attribute>(world.choices.below(10));
  uint64_t value = world.choices.of<uint64_t>({0, 1, 4096, 1 << 20});
  line.arg(pool->first).arg(attribute);
  if (world.choices.once_in(2)) {
    line.arg(value);
    line.result(CALL(world, cuMemPoolSetAttribute)(pool->second.handle, attribute, &value));
    return;
  }
  value = 0;
  const CUresult result =
      line.result(CALL(world, cuMemPoolGetAttribute)(pool->second.handle, attribute, &value));
  // How much is reserved, and since when it is not used, is each driver's own affair.
  if (!result && attribute <= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) line.out(value);
}

void pool_trim(World &world, Line &line) {
  const auto pool = world.pools.pick(world.choices);
  if (!pool) return;
  line.arg(pool->first).result(CALL(world, cuMemPoolTrimTo)(pool->second.handle, 0));
}

void managed_touch(World &world, Line &line) {
  const auto found = world.memory.pick(world.choices, [&](const Memory &memory) {
    return memory.strand == world.strand && memory.kind == Memory::kManaged;
  });
  if (!found || world.capturing()) return;
  const auto &[number, memory] = *found;
  line.arg("m" + std::to_string(number));
  if (line.result(CALL(world, cuCtxSynchronize)())) return;
  auto *bytes = reinterpret_cast<uint8_t *>(memory.address);
  line.out(digest(bytes, memory.size));
  const size_t at = world.choices.below(static_cast<uint32_t>(memory.size));
  if (world.choices.once_in(2)) bytes[at] ^= 0xff;
}

void host_register(World &world, Line &line) {
  uint8_t *bytes = world.here().target.data();
  const size_t size = world.choices.of<size_t>({4096, 100, 0, kHostBytes});
  const unsigned flags = world.choices.of<unsigned>({0, 1, 0x40});
  line.arg(world.strand).arg(size).arg(flags);
  if (line.result(CALL(world, cuMemHostRegister_v2)(bytes, size, flags))) return;
  line.out(CALL(world, cuMemHostRegister_v2)(bytes, size, flags));
  line.out(CALL(world, cuMemHostUnregister)(bytes));
  line.out(CALL(world, cuMemHostUnregister)(bytes));
}

}  // namespace

const std::vector<Entry> &memory_steps() {
  static const std::vector<Entry> steps = {
      {"cuMemAlloc", 6, alloc},
      {"cuMemAllocPitch", 2, alloc_pitch},
      {"cuMemAllocManaged", 2, alloc_managed},
      {"cuMemAllocAsync", 4, alloc_async},
      {"cuMemAllocFromPoolAsync", 3, alloc_from_pool},
      {"cuMemFree", 4, free_plain},
      {"cuMemFreeAsync", 3, free_async},
      {"cuMemGetAddressRange", 2, address_range},
      {"cuPointerGetAttribute", 5, pointer_attribute},
      {"cuMemPoolCreate", 1, pool_create},
      {"cuMemPoolAttribute", 2, pool_attribute},
      {"cuMemPoolTrimTo", 1, pool_trim},
      {"touch", 3, managed_touch},
      {"cuMemHostRegister", 1, host_register},
  };
  return steps;
}

}  // namespace sequences
