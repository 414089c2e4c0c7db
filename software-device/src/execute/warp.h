// The state of one warp while it runs. Plain data: the handlers, compiled several times for
// several instruction sets, share this layout and nothing else.
#pragma once

#include <cstdint>

#include "engine.h"
#include "translate/code.h"

namespace softdev {

inline constexpr unsigned kLanes = 32;
inline constexpr uint32_t kFullMask = 0xffffffffu;

// Nearly always all of them; and the portable way to count is a call.
inline uint32_t lane_count(uint32_t mask) {
  return mask == kFullMask ? 32 : static_cast<uint32_t>(__builtin_popcount(mask));
}

struct Cta;

// The activation of a function by some lanes of a warp.
struct Frame {
  uint8_t *registers = nullptr;
  const Function *function = nullptr;
  Frame *parent = nullptr;  // the caller's, nullptr for the kernel
  const Ins *return_to = nullptr;
  uint32_t depth = 0;
  uint32_t lanes = 0;                     // that have not returned yet
  uint32_t local = 0;                     // offset of this frame in each lane's stack
  const struct CallCode *call = nullptr;  // that made it
  // Bytes behind the frame that alloca has handed out, if the function uses it. Each lane's own,
  // as lanes may have gone different ways.
  uint32_t allocated[kLanes];
};

enum class GroupState : uint8_t {
  Ready,
  AtBarrier,      // of the block; `barrier` says which
  AtWarpSync,     // waits for the lanes of `wait_for`
  AtWarpBarrier,  // the same, but lanes may wait at different instructions
  AtCluster,      // at the barrier of the cluster
  AtMbarrier,     // at a try_wait, until any phase in the block's shared memory ends
};

// Lanes that are at the same instruction of the same frame.
struct Group {
  const Ins *pc = nullptr;
  Frame *frame = nullptr;
  uint32_t mask = 0;
  GroupState state = GroupState::Ready;
  uint8_t barrier = 0;
  bool barrier_red = false;
  uint32_t wait_for = 0;
  uint64_t last_run = 0;  // for fairness
};

enum class Event : uint8_t { None, Switch, Yield, Fault };

struct Warp {
  // of the running group
  uint8_t *regs = nullptr;
  uint32_t mask = 0;
  bool rows = false;              // tid.x counts up over the lanes, and no other index differs
  int32_t budget = 0;             // backward branches left in this turn
  const Ins *merge_at = nullptr;  // the nearest pc at which lanes of this frame wait

  // The memory windows that it used last. Two: programs keep their variables in one and their
  // arrays in another.
  struct WindowInUse {
    uint64_t base = 0;
    uint64_t size = 0;
    uint64_t starts = 0;  // offsets in it at which a stretch of a granule may begin
    const uint8_t *granules = nullptr;
  } window, window_before;
  uint8_t *shared = nullptr;
  uint32_t shared_size = 0;
  uint32_t local_stride = 0;
  // the images that were looked up last, by a few bits of the handle
  struct {
    uint64_t handle = 0;
    const ImageView *image = nullptr;
  } images[8];
  uint8_t *local = nullptr;  // lane 0's stack
  const uint8_t *parameters = nullptr;
  uint32_t parameter_bytes = 0;

  Frame *frame = nullptr;
  Cta *cta = nullptr;
  uint32_t live = 0;        // lanes that have not exited
  uint32_t at_cluster = 0;  // ... that have arrived at the cluster's barrier
  uint32_t index = 0;       // in the block
  Event event = Event::None;
  bool rotate = false;      // the next group is the one that waited longest
  bool force_sync = false;  // the next warp-level wait gives up waiting: nobody else comes
  uint64_t turns = 0;
  uint32_t group_count = 0;  // waiting groups, without the running one
  Group groups[kLanes];
};

// ---- services of schedule/ to the handlers; none is on a hot path

// Whether `size` bytes at `address` may be read or written (`flag`) by `lane` through
// `space`. Makes the window that holds the address the warp's current one.
bool memory_allowed(Warp &warp, Space space, uint64_t address, unsigned size, uint8_t flag,
                    unsigned lane);
// Makes the window before the current one again when it holds the address: where that lies in it,
// or else an offset in no window.
uint64_t turn_window(Warp &warp, uint64_t address);
// Ends the launch. Both return nullptr.
const Ins *memory_fault(Warp &warp, const Ins *ins, Space space, uint64_t address, unsigned size,
                        bool write, unsigned lane);
const Ins *fault(Warp &warp, const Ins *ins, int code, const char *what);
// The same for a stretch of any length.
const Ins *range_fault(Warp &warp, const Ins *ins, Space space, uint64_t address, uint64_t size,
                       bool write, unsigned lane);

// Whether a stretch at a generic address is shared memory of a block of the cluster, and where
// another block has it (0: nowhere).
bool shared_by_cluster(Warp &warp, uint64_t address, uint64_t size);
uint64_t map_shared(Warp &warp, uint64_t address, uint32_t rank);
// How far such an address lies in the shared memory of its block.
uint64_t shared_offset(Warp &warp, uint64_t address);
// Tells an mbarrier that bytes have arrived; false after a fault.
bool complete_bytes(Warp &warp, const Ins *ins, uint64_t object, uint32_t bytes, unsigned lane);
// Whether it lies in a constant variable of the kernel's module.
bool is_constant(const Warp &warp, uint64_t address);
// The texture or surface of a handle, remembered in warp.images[image_slot(handle)]; nullptr when
// it is neither. image_fault ends the launch: it is none of the kind that the instruction needs.
inline unsigned image_slot(uint64_t handle) { return (handle >> 4) % 8; }
const ImageView *find_image(Warp &warp, uint64_t handle);
const Ins *image_fault(Warp &warp, const Ins *ins, uint64_t handle, unsigned lane);
// An access outside of a surface, where the instruction says that this is an error.
const Ins *surface_fault(Warp &warp, const Ins *ins, const ImageView &surface, const int32_t at[4],
                         unsigned lane);

// Whether all live lanes of `members` are in the running group, after lanes waiting at the same
// instruction have joined. When not, the group waits and the handler returns nullptr.
bool gather(Warp &warp, const Ins *ins, uint32_t members);
// Lanes that wait at exactly this instruction join the running group.
void merge_here(Warp &warp, const Ins *ins);
// The two ways of a branch; returns where the running group goes on, or nullptr.
const Ins *diverge(Warp &warp, const Ins *ins, const Ins *target, uint32_t taken);
// The whole running group goes to `target`; called when it passes merge_at or the budget is spent.
const Ins *arrive(Warp &warp, const Ins *target);
const Ins *backward(Warp &warp, const Ins *target);

// On to an instruction of a full warp: straight into its handler, where the compiler makes a jump
// of that, which saves a dispatch. run_guard() counts on it that a handler leads to no other one
// while some lanes are off.
static inline __attribute__((always_inline)) const Ins *go_on(Warp &warp, const Ins *to) {
#ifdef SOFTDEV_STRAIGHT
  if (__builtin_expect(warp.mask == kFullMask, 1)) return to->run(warp, to);
#else
  (void)warp;
#endif
  return to;
}
// A branch that all running lanes take. Its target is a label, which has nothing to do where nobody
// waits.
static inline __attribute__((always_inline)) const Ins *branch_always(Warp &warp, const Ins *ins) {
  const Ins *target = ins->target;
  if (target <= ins && --warp.budget < 0) return backward(warp, target);
  return target >= warp.merge_at ? arrive(warp, target) : go_on(warp, target + 1);
}
// A branch that the lanes of `taken`, some of the running ones, take.
static inline __attribute__((always_inline)) const Ins *branch(Warp &warp, const Ins *ins,
                                                               uint32_t taken) {
  if (taken == 0) {
    const Ins *behind = ins + 1;
    return behind >= warp.merge_at ? arrive(warp, behind) : go_on(warp, behind);
  }
  if (taken != warp.mask) return diverge(warp, ins, ins->target, taken);
  return branch_always(warp, ins);
}

// Handlers that need the scheduler, the same for all instruction sets.
const Ins *run_exit(Warp &, const Ins *);
const Ins *run_return(Warp &, const Ins *);
const Ins *run_call(Warp &, const Ins *);
const Ins *run_call_indirect(Warp &, const Ins *);
const Ins *run_alloca(Warp &, const Ins *);
const Ins *run_stack_save(Warp &, const Ins *);
const Ins *run_stack_restore(Warp &, const Ins *);
const Ins *run_call_builtin(Warp &, const Ins *);
const Ins *run_barrier(Warp &, const Ins *);
const Ins *run_warp_barrier(Warp &, const Ins *);
const Ins *run_trap(Warp &, const Ins *);
const Ins *run_branch(Warp &, const Ins *);
const Ins *run_branch_always(Warp &, const Ins *);
const Ins *run_branch_indexed(Warp &, const Ins *);
const Ins *run_label(Warp &, const Ins *);
const Ins *run_guard(Warp &, const Ins *);
const Ins *run_clock(Warp &, const Ins *);
const Ins *run_nanosleep(Warp &, const Ins *);
const Ins *run_active_mask(Warp &, const Ins *);
Handler select_mbarrier(const Ir &);
Handler select_cluster(const Ir &);

}  // namespace softdev
