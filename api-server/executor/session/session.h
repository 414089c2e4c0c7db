// A session: a guest's connection and everything that it owns on the device, from the first frame
// after the Welcome to the release of the last byte.
//
// Threads: a session has a pool of threads (thread_pool.h), one of which leads and decodes. What is
// not said to be for any thread belongs to the leader. Another thread, the reaper, sees to it that
// the session ends within bounded time once the guest is gone or the session is stopped, and
// reports that it is over.
//
// Locks, never two at a time except in this order:
//   Answers -> Sender
//   departure_mutex_ -> end_mutex_
//   Objects, Transfers, Staging, ModuleStore, ThreadPool, Gate, HostFunctions: innermost
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/chains.h"
#include "base/counters.h"
#include "base/waiting.h"
#include "copies/late_areas.h"
#include "copies/region.h"
#include "copies/transfers.h"
#include "copies/upload_staging.h"
#include "device/device.h"
#include "gate/gate.h"
#include "gate/trace.h"
#include "images/expected_modules.h"
#include "images/image_room.h"
#include "images/links.h"
#include "images/module.h"
#include "memory/arrays.h"
#include "memory/memory.h"
#include "memory/stream_waits.h"
#include "memory/textures.h"
#include "session/answers.h"
#include "session/carried_pages.h"
#include "session/departure.h"
#include "session/detours.h"
#include "session/graphs.h"
#include "session/hindrances.h"
#include "session/host_functions.h"
#include "session/libraries.h"
#include "session/load_log.h"
#include "session/migration.h"
#include "session/moved_events.h"
#include "session/objects.h"
#include "session/pages.h"
#include "session/recipes.h"
#include "session/session_options.h"
#include "session/stacks.h"
#include "session/stream_marks.h"
#include "session/thread_pool.h"
#include "session/watchman.h"
#include "wire/frame.h"
#include "wire/receiver.h"
#include "wire_calls.h"

namespace outboard {

class Session : public std::enable_shared_from_this<Session> {
 public:
  // Begins a session on a connection on which the Welcome was sent; it lives until it has called
  // on_end. The device must have no other session. Throws Error.
  static std::shared_ptr<Session> start(std::shared_ptr<Device> device, SessionOptions options);
  ~Session();

  // Ends the session from the server's side; the guest is told why. Returns at once: on_end is
  // called later. Any thread.
  void stop(const std::string &message);
  // Hands in another connection of the guest, in place of one that was cut (Reconnection::offer).
  // Any thread.
  bool resume(int fd, uint64_t received, uint32_t epoch,
              const std::optional<SessionOptions::Tls> &tls = {});
  // The guest will not come back. The leader's.
  void goodbye();
  const std::shared_ptr<Counters> &counters() const { return counters_; }

  // Moves the session to another process: `link` leads to a session there that arrives, and is this
  // one's. `done` is called once, from any thread. Any thread.
  void move(int link, Departure::Done done);

  // ---- for dispatch and handlers ---------------------------------------------------------------

  const Driver &driver() const { return device_->driver(); }
  Device &device() { return *device_; }
  Memory &memory() { return memory_; }
  Stacks &stacks() { return stacks_; }
  Arrays &arrays() { return arrays_; }
  Textures &textures() { return textures_; }
  UploadStaging &upload_staging() { return upload_staging_; }
  LateAreas &late_areas() { return late_areas_; }
  // Whether the guest may ask for uploads by hash.
  bool may_ask_for_uploads() const { return upload_cache_; }
  // The uploads that are kept for it; null when it may not ask, or there is no folder for them.
  const KeptUploads &kept_uploads() const { return kept_uploads_; }
  Transfers &transfers() { return transfers_; }
  // The memory shared with the guest; null until the guest has asked for it.
  Region *region() { return region_.get(); }
  // Makes it; null when this connection or this driver does not allow it.
  Region *open_region();
  Graphs &graphs() { return graphs_; }
  Links &links() { return links_; }
  Libraries &libraries() { return libraries_; }
  Detours &detours() { return detours_; }
  // Gets a handle of cuBLAS for the session. The memory of one is its slot's; of more it counts as
  // that of modules does. Returns a status of cuBLAS. May block; any thread. `may_wait`: for
  // handles that are ending, whose memory is there for this one then; the leader may not.
  int take_cublas_handle(CublasHandle *handle, bool may_wait);
  // Ends one that nobody uses any more, later. Any thread.
  void give_cublas_handle(std::shared_ptr<CublasHandle> handle);
  Chains &download_chains() { return download_chains_; }
  HostFunctions &host_functions() { return host_functions_; }
  StreamWaits &stream_waits() { return stream_waits_; }
  StreamMarks &stream_marks() { return stream_marks_; }
  Pages &pages() { return pages_; }
  CarriedPages &carried_pages() { return carried_pages_; }
  // Carries pages without the driver. The leader's.
  template <class Carry>
  bool carry(Carry with) {
    const bool watched = watched_;
    watch_ends();            // only one of them may
    carried_pages_.begin();  // it has carried out all before
    if (with(carried_pages_)) return true;
    if (watched) watch_begins();
    return false;
  }
  // Of the PagesUpload that is being carried out: which runs were not carried before its turn; none
  // where none was. The leader's.
  std::vector<uint32_t> left_of_pages() { return std::exchange(left_of_pages_, {}); }
  // Whether the driver may keep the leader waiting for a function of the guest, if that starts
  // anything. The leader's.
  bool may_be_kept_waiting() const {
    return keepers_.load() != 0 && host_functions_.pending() && device_->page_porter();
  }
  // While there is one, another thread may keep everybody waiting who starts work, as a driver does
  // while it loads code. Made by the leader, before it hands over what does that.
  class Keeps {
   public:
    explicit Keeps(Session &session) : session_(session) {
      session_.keepers_.fetch_add(1);
      for (unsigned left; (left = session_.reads_.load()) != 0;) session_.reads_.wait(left);
    }
    ~Keeps() { session_.keepers_.fetch_sub(1); }
    Keeps(const Keeps &) = delete;
    Keeps &operator=(const Keeps &) = delete;

   private:
    Session &session_;
  };
  // While there is one, another thread reads pages by copies, for which a function may wait. They
  // end soon: nothing that keeps them waiting begins meanwhile.
  class ReadsPages {
   public:
    explicit ReadsPages(Session &session) : session_(session) { session_.reads_.fetch_add(1); }
    ~ReadsPages() {
      session_.reads_.fetch_sub(1);
      session_.reads_.notify_all();
    }
    ReadsPages(const ReadsPages &) = delete;
    ReadsPages &operator=(const ReadsPages &) = delete;

   private:
    Session &session_;
  };
  Counters &count() { return *counters_; }
  // The number of the command that is being carried out. The leader's.
  uint64_t sequence() const { return sequence_; }
  uint64_t id() const { return id_; }
  const Sharer &sharer() const { return memory_.sharer(); }
  const Program &program() const { return program_; }
  // Takes a connection to a peer's session (memory/peers.h): when that ends, this session does.
  void watch_peer(int fd);
  // Whether the session is ending. Any thread.
  bool is_ending() const { return ending_.load(); }
  // Whether the guest has hung up or the session is ending, so that nobody waits for answers. What
  // the guest has sent before may still be carried out.
  bool is_left_alone() const { return left_alone_.load() || ending_.load(); }

  // Returns what all work passes on its way to the device.
  Gate &gate() { return gate_; }

  Objects &objects() { return objects_; }
  // What would make them again elsewhere.
  Recipes &recipes() { return recipes_; }
  // Notes what keeps the session from going on on another GPU, from any thread; and looks whether
  // it still does, which is the leader's.
  void hinder(Hindrance hindrance);
  void reconsider(Hindrance hindrance);
  // Any thread may send answers.
  Answers &answers() { return answers_; }
  // Whether the guest may have one more object of this kind (session_limits.h); the first time that
  // it may not, the log says so.
  template <class T>
  bool has_room();

  // Tells the counters how much memory the guest has now.
  void count_memory();
  // Whether all of these device addresses are the session's to use.
  bool reachable(uint64_t address, uint64_t size) { return memory_.reachable(address, size); }

  // Receives the payload of the bulk frame being carried out: `length` bytes and their padding, for
  // which `to` has room. The frame is overwritten. False when the connection has ended, and so has
  // the session then. The leader's.
  bool payload(void *to, size_t length);

  // To be called once for each posted command, with its result: an error is told to the guest, and
  // with the next answer. The leader's.
  void posted(uint16_t op, CUresult result) {
    idle_owed_ = true;
    ++posted_count_;
    if (result != CUDA_SUCCESS) [[unlikely]]
      answers_.fault(op, result, posted_count_);
  }
  // Carries out a posted command in which the driver may wait for the whole device, and so for a
  // function of the guest: on another thread while such a function is pending.
  void posted_aside(uint16_t op, std::function<CUresult()> work);
  // Ends the session because the guest broke a rule, which `what` says for the log. From any
  // thread.
  void violation(const std::string &what);

  // ---- waiting ---------------------------------------------------------------------------------

  // The same as those of ThreadPool.
  bool hand_over() {
    if (!ThreadPool::leads()) return threads_.hand_over();
    const bool watched = watched_;
    watch_ends();
    if (threads_.hand_over()) return true;
    if (watched) watch_begins();
    return false;
  }
  void run(std::function<void()> job) { threads_.run(std::move(job)); }

  // Carry out a driver call that may block, `block`, and answer it. When there is something to wait
  // for, for longer than a moment, another thread leads meanwhile. The first is for a call that
  // waits for all streams, the second for one that waits for a stream, the third for one that waits
  // for an event.
  template <class Block>
  void wait(uint64_t request, Block block) {
    if (!transfers_.pending() && soon([this] { return objects_.done(); }))
      return answers_.synchronised(request, block());
    const uint64_t sequence = sequence_;
    const uint64_t orphans = objects_.orphans();
    hand_over();
    const CUresult result = block();
    objects_.forget_orphans(orphans);
    transfers_.settle(sequence, nullptr, true);
    answers_.synchronised(request, result);
  }
  template <class Block>
  void wait(uint64_t request, const Stream &stream, Block block) {
    if (!transfers_.pending() && soon([&] { return objects_.done(stream); }))
      return answers_.synchronised(request, block());
    const uint64_t sequence = sequence_;
    objects_.pin(stream.object);
    hand_over();
    const CUresult result = block();
    objects_.unpin(stream.object);
    transfers_.settle(sequence, &stream);
    answers_.synchronised(request, result);
  }
  template <class Block>
  void wait(uint64_t request, CUevent event, Block block) {
    if (!transfers_.pending() && soon([&] { return objects_.done(event); }))
      return answers_.synchronised(request, block());
    const uint64_t sequence = sequence_;
    objects_.pin(event);
    hand_over();
    const CUresult result = block();
    objects_.unpin(event);
    transfers_.settle(sequence);
    answers_.synchronised(request, result);
  }
  // Answers a query whose result is not CUDA_ERROR_NOT_READY.
  void answer_query(uint64_t request, CUresult result);
  // Tells the guest later, once the event is done, that what `handle` names is done. `own`: the
  // event was made for this and is destroyed then.
  void watch(uint64_t handle, uint64_t request, CUevent event, bool own);

  // ---- modules ---------------------------------------------------------------------------------

  LoadedModules &loaded() { return loaded_; }
  PendingImages &pending_images() { return pending_images_; }
  ExpectedModules &expected() { return expected_; }
  // Notes that the guest uses a module, so that the program's next session may expect it.
  void note_used(const Module &module);
  // Has to be held while limits of the context are read and set.
  std::mutex &limits_mutex() { return limits_mutex_; }
  // Loads a module. CUDA_ERROR_OUT_OF_MEMORY where the session's modules would take more of the
  // device's memory than they may, or the driver's error. Any thread; one waits for the other.
  // `noted` says of what, for who does the same elsewhere.
  CUresult load_module(LoadLog::Load noted, Compiling *compiling, std::unique_ptr<Module> *module);
  LoadLog &load_log() { return load_log_; }
  // To be called when the guest takes a module that was expected, and before and after one is
  // unloaded.
  void claimed(const Module &module, uint64_t handle);
  void unloading(const Module &module);
  void unloaded(const Module &module);
  // Whether the heap of kernels can no longer be set to another size. Any thread.
  bool heap_is_fixed();
  // The same of the buffer of what they print, which has its size once one has been launched, here
  // or where the session was before.
  bool printing_is_fixed();
  // Whether one has where it was before.
  bool has_printed() const { return has_printed_.load(); }
  // Makes a variable of a module memory that the guest may use.
  void make_reachable(Module *module, const Variable &variable);
  ImageRoom &image_room() { return image_room_; }
  void drop_functions_of(const Module *module);

  // ---- of a session that arrives from another process: migration.cc

  // Whether it has not arrived yet. The leader's, as the rest.
  bool arrives() const { return arrival_ != nullptr; }
  // Takes up a part of what it is. False when it makes no sense.
  bool take_state(uint32_t kind, std::span<const uint8_t> bytes);
  // From the answer on it is here.
  void arrive(const wire_MoveCommit &in_place);
  CUresult elapsed(uint64_t start, CUevent start_object, uint64_t end, CUevent end_object,
                   float *milliseconds) {
    return moved_events_.elapsed(start, start_object, end, end_object, milliseconds);
  }

  // Waits for all work, and gives back everything that the session owns (`over`) or all that a
  // reset of the context ends. Returns the first error.
  CUresult reset(bool over);

 private:
  Session(std::shared_ptr<Device> device, SessionOptions options, int fd, int wake_fd);

  friend class Departure;

  // ---- moving: migration.cc

  enum class Parking { kNot, kWanted, kParked, kOver };
  bool take_connection();
  // Whether its connection is, or is going to be, one that is kept over cuts.
  bool keeps_over_cuts() const { return reconnection_.grace().count() != 0; }
  uint64_t away_ms() const;
  void has_been_away(uint64_t ms);
  void has_arrived();
  void park();
  std::string come_to_rest();
  void await_orphans();
  bool look(const std::function<void()> &what);
  bool await_parked(std::string *why);
  uint64_t stopped_ns();
  void unpark(bool moved);
  bool begin_commit();
  void end_commit(bool moved);
  bool has_moved();

  void lead();
  bool next_frame();
  void all_is_taken_up();
  bool nothing_comes();
  void close_group_before_wait(size_t need);
  bool await_header(struct wire_header *head);
  void take_up(uint16_t op);
  void carry_out(uint16_t op, FrameReader &in);
  bool was_carried(uint16_t op);
  bool discard_payload();
  bool malformed(uint16_t op, const std::string &why);
  bool ended_within(uint16_t op);
  // Makes variables reachable that the guest was told of with the loads of their modules.
  void adopt_variables();
  void finish();
  bool release();
  void satisfy_waits();
  void say_end();
  void linger();
  SessionEnd reap();
  void watch();
  bool hung_up();
  bool comes_back();
  std::chrono::steady_clock::time_point away_until(
      std::chrono::steady_clock::time_point since) const;
  void tell_away();
  void wake_reaper();
  void end(EndReason reason, const std::string &message);
  GateOptions limited(GateOptions options, const SessionOptions &session);
  uint64_t taken_elsewhere() const;
  bool has_room(size_t count, size_t most, const char *what);
  bool waits_for_guest();
  void watch_begins() {
    watched_ = true;
    watchman_.carrying(payload_left_, sequence_);
  }
  void watch_ends() {
    if (!watched_) [[likely]]
      return;
    watched_ = false;
    watchman_.reading();
  }
  void close_group();
  bool still_has(Hindrance hindrance) const;
  void call_guest(uint64_t function, uint64_t call, CUresult status);

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Counters> counters_;
  const uint64_t id_;
  const Program program_;
  const std::chrono::milliseconds patience_;
  const std::chrono::milliseconds stop_patience_;
  const std::chrono::milliseconds rest_patience_;
  const uint64_t module_limit_;
  const std::function<void(const ExpectedModule &)> on_used_;
  const std::function<void(const std::optional<Away> &)> on_away_;
  const std::function<void()> on_closing_;
  const std::function<void(const SessionEnd &)> on_end_;
  const int fd_;
  const int wake_fd_;  // wakes the reaper
  const std::unique_ptr<Trace> trace_;

  Reconnection reconnection_;
  // Since when the guest's connection has been cut, by which it may come back; else none.
  std::atomic<bool> said_goodbye_{false};
  std::atomic<std::chrono::steady_clock::time_point> away_since_{};
  std::mutex away_mutex_;  // innermost
  // Until when it is waited for, as was told last; else none.
  std::chrono::steady_clock::time_point told_until_{};
  std::unique_ptr<Records> records_;  // null: the connection is none of TLS
  Receiver receiver_;
  Answers answers_;
  ThreadPool threads_;
  Memory memory_;
  Stacks stacks_;
  Arrays arrays_;
  Textures textures_;
  UploadStaging upload_staging_;
  LateAreas late_areas_;
  std::unique_ptr<Region> region_;
  const bool upload_cache_;
  const KeptUploads kept_uploads_;
  Transfers transfers_;
  Chains download_chains_;  // one for each stream
  Pages pages_;
  LoadedModules loaded_;
  PendingImages pending_images_;
  ExpectedModules expected_;
  UsedModules used_;
  Links links_;
  HostFunctions host_functions_;
  CarriedPages carried_pages_;
  std::vector<uint32_t> left_of_pages_;
  std::atomic<unsigned> keepers_{0}, reads_{0};
  Watchman watchman_;
  StreamWaits stream_waits_;
  StreamMarks stream_marks_;
  Gate gate_;

  Libraries libraries_;
  Detours detours_;

  Objects objects_;
  Graphs graphs_;
  Recipes recipes_;
  LoadLog load_log_;

  std::mutex limits_mutex_;
  std::atomic<bool> has_printed_{false};
  std::mutex load_mutex_;     // while a library is loaded and what it takes is measured
  std::mutex handles_mutex_;  // of the next three, and while a handle is made
  std::condition_variable handle_ended_;
  unsigned handles_ending_ = 0;
  bool has_slots_handle_ = false;
  std::atomic<size_t> module_count_{0};
  ImageRoom image_room_;
  bool room_refused_ = false;

  uint64_t sequence_ = 0;      // how many commands were taken up
  uint64_t posted_count_ = 0;  // how many of them were posted
  size_t payload_left_ = 0;    // bytes of the current frame's payload that are still to be received
  bool watched_ = false;       // the watchman has been told that a command is carried out
  bool idle_owed_ = false;     // the guest is to be told when all that came is carried out
  CUresult unclean_ = CUDA_SUCCESS;  // why the device cannot serve another session
  bool worn_ = false;  // it is clean, but its context has limits that cannot be put back

  std::atomic<unsigned> watches_{0};

  MovedEvents moved_events_;
  std::unique_ptr<Arrival> arrival_;
  const std::function<void()> on_arrived_;
  std::atomic<bool> park_wanted_{false};
  std::atomic<bool> orphans_awaited_{false};  // by a thread that does nothing else
  std::mutex parking_mutex_;                  // innermost
  std::condition_variable parking_changed_;
  Parking parking_ = Parking::kNot;
  std::atomic<pthread_t> leader_{};  // who leads, or has led last; 0: nobody will again
  std::string cannot_park_;
  std::chrono::steady_clock::time_point park_until_, stopped_at_;
  const std::function<void()> *look_ = nullptr;  // what the leader is to do between two commands
  std::mutex departure_mutex_;                   // outermost
  std::unique_ptr<Departure> departure_;

  std::mutex end_mutex_;
  std::vector<int> peer_fds_;
  std::condition_variable over_;
  std::atomic<bool> ending_{false};
  std::atomic<bool> left_alone_{false};  // the guest has hung up
  bool committing_ = false;              // it moves, unless the other process fails now
  bool arriving_ = false;                // another connection takes the place of this one's
  bool moved_ = false;                   // the guest's connection is another process's
  bool told_ = false;                    // the guest was told of the end
  bool at_rest_ = false;                 // the session is over, and the device has come to rest
  bool ended_ = false;                   // reason_ and end_message_ are set
  EndReason reason_ = EndReason::kClosed;
  std::string end_message_;
  bool released_ = false;
  bool reusable_ = false;
};

}  // namespace outboard
