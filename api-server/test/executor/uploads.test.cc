// Uploads that the server keeps and is asked for by hash: what it has and for whom, what becomes of
// what is damaged or too much, and what a guest may not.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "check.h"
#include "copies/upload_store.h"
#include "world.h"

using namespace outboard;

namespace {

constexpr uint64_t kPart = WIRE_BULK_MAX;

std::string hash_of(const std::string &bytes) {
  const Hash hash = blake2b({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
  return {reinterpret_cast<const char *>(hash.data()), sizeof hash};
}

std::string hashes_of(const std::string &bytes) {
  std::string all;
  for (size_t at = 0; at < bytes.size(); at += kPart) all += hash_of(bytes.substr(at, kPart));
  return all;
}

// A folder for the device's uploads, which goes with the test.
struct Folder {
  explicit Folder(uint64_t bytes = 64 * kPart) {
    char name[] = "/tmp/outboard-uploads-XXXXXX";
    CHECK(mkdtemp(name) != nullptr);
    World::upload_folder = name;
    World::upload_bytes = bytes;
  }
  ~Folder() {
    for (const std::string &inside : names("")) {
      for (const std::string &file : names("/" + inside)) {
        ::unlink((path() + "/" + inside + "/" + file).c_str());
      }
      ::rmdir((path() + "/" + inside).c_str());
    }
    ::rmdir(path().c_str());
  }
  static const std::string &path() { return World::upload_folder; }
  static std::set<std::string> names(const std::string &in) {
    std::set<std::string> found;
    DIR *listing = opendir((path() + in).c_str());
    while (const dirent *entry = listing ? readdir(listing) : nullptr) {
      if (entry->d_name[0] != '.') found.insert(entry->d_name);
    }
    if (listing) closedir(listing);
    return found;
  }
  // What is kept is written by a thread.
  static void await(const std::string &tenant, const std::string &bytes) {
    const std::string name = "/" + tenant + "/" + file_of(bytes);
    while (access((path() + name).c_str(), F_OK) != 0) usleep(1000);
  }
  static std::string file_of(const std::string &bytes) {
    Hash hash;
    memcpy(hash.data(), hash_of(bytes).data(), sizeof hash);
    return name_of(hash);
  }
};

WorldOptions of(const std::string &tenant) {
  WorldOptions options;
  options.tenant = tenant;
  options.upload_cache = true;
  return options;
}

void keep(World &w, uint64_t to, const std::string &data) {
  wire_UploadKeep q{};
  q.destination = to;
  q.length = data.size();
  w.guest.put(WIRE_UploadKeep, q, data);
}

Answer ask(World &w, uint64_t to, uint64_t length, const std::string &hashes, uint64_t stream = 0) {
  wire_UploadAsk q{};
  q.destination = to;
  q.length = length;
  q.stream = stream;
  q.hashes_size = static_cast<uint32_t>(hashes.size());
  return w.guest.call(WIRE_UploadAsk, q, hashes);
}

// What is missing of the bytes, whose parts that are there have been copied.
uint64_t missing(World &w, uint64_t to, const std::string &bytes) {
  const Answer answer = ask(w, to, bytes.size(), hashes_of(bytes));
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  return answer.frame.as<wire_UploadAsk_reply>().missing;
}

}  // namespace

TEST(what_was_kept_is_there_for_the_next_session) {
  Folder folder;
  const uint64_t at = World::base();
  const std::string data = pattern(3 * kPart + 5000);
  {
    World w(of("ann"));
    w.guest.map(at, 4 << 20);
    CHECK_EQUAL(missing(w, at, data), 15u);
    for (size_t part = 0; part < data.size(); part += kPart) {
      keep(w, at + part, data.substr(part, kPart));
    }
    CHECK(w.guest.download(at, data.size()) == data);
    for (size_t part = 0; part < data.size(); part += kPart) {
      Folder::await("tenant-ann", data.substr(part, kPart));
    }
    CHECK_EQUAL(w.session->counters()->cached_uploads.load(), 0u);
  }
  World w(of("ann"));
  w.guest.map(at, 8 << 20);
  CHECK_EQUAL(missing(w, at, data), 0u);
  CHECK(w.guest.download(at, data.size()) == data);
  CHECK_EQUAL(w.session->counters()->cached_uploads.load(), 4u);
  CHECK_EQUAL(w.session->counters()->cached_bytes.load(), data.size());
  // Of some parts others are known.
  std::string other = data;
  other[kPart + 5] ^= 1;
  CHECK_EQUAL(missing(w, at + (4 << 20), other), 2u);
  w.guest.upload(at + (4 << 20) + kPart, other.substr(kPart, kPart));
  CHECK(w.guest.download(at + (4 << 20), other.size()) == other);
  // A part is known as a whole or not at all.
  CHECK_EQUAL(missing(w, at, data.substr(0, kPart - 8)), 1u);
}

TEST(what_another_tenant_sent_is_not_there) {
  Folder folder;
  const uint64_t at = World::base();
  const std::string data = pattern(kPart);
  for (const std::string name : {"ann", "../tenant-ann", "tenant-ann", ""}) {
    World w(of(name));
    w.guest.map(at, 2 << 20);
    CHECK_EQUAL(missing(w, at, data), 1u);
    CHECK(w.guest.download(at, kPart) == std::string(kPart, '\0'));
    if (name != "ann") continue;
    keep(w, at, data);
    Folder::await("tenant-ann", data);
    CHECK_EQUAL(missing(w, at, data), 0u);
  }
  const std::set<std::string> folders = Folder::names("");
  CHECK_EQUAL(folders.size(), 4u);
  CHECK(folders.count("tenant-ann") && folders.count("tenant-tenant-ann") &&
        folders.count("everybody"));
}

TEST(what_is_damaged_is_not_there) {
  Folder folder;
  const uint64_t at = World::base();
  const std::string data = pattern(2 * kPart);
  World w(of("ann"));
  w.guest.map(at, 2 << 20);
  for (size_t part = 0; part < data.size(); part += kPart) {
    keep(w, at, data.substr(part, kPart));
    Folder::await("tenant-ann", data.substr(part, kPart));
  }
  const std::string file = Folder::path() + "/tenant-ann/" + Folder::file_of(data.substr(0, kPart));
  const int fd = open(file.c_str(), O_WRONLY);
  CHECK(fd >= 0 && pwrite(fd, "x", 1, 1000) == 1 && close(fd) == 0);
  w.guest.memset32(at, 0, kPart / 2);
  CHECK_EQUAL(missing(w, at, data), 1u);
  CHECK(w.guest.download(at, 2 * kPart) == std::string(kPart, '\0') + data.substr(kPart));
  CHECK(access(file.c_str(), F_OK) != 0);
  keep(w, at, data.substr(0, kPart));
  Folder::await("tenant-ann", data.substr(0, kPart));
  CHECK_EQUAL(missing(w, at, data), 0u);
}

TEST(the_oldest_uploads_go) {
  Folder folder(4 * (kPart + 8192));  // with what each file costs the disk
  const uint64_t at = World::base();
  World w(of("ann"));
  w.guest.map(at, 2 << 20);
  const auto part = [](uint32_t i) { return pattern(kPart, i + 1); };
  for (uint32_t i = 0; i < 6; i++) {
    keep(w, at, part(i));
    Folder::await("tenant-ann", part(i));
    usleep(20000);  // file systems know the time by their clock's ticks
    if (i == 2) CHECK_EQUAL(missing(w, at, part(0)), 0u);  // used, and so not the oldest
  }
  for (uint32_t i : {0, 3, 4, 5}) CHECK_EQUAL(missing(w, at, part(i)), 0u);
  CHECK_EQUAL(missing(w, at, part(1)), 1u);
  CHECK_EQUAL(missing(w, at, part(2)), 1u);
}

TEST(uploads_count_what_they_take_of_the_disk) {
  constexpr uint64_t kLeast = 4096, kFiles = 8;
  Folder folder(kFiles * (kLeast + 4096));
  const uint64_t at = World::base();
  World w(of("ann"));
  w.guest.map(at, 2 << 20);
  // What is small is not kept, however much of it comes.
  for (uint32_t i = 0; i < 100; i++) keep(w, at, pattern(kLeast - 1, i));
  for (uint32_t i = 0; i < 3 * kFiles; i++) keep(w, at, pattern(kLeast, 1000 + i));
  Folder::await("tenant-ann", pattern(kLeast, 1000 + 3 * kFiles - 1));
  size_t files = 0;
  do {
    // The look at the folder comes behind the file.
    if (files > kFiles) usleep(1000);
    files = Folder::names("/tenant-ann").size();
  } while (files > kFiles);
  CHECK(files > 0);
  for (uint32_t i = 0; i < 100; i++) CHECK_EQUAL(missing(w, at, pattern(kLeast - 1, i)), 1u);
}

TEST(a_lock_that_never_ends_keeps_nothing_from_going) {
  constexpr uint64_t kBytes = 4096, kFiles = 8;
  Folder folder(kFiles * (kBytes + 4096));
  const uint64_t at = World::base();
  World w(of("ann"));
  w.guest.map(at, 2 << 20);
  CHECK_EQUAL(missing(w, at, pattern(kBytes)), 1u);  // and the tenant's folder is there
  const int other = open((Folder::path() + "/tenant-ann").c_str(), O_RDONLY | O_DIRECTORY);
  CHECK(other >= 0 && flock(other, LOCK_EX | LOCK_NB) == 0);
  for (uint32_t i = 0; i < 5 * kFiles; i++) keep(w, at, pattern(kBytes, i + 1));
  Folder::await("tenant-ann", pattern(kBytes, 5 * kFiles));
  CHECK(Folder::names("/tenant-ann").size() <= 2 * kFiles);
  close(other);
}

TEST(a_folder_that_others_may_read_is_not_used) {
  Folder folder;
  const std::string inside = Folder::path() + "/tenant-ann";
  CHECK(mkdir(inside.c_str(), 0700) == 0 && chmod(inside.c_str(), 0755) == 0);
  const uint64_t at = World::base();
  const std::string data = pattern(kPart);
  World w(of("ann"));
  w.guest.map(at, 2 << 20);
  keep(w, at, data);
  CHECK_EQUAL(missing(w, at, data), 1u);
  CHECK(w.guest.download(at, kPart) == data);
  CHECK(Folder::names("/tenant-ann").empty());
}

TEST(copies_of_what_is_known_keep_to_their_stream) {
  Folder folder;
  const uint64_t at = World::base();
  const std::string data = pattern(kPart);
  World w(of("ann"));
  w.guest.map(at, 2 << 20);
  w.load_kernels();
  keep(w, at, data);
  Folder::await("tenant-ann", data);
  w.guest.memset32(at, 0, kPart / 4);
  w.guest.synchronize();
  const uint64_t stream = w.guest.stream(1, CU_STREAM_NON_BLOCKING);
  w.gate(1, stream);
  // The answer does not wait for the stream, the copy does.
  const Answer answer = ask(w, at, kPart, hash_of(data), stream);
  CHECK_EQUAL(answer.frame.as<wire_UploadAsk_reply>().missing, 0u);
  w.guest.memset32(at + 4, 7, 1, stream);
  CHECK(w.guest.download(at, 8) == std::string(8, '\0'));
  World::fake().open_gate(1);
  std::string expected = data.substr(0, 16);
  expected.replace(4, 4, packed(7));
  CHECK(w.guest.download(at, 16, stream) == expected);
}

TEST(asks_for_what_is_not_the_guests) {
  Folder folder;
  const uint64_t at = World::base();
  World w(of("ann"));
  w.guest.map(at, 2 << 20);
  const std::string hashes = hashes_of(pattern(2 * kPart + 1));
  CHECK_EQUAL(ask(w, at, 2 * kPart + 1, hashes).reply.result, CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(ask(w, at - 8, 2 * kPart + 1, hashes).reply.result, CUDA_ERROR_INVALID_VALUE);
  CHECK_EQUAL(ask(w, at, 8, hash_of("a"), wire_handle(WIRE_KIND_STREAM, 1, 9)).reply.result,
              CUDA_ERROR_INVALID_HANDLE);
  w.guest.synchronize();
}

TEST(hashes_that_are_not_those_of_the_parts) {
  Folder folder;
  const uint64_t at = World::base();
  const std::string one = hash_of("a");
  const auto refused = [&](uint64_t length, const std::string &hashes) {
    World w(of("ann"));
    w.guest.map(at, 2 << 20);
    wire_UploadAsk q{};
    q.destination = at;
    q.length = length;
    q.hashes_size = static_cast<uint32_t>(hashes.size());
    w.guest.ask(WIRE_UploadAsk, q, hashes);
    w.expect_violation("its hashes are not those of its parts");
  };
  refused(0, "");
  refused(0, one);
  refused(8, "");
  refused(8, one.substr(8));
  refused(8, one + one);
  refused(kPart + 1, one);
  refused(UINT64_MAX, one);
  std::string many;
  for (unsigned i = 0; i <= WIRE_UPLOAD_PARTS; i++) many += one;
  refused((WIRE_UPLOAD_PARTS + 1) * kPart, many);
}

TEST(sessions_that_have_no_upload_cache) {
  Folder folder;
  {
    World w;
    wire_UploadAsk q{};
    q.length = 8;
    q.hashes_size = sizeof(Hash);
    w.guest.ask(WIRE_UploadAsk, q, hash_of("a"));
    w.expect_violation("without an upload cache");
  }
  World w;
  wire_UploadKeep q{};
  q.length = 8;
  w.guest.put(WIRE_UploadKeep, q, "12345678");
  w.expect_violation("without an upload cache");
}
