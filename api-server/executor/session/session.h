// One session: a guest's connection and everything it owns on the device, from the first frame
// after the Welcome to the release of the last byte.
//
// Threads: a crew (crew.h), of which one leads and decodes; everything not said to be otherwise
// belongs to the leader. And a warden, which sees to it that the session ends within bounded time
// once the guest is gone or the session is stopped, and then reports.
//
// Locks, never two at a time except in this order:
//   loaded_mutex_ | pins_mutex_ | output_mutex_ -> Sender
//   Transfers, Staging, ModuleStore, Crew, Gate, HostFunctions: innermost
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/chains.h"
#include "base/counters.h"
#include "base/handles.h"
#include "copies/region.h"
#include "copies/transfers.h"
#include "copies/uploads.h"
#include "device/device.h"
#include "device/output.h"
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
#include "session/crew.h"
#include "session/graphs.h"
#include "session/host_functions.h"
#include "session/pages.h"
#include "wire/frame.h"
#include "wire/receiver.h"
#include "wire/sender.h"
#include "wire_calls.h"

namespace outboard {

enum class EndReason { kClosed, kViolation, kDevice, kStopped, kLimit };

struct SessionEnd {
  EndReason reason;
  std::string message;                    // one sentence for the log
  bool reusable;                          // whether the device may serve another session
  std::vector<ExpectedModule> modules{};  // that it used
};

struct SessionOptions {
  int fd = -1;  // duplicated
  std::vector<uint8_t> leftover;
  uint64_t id = 0;
  uint64_t memory_limit = 0;
  // Beside it, of the device's memory: what kernels reach of pinned memory of the host, and code
  // and variables of modules.
  uint64_t pinned_limit = 0;
  uint64_t module_limit = uint64_t{512} << 20;
  // Of the host's memory: images of loaded modules; 0: as much as the device's may take.
  uint64_t image_limit = 0;
  std::string tenant;  // whose it is; empty: nobody's in particular
  uint64_t group = 0;  // the program's sessions on this machine; 0: this one is all
  // Whether it may ask for uploads by hash, where the device has a store of them.
  bool upload_cache = false;
  std::vector<ExpectedModule> expected;  // told to the guest, to be loaded at once
  GateOptions gate;
  TraceOptions trace;
  // How long a launch may take; 0: for ever. One that takes longer ends the session, and the guest
  // is told `kernel_sentence` and the kernel's name.
  std::chrono::milliseconds most_kernel{0};
  std::string kernel_sentence;
  // How long the device may take to come to rest once the session is over: when the guest has
  // left, and when it is to be over now.
  std::chrono::milliseconds patience{10000};
  std::chrono::milliseconds stop_patience{1000};
  // Called for each module that it uses, once, from any thread of the session; may be empty.
  std::function<void(const ExpectedModule &)> on_used;
  // Called once, from a thread of the session.
  std::function<void(const SessionEnd &)> on_end;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  // Throws Error.
  static std::shared_ptr<Session> start(std::shared_ptr<Device> device, SessionOptions options);
  ~Session();

  // Ends it from the server's side; the guest is told why.
  void stop(const std::string &message);
  const std::shared_ptr<Counters> &counters() const { return counters_; }

  // ---- for dispatch and handlers ---------------------------------------------------------------

  const Driver &driver() const { return device_->driver(); }
  Device &device() { return *device_; }
  Memory &memory() { return memory_; }
  Arrays &arrays() { return arrays_; }
  Textures &textures() { return textures_; }
  Uploads &uploads() { return uploads_; }
  bool may_ask_for_uploads() const { return upload_cache_; }
  // Null: it may not, or there is no folder for them.
  const KeptUploads &kept_uploads() const { return kept_uploads_; }
  Transfers &transfers() { return transfers_; }
  // Null until the guest has asked for it.
  Region *region() { return region_.get(); }
  // Null: this connection or this driver does not allow it.
  Region *open_region();
  Graphs &graphs() { return graphs_; }
  Links &links() { return links_; }
  Chains &downloads() { return downloads_; }
  HostFunctions &host_functions() { return host_functions_; }
  StreamWaits &stream_waits() { return stream_waits_; }
  Pages &pages() { return pages_; }
  Counters &count() { return *counters_; }
  uint64_t sequence() const { return sequence_; }
  uint64_t id() const { return id_; }
  const Sharer &sharer() const { return memory_.sharer(); }
  const Program &program() const { return program_; }
  // The session is over when that of a peer is: the connection to it has an end then.
  void watch_peer(int fd);
  bool is_ending() const { return ending_.load(); }
  // Nobody is there to see what comes of waiting, though what it sent may still be taken up.
  bool is_left_alone() const { return left_alone_.load() || ending_.load(); }

  // What starts work on the device passes here.
  Gate &gate() { return gate_; }

  // Handles.
  template <class T>
  bool can_mint(uint64_t handle) const;
  // Whether the guest may have one more (session_limits.h); says so in the log otherwise.
  template <class T>
  bool has_room();
  void keep(uint64_t handle, CUstream stream);
  void keep(uint64_t handle, CUevent event) {
    events_.keep(handle, event);
    ++event_count_;
  }
  void keep(uint64_t handle, const Function &function) { functions_.keep(handle, function); }
  // A stream found to be used is not held by a download, or is waited for.
  bool find(uint64_t handle, CUstream *stream);
  bool find(uint64_t handle, Stream *stream);
  bool find(uint64_t handle, CUevent *event);
  bool find(uint64_t handle, CUfunction *function);
  Function *find_function(uint64_t handle) { return functions_.find(handle); }
  // For calls that only wait.
  bool peek(uint64_t handle, Stream *stream);
  bool peek(uint64_t handle, CUevent *event) { return find(handle, event); }
  bool take(uint64_t handle, CUstream *stream);
  bool take(uint64_t handle, CUevent *event);
  // There are tokens for it, which go with it.
  void note_exported(uint64_t event) { exported_events_.insert(event); }
  // Destroys what was taken; when somebody waits for it, after that.
  CUresult retire(CUstream stream);
  CUresult retire(CUevent event);

  // Tells the counters how much memory the guest has now.
  void count_memory();
  bool reachable(uint64_t address, uint64_t size) { return memory_.reachable(address, size); }

  // The rest of a bulk frame.
  bool payload(void *to, size_t length);

  // Results and answers. All but those of posted commands may come from any thread.
  void posted(uint16_t op, CUresult result) {
    idle_owed_ = true;
    ++posted_count_;
    if (result != CUDA_SUCCESS) [[unlikely]]
      fault(op, result, posted_count_);
  }
  // What the driver may wait for the whole device in, and so for the guest: aside then.
  void posted_aside(uint16_t op, std::function<CUresult()> work);
  void answer(uint64_t request, CUresult result);
  // `reply` begins with a wire_reply; `tail` follows it, padded.
  void answer(uint64_t request, CUresult result, wire_reply *reply, size_t size,
              const void *tail = nullptr, size_t tail_size = 0);
  // The answer of a call that has synchronised: what kernels printed goes before it.
  void synchronised(uint64_t request, CUresult result);
  // The last piece of a download and its answer, in one go.
  void answer_with_data(uint64_t request, uint64_t offset, const void *data, size_t length);
  bool send_data(uint64_t request, uint64_t offset, const void *data, size_t length);
  // The same for a piece that lies in the region. `last`: with its answer.
  void send_placed(uint64_t request, uint64_t offset, size_t length, uint32_t slot, bool last);
  // An answer that a descriptor goes along with.
  void answer_with_descriptor(uint64_t request, wire_reply *reply, size_t size, int descriptor);
  void push_done(uint64_t handle, uint64_t request);
  void push_call(uint64_t function, uint64_t call, CUresult status);
  void call_guest(uint64_t function, uint64_t call, CUresult status);
  void flush_output();
  // Notes that text may come.
  void launched() { launched_.store(true, std::memory_order_relaxed); }

  // The guest broke a rule: the session ends. From any thread.
  void violation(const std::string &what);

  // ---- waiting ---------------------------------------------------------------------------------

  bool hand_over() { return crew_.hand_over(); }
  void post(std::function<void()> job) { crew_.post(std::move(job)); }

  // Whether nothing is left to wait for; errors count as that.
  bool done();
  // The same, however many streams there are to be asked.
  bool all_done();
  bool done(const Stream &stream) { return done(stream.object); }
  bool done(CUstream stream) { return driver().cuStreamQuery(stream) != CUDA_ERROR_NOT_READY; }
  bool done(CUevent event) { return driver().cuEventQuery(event) != CUDA_ERROR_NOT_READY; }
  // Whether a copy queued on the stream now would run at once.
  bool quiet(const Stream &stream);

  // A stream beside those of the guest; false: there are as many as it may have. Any thread.
  bool take_side_stream();
  void give_side_stream() { side_streams_.fetch_sub(1); }

  // Keeps what is waited for from being destroyed.
  void pin(const Stream &stream) { pin(stream.object); }
  void unpin(const Stream &stream) { unpin(stream.object); }
  void pin(void *object);
  void unpin(void *object);

  // Carries out a driver call that may block and answers it. When there is something to wait for,
  // another thread leads meanwhile.
  template <class Block>
  void wait(uint64_t request, Block block) {
    if (!transfers_.pending() && done()) return synchronised(request, block());
    const uint64_t sequence = sequence_;
    const uint64_t orphans = orphans_.load();
    hand_over();
    const CUresult result = block();
    forget_orphans(orphans);
    transfers_.settle(sequence, nullptr, true);
    synchronised(request, result);
  }
  template <class Block>
  void wait(uint64_t request, const Stream &stream, Block block) {
    if (!transfers_.pending() && done(stream)) return synchronised(request, block());
    const uint64_t sequence = sequence_;
    pin(stream);
    hand_over();
    const CUresult result = block();
    unpin(stream);
    transfers_.settle(sequence, &stream);
    synchronised(request, result);
  }
  template <class Block>
  void wait(uint64_t request, CUevent event, Block block) {
    if (!transfers_.pending() && done(event)) return synchronised(request, block());
    const uint64_t sequence = sequence_;
    pin(event);
    hand_over();
    const CUresult result = block();
    unpin(event);
    transfers_.settle(sequence);
    synchronised(request, result);
  }
  // The answer of a query that is not NOT_READY.
  void answer_query(uint64_t request, CUresult result);
  // Tells the guest when the event is done. `own`: the event is destroyed then.
  void watch(uint64_t handle, uint64_t request, CUevent event, bool own);

  // ---- modules ---------------------------------------------------------------------------------

  LoadedModules &loaded() { return loaded_; }
  PendingImages &pending_images() { return pending_images_; }
  ExpectedModules &expected() { return expected_; }
  // The program's next session may expect it.
  void note_used(const Module &module);
  // While limits of the context are read and set.
  std::mutex &limits_mutex() { return limits_mutex_; }
  // Loads a library unless it takes more of the device's memory than modules may. Any thread, one
  // at a time.
  CUresult load_module(std::shared_ptr<const Image> image, Compiling *compiling,
                       std::unique_ptr<Module> *module);
  // Room for images changes hands; a sum that is wrong ends the session.
  void claimed(const Module &module);
  void unloaded(const Module &module);
  // Whether the heap of kernels can no longer be set to another size. Any thread.
  bool heap_is_fixed();
  void make_reachable(Module *module, const Variable &variable);
  ImageRoom &image_room() { return image_room_; }
  void drop_functions_of(const Module *module);

  // Waits for all work and gives back everything the session owns, or all that is the context's.
  CUresult reset(bool over);

 private:
  Session(std::shared_ptr<Device> device, SessionOptions options, int fd, int wake_fd);

  void lead();
  bool next_frame();
  bool nothing_comes();
  void pause_before_wait(size_t need);
  // Makes the variables of modules reachable that came with their loads.
  void adopt_variables();
  void finish();
  bool release();
  void satisfy_waits();
  void say_end();
  void linger();
  SessionEnd warden();
  void watch();
  void end(EndReason reason, const std::string &message);
  GateOptions limited(GateOptions options, const SessionOptions &session);
  void fault(uint16_t op, CUresult result, uint64_t sequence);
  uint64_t taken_elsewhere() const;
  bool has_room(size_t count, size_t most, const char *what);
  void fill(wire_reply *reply, uint64_t request, CUresult result);
  void forget_orphans(uint64_t seen) { orphans_.compare_exchange_strong(seen, 0); }
  CUresult destroy(CUstream stream);

  struct Pin {
    unsigned count = 0;
    std::function<void()> then;
  };

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Counters> counters_;
  const uint64_t id_;
  const Program program_;
  const std::chrono::milliseconds patience_;
  const std::chrono::milliseconds stop_patience_;
  const uint64_t module_limit_;
  const std::function<void(const ExpectedModule &)> on_used_;
  const std::function<void(const SessionEnd &)> on_end_;
  const int fd_;
  const int wake_fd_;  // wakes the warden
  const std::unique_ptr<Trace> trace_;

  Receiver receiver_;
  Sender sender_;
  Crew crew_;
  Memory memory_;
  Arrays arrays_;
  Textures textures_;
  Uploads uploads_;
  std::unique_ptr<Region> region_;
  const bool upload_cache_;
  const KeptUploads kept_uploads_;
  Transfers transfers_;
  Chains downloads_;  // by stream
  Pages pages_;
  Output *const output_;
  LoadedModules loaded_;
  PendingImages pending_images_;
  ExpectedModules expected_;
  UsedModules used_;
  Links links_;
  HostFunctions host_functions_;
  StreamWaits stream_waits_;
  Gate gate_;

  HandleTable<Stream, WIRE_KIND_STREAM> streams_;
  HandleTable<CUevent, WIRE_KIND_EVENT> events_;
  HandleTable<Function, WIRE_KIND_FUNCTION> functions_;
  Graphs graphs_;
  unsigned stream_count_ = 0;
  size_t event_count_ = 0;
  std::set<uint64_t> exported_events_;

  std::mutex limits_mutex_;
  std::mutex load_mutex_;  // while a library is loaded and what it takes is measured
  std::atomic<size_t> module_count_{0};
  ImageRoom image_room_;
  bool room_refused_ = false;

  uint64_t sequence_ = 0;      // frames so far
  uint64_t posted_count_ = 0;  // posted commands so far
  size_t payload_left_ = 0;    // of the bulk frame being carried out
  bool idle_owed_ = false;
  CUresult unclean_ = CUDA_SUCCESS;  // why the device cannot serve another session
  bool worn_ = false;  // it is clean, but its context has limits that cannot be put back

  std::atomic<int> async_{0};         // first error of posted commands not yet reported
  std::atomic<int> sticky_{0};        // error that the context does not recover from
  std::atomic<uint64_t> orphans_{0};  // streams destroyed with work pending, not yet waited for
  std::atomic<bool> launched_{false};
  std::atomic<unsigned> watches_{0};
  std::atomic<unsigned> side_streams_{0};

  std::mutex output_mutex_;  // reading what kernels printed and sending it
  std::mutex pins_mutex_;
  std::map<void *, Pin> pins_;

  std::mutex end_mutex_;
  std::vector<int> peer_fds_;
  std::condition_variable over_;
  std::atomic<bool> ending_{false};
  std::atomic<bool> left_alone_{false};  // the guest has hung up
  bool told_ = false;                    // the guest, of the end
  bool at_rest_ = false;                 // the device, once the session is over
  bool ended_ = false;                   // what follows is set
  EndReason reason_ = EndReason::kClosed;
  std::string end_message_;
  bool released_ = false;
  bool reusable_ = false;
};

}  // namespace outboard
