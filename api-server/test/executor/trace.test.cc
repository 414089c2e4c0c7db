// What a session's trace holds, and that nothing is written where none is wanted.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "base/log.h"
#include "check.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kGranule = WIRE_GRANULE;

struct Record : trace_record {
  std::string text;  // its name
};

class TraceFile {
 public:
  TraceFile() {
    char pattern[] = "/tmp/outboard-trace-XXXXXX";
    const int fd = mkstemp(pattern);
    CHECK(fd >= 0);
    close(fd);
    path = pattern;
  }
  ~TraceFile() { unlink(path.c_str()); }

  void read() {
    const int fd = open(path.c_str(), O_RDONLY);
    CHECK(fd >= 0);
    CHECK_EQUAL(pread(fd, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    CHECK(memcmp(&header.magic, "OBTRACE1", 8) == 0);
    CHECK(header.head <= header.record_count);
    std::string strings(header.strings_used, 0);
    CHECK(pread(fd, strings.data(), strings.size(), static_cast<off_t>(header.strings_at)) ==
          static_cast<ssize_t>(strings.size()));
    std::vector<std::string> names = {""};
    for (size_t at = 0; at < strings.size();) {
      uint32_t length;
      memcpy(&length, &strings[at], sizeof length);
      names.push_back(strings.substr(at + 4, length));
      at += 4 + ((length + 3) & ~3u);
    }
    records.clear();
    for (uint64_t i = 0; i < header.head; i++) {
      Record record;
      trace_record &raw = record;
      CHECK(pread(fd, &raw, sizeof raw, static_cast<off_t>(header.records_at + i * sizeof raw)) ==
            static_cast<ssize_t>(sizeof raw));
      CHECK_EQUAL(record.state, (i + 1) * 2);
      CHECK(record.name < names.size());
      record.text = names[record.name];
      records.push_back(record);
    }
    close(fd);
  }
  std::vector<Record> all(trace_kind kind, const std::string &name = {}) const {
    std::vector<Record> found;
    for (const Record &record : records) {
      if (record.kind == kind && (name.empty() || record.text == name)) found.push_back(record);
    }
    return found;
  }
  Record one(trace_kind kind, const std::string &name = {}) const {
    const std::vector<Record> found = all(kind, name);
    CHECK_EQUAL(found.size(), 1u);
    return found[0];
  }

  std::string path;
  trace_header header;
  std::vector<Record> records;
};

WorldOptions traced(const TraceFile &file) {
  WorldOptions options;
  options.trace.file = file.path;
  options.trace.size = TRACE_BYTES_LEAST;
  return options;
}

void add(World &w, uint64_t stream) {
  w.guest.launch(function_handle(World::kAdd), stream,
                 packed(World::base()) + packed(uint64_t{1}) + packed(uint32_t{1}));
}

}  // namespace

TEST(commands_answers_and_kernels) {
  TraceFile file;
  const uint64_t before = trace_now();
  WorldOptions options = traced(file);
  options.trace.marks = {{"hello", before - 50, before - 50}, {"queue", before - 50, before - 10}};
  {
    World w(options);
    w.guest.map(World::base(), kGranule);                 // 1
    w.guest.upload(World::base(), std::string(1000, 0));  // 2
    w.load_kernels();
    w.guest.synchronize();
    for (int i = 0; i < 3; i++) add(w, 0);
    w.guest.synchronize();
    CHECK_EQUAL(w.guest.download(World::base(), 4), packed(uint32_t{3}));
  }
  const uint64_t after = trace_now();
  file.read();
  CHECK_EQUAL(file.header.role, static_cast<uint32_t>(TRACE_SERVER));
  CHECK_EQUAL(file.header.session, 7u);

  const Record queue = file.one(TRACE_ATTACH, "queue");
  CHECK_EQUAL(queue.at, before - 50);
  CHECK_EQUAL(queue.duration, 40u);
  CHECK_EQUAL(file.one(TRACE_ATTACH, "hello").duration, 0u);

  const Record upload = file.one(TRACE_COMMAND, "Upload");
  CHECK_EQUAL(upload.a, 2u);
  CHECK_EQUAL(upload.b, 1000u);
  CHECK_EQUAL(upload.c, 0u);
  const Record download = file.one(TRACE_COMMAND, "Download");
  CHECK_EQUAL(download.b, 4u);
  CHECK(download.c >= download.at && download.c <= download.at + download.duration);
  CHECK_EQUAL(file.all(TRACE_COMMAND, "cuCtxSynchronize").size(), 2u);

  // All commands have been taken up once, in order.
  uint64_t next = 1, last = 0;
  for (const Record &take : file.all(TRACE_TAKE)) {
    CHECK_EQUAL(take.b, next);
    CHECK_EQUAL(take.a, take.c - take.b + 1);
    CHECK(take.at >= last);
    last = take.at + take.duration;
    next = take.c + 1;
  }
  CHECK_EQUAL(next, download.a + 1);

  uint64_t launches = 0;
  std::map<uint64_t, uint64_t> groups;
  for (const Record &use : file.all(TRACE_USE, "add")) {
    launches += use.b;
    groups[use.a] = use.at;
  }
  CHECK_EQUAL(launches, 3u);
  const auto covered = [&](uint64_t sequence) {
    for (const Record &group : file.all(TRACE_GROUP)) {
      if (sequence >= group.c && sequence <= group.c + static_cast<uint64_t>(group.result))
        return 1;
    }
    return 0;
  };
  // Those between the two synchronisations.
  const auto syncs = file.all(TRACE_COMMAND, "cuCtxSynchronize");
  for (uint64_t s = syncs[0].a + 1; s < syncs[1].a; s++) CHECK_EQUAL(covered(s), 1);
  CHECK_EQUAL(covered(upload.a), 0);
  for (const Record &group : file.all(TRACE_GROUP)) {
    CHECK(groups.contains(group.a));
    CHECK(group.at >= syncs[0].at);
    CHECK(group.at + group.duration <= after);
    CHECK(group.duration > 0);
  }
  for (const Record &record : file.records) {
    if (record.kind == TRACE_ATTACH) continue;
    CHECK(record.at >= before && record.at + record.duration <= after);
  }
}

TEST(what_the_gate_holds) {
  TraceFile file;
  QuotaWords &words = World::quota_page().words();
  uint64_t let_go;
  {
    World w(traced(file));
    w.guest.map(World::base(), kGranule);
    w.load_kernels();
    w.guest.synchronize();
    const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
    w.guest.synchronize();
    words.limit.store(0);
    words.mode.store(kModeBlocks);
    add(w, stream);
    while (words.gate_waits.load() == 0) std::this_thread::yield();
    let_go = trace_now();
    words.mode.store(kModeOpen);
    World::quota_page().wake();
    CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(stream)).reply.result, CUDA_SUCCESS);
  }
  file.read();
  const Record held = file.one(TRACE_HELD);
  CHECK(held.at < let_go);
  CHECK(held.at + held.duration >= let_go);
  const std::vector<Record> groups = file.all(TRACE_GROUP);
  CHECK_EQUAL(groups.size(), 1u);
  CHECK_EQUAL(groups[0].a, held.a);
  CHECK_EQUAL(groups[0].b, held.b);
  CHECK(groups[0].b > 1);
}

// A wait that blocks hands the lead over; its command is recorded by the thread that waited.
TEST(a_wait_and_what_comes_meanwhile) {
  TraceFile file;
  {
    World w(traced(file));
    w.guest.map(World::base(), kGranule);
    w.load_kernels();
    w.guest.synchronize();
    const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
    const uint64_t other = w.guest.stream(2, CU_STREAM_NON_BLOCKING);
    w.gate(1, stream);
    const uint64_t waiting = w.guest.ask_synchronize_stream(stream);
    CHECK_EQUAL(w.guest.wait(w.guest.ask_synchronize_stream(other)).reply.result, CUDA_SUCCESS);
    World::fake().open_gate(1);
    CHECK_EQUAL(w.guest.wait(waiting).reply.result, CUDA_SUCCESS);
  }
  file.read();
  std::vector<Record> waits = file.all(TRACE_COMMAND, "cuStreamSynchronize");
  CHECK_EQUAL(waits.size(), 2u);
  if (waits[0].a > waits[1].a) std::swap(waits[0], waits[1]);
  const Record &outer = waits[0], &inner = waits[1];
  CHECK_EQUAL(outer.a + 1, inner.a);
  CHECK(outer.at < inner.at);
  CHECK(outer.at + outer.duration >= inner.c);
  CHECK(outer.thread != inner.thread);
}

TEST(nothing_without_a_file_and_a_session_without_a_trace) {
  WorldOptions options;
  options.trace.file = "/no/such/folder/trace";
  log_threshold(LogLevel::kError);
  World w(options);
  w.guest.map(World::base(), kGranule);
  w.load_kernels();
  add(w, 0);
  CHECK_EQUAL(w.guest.synchronize().result, CUDA_SUCCESS);
  CHECK_EQUAL(w.guest.download(World::base(), 4), packed(uint32_t{1}));
}

TEST(nothing_of_the_device_is_left) {
  TraceFile file;
  {
    World w;
    w.guest.synchronize();
  }
  const FakeLive idle = World::fake().live();
  {
    World w(traced(file));
    w.guest.map(World::base(), kGranule);
    w.load_kernels();
    add(w, 0);
    w.guest.synchronize();
  }
  const FakeLive now = World::fake().live();
  CHECK_EQUAL(now.streams, idle.streams);
  CHECK_EQUAL(now.events, idle.events);
}
