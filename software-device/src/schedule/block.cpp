// One block: its memory, its start, its turns.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "schedule/cluster.h"

namespace softdev {
namespace {

constexpr size_t kMaxFrameMemory = size_t{256} << 20;  // of called functions, per block
constexpr uint32_t kMaxDepth = 4096;
constexpr uint32_t kTurnsPerLook = 16;  // at the clock
constexpr uint32_t kPatience = 64;      // rounds in which somebody spins, until a try_wait gives up
// What a worker keeps of the memory of its blocks.
constexpr size_t kSmallestSpare = 4096, kLargestSpare = size_t{1} << 20, kMostSpare = 8;

// A 64-bit value into all 32 lanes of a slot.
void broadcast(uint8_t *slot, unsigned size, uint64_t value) {
  switch (size) {
    case 8:
      std::fill_n(reinterpret_cast<uint64_t *>(slot), kLanes, value);
      break;
    case 4:
      std::fill_n(reinterpret_cast<uint32_t *>(slot), kLanes, static_cast<uint32_t>(value));
      break;
    case 2:
      std::fill_n(reinterpret_cast<uint16_t *>(slot), kLanes, static_cast<uint16_t>(value));
      break;
    default:  // a predicate
      std::memcpy(slot, &value, 4);
  }
}

int dimension(Special special, Special x) {
  return static_cast<int>(special) - static_cast<int>(x);
}

void put(uint8_t *slot, unsigned size, unsigned lane, uint64_t value) {
  std::memcpy(slot + lane * size, &value, size);
}

}  // namespace

std::vector<Cta::Memory> &Cta::spare() {
  thread_local std::vector<Memory> memory;
  return memory;
}

Cta::Memory Cta::allocate(size_t bytes) {
  for (Memory &one : spare()) {
    if (one.bytes < bytes || one.bytes / 2 > bytes + kSmallestSpare) continue;
    Memory taken = std::move(one);
    one = std::move(spare().back());
    spare().pop_back();
    return taken;
  }
  bytes = std::max(bytes, kSmallestSpare);
  Memory memory;
  memory.bytes = bytes;
  memory.owner.reset(static_cast<uint8_t *>(std::calloc(bytes + 64, 1)));
  if (!memory.owner) throw std::bad_alloc();
  auto address = reinterpret_cast<uintptr_t>(memory.owner.get());
  memory.data = reinterpret_cast<uint8_t *>((address + 63) & ~uintptr_t{63});
  return memory;
}

void Cta::give_back(Memory memory) {
  if (memory.data && memory.bytes <= kLargestSpare && spare().size() < kMostSpare)
    spare().push_back(std::move(memory));
}

Cta::~Cta() {
  for (Memory *memory : {&shared_, &local_, &registers_, &parameters_})
    give_back(std::move(*memory));
  for (Memory &memory : frame_memory_) give_back(std::move(memory));
}

Cta::Cta(std::shared_ptr<Grid> owner, Cluster *of, uint32_t rank_in_cluster, uint32_t worker_index)
    : grid(std::move(owner)), cluster(of), rank(rank_in_cluster), worker(worker_index) {
  const Executable &executable = *grid->executable;
  const Function &kernel = *executable.functions[0];
  warps.resize(grid->warps);
  entry_frames_.resize(grid->warps);
  free_frames_.resize(executable.functions.size());
  shared_ = allocate(grid->shared_bytes);
  local_ = allocate(size_t{grid->stack_bytes} * grid->warps * kLanes);
  registers_ = allocate(size_t{kernel.register_bytes} * grid->warps);
  parameters_ = allocate(grid->launch.parameters.size());
  std::copy(grid->launch.parameters.begin(), grid->launch.parameters.end(), parameters_.get());
  const Dim3 &block = grid->launch.block;
  const bool rows = block.x % kLanes == 0 || (block.y == 1 && block.z == 1);
  for (uint32_t i = 0; i < grid->warps; ++i) {
    Warp &warp = warps[i];
    warp.index = i;
    warp.cta = this;
    warp.shared = shared_.get();
    warp.shared_size = grid->shared_bytes;
    warp.local_stride = grid->stack_bytes;
    warp.rows = rows;
    warp.local = local_.get() + size_t{grid->stack_bytes} * kLanes * i;
    warp.parameters = parameters_.get();
    warp.parameter_bytes = static_cast<uint32_t>(grid->launch.parameters.size());
    Frame &frame = entry_frames_[i];
    frame.function = &kernel;
    std::fill_n(frame.allocated, kLanes, 0u);
    frame.registers = registers_.get() + size_t{kernel.register_bytes} * i;
    fill(kernel.launch_fills, frame.registers, warp);
    fill(kernel.warp_fills, frame.registers, warp);
  }
}

void Cta::start(uint32_t x, uint32_t y, uint32_t z) {
  const Dim3 &all = grid->launch.grid;
  index = x + all.x * (y + uint64_t{all.y} * z);
  position[0] = x;
  position[1] = y;
  position[2] = z;
  live_threads = grid->threads;
  mbarrier_waits = 0;
  last_errors.clear();
  failed = false;
  if (barriers_in_use)
    for (BlockBarrier &barrier : barriers) barrier = BlockBarrier();
  barriers_in_use = 0;
  fill_block(*grid->executable->functions[0]);
  begun_ = 0;
}

// The first turn of a warp, about which all is as the block before has left it: nobody waits.
inline const Ins *Cta::begin(Warp &warp, Frame &frame) {
  const uint32_t left = grid->threads - warp.index * kLanes;
  warp.live = warp.mask = left >= kLanes ? kFullMask : (1u << left) - 1;
  warp.turns = 1;
  warp.rotate = false;
  warp.force_sync = false;
  frame.lanes = warp.live;
  if (frame.function->uses_alloca) std::fill_n(frame.allocated, kLanes, 0u);
  warp.frame = &frame;
  warp.regs = frame.registers;
  warp.budget = kTurn;
  warp.merge_at = kNoMerge;
  return frame.function->code.data();
}

// What differs between blocks is the same for all warps of one, and often what it was in the block
// before.
void Cta::fill_block(const Function &kernel) {
  for (const SlotFill &one : kernel.block_fills) {
    const uint64_t value = value_of(one.constant, warps[0]);
    if (one.constant.size == sizeof(uint32_t)) {  // nearly always, so of a known length
      const auto word = static_cast<uint32_t>(value);
      uint8_t *at = entry_frames_[0].registers + one.slot;
      uint32_t before;
      std::memcpy(&before, at, sizeof before);
      if (started_ && before == word) continue;
      const uint32_t lanes = one.first_only && warps[0].rows ? 1 : kLanes;
      for (size_t i = 0; i < warps.size(); ++i, at += kernel.register_bytes)
        std::fill_n(reinterpret_cast<uint32_t *>(at), lanes, word);
    } else {
      for (Frame &frame : entry_frames_)
        broadcast(frame.registers + one.slot, one.constant.size, value);
    }
  }
  started_ = true;
}

// The same for all lanes of a warp.
uint64_t Cta::value_of(Special special, const Warp &warp) const {
  const Launch &launch = grid->launch;
  switch (special) {
    case Special::NtidX:
      return launch.block.x;
    case Special::NtidY:
      return launch.block.y;
    case Special::NtidZ:
      return launch.block.z;
    case Special::CtaidX:
      return position[0];
    case Special::CtaidY:
      return position[1];
    case Special::CtaidZ:
      return position[2];
    case Special::NctaidX:
      return launch.grid.x;
    case Special::NctaidY:
      return launch.grid.y;
    case Special::NctaidZ:
      return launch.grid.z;
    case Special::WarpId:
      return warp.index;
    case Special::NwarpId:
      return grid->warps;
    case Special::SmId:
      return worker;
    case Special::NsmId:
      return grid->workers;
    case Special::GridId:
      return grid->id;
    case Special::Envreg1:
      return grid->workspace >> 32;
    case Special::Envreg2:
      return grid->workspace & 0xffffffffu;
    case Special::DynamicShared:
      return launch.dynamic_shared;
    case Special::ReservedBegin:
      return grid->reserved_begin;
    case Special::ReservedEnd:
      return grid->shared_bytes;
    case Special::TotalShared:
      return grid->shared_units;
    case Special::AggregateShared:
      return grid->shared_units + grid->executable->reserved_shared;
    case Special::ClusterExplicit:
      return grid->cluster_blocks > 1 || launch.explicit_cluster;
    case Special::ClusterRank:
      return rank;
    case Special::ClusterBlocks:
      return grid->cluster_blocks;
    case Special::ClusterCtaidX:
    case Special::ClusterCtaidY:
    case Special::ClusterCtaidZ:
      return of_cluster[dimension(special, Special::ClusterCtaidX)];
    case Special::ClusterIdX:
    case Special::ClusterIdY:
    case Special::ClusterIdZ:
      return cluster->position[dimension(special, Special::ClusterIdX)];
    case Special::ClusterNctaidX:
      return launch.cluster.x;
    case Special::ClusterNctaidY:
      return launch.cluster.y;
    case Special::ClusterNctaidZ:
      return launch.cluster.z;
    case Special::NclusterIdX:
      return launch.grid.x / launch.cluster.x;
    case Special::NclusterIdY:
      return launch.grid.y / launch.cluster.y;
    case Special::NclusterIdZ:
      return launch.grid.z / launch.cluster.z;
    case Special::One:
      return 1;
    default:
      return 0;
  }
}

uint64_t Cta::value_of(const Constant &constant, const Warp &warp) const {
  uint64_t value = constant.payload;
  switch (constant.kind) {
    case Constant::Parameter:
      value = 0;
      std::memcpy(&value, parameters_.get() + constant.payload, constant.read);
      if (constant.sign && constant.read < 8) {
        unsigned shift = 64 - constant.read * 8u;
        value = static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
      }
      break;
    case Constant::ParameterAddress:
      value += reinterpret_cast<uint64_t>(parameters_.get());
      break;
    case Constant::Special:
      value = value_of(static_cast<Special>(constant.payload), warp);
      break;
    default:
      break;
  }
  return constant.size ? value : value ? kFullMask : 0;
}

// Special registers that differ between the lanes of a warp; false for the others.
bool Cta::fill_lanes(const Constant &constant, uint8_t *slot, const Warp &warp) const {
  if (constant.kind != Constant::Special) return false;
  auto special = static_cast<Special>(constant.payload);
  auto lanes = [&](auto value) {
    for (unsigned lane = 0; lane < kLanes; ++lane) put(slot, constant.size, lane, value(lane));
    return true;
  };
  if (special <= Special::TidZ)
    return lanes([&](unsigned lane) {
      uint32_t thread[3];
      thread_of(warp, lane, thread);
      return thread[static_cast<int>(special)];
    });
  if (special >= Special::LanemaskEq && special <= Special::LanemaskGt)
    return lanes([&](unsigned lane) {
      uint32_t bit = 1u << lane;
      uint32_t masks[] = {bit, (bit - 1) | bit, bit - 1, ~(bit - 1), ~((bit - 1) | bit)};
      return masks[static_cast<int>(special) - static_cast<int>(Special::LanemaskEq)];
    });
  if (special == Special::LaneId) return lanes([](unsigned lane) { return lane; });
  return false;
}

void Cta::fill(const std::vector<SlotFill> &fills, uint8_t *registers, const Warp &warp) {
  for (const SlotFill &one : fills)
    if (!fill_lanes(one.constant, registers + one.slot, warp))
      broadcast(registers + one.slot, one.constant.size, value_of(one.constant, warp));
}

void Cta::thread_of(const Warp &warp, unsigned lane, uint32_t out[3]) const {
  const Dim3 &block = grid->launch.block;
  uint32_t thread = warp.index * kLanes + lane;
  out[0] = thread % block.x;
  out[1] = thread / block.x % block.y;
  out[2] = thread / block.x / block.y;
}

Frame *Cta::take_frame(Warp &warp, const Function *function) {
  if (warp.frame->depth + 1 >= kMaxDepth) return nullptr;
  auto &free = free_frames_[function->index];
  Frame *frame = nullptr;
  if (!free.empty()) {
    frame = free.back();
    free.pop_back();
  } else {
    if (frame_bytes_ + function->register_bytes > kMaxFrameMemory) return nullptr;
    frame_bytes_ += function->register_bytes;
    frames_.push_back(std::make_unique<Frame>());
    frame = frames_.back().get();
    frame->function = function;
    frame_memory_.push_back(allocate(function->register_bytes));
    frame->registers = frame_memory_.back().get();
    fill(function->launch_fills, frame->registers, warp);
  }
  fill(function->warp_fills, frame->registers, warp);
  fill(function->block_fills, frame->registers, warp);
  return frame;
}

void Cta::release_frame(Frame *frame) { free_frames_[frame->function->index].push_back(frame); }

// Nobody can run. Lanes that wait for others of their warp, which sit at a barrier of the block
// or elsewhere and will never come, go on without them, as they do on a GPU.
bool Cta::break_deadlock() {
  for (Warp &warp : warps) {
    for (uint32_t i = 0; i < warp.group_count; ++i) {
      Group &group = warp.groups[i];
      if (group.state != GroupState::AtWarpSync && group.state != GroupState::AtWarpBarrier)
        continue;
      group.state = GroupState::Ready;
      warp.force_sync = true;
      return true;
    }
  }
  return false;
}

void Cta::fail_waiting(const char *whose) {
  grid->fail({702, true,
              "kernel " + grid->kernel->name() + ": all threads of a " + whose +
                  " wait and none can go on (a barrier that some threads never reach)"});
  failed = true;
}

Cta::Result Cta::run(uint64_t slice) {
  progress = false;
  uint32_t patience = kPatience;
  for (uint64_t round = 0; round < slice; ++round) {
    if (grid->launch.turns) [[unlikely]]
      grid->launch.turns->glance();
    bool ran = false, yielded = false;
    for (Warp &warp : warps) {
      const Ins *ins;
      if (warp.index >= begun_) {
        ins = begin(warp, entry_frames_[begun_++]);
      } else {
        if (!warp.live) continue;
        ins = resume(warp);
        if (!ins) continue;
      }
      ran = true;
      warp.event = Event::None;
      while (ins) ins = ins->run(warp, ins);
      if (warp.event == Event::Fault) {
        failed = true;
        return Result::Failed;
      }
      yielded |= warp.event == Event::Yield;
    }
    progress |= ran;
    if (!live_threads) return Result::Done;
    if (grid->launch.limit_ns && ++turns_ % kTurnsPerLook == 0 && grid->overdue()) {
      fail_late();
      return Result::Failed;
    }
    if (!ran && !break_deadlock()) {
      if (cluster->blocks.size() > 1) return Result::Blocked;
      if (!end_waits()) {
        fail_waiting("block");
        return Result::Failed;
      }
      yielded = true;
    } else if (yielded && mbarrier_waits && --patience == 0) {
      end_waits();  // somebody spins, perhaps for what a waiting thread would do next
      patience = kPatience;
    }
    // Only turns that ended for want of progress use up the slice.
    if (!yielded) --round;
    if (grid->abandoned.load(std::memory_order_relaxed)) return Result::Failed;
  }
  return Result::Parked;
}

}  // namespace softdev
