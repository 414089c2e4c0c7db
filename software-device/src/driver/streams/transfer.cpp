#include "streams/transfer.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <vector>

#include "core/driver.h"
#include "streams/disorder.h"

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

// A graph may allocate what it names before it gets there.
enum class When { kNow, kLater };

// With the pin held.
CUresult locate(const Memory &memory, const End &end, const Box &box, const char *which, When when,
                Place *place) {
  uint64_t size = reach(end, box);
  if (!end.address || !size)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the %s address is 0 or out of range", which);
  const Region *region = memory.find(end.address);
  if (region ? (region->kind == RegionKind::kArray) != (end.side == Side::kArray)
             : end.side == Side::kArray)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the %s is %s", which,
                  end.side == Side::kArray ? "an array that was destroyed" : "in an array");
  if (!region) {
    if (end.side == Side::kDevice || memory.in_arena(end.address))
      return refuse(CUDA_ERROR_INVALID_VALUE, "the %s address 0x%llx is no device memory", which,
                    static_cast<unsigned long long>(end.address));
    *place = Place::kPageable;
    return CUDA_SUCCESS;
  }
  if (!(when == When::kNow ? memory.copyable(end.address, size) : memory.covers(end.address, size)))
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  "%llu bytes from the %s address 0x%llx leave its allocation, or are not mapped",
                  static_cast<unsigned long long>(size), which,
                  static_cast<unsigned long long>(end.address));
  bool host = region->kind == RegionKind::kHost || region->kind == RegionKind::kRegistered;
  *place = host ? Place::kPinned : Place::kDevice;
  return CUDA_SUCCESS;
}

// What overlaps has no order of pieces that is right.
bool disjoint(const uint8_t *a, const uint8_t *b, size_t bytes) {
  return a + bytes <= b || b + bytes <= a;
}

void move_bytes(uint8_t *out, const uint8_t *in, size_t bytes) {
  if (!disorder::on() || !disjoint(out, in, bytes)) {
    memmove(out, in, bytes);
    return;
  }
  size_t pieces = disorder::pieces(bytes);
  for (size_t i = 0; i < pieces; i++) {
    size_t begin = bytes / pieces * i, end = i + 1 == pieces ? bytes : bytes / pieces * (i + 1);
    if (i) disorder::pause();
    memcpy(out + begin, in + begin, end - begin);
  }
}

void move(const End &to, const End &from, const Box &box) {
  for (size_t z = 0; z < box.depth; z++) {
    uint8_t *out = pointer(to.address + z * to.slice);
    const uint8_t *in = pointer(from.address + z * from.slice);
    if (to.pitch == box.width && from.pitch == box.width) {
      move_bytes(out, in, box.width * box.height);
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
CUresult run_here(const StreamRef &stream, Memory::Pin pin, const char *name, size_t bytes,
                  Function function) {
  auto work = std::make_shared<Operation>(stream.context, Where::kCaller);
  if (trace::on()) work->span = trace::span("%s <%zu bytes>", name, bytes);
  Queue::push(*stream, work);
  pin.unlock();
  work->wait_for_turn(stream.context->waiting());
  if (!stream.context->failed()) function();
  work->finish();
  stream.context->flush_prints();
  return stream.context->error();
}

// Work that never waits.
Work work_of(const std::shared_ptr<Context> &context, const char *name, size_t bytes,
             std::function<void()> what) {
  auto work = std::make_shared<Operation>(context, place_of_work(bytes));
  if (trace::on()) work->span = trace::span("%s <%zu bytes>", name, bytes);
  work->run = [what = std::move(what)](Operation &) { what(); };
  return work;
}

CUresult copy_staged(const StreamRef &stream, const End &to, const End &from, const Box &box,
                     const Held &to_held) {
  size_t bytes = bytes_of(box);
  auto staged = std::make_shared<std::vector<uint8_t>>(bytes);
  End middle{reinterpret_cast<uint64_t>(staged->data()), box.width, box.width * box.height,
             Side::kHost};
  move(middle, from, box);
  Queue::push(*stream, work_of(stream.context, "memcpy", bytes,
                               [staged, middle, to, box, to_held] { move(to, middle, box); }));
  return CUDA_SUCCESS;
}

CUresult check_shape(const End &to, const End &from, const Box &box) {
  if (box.height > 1 && (to.pitch < box.width || from.pitch < box.width))
    return refuse(CUDA_ERROR_INVALID_VALUE, "a pitch is smaller than the width");
  return CUDA_SUCCESS;
}

// With the pin held. Where it is called for, `places` are of the destination and the source.
CUresult check_copy(const Memory &memory, const End &to, const End &from, const Box &box, When when,
                    Place places[2]) {
  if (CUresult bad = check_shape(to, from, box)) return bad;
  if (CUresult bad = locate(memory, to, box, "destination", when, &places[0])) return bad;
  return locate(memory, from, box, "source", when, &places[1]);
}

// The context whose default stream orders work on memory of a device that is not the stream's.
std::shared_ptr<Context> context_elsewhere(const StreamRef &stream, const Held &region,
                                           uint64_t address) {
  if (!region || region->kind == RegionKind::kManaged) return nullptr;
  int ordinal = device_of(*region, address);
  if (ordinal < 0 || ordinal == stream.context->device().ordinal) return nullptr;
  auto owner = driver()->handles.find<Context>(region->context);
  if (!owner) owner = driver()->device(ordinal)->primary;
  return owner && owner->active() ? owner : nullptr;
}

// A copy in a legacy stream comes after all work of every device whose memory it names, and before
// all that those get: default streams of several devices know nothing of each other otherwise.
class Crossing {
 public:
  Crossing(const StreamRef &stream, const Held &to, uint64_t to_address, const Held &from,
           uint64_t from_address)
      : stream_(stream) {
    if (stream->role != Stream::Role::kLegacy) return;
    others_ = {context_elsewhere(stream, to, to_address),
               context_elsewhere(stream, from, from_address)};
    if (others_[0] == others_[1]) others_[1] = nullptr;
    for (const auto &other : others_)
      if (other) Queue::push(*stream, mark(stream.context), push_mark(other, nullptr));
  }
  ~Crossing() {
    for (const auto &other : others_)
      if (other) push_mark(other, Queue::tail(*stream_));
  }
  Crossing(const Crossing &) = delete;
  Crossing &operator=(const Crossing &) = delete;

 private:
  static Work mark(const std::shared_ptr<Context> &context) {
    return std::make_shared<Operation>(context, Where::kInline);
  }
  static Work push_mark(const std::shared_ptr<Context> &context, const Work &after) {
    Work pushed = mark(context);
    Queue::push(*context->legacy_stream(), pushed, after);
    return pushed;
  }

  const StreamRef &stream_;
  std::array<std::shared_ptr<Context>, 2> others_;
};

// What a call that is being captured, or waits, is allowed to do.
CUresult admit_transfer(const StreamRef &stream, bool asynchronous) {
  if (!asynchronous)
    if (CUresult bad = admit_unsafe()) return bad;
  return admit(stream, asynchronous ? Use::kQueue : Use::kWait);
}

}  // namespace

Work CopyTask::operation(Uses) {
  return work_of(context, "memcpy", bytes_of(box),
                 [into = to, out_of = from, of = box, to_held = regions[0].lock(),
                  from_held = regions[1].lock()] { move(into, out_of, of); });
}

bool CopyTask::reachable() const {
  if (bytes_of(box) == 0) return true;
  Place places[2];
  return check_copy(driver()->memory, to, from, box, When::kNow, places) == CUDA_SUCCESS;
}

CUresult make_copy(const std::shared_ptr<Context> &context, const End &to, const End &from,
                   const Box &box, std::shared_ptr<CopyTask> *task) {
  if (bytes_of(box) != 0) {
    Place places[2];
    Memory::Pin pin = driver()->memory.pin();
    if (CUresult bad = check_copy(driver()->memory, to, from, box, When::kLater, places))
      return bad;
    *task = std::make_shared<CopyTask>(context, to, from, box);
    (*task)->regions[0] = driver()->memory.hold(to.address);
    (*task)->regions[1] = driver()->memory.hold(from.address);
    return CUDA_SUCCESS;
  }
  *task = std::make_shared<CopyTask>(context, to, from, box);
  return CUDA_SUCCESS;
}

CUresult copy(const StreamRef &stream, const End &to, const End &from, const Box &box,
              bool asynchronous) {
  if (CUresult bad = admit_transfer(stream, asynchronous)) return bad;
  if (stream->capturing()) {
    std::shared_ptr<CopyTask> task;
    if (CUresult bad = make_copy(stream.context, to, from, box, &task)) return bad;
    return submit(stream, task);
  }
  if (bytes_of(box) == 0) return CUDA_SUCCESS;
  Memory::Pin pin = driver()->memory.pin();
  Place places[2];
  if (CUresult bad = check_copy(driver()->memory, to, from, box, When::kNow, places)) return bad;

  size_t bytes = bytes_of(box);
  const Memory &memory = driver()->memory;
  Held to_held = memory.hold(to.address), from_held = memory.hold(from.address);
  Crossing crossing(stream, to_held, to.address, from_held, from.address);
  bool on_device = places[0] == Place::kDevice && places[1] == Place::kDevice;
  bool pageable = places[0] == Place::kPageable || places[1] == Place::kPageable;
  if (on_device || (asynchronous && !pageable)) {
    Queue::push(*stream, work_of(stream.context, "memcpy", bytes,
                                 [to, from, box, to_held, from_held] { move(to, from, box); }));
    return CUDA_SUCCESS;
  }
  if (places[1] == Place::kPageable && places[0] != Place::kPageable && !Queue::idle(stream) &&
      bytes <= (asynchronous ? kMostStaged : kShort)) {
    try {
      return copy_staged(stream, to, from, box, to_held);
    } catch (const std::bad_alloc &) {
      // wait for our turn instead
    }
  }
  return run_here(stream, std::move(pin), "memcpy", bytes, [&] { move(to, from, box); });
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

// With the pin held.
CUresult check_fill(const Memory &memory, const End &to, const Box &box, unsigned pattern_bytes,
                    When when, Place *place) {
  if (to.address % pattern_bytes || (box.height > 1 && to.pitch % pattern_bytes))
    return refuse(CUDA_ERROR_INVALID_VALUE, "the address or pitch is not a multiple of %u",
                  pattern_bytes);
  if (box.height > 1 && to.pitch < box.width)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the pitch is smaller than the width");
  return locate(memory, to, box, "destination", when, place);
}

// Only what is a file of ours can be dropped: the pages of others are not ours to lose.
bool may_drop(const Memory &memory, uint64_t address) {
  RegionKind kind = memory.find(address)->kind;
  return kind == RegionKind::kDevice || kind == RegionKind::kReservation;
}

}  // namespace

Work FillTask::operation(Uses) {
  return work_of(context, "memset", bytes_of(box),
                 [at = to, of = box, value = pattern, bytes = pattern_bytes, drop = droppable,
                  held = region.lock()] { fill_box(at, of, value, bytes, drop); });
}

bool FillTask::reachable() const {
  if (bytes_of(box) == 0) return true;
  Place place;
  return check_fill(driver()->memory, to, box, pattern_bytes, When::kNow, &place) == CUDA_SUCCESS;
}

CUresult make_fill(const std::shared_ptr<Context> &context, const End &to, const Box &box,
                   uint32_t pattern, unsigned pattern_bytes, std::shared_ptr<FillTask> *task) {
  bool droppable = false;
  Held held;
  if (bytes_of(box) != 0) {
    Place place;
    Memory::Pin pin = driver()->memory.pin();
    if (CUresult bad = check_fill(driver()->memory, to, box, pattern_bytes, When::kLater, &place))
      return bad;
    droppable = may_drop(driver()->memory, to.address);
    held = driver()->memory.hold(to.address);
  }
  *task = std::make_shared<FillTask>(context, to, box, pattern, pattern_bytes, droppable);
  (*task)->region = held;
  return CUDA_SUCCESS;
}

CUresult fill(const StreamRef &stream, const End &to, const Box &box, uint32_t pattern,
              unsigned pattern_bytes, bool asynchronous) {
  if (CUresult bad = admit_transfer(stream, asynchronous)) return bad;
  if (stream->capturing()) {
    std::shared_ptr<FillTask> task;
    if (CUresult bad = make_fill(stream.context, to, box, pattern, pattern_bytes, &task))
      return bad;
    return submit(stream, task);
  }
  if (bytes_of(box) == 0) return CUDA_SUCCESS;
  Memory::Pin pin = driver()->memory.pin();
  Place place;
  if (CUresult bad = check_fill(driver()->memory, to, box, pattern_bytes, When::kNow, &place))
    return bad;
  bool droppable = may_drop(driver()->memory, to.address);
  Held held = driver()->memory.hold(to.address);
  auto work = [to, box, pattern, pattern_bytes, droppable, held] {
    fill_box(to, box, pattern, pattern_bytes, droppable);
  };
  if (!asynchronous && place != Place::kDevice)
    return run_here(stream, std::move(pin), "memset", bytes_of(box), work);
  Queue::push(*stream, work_of(stream.context, "memset", bytes_of(box), work));
  return CUDA_SUCCESS;
}

CUresult synchronise(const StreamRef &stream) {
  if (CUresult bad = admit_unsafe()) return bad;
  if (CUresult bad = admit(stream, Use::kWait)) return bad;
  if (stream->role == Stream::Role::kLegacy) {
    // It comes after the blocking streams, so what is in them is waited for too.
    auto mark = std::make_shared<Operation>(stream.context, Where::kInline);
    Queue::push(*stream, mark);
    mark->wait(stream.context->waiting());
  } else if (Work last = Queue::tail(*stream)) {
    last->wait(stream.context->waiting());
  }
  stream.context->flush_prints();
  return stream.context->error();
}

CUresult synchronise(const std::shared_ptr<Context> &context) {
  if (CUresult bad = admit_unsafe()) return bad;
  if (CUresult bad = admit_wait(*context)) return bad;
  context->drain();
  context->flush_prints();
  return context->error();
}

}  // namespace softdev::driver
