#include "streams/transfer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "core/driver.h"

namespace softdev::driver {
namespace {

// Below this a copy costs less than waking a thread for it.
constexpr size_t kShort = 32 << 10;
// Up to this much pageable memory is set aside when a stream is busy; beyond it the caller waits.
constexpr size_t kMostStaged = 16 << 20;

enum class Place { kDevice, kPinned, kPageable };

uint8_t *pointer(uint64_t address) { return reinterpret_cast<uint8_t *>(address); }

size_t bytes_of(const Box &box) { return box.width * box.height * box.depth; }

// From the first byte of an end to behind its last. 0 when that is not a number.
uint64_t reach(const End &end, const Box &box) {
  unsigned __int128 last = static_cast<unsigned __int128>(box.depth - 1) * end.slice +
                           static_cast<unsigned __int128>(box.height - 1) * end.pitch + box.width;
  return last + end.address > UINT64_MAX ? 0 : static_cast<uint64_t>(last);
}

// With the pin held.
CUresult locate(const Memory &memory, const End &end, const Box &box, const char *which,
                Place *place) {
  uint64_t size = reach(end, box);
  if (!end.address || !size)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the %s address is 0 or out of range", which);
  const Region *region = memory.find(end.address);
  if (!region) {
    if (end.side == Side::kDevice || memory.in_arena(end.address))
      return refuse(CUDA_ERROR_INVALID_VALUE, "the %s address 0x%llx is no device memory", which,
                    static_cast<unsigned long long>(end.address));
    *place = Place::kPageable;
    return CUDA_SUCCESS;
  }
  if (!memory.copyable(end.address, size))
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  "%llu bytes from the %s address 0x%llx leave its allocation, or are not mapped",
                  static_cast<unsigned long long>(size), which,
                  static_cast<unsigned long long>(end.address));
  bool host = region->kind == RegionKind::kHost || region->kind == RegionKind::kRegistered;
  *place = host ? Place::kPinned : Place::kDevice;
  return CUDA_SUCCESS;
}

void move(const End &to, const End &from, const Box &box) {
  for (size_t z = 0; z < box.depth; z++) {
    uint8_t *out = pointer(to.address + z * to.slice);
    const uint8_t *in = pointer(from.address + z * from.slice);
    if (to.pitch == box.width && from.pitch == box.width) {
      memmove(out, in, box.width * box.height);
      continue;
    }
    for (size_t y = 0; y < box.height; y++, out += to.pitch, in += from.pitch)
      memmove(out, in, box.width);
  }
}

// Where queued work of this size runs.
Where place_of_work(size_t bytes) { return bytes <= kShort ? Where::kInline : Where::kCopier; }

// Does the work on the calling thread when it is its turn.
template <class Function>
CUresult run_here(const StreamRef &stream, Memory::Pin pin, Function function) {
  auto work = std::make_shared<Operation>(stream.context, Where::kCaller);
  Queue::push(*stream, work);
  pin.unlock();
  work->wait_for_turn();
  if (!stream.context->failed()) function();
  work->finish();
  stream.context->flush_prints();
  return stream.context->error();
}

template <class Function>
CUresult run_later(const StreamRef &stream, size_t bytes, Function function) {
  auto work = std::make_shared<Operation>(stream.context, place_of_work(bytes));
  work->run = [function = std::move(function)](Operation &) { function(); };
  Queue::push(*stream, work);
  return CUDA_SUCCESS;
}

CUresult copy_staged(const StreamRef &stream, const End &to, const End &from, const Box &box) {
  size_t bytes = bytes_of(box);
  auto staged = std::make_shared<std::vector<uint8_t>>(bytes);
  End middle{reinterpret_cast<uint64_t>(staged->data()), box.width, box.width * box.height,
             Side::kHost};
  move(middle, from, box);
  return run_later(stream, bytes, [staged, middle, to, box] { move(to, middle, box); });
}

}  // namespace

CUresult copy(const StreamRef &stream, const End &to, const End &from, const Box &box,
              bool asynchronous) {
  if (bytes_of(box) == 0) return CUDA_SUCCESS;
  if (box.height > 1 && (to.pitch < box.width || from.pitch < box.width))
    return refuse(CUDA_ERROR_INVALID_VALUE, "a pitch is smaller than the width");
  Memory &memory = driver()->memory;
  Memory::Pin pin = memory.pin();
  Place to_place, from_place;
  if (CUresult bad = locate(memory, to, box, "destination", &to_place)) return bad;
  if (CUresult bad = locate(memory, from, box, "source", &from_place)) return bad;

  size_t bytes = bytes_of(box);
  bool on_device = to_place == Place::kDevice && from_place == Place::kDevice;
  bool pageable = to_place == Place::kPageable || from_place == Place::kPageable;
  if (on_device || (asynchronous && !pageable))
    return run_later(stream, bytes, [to, from, box] { move(to, from, box); });
  if (from_place == Place::kPageable && to_place != Place::kPageable && !Queue::idle(stream) &&
      bytes <= (asynchronous ? kMostStaged : kShort)) {
    try {
      return copy_staged(stream, to, from, box);
    } catch (const std::bad_alloc &) {
      // wait for our turn instead
    }
  }
  return run_here(stream, std::move(pin), [&] { move(to, from, box); });
}

// ---------------------------------------------------------------------------------------------

namespace {

// Zero without touching: the pages go back to the system, and come back as zeros.
size_t drop_pages(uint8_t *at, size_t size) {
  uint64_t begin = reinterpret_cast<uint64_t>(at);
  uint64_t first = round_up(begin, 4096), last = (begin + size) & ~uint64_t{4095};
  if (madvise(pointer(first), last - first, MADV_REMOVE) != 0) return 0;
  memset(at, 0, first - begin);
  memset(pointer(last), 0, begin + size - last);
  return size;
}

void fill_row(uint8_t *at, size_t width, uint32_t pattern, unsigned pattern_bytes, bool droppable) {
  uint32_t byte = pattern & 0xFF;
  uint32_t repeated = pattern_bytes == 4   ? pattern
                      : pattern_bytes == 2 ? pattern << 16 | (pattern & 0xFFFF)
                                           : byte * 0x01010101u;
  if (repeated == byte * 0x01010101u) {
    if (byte == 0 && droppable && width >= kGranule && drop_pages(at, width)) return;
    memset(at, static_cast<int>(byte), width);
  } else if (pattern_bytes == 2) {
    std::fill_n(reinterpret_cast<uint16_t *>(at), width / 2, static_cast<uint16_t>(pattern));
  } else {
    std::fill_n(reinterpret_cast<uint32_t *>(at), width / 4, pattern);
  }
}

void fill_box(const End &to, const Box &box, uint32_t pattern, unsigned pattern_bytes,
              bool droppable) {
  if (to.pitch == box.width)
    return fill_row(pointer(to.address), box.width * box.height, pattern, pattern_bytes, droppable);
  for (size_t y = 0; y < box.height; y++)
    fill_row(pointer(to.address + y * to.pitch), box.width, pattern, pattern_bytes, droppable);
}

}  // namespace

CUresult fill(const StreamRef &stream, const End &to, const Box &box, uint32_t pattern,
              unsigned pattern_bytes, bool asynchronous) {
  if (bytes_of(box) == 0) return CUDA_SUCCESS;
  if (to.address % pattern_bytes || (box.height > 1 && to.pitch % pattern_bytes))
    return refuse(CUDA_ERROR_INVALID_VALUE, "the address or pitch is not a multiple of %u",
                  pattern_bytes);
  if (box.height > 1 && to.pitch < box.width)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the pitch is smaller than the width");
  Memory &memory = driver()->memory;
  Memory::Pin pin = memory.pin();
  Place place;
  if (CUresult bad = locate(memory, to, box, "destination", &place)) return bad;
  RegionKind kind = memory.find(to.address)->kind;
  // Only what is a file of ours can be dropped: the pages of others are not ours to lose.
  bool droppable = kind == RegionKind::kDevice || kind == RegionKind::kReservation;
  auto work = [=] { fill_box(to, box, pattern, pattern_bytes, droppable); };
  if (asynchronous || place == Place::kDevice) return run_later(stream, bytes_of(box), work);
  return run_here(stream, std::move(pin), work);
}

CUresult synchronise(const StreamRef &stream) {
  if (stream->role == Stream::Role::kLegacy) {
    // It comes after the blocking streams, so what is in them is waited for too.
    auto mark = std::make_shared<Operation>(stream.context, Where::kInline);
    Queue::push(*stream, mark);
    mark->wait();
  } else if (Work last = Queue::tail(*stream)) {
    last->wait();
  }
  stream.context->flush_prints();
  return stream.context->error();
}

CUresult synchronise(const std::shared_ptr<Context> &context) {
  context->drain();
  context->flush_prints();
  return context->error();
}

}  // namespace softdev::driver
