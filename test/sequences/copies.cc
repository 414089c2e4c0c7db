// Calls that copy and fill: at once or in the order of the strand's stream.
#include <algorithm>

#include "world.h"

namespace sequences {
namespace {

struct Target {
  uint8_t *address;
  const char *text;
};

Target target(World &world) {
  Strand &strand = world.here();
  if (strand.pinned && world.choices.once_in(2)) return {strand.pinned, "pinned"};
  return {strand.target.data(), "target"};
}

// How much: never more than the host memory has, as that would be the program's own fault.
size_t bytes(World &world, size_t room) {
  return std::min(count(world, std::min(room, kHostBytes / 2)), kHostBytes / 2);
}

void upload(World &world, Line &line) {
  CALL(world, cuStreamSynchronize)(world.here().stream);
  const Range to = range(world, false);
  const size_t size = bytes(world, to.room), from = world.choices.below(kHostBytes / 2);
  line.arg(to.text).arg(from).arg(size);
  line.result(CALL(world, cuMemcpyHtoD_v2)(to.address, world.here().source.data() + from, size));
  CALL(world, cuStreamSynchronize)(nullptr);
}

void upload_async(World &world, Line &line) {
  const Range to = range(world);
  const size_t size = bytes(world, to.room), from = world.choices.below(kHostBytes / 2);
  line.arg(to.text).arg(from).arg(size).arg(world.strand);
  const Strand &strand = world.here();
  line.result(CALL(world, cuMemcpyHtoDAsync_v2)(to.address, strand.source.data() + from, size,
                                                strand.stream));
}

void download(World &world, Line &line) {
  CALL(world, cuStreamSynchronize)(world.here().stream);
  const Range from = range(world, false);
  const Target to = target(world);
  const size_t size = bytes(world, from.room);
  line.arg(to.text).arg(from.text).arg(size);
  if (!line.result(CALL(world, cuMemcpyDtoH_v2)(to.address, from.address, size)))
    line.out(digest(to.address, size));
}

void download_async(World &world, Line &line) {
  const Range from = range(world);
  const Target to = target(world);
  const size_t size = bytes(world, from.room), at = world.choices.below(kHostBytes / 2);
  line.arg(to.text).arg(at).arg(from.text).arg(size).arg(world.strand);
  line.result(
      CALL(world, cuMemcpyDtoHAsync_v2)(to.address + at, from.address, size, world.here().stream));
}

void copy_async(World &world, Line &line) {
  const Range from = range(world), to = range(world);
  size_t size = count(world, std::min(from.room, to.room));
  size = apart(from, to, size);
  line.arg(to.text).arg(from.text).arg(size).arg(world.strand);
  const CUstream stream = world.here().stream;
  line.result(world.choices.once_in(2)
                  ? CALL(world, cuMemcpyDtoDAsync_v2)(to.address, from.address, size, stream)
                  : CALL(world, cuMemcpyAsync)(to.address, from.address, size, stream));
}

// Memory of two strands, which may be of two devices: all is waited for, before and after.
void copy_between(World &world, Line &line) {
  Choices &choices = world.choices;
  const auto fits = [](const Memory &memory) {
    return (memory.kind == Memory::kPlain || memory.kind == Memory::kOrdered) && !memory.kept;
  };
  const auto from = world.memory.pick(choices, fits), to = world.memory.pick(choices, fits);
  if (world.contexts.size() < 2 || !from || from->first == to->first) return;
  if (world.any_capturing()) return;
  const auto context = [&](const Memory &memory) {
    return world.contexts[world.strands[memory.strand].device];
  };
  const auto wait = [&] {
    for (const Memory *memory : {&from->second, &to->second})
      world.wait_for(world.strands[memory->strand].device);
  };
  const CUdeviceptr source = from->second.address, target = to->second.address;
  const size_t size = std::min(from->second.size, to->second.size);
  const unsigned way = choices.below(5);
  line.arg("m" + std::to_string(to->first)).arg("m" + std::to_string(from->first));
  line.arg(size).arg(way).arg(world.strand);
  wait();
  switch (way) {
    case 0:
      line.result(CALL(world, cuMemcpyPeer)(target, context(to->second), source,
                                            context(from->second), size));
      break;
    case 1:
      line.result(CALL(world, cuMemcpyPeerAsync)(target, context(to->second), source,
                                                 context(from->second), size, world.here().stream));
      break;
    case 2:
      line.result(CALL(world, cuMemcpyAsync)(target, source, size, world.here().stream));
      break;
    case 3:
      line.result(CALL(world, cuMemcpy)(target, source, size));
      break;
    default:
      line.result(CALL(world, cuMemcpyDtoDAsync_v2)(target, source, size, world.here().stream));
  }
  CALL(world, cuStreamSynchronize)(world.here().stream);
  wait();
}

void fill(World &world, Line &line) {
  Choices &choices = world.choices;
  const Range to = range(world);
  const unsigned value = choices.below(65536), width = choices.of<unsigned>({1, 2, 4});
  const size_t elements = count(world, to.room, width);
  const CUstream stream = world.here().stream;
  line.arg(width).arg(to.text).arg(value).arg(elements).arg(world.strand);
  line.result(
      width == 1   ? CALL(world, cuMemsetD8Async)(to.address, uint8_t(value), elements, stream)
      : width == 2 ? CALL(world, cuMemsetD16Async)(to.address, uint16_t(value), elements, stream)
                   : CALL(world, cuMemsetD32Async)(to.address, value, elements, stream));
}

void fill_plane(World &world, Line &line) {
  Choices &choices = world.choices;
  const Range to = range(world);
  const unsigned value = choices.below(256), width = choices.of<unsigned>({1, 2, 4});
  const size_t pitch = choices.of<size_t>({512, 1024, 256, 100, 0});
  const size_t wide = choices.below(140), high = choices.below(20);
  const CUstream stream = world.here().stream;
  line.arg(width).arg(to.text).arg(pitch).arg(value).arg(wide).arg(high).arg(world.strand);
  line.result(
      width == 1
          ? CALL(world, cuMemsetD2D8Async)(to.address, pitch, uint8_t(value), wide, high, stream)
      : width == 2
          ? CALL(world, cuMemsetD2D16Async)(to.address, pitch, uint16_t(value), wide, high, stream)
          : CALL(world, cuMemsetD2D32Async)(to.address, pitch, value, wide, high, stream));
}

// One side of a described copy: `kind` is what CUmemorytype says.
struct Side {
  CUmemorytype kind;
  CUdeviceptr device = 0;
  const void *host = nullptr;
  CUarray array = nullptr;
  size_t pitch = 0, x = 0;
  /** To the end of the allocation: what begins behind it may hit another, or not. */
  size_t room = SIZE_MAX;
  std::string text;

  bool begins_inside(size_t y, size_t z, size_t rows, size_t width) const {
    const size_t row = pitch ? pitch : width;
    return x + row * (y + z * rows) < room;
  }
};

Side side(World &world, bool written) {
  Choices &choices = world.choices;
  Side side = {choices.of({CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE,
                           CU_MEMORYTYPE_ARRAY}),
               0,
               nullptr,
               nullptr,
               0,
               0,
               SIZE_MAX,
               ""};
  side.pitch = choices.of<size_t>({512, 1024, 640, 100, 0});
  side.x = choices.of<size_t>({0, 0, 4, 16, 3});
  if (side.kind == CU_MEMORYTYPE_ARRAY) {
    const auto found = world.arrays.pick(
        choices, [&](const Array &array) { return array.strand == world.strand; });
    if (found) {
      side.array = found->second.handle;
      if (world.capturing()) found->second.kept = true;
      side.text = "a" + std::to_string(found->first);
      return side;
    }
    side.kind = CU_MEMORYTYPE_DEVICE;
  }
  if (side.kind == CU_MEMORYTYPE_HOST) {
    const Target to = target(world);
    side.host = written ? to.address : world.here().source.data();
    side.text = written ? to.text : "source";
  } else {
    const Range part = range(world);
    side.device = part.address;
    side.room = part.room;
    side.text = part.text;
  }
  side.text += "/" + std::to_string(side.pitch);
  return side;
}

bool can_copy(const Side &from, const Side &to) {
  // They may overlap.
  return !(from.device && to.device) && !(from.array && from.array == to.array);
}

void copy_plane(World &world, Line &line) {
  Choices &choices = world.choices;
  const Side from = side(world, false), to = side(world, true);
  if (!can_copy(from, to)) return;
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = from.kind, copy.dstMemoryType = to.kind;
  copy.srcDevice = from.device, copy.dstDevice = to.device;
  copy.srcHost = from.host, copy.dstHost = const_cast<void *>(to.host);
  copy.srcArray = from.array, copy.dstArray = to.array;
  copy.srcPitch = from.pitch, copy.dstPitch = to.pitch;
  copy.srcXInBytes = from.x, copy.dstXInBytes = to.x;
  copy.srcY = choices.below(3), copy.dstY = choices.below(3);
  copy.WidthInBytes = choices.of<size_t>({16, 64, 200, 512, 0, 30});
  copy.Height = choices.below(24);
  if (!from.begins_inside(copy.srcY, 0, 0, copy.WidthInBytes) ||
      !to.begins_inside(copy.dstY, 0, 0, copy.WidthInBytes))
    return;
  line.arg(to.text).arg(copy.dstXInBytes).arg(copy.dstY);
  line.arg(from.text).arg(copy.srcXInBytes).arg(copy.srcY);
  line.arg(copy.WidthInBytes).arg(copy.Height).arg(world.strand);
  line.result(CALL(world, cuMemcpy2DAsync_v2)(&copy, world.here().stream));
}

void copy_box(World &world, Line &line) {
  Choices &choices = world.choices;
  const Side from = side(world, false), to = side(world, true);
  if (!can_copy(from, to)) return;
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = from.kind, copy.dstMemoryType = to.kind;
  copy.srcDevice = from.device, copy.dstDevice = to.device;
  copy.srcHost = from.host, copy.dstHost = const_cast<void *>(to.host);
  copy.srcArray = from.array, copy.dstArray = to.array;
  copy.srcPitch = from.pitch, copy.dstPitch = to.pitch;
  copy.srcHeight = copy.dstHeight = choices.of<size_t>({8, 16, 0});
  copy.srcXInBytes = from.x, copy.dstXInBytes = to.x;
  copy.srcZ = choices.below(2), copy.dstZ = choices.below(2);
  copy.WidthInBytes = choices.of<size_t>({16, 64, 200, 0});
  copy.Height = choices.below(10);
  copy.Depth = choices.below(4);
  const size_t rows = copy.srcHeight ? copy.srcHeight : copy.Height;
  if (!from.begins_inside(0, copy.srcZ, rows, copy.WidthInBytes) ||
      !to.begins_inside(0, copy.dstZ, rows, copy.WidthInBytes))
    return;
  line.arg(to.text).arg(copy.dstXInBytes).arg(copy.dstZ).arg(copy.dstHeight);
  line.arg(from.text).arg(copy.srcXInBytes).arg(copy.srcZ);
  line.arg(copy.WidthInBytes).arg(copy.Height).arg(copy.Depth).arg(world.strand);
  line.result(CALL(world, cuMemcpy3DAsync_v2)(&copy, world.here().stream));
}

void array_create(World &world, Line &line) {
  // It could not be written at once.
  if (world.capturing()) return;
  Choices &choices = world.choices;
  CUDA_ARRAY3D_DESCRIPTOR made = {};
  made.Width = choices.of<size_t>({16, 64, 100, 0, 1});
  made.Height = choices.of<size_t>({0, 16, 20, 8});
  made.Depth = choices.of<size_t>({0, 0, 4});
  made.Format = choices.of({CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_FLOAT, CU_AD_FORMAT_HALF,
                            static_cast<CUarray_format>(99)});
  made.NumChannels = choices.of<unsigned>({1, 2, 4, 3});
  made.Flags = choices.of<unsigned>({0, 0, 2, 1});
  CUarray array = nullptr;
  line.arg(made.Width).arg(made.Height).arg(made.Depth).arg(made.Format).arg(made.NumChannels);
  if (line.arg(made.Flags).result(CALL(world, cuArray3DCreate_v2)(&array, &made))) return;
  const size_t element = (made.Format == CU_AD_FORMAT_FLOAT  ? 4
                          : made.Format == CU_AD_FORMAT_HALF ? 2
                                                             : 1) *
                         made.NumChannels;
  // Defined, like other memory: by copies of the source.
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcHost = world.here().source.data(), copy.dstArray = array;
  copy.WidthInBytes = made.Width * element;
  copy.Height = std::max<size_t>(made.Height, 1);
  copy.Depth = std::max<size_t>(made.Depth, 1);
  copy.srcPitch = copy.WidthInBytes, copy.srcHeight = copy.Height;
  const CUresult defined = CALL(world, cuMemcpy3DAsync_v2)(&copy, world.here().stream);
  line.out(defined);
  if (defined) return;
  const Array added = {array, made.Width, made.Height, made.Depth, element, world.strand};
  line.out("a" + std::to_string(world.arrays.add(added)));
}

void array_read(World &world, Line &line) {
  CALL(world, cuStreamSynchronize)(world.here().stream);
  const auto found = world.arrays.pick(
      world.choices, [&](const Array &array) { return array.strand == world.strand; });
  if (!found) return;
  const auto &[number, array] = *found;
  const size_t row = array.width * array.element;
  const size_t at = world.choices.below(8), size = count(world, row);
  const Target to = target(world);
  line.arg("a" + std::to_string(number)).arg(at).arg(size);
  if (!line.result(CALL(world, cuMemcpyAtoH_v2)(to.address, array.handle, at, size)))
    line.out(digest(to.address, size));
}

// Bytes in a row, over rows and slices: each box that they make up is a copy of its own.
void array_line(World &world, Line &line) {
  Choices &choices = world.choices;
  const auto found =
      world.arrays.pick(choices, [&](const Array &array) { return array.strand == world.strand; });
  if (!found) return;
  auto &[number, array] = *found;
  if (world.capturing()) array.kept = true;
  const size_t row = array.width * array.element, rows = std::max<size_t>(array.height, 1);
  const size_t all = row * rows * std::max<size_t>(array.depth, 1);
  size_t at = choices.of<size_t>({0, 0, row, row * rows, row * (rows - 1)});
  if (choices.once_in(4)) at += array.element;
  if (at >= all) at = 0;
  const size_t left = all - at;
  size_t size = choices.of<size_t>({left, row * rows, row * rows * 2, row * 3, array.element * 5});
  size = choices.once_in(12) ? left + array.element : std::min(size, left);
  const bool into = choices.once_in(2);
  const Target to = target(world);
  const uint8_t *from = world.here().source.data();
  const CUstream stream = world.here().stream;
  line.arg("a" + std::to_string(number)).arg(at).arg(size).arg(into ? "source" : to.text);
  line.arg(world.strand);
  line.result(into ? CALL(world, cuMemcpyHtoAAsync_v2)(array.handle, at, from, size, stream)
                   : CALL(world, cuMemcpyAtoHAsync_v2)(to.address, array.handle, at, size, stream));
}

void array_describe(World &world, Line &line) {
  const auto found = world.arrays.pick(world.choices);
  if (!found) return;
  CUDA_ARRAY3D_DESCRIPTOR is = {};
  line.arg("a" + std::to_string(found->first));
  if (!line.result(CALL(world, cuArray3DGetDescriptor_v2)(&is, found->second.handle)))
    line.out(is.Width)
        .out(is.Height)
        .out(is.Depth)
        .out(is.Format)
        .out(is.NumChannels)
        .out(is.Flags);
}

void array_destroy(World &world, Line &line) {
  const auto found = world.arrays.pick(world.choices, [&](const Array &array) {
    return array.strand == world.strand && !array.kept;
  });
  if (!found) return;
  CALL(world, cuStreamSynchronize)(world.here().stream);
  const unsigned number = found->first;
  line.arg("a" + std::to_string(number));
  if (!line.result(CALL(world, cuArrayDestroy)(found->second.handle)))
    world.arrays.live.erase(number);
}

}  // namespace

const std::vector<Entry> &copy_steps() {
  static const std::vector<Entry> steps = {
      {"cuMemcpyHtoD", 4, upload},
      {"cuMemcpyHtoDAsync", 6, upload_async},
      {"cuMemcpyDtoH", 4, download},
      {"cuMemcpyDtoHAsync", 6, download_async},
      {"cuMemcpyDtoDAsync", 5, copy_async},
      {"cuMemcpyPeer", 4, copy_between},
      {"cuMemsetAsync", 6, fill},
      {"cuMemset2DAsync", 4, fill_plane},
      {"cuMemcpy2DAsync", 8, copy_plane},
      {"cuMemcpy3DAsync", 8, copy_box},
      {"cuArray3DCreate", 3, array_create},
      {"cuMemcpyAtoH", 2, array_read},
      {"cuMemcpyArrayAsync", 3, array_line},
      {"cuArray3DGetDescriptor", 1, array_describe},
      {"cuArrayDestroy", 1, array_destroy},
  };
  return steps;
}

}  // namespace sequences
