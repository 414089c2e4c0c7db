// Memory accesses that need a closer look, and the end of a launch that did something wrong.
#include <chrono>
#include <cstdio>

#include "schedule/grid.h"

namespace softdev {
namespace {

enum : int { kIllegalAddress = 700, kTimeout = 702, kMisaligned = 716, kLaunchFailed = 719 };

bool in_range(uint64_t address, unsigned size, uint64_t base, uint64_t bytes) {
  uint64_t offset = address - base;
  return offset < bytes && bytes - offset >= size;
}

// What the flags of the granules say that an access touches.
bool granules_allow(const Window &window, const AddressSpace &memory, uint64_t address,
                    unsigned size, uint8_t flag, Space space) {
  const uint64_t begin = address - window.base, end = begin + size;
  bool ask = false;
  for (uint64_t i = begin >> kGranuleShift; i << kGranuleShift < end; ++i) {
    const uint8_t flags = __atomic_load_n(window.granules + i, __ATOMIC_RELAXED);
    if (!(flags & flag) || (space == Space::Constant && (flags & kWritable))) return false;
    const unsigned words = flags >> 2;
    if (words == kAskSpace)
      ask = true;
    else if (words != kWholeGranule && end - (i << kGranuleShift) > words * 4)
      return false;
  }
  return !ask || memory.holds(address, size);
}

const char *space_name(Space space) {
  switch (space) {
    case Space::Global:
      return "global ";
    case Space::Constant:
      return "constant ";
    case Space::Shared:
      return "shared ";
    case Space::Local:
      return "local ";
    case Space::Param:
      return "parameter ";
    default:
      return "";
  }
}

std::string place(const Warp &warp, const Ins *ins, unsigned lane) {
  const Cta &cta = *warp.cta;
  uint32_t thread[3];
  cta.thread_of(warp, lane, thread);
  const Function &function = *warp.frame->function;
  auto at = static_cast<size_t>(ins - function.code.data());
  const Where &where = function.wheres[function.statements[at]];
  std::string text = "kernel " + cta.grid->kernel->name();
  if (function.index) text += ", function " + function.name;
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, ", block (%u,%u,%u), thread (%u,%u,%u), PTX line %u",
                cta.position[0], cta.position[1], cta.position[2], thread[0], thread[1], thread[2],
                where.line);
  text += numbers;
  std::string line(function.module.substr(where.text, where.length < 160 ? where.length : 160));
  for (char &c : line)
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  return text + " `" + line + "`";
}

}  // namespace

uint64_t turn_window(Warp &warp, uint64_t address) {
  const uint64_t offset = address - warp.window_before.base;
  if (offset >= warp.window_before.size) return ~uint64_t{0};
  std::swap(warp.window, warp.window_before);
  return offset;
}

bool memory_allowed(Warp &warp, Space space, uint64_t address, unsigned size, uint8_t flag,
                    unsigned lane) {
  const Cta &cta = *warp.cta;
  if (space == Space::Local || space == Space::Generic) {
    uint64_t base = reinterpret_cast<uint64_t>(warp.local) + uint64_t{lane} * warp.local_stride;
    if (in_range(address, size, base, warp.local_stride)) return true;
    if (space == Space::Local) return false;
  }
  if (space == Space::Generic && shared_by_cluster(warp, address, size)) return true;
  if (space == Space::Param || (space == Space::Generic && flag == kReadable)) {
    if (in_range(address, size, reinterpret_cast<uint64_t>(warp.parameters), warp.parameter_bytes))
      return true;
    if (space == Space::Param) return false;
  }
  const AddressSpace *memory = cta.grid->launch.memory;
  if (!memory) return false;
  const Window *window = memory->find(address);
  if (!window || !in_range(address, size, window->base, window->size)) return false;
  if (window->base != warp.window.base) warp.window_before = warp.window;
  const uint64_t starts = window->size < kGranuleBytes ? 0 : window->size - kGranuleBytes + 1;
  warp.window = {window->base, window->size, starts, window->granules};
  return granules_allow(*window, *memory, address, size, flag, space);
}

const Ins *memory_fault(Warp &warp, const Ins *ins, Space space, uint64_t address, unsigned size,
                        bool write, unsigned lane) {
  bool misaligned = address % size != 0;
  // A misaligned address that may not be touched at all is reported as that.
  bool allowed =
      space == Space::Shared || memory_allowed(warp, space, address & ~uint64_t{size - 1}, size,
                                               write ? kWritable : kReadable, lane);
  if (space == Space::Shared && misaligned)
    allowed = in_range(address & ~uint64_t{size - 1}, size, 0, warp.shared_size);
  misaligned = misaligned && allowed;
  char text[200];
  std::snprintf(text, sizeof text, ": %s of %u bytes at %saddress 0x%llx is %s",
                write ? "write" : "read", size, space_name(space),
                static_cast<unsigned long long>(address),
                misaligned ? "misaligned" : "not allowed");
  std::string message = place(warp, ins, lane) + text;
  if (space == Space::Shared) {
    message += "; the block has " + std::to_string(warp.shared_size) + " bytes of shared memory";
  } else if (space == Space::Local) {
    message += "; the thread has " + std::to_string(warp.local_stride) + " bytes of local memory";
  } else if (warp.cta->grid->launch.memory) {
    message += "; " + warp.cta->grid->launch.memory->describe(address);
  }
  warp.cta->grid->fail({misaligned ? kMisaligned : kIllegalAddress, true, std::move(message)});
  warp.event = Event::Fault;
  return nullptr;
}

const Ins *range_fault(Warp &warp, const Ins *ins, Space space, uint64_t address, uint64_t size,
                       bool write, unsigned lane) {
  char text[160];
  std::snprintf(text, sizeof text, ": %s of %llu bytes at %saddress 0x%llx is not allowed",
                write ? "write" : "read", static_cast<unsigned long long>(size), space_name(space),
                static_cast<unsigned long long>(address));
  std::string message = place(warp, ins, lane) + text;
  if (space == Space::Global && warp.cta->grid->launch.memory)
    message += "; " + warp.cta->grid->launch.memory->describe(address);
  warp.cta->grid->fail({kIllegalAddress, true, std::move(message)});
  warp.event = Event::Fault;
  return nullptr;
}

bool is_constant(const Warp &warp, uint64_t address) {
  for (const Variable &variable : warp.cta->grid->kernel->program().variables())
    if (variable.constant && address - variable.address < variable.size) return true;
  return false;
}

const Ins *fault(Warp &warp, const Ins *ins, int code, const char *what) {
  auto lane = static_cast<unsigned>(__builtin_ctz(warp.mask | 0x80000000u));
  warp.cta->grid->fail({code, true, place(warp, ins, lane) + ": " + what});
  warp.event = Event::Fault;
  return nullptr;
}

void Cta::fail_late() {
  std::string message = "kernel " + grid->kernel->name();
  for (Warp &warp : warps) {
    if (!warp.live || !warp.group_count) continue;
    const Group &group = warp.groups[0];
    warp.frame = group.frame;
    message = place(warp, group.pc, static_cast<unsigned>(__builtin_ctz(group.mask)));
    break;
  }
  char text[96];
  std::snprintf(text, sizeof text, ": the launch has run for more than %.3g seconds",
                static_cast<double>(grid->launch.limit_ns) / 1e9);
  grid->fail({kTimeout, true, message + text});
  failed = true;
}

bool Grid::overdue() {
  auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                 std::chrono::steady_clock::now().time_since_epoch())
                 .count();
  int64_t begun = 0;
  if (started_ns_.compare_exchange_strong(begun, now)) return false;
  return static_cast<uint64_t>(now - begun) > launch.limit_ns;
}

const ImageView *find_image(Warp &warp, uint64_t handle) {
  const Launch &launch = warp.cta->grid->launch;
  const ImageView *image = nullptr;
  for (const auto &[address, bound] : launch.images)
    if (address == handle) image = bound.get();
  if (!image && launch.memory) image = launch.memory->find_image(handle);
  if (!image) return nullptr;
  warp.images[image_slot(handle)] = {handle, image};
  return image;
}

const Ins *image_fault(Warp &warp, const Ins *ins, uint64_t handle, unsigned lane) {
  char text[120];
  std::snprintf(text, sizeof text, ": 0x%llx is no live texture or surface of the kind it needs",
                static_cast<unsigned long long>(handle));
  warp.cta->grid->fail({kIllegalAddress, true, place(warp, ins, lane) + text});
  warp.event = Event::Fault;
  return nullptr;
}

const Ins *surface_fault(Warp &warp, const Ins *ins, const ImageView &surface, const int32_t at[4],
                         unsigned lane) {
  const ImageLevel &level = surface.levels[0];
  char text[200];
  std::snprintf(
      text, sizeof text,
      ": (%d, %d, %d) layer %d is outside of the surface, which has %u x %u x %u elements "
      "of %u bytes and %u layers",
      at[0], at[1], at[2], at[3], level.width, level.height, level.depth, surface.element,
      surface.layers);
  warp.cta->grid->fail({kLaunchFailed, true, place(warp, ins, lane) + text});
  warp.event = Event::Fault;
  return nullptr;
}

const Ins *run_trap(Warp &warp, const Ins *ins) {
  return fault(warp, ins, kLaunchFailed, "the kernel executed a trap");
}

void Grid::fail(Status why) {
  std::lock_guard lock(mutex);
  if (status.ok()) status = std::move(why);
  abandoned.store(true, std::memory_order_relaxed);
}

}  // namespace softdev
