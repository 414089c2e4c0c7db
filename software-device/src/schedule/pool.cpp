// The workers: one pool for all devices of the process. A worker takes blocks in order from the
// grids in the queue and runs each to its end; a block that only spins is parked while the worker
// starts another, so that blocks which wait for later blocks, or for other grids, get on.
#include <pthread.h>

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

#include "schedule/cluster.h"
#include "schedule/stopwatch.h"
#include "spin.h"

namespace softdev {
namespace {
constexpr uint32_t kStackFactor = 4;
constexpr uint32_t kMostStack = 1 << 20;
}  // namespace

Grid::Grid(Launch what)
    : launch(std::move(what)),
      kernel(static_cast<const KernelImpl *>(launch.kernel)),
      executable(&kernel->executable()) {
  cluster_blocks = launch.cluster.x * launch.cluster.y * launch.cluster.z;
  clusters = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z / cluster_blocks;
  threads = launch.block.x * launch.block.y * launch.block.z;
  warps = (threads + kLanes - 1) / kLanes;
  uint32_t own = executable->static_shared + launch.dynamic_shared;
  const auto up_to = [own](uint32_t unit) { return (own + unit - 1) & ~(unit - 1); };
  shared_units = up_to(launch.shared_unit);
  reserved_begin = launch.exact_shared ? up_to(16) : shared_units;
  if (executable->reserved_shared)
    shared_bytes = reserved_begin + executable->reserved_shared;
  else
    shared_bytes = launch.exact_shared ? own : shared_units;
  stack_bytes = executable->stack_bytes;
  if (executable->open_stack) {
    // Frames are not those of a GPU's code, so there is room to spare.
    uint64_t room = uint64_t{kStackFactor} * launch.stack_bytes;
    stack_bytes += static_cast<uint32_t>(std::min<uint64_t>(room, kMostStack)) & ~63u;
  }
  launch.parameters.resize(kernel->parameter_bytes());
}

namespace {

constexpr auto kWatch = std::chrono::microseconds(5);
constexpr uint64_t kLongSlice = 4096;  // turns of a block that runs alone
constexpr uint64_t kShortSlice = 16;   // ... that shares its worker
constexpr size_t kMaxResident = 64;    // blocks that one worker keeps, unless cooperative
// A worker takes at most so many blocks of a grid at once, and such a part of what is left for it:
// to count a block is to wait until all that the last one wrote has reached memory.
constexpr uint64_t kMostAtOnce = 16, kPart = 16;
constexpr uint32_t kMaxBlockThreads = 1024;
constexpr uint32_t kMaxClusterBlocks = 16;
constexpr uint32_t kMaxShared = 227 << 10;

// Grids with blocks that nobody has taken yet, by how deep they are: in order of their submission,
// but a deeper one before all others.
class Queue {
 public:
  bool empty() const { return count_ == 0; }
  void push(std::shared_ptr<Grid> grid) {
    const uint32_t depth = grid->launch.depth;
    if (depth >= by_depth_.size()) by_depth_.resize(depth + 1);
    by_depth_[depth].push_back(std::move(grid));
    ++count_;
  }
  std::shared_ptr<Grid> &front() { return deepest().front(); }
  void pop_front() {
    deepest().pop_front();
    --count_;
  }
  template <class Visit>
  void each(Visit visit) {
    for (auto &grids : by_depth_)
      for (auto &grid : grids) visit(*grid);
  }

 private:
  std::deque<std::shared_ptr<Grid>> &deepest() {
    auto last = by_depth_.end();
    while ((--last)->empty()) {
    }
    return *last;
  }

  std::vector<std::deque<std::shared_ptr<Grid>>> by_depth_{1};
  size_t count_ = 0;
};

class Pool final : public Engine {
 public:
  explicit Pool(const EngineOptions &options) {
    unsigned count = options.workers ? options.workers : std::thread::hardware_concurrency();
    count = std::clamp(count, 1u, 1024u);
    for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this, i] { work(i); });
  }

  ~Pool() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      grids_.each([](Grid &grid) { grid.abandoned = true; });
    }
    wake_.notify_all();
    for (std::thread &thread : threads_) thread.join();
  }

  unsigned workers() const override { return static_cast<unsigned>(threads_.size()); }

  void submit(Launch launch) override {
    if (Status status = check(launch); !status.ok()) {
      launch.done(std::move(status));
      return;
    }
    auto grid = std::make_shared<Grid>(std::move(launch));
    grid->workers = workers();
    if (grid->launch.cooperative || grid->executable->uses_grid_workspace)
      grid->workspace = grid->kernel->program().grid_workspace();
    const bool one = grid->clusters == 1;
    {
      std::lock_guard lock(mutex_);
      grid->id = ++last_id_;
      grids_.push(std::move(grid));
      posted_.fetch_add(1, std::memory_order_release);
    }
    // A worker that watches finds it without being woken, and looks once more before it sleeps.
    if (!one)
      wake_.notify_all();
    else if (watching_.load(std::memory_order_acquire) == 0)
      wake_.notify_one();
  }

 private:
  using Residents = std::vector<std::unique_ptr<Cluster>>;

  // Blocks that a worker has taken and not started yet. They come before all others.
  struct Taken {
    std::shared_ptr<Grid> grid;
    uint64_t next = 0, end = 0;
    bool empty() const { return next == end; }
  };

  static Status check(const Launch &launch) {
    const auto &executable = static_cast<const KernelImpl *>(launch.kernel)->executable();
    const Dim3 &block = launch.block, &grid = launch.grid;
    std::string name = "kernel " + launch.kernel->name() + ": ";
    uint64_t threads = uint64_t{block.x} * block.y;
    if (threads > kMaxBlockThreads || threads * block.z > kMaxBlockThreads || !threads || !block.z)
      return {1, false, name + "a block has 1 to 1024 threads"};
    if (!grid.x || !grid.y || !grid.z || uint64_t{grid.x} * grid.y > (uint64_t{1} << 48) ||
        grid.z > 65535)
      return {1, false, name + "the grid is empty or too large"};
    if (uint64_t{executable.static_shared} + launch.dynamic_shared > kMaxShared)
      return {1, false, name + "more shared memory than a block can have"};
    const Dim3 &cluster = launch.cluster;
    uint64_t of_cluster = uint64_t{cluster.x} * cluster.y;
    if (!of_cluster || !cluster.z || of_cluster > kMaxClusterBlocks ||
        of_cluster * cluster.z > kMaxClusterBlocks)
      return {912, false, name + "a cluster has 1 to 16 blocks"};
    if (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
      return {912, false, name + "the grid is no multiple of the cluster"};
    return {};
  }

  // Takes blocks of a grid; false when there are none left. Where blocks wait for one another, each
  // is started as soon as somebody can; and one at a time where they launch grids.
  static bool take(const std::shared_ptr<Grid> &grid, Taken *taken) {
    uint64_t many = 1;
    if (!grid->launch.cooperative && !grid->launch.runtime &&
        !grid->spins.load(std::memory_order_relaxed)) {
      const uint64_t next = grid->next.load(std::memory_order_relaxed);
      const uint64_t left = grid->clusters - std::min(next, grid->clusters);
      many = std::clamp<uint64_t>(left / (grid->workers * kPart), 1, kMostAtOnce);
    }
    taken->next = grid->next.fetch_add(many, std::memory_order_relaxed);
    taken->end = std::min(taken->next + many, grid->clusters);
    if (taken->next < taken->end) {
      if (taken->grid != grid) taken->grid = grid;
      return true;
    }
    *taken = {};
    return false;
  }

  // Makes a block that has ended the next one of its grid, which needs no lock. Not where blocks
  // launch grids, which come first.
  static bool start_next(Cluster &block, Taken *taken) {
    if (block.grid->launch.runtime || block.grid->abandoned.load(std::memory_order_relaxed))
      return false;
    if (taken->empty() ? !take(block.grid, taken) : taken->grid != block.grid) return false;
    block.start(taken->next++);
    return true;
  }

  // A block to start, or nothing.
  std::unique_ptr<Cluster> take_block(uint32_t worker, Taken *taken) {
    if (!taken->empty() && taken->grid->abandoned.load(std::memory_order_relaxed)) {
      const Taken dropped = std::exchange(*taken, {});
      finish(dropped.grid, dropped.end - dropped.next);
    }
    if (taken->empty()) {
      *taken = {};
      std::lock_guard lock(mutex_);
      while (!grids_.empty()) {
        std::shared_ptr<Grid> &front = grids_.front();
        if (front->abandoned.load(std::memory_order_relaxed) || front->next >= front->clusters) {
          // Whoever finishes the last of its blocks reports; those never started count too.
          const uint64_t next = front->next.exchange(front->clusters);
          const uint64_t unstarted = front->clusters - std::min(next, front->clusters);
          std::shared_ptr<Grid> drained = std::move(front);
          grids_.pop_front();
          if (unstarted) pending_.emplace_back(std::move(drained), unstarted);
          continue;
        }
        if (!take(front, taken)) continue;  // somebody else took the last one
        if (taken->end == taken->grid->clusters) grids_.pop_front();
        break;
      }
    }
    settle();
    if (taken->empty()) return nullptr;
    const uint64_t index = taken->next++;
    try {
      auto block = std::make_unique<Cluster>(taken->grid, worker);
      block->start(index);
      return block;
    } catch (const std::bad_alloc &) {
      const std::shared_ptr<Grid> grid = taken->grid;
      grid->fail({2, true, "kernel " + grid->kernel->name() + ": no host memory for a block"});
      finish(grid, 1);
      return nullptr;
    }
  }

  // Blocks of abandoned grids that nobody will start are counted as finished, outside the lock.
  void settle() {
    for (;;) {
      std::pair<std::shared_ptr<Grid>, uint64_t> one;
      {
        std::lock_guard lock(mutex_);
        if (pending_.empty()) return;
        one = std::move(pending_.back());
        pending_.pop_back();
      }
      finish(one.first, one.second);
    }
  }

  static void finish(const std::shared_ptr<Grid> &grid, uint64_t blocks) {
    if (grid->finished.fetch_add(blocks, std::memory_order_acq_rel) + blocks != grid->clusters)
      return;
    Status status;
    {
      std::lock_guard lock(grid->mutex);
      status = grid->status;
    }
    if (status.ok() && grid->abandoned) status = {719, true, "the engine was shut down"};
    if (grid->launch.done) grid->launch.done(std::move(status));
  }

  // For a moment, what comes next is likely to come at once: a launch behind this one finds the
  // worker awake. Not where the launching thread needs the same processor.
  void watch_for_work() {
    if (!may_watch_) return;
    const uint32_t seen = posted_.load(std::memory_order_acquire);
    watching_.fetch_add(1, std::memory_order_acq_rel);
    const auto until = std::chrono::steady_clock::now() + kWatch;
    while (posted_.load(std::memory_order_acquire) == seen) {
      for (int i = 0; i < 32; ++i) spin_pause();
      if (std::chrono::steady_clock::now() >= until) break;
    }
    watching_.fetch_sub(1, std::memory_order_acq_rel);
  }

  // Where a worker is between `enter` and `leave`, of the device whose blocks it runs.
  class Turn {
   public:
    ~Turn() { take(nullptr); }
    void take(Turns *turns) {
      if (turns == turns_) return;
      if (turns_) turns_->leave();
      turns_ = turns;
      if (turns_) turns_->enter();
    }

   private:
    Turns *turns_ = nullptr;
  };

  void work(uint32_t worker) {
    pthread_setname_np(pthread_self(), "softdev-worker");
    // A thread begins with the rounding and the traps of who starts it, which is the program.
    std::fesetenv(FE_DFL_ENV);
    Turn turn;
    Residents residents;
    Taken taken;
    Stopwatch watch;
    // A block that has ended, whose memory the next one of its grid may use.
    std::unique_ptr<Cluster> ended;
    auto retire = [&] {
      const std::shared_ptr<Grid> grid = ended->grid;
      const uint64_t untold = ended->untold;
      ended.reset();
      if (taken.empty()) taken = {};
      watch.stop();  // whoever is told that the grid is done finds its time counted
      if (untold) finish(grid, untold);
    };
    for (;;) {
      // Start a block when there is none, or when those there only spin.
      bool spinning = std::all_of(residents.begin(), residents.end(),
                                  [](const auto &block) { return block->spinning; });
      bool cooperative = !residents.empty() && residents.back()->grid->launch.cooperative;
      if (spinning && (residents.size() < kMaxResident || cooperative)) {
        if (ended && start_next(*ended, &taken)) {
          ended->spinning = false;
          residents.push_back(std::move(ended));
        } else {
          if (ended) retire();
          if (auto block = take_block(worker, &taken)) residents.push_back(std::move(block));
        }
      }
      if (residents.empty()) {
        watch.stop();
        turn.take(nullptr);
        std::unique_lock lock(mutex_);
        if (stopping_ && grids_.empty()) return;
        if (!grids_.empty()) continue;
        lock.unlock();
        watch_for_work();
        lock.lock();
        wake_.wait(lock, [this] { return stopping_ || !grids_.empty(); });
        continue;
      }
      cooperative = residents.back()->grid->launch.cooperative;
      uint64_t slice = residents.size() == 1 && !cooperative ? kLongSlice : kShortSlice;
      for (size_t i = 0; i < residents.size();) {
        turn.take(residents[i]->grid->launch.turns);
        watch.work_for(residents[i]->grid->launch.worked_ns);
        Cta::Result result = residents[i]->run(slice);
        watch.glance();
        if (result == Cta::Result::Parked) {
          residents[i]->spinning = true;
          residents[i]->grid->spins.store(true, std::memory_order_relaxed);
          ++i;
          continue;
        }
        ended = std::move(residents[i]);
        residents.erase(residents.begin() + static_cast<std::ptrdiff_t>(i));
        ++ended->untold;
        if (result == Cta::Result::Failed ||
            (taken.empty() &&
             ended->grid->next.load(std::memory_order_relaxed) >= ended->grid->clusters))
          retire();
        else if (!residents.empty())  // else the next one is started at once
          finish(ended->grid, std::exchange(ended->untold, 0));
      }
      if (residents.size() > 1) std::this_thread::yield();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Queue grids_;
  std::vector<std::pair<std::shared_ptr<Grid>, uint64_t>> pending_;
  uint64_t last_id_ = 0;
  std::atomic<uint32_t> posted_{0};    // grids so far
  std::atomic<uint32_t> watching_{0};  // workers that look at it
  const bool may_watch_ = std::thread::hardware_concurrency() > 1;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Engine> Engine::create(const EngineOptions &options) {
  return std::make_unique<Pool>(options);
}

}  // namespace softdev
