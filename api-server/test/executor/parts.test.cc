// The executor's parts by themselves.
#include <linux/mempolicy.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/handles.h"
#include "base/session_limits.h"
#include "base/span.h"
#include "check.h"
#include "device/memory_node.h"
#include "device/output.h"
#include "gate/kernel_times.h"
#include "images/image_room.h"
#include "images/module_store.h"
#include "memory/memory.h"
#include "wire/frame.h"
#include "wire/receiver.h"
#include "world.h"

using namespace outboard;

TEST(a_frame_reader_stays_failed) {
  alignas(8) uint8_t bytes[64] = {};
  auto *header = reinterpret_cast<wire_header *>(bytes);
  *header = {1, 0, 32};
  FrameReader in(bytes, 32);
  CHECK(in.body<wire_request>());
  CHECK_EQUAL(in.blob(8).size(), 8u);
  CHECK(!in.end());
  CHECK(in.failed());
  CHECK(in.body<wire_header>() == nullptr);
  CHECK_EQUAL(in.blob(1).size(), 0u);
  CHECK(!in.bulk(0));
  CHECK_EQUAL(std::string(in.why()), "it is longer than its command");
}

TEST(a_frame_reader_keeps_within_what_is_there) {
  alignas(8) uint8_t bytes[64] = {};
  auto *header = reinterpret_cast<wire_header *>(bytes);
  *header = {1, 0, 64};
  // The frame says 64 bytes, 24 are in memory.
  FrameReader in(bytes, 24);
  CHECK(in.body<wire_reply>());
  CHECK_EQUAL(in.blob(1).size(), 0u);
  CHECK(in.failed());
  FrameReader larger(bytes, 24);
  CHECK(larger.body<wire_end>());
  FrameReader too_large(bytes, 16);
  CHECK(too_large.body<wire_reply>() == nullptr);
  for (uint32_t blob : {0xffffffffu, 0xfffffff9u, 57u}) {
    FrameReader whole(bytes, 64);
    CHECK(whole.body<wire_header>());
    CHECK_EQUAL(whole.blob(blob).size(), 0u);
    CHECK(whole.failed());
  }
  FrameReader exact(bytes, 64);
  CHECK(exact.body<wire_header>());
  CHECK_EQUAL(exact.blob(56).size(), 56u);
  CHECK(exact.end());
}

TEST(spans_saturate) {
  CHECK_EQUAL(span_1d(10, 4), 40u);
  CHECK_EQUAL(span_1d(UINT64_MAX, 2), UINT64_MAX);
  CHECK_EQUAL(span_2d(100, 3, 10), 210u);
  CHECK_EQUAL(span_2d(100, 0, 10), 0u);
  CHECK_EQUAL(span_2d(UINT64_MAX, 3, 10), UINT64_MAX);
  CHECK_EQUAL(span_2d(UINT64_MAX - 5, 2, 10), UINT64_MAX);
}

TEST(room_for_images_never_falls_below_nothing) {
  ImageRoom room(100);
  CHECK(room.take(60, false));
  CHECK(!room.give_back(61, false));
  CHECK(room.take(100, false));
  CHECK(!room.take(1, false));
  CHECK(room.give_back(100, false));
  // What is expected has what is left, and no more can be claimed than that.
  CHECK(room.take(40, true));
  CHECK(!room.claim(41));
  CHECK(room.claim(40));
  CHECK(!room.give_back(1, true));
  CHECK(!room.take(61, false));
  CHECK(room.take(60, false));
  {
    ImageRoom::Taken taken(room, 1, true);
    CHECK(!taken.there());
    room.clear();
  }
  // All that is taken while others look for theirs is gone with the modules.
  {
    ImageRoom::Taken taken(room, 70, false);
    CHECK(taken.there());
    room.clear();
    CHECK(room.take(30, false));
  }
  CHECK(room.take(70, false));
  CHECK(!room.take(UINT64_MAX, false));
  CHECK(!room.take(UINT64_MAX, true));
}

TEST(images_are_complete_when_all_of_them_has_come) {
  PendingImage pending(Image::make(100));
  CHECK(!pending.complete());
  pending.arrived(50, 50);
  pending.arrived(0, 20);
  pending.arrived(10, 5);
  CHECK(!pending.complete());
  pending.arrived(30, 30);
  CHECK(!pending.complete());
  pending.arrived(15, 15);
  CHECK(pending.complete());
}

TEST(the_module_store_forgets_what_was_not_used_for_longest) {
  ModuleStore store(250000);
  const Hash a = {1}, b = {2}, c = {3};
  store.keep(a, Image::make(100000), "t");
  store.keep(b, Image::make(100000), "t");
  CHECK(store.find(a, 100000, "t") != nullptr);
  CHECK(store.find(a, 99999, "t") == nullptr);
  store.keep(c, Image::make(100000), "t");
  CHECK(store.find(a, 100000, "t") != nullptr);
  CHECK(store.find(b, 100000, "t") == nullptr);
  CHECK(store.find(c, 100000, "t") != nullptr);
}

TEST(the_module_store_counts_what_small_images_cost) {
  constexpr int kImages = 1000;
  ModuleStore store(kImages * 100);
  for (uint64_t i = 0; i < kImages; i++) store.keep({i}, Image::make(8), "t");
  int there = 0;
  for (uint64_t i = 0; i < kImages; i++) there += store.find({i}, 8, "t") != nullptr;
  CHECK(there > 0 && there < kImages / 5);
  // So do names of variables that were looked up.
  const Hash last = {kImages};
  store.keep(last, Image::make(8), "t");
  for (int i = 0; i < 100; i++) store.learn(last, "t", std::string(1000, 'n') + std::to_string(i));
  CHECK(store.find(last, 8, "t") != nullptr);
  for (uint64_t i = 0; i < kImages; i++) CHECK(store.find({i}, 8, "t") == nullptr);
}

TEST(the_module_store_tells_a_tenant_of_what_it_has_had) {
  ModuleStore store(250000);
  const Hash a = {1};
  store.keep(a, Image::make(100), "t");
  store.learn(a, "t", "secret");
  CHECK(store.find(a, 100, "u") == nullptr);
  CHECK(store.find(a, 100, "") == nullptr);
  CHECK(store.names(a, "u").empty());
  // The bytes are kept once, and it is not told what others have looked up in them.
  const auto image = store.find(a, 100, "t");
  store.keep(a, Image::make(100), "u");
  CHECK(store.find(a, 100, "u") == image);
  CHECK(store.names(a, "u").empty());
  CHECK_EQUAL(store.names(a, "t").size(), 1u);
  // So many tenants are remembered of an image, and no more.
  for (int i = 2; i < 256; i++) store.keep(a, Image::make(100), std::to_string(i));
  CHECK(store.find(a, 100, "255") == image);
  store.keep(a, Image::make(100), "one more");
  CHECK(store.find(a, 100, "one more") == nullptr);
}

TEST(digests_are_those_of_blake2b_256) {
  const std::string text = "abc";
  const Hash hash = blake2b({reinterpret_cast<const uint8_t *>(text.data()), text.size()});
  CHECK_EQUAL(hash[0], 0x723942633c81ddbdu);
  CHECK_EQUAL(hash[3], 0x1923d568c0c86272u);
}

TEST(the_receiver_moves_frames_only_when_they_do_not_fit) {
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  const auto counters = Counters::map();
  outboard::Reconnection reconnection(fds[0], std::chrono::milliseconds(0));
  Receiver receiver(fds[0], {}, *counters, reconnection);
  std::thread sender([&] {
    Guest guest(fds[1]);
    for (uint64_t i = 0; i < 100000; i++) guest.send(&i, sizeof i);
  });
  uint64_t expected = 0;
  while (expected < 100000) {
    const size_t count = std::min<size_t>(100000 - expected, 1 + expected % 4000);
    CHECK(receiver.fill(count * 8));
    CHECK(reinterpret_cast<uintptr_t>(receiver.data()) % 8 == 0);
    for (size_t i = 0; i < count; i++) {
      uint64_t value;
      memcpy(&value, receiver.data() + i * 8, 8);
      CHECK_EQUAL(value, expected++);
    }
    receiver.consume(count * 8);
  }
  CHECK(!receiver.fill(1));
  sender.join();
  CHECK_EQUAL(counters->bytes_in.load(), 800000u);
  ::close(fds[0]);
}

TEST(a_library_that_is_no_driver_is_named_with_what_it_lacks) {
  std::string message;
  try {
    Driver::open("libm.so.6");
  } catch (const Error &error) {
    CHECK_EQUAL(error.code, "OB_DRIVER_LIBRARY");
    message = error.what();
  }
  CHECK(message.find("libm.so.6 lacks ") != std::string::npos);
  CHECK(message.find("cuLaunchKernel") != std::string::npos);
  CHECK(message.find("Install NVIDIA's driver 550 (CUDA 12.4) or a newer one.") !=
        std::string::npos);
  message.clear();
  try {
    Driver::open("/nowhere/libcuda.so.1");
  } catch (const Error &error) {
    message = error.what();
  }
  CHECK(message.find("/nowhere/libcuda.so.1 cannot be loaded") != std::string::npos);
}

TEST(a_driver_that_is_too_old_is_named_with_the_oldest_that_is_not) {
  const FakeControls &fake = World::fake();
  fake.set_version(12030);
  std::string message;
  try {
    Driver::open(FAKE_DRIVER);
  } catch (const Error &error) {
    CHECK_EQUAL(error.code, "OB_DRIVER_LIBRARY");
    message = error.what();
  }
  CHECK(message.find("is of CUDA 12.3. Install NVIDIA's driver 550 (CUDA 12.4) or a newer one.") !=
        std::string::npos);
  fake.set_version(12040);
  const Driver driver = Driver::open(FAKE_DRIVER);
  CHECK(driver.cuEventElapsedTime_v2 != nullptr);
  CHECK(driver.cuCtxRecordEvent == nullptr);
  fake.set_version(12050);
  CHECK(Driver::open(FAKE_DRIVER).cuCtxRecordEvent != nullptr);
}

namespace {

// The policy of the calling thread's memory, and the lowest 64 nodes that it names.
struct MemoryPolicy {
  int policy = -1;
  unsigned long nodes[16] = {};
  MemoryPolicy() { syscall(SYS_get_mempolicy, &policy, nodes, 1024UL, nullptr, 0UL); }
};

void write_node(const std::string &folder, const std::string &text) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/numa_node") << text;
}

}  // namespace

TEST(memory_is_of_the_node_that_the_device_is_attached_to) {
  char folder[] = "/tmp/outboard-nodes-XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  const std::string devices = folder;
  write_node(devices + "/0000:3b:00.0", "0\n");
  write_node(devices + "/0000:3c:00.0", "-1\n");
  write_node(devices + "/0000:3d:00.0", "5000\n");
  std::thread([&] {
    syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0UL);
    for (const char *none : {"0000:3C:00.0", "0000:3D:00.0", "0000:3E:00.0", "../0000:3b:00.0", ""})
      CHECK_EQUAL(prefer_node_of(none, devices), -1);
    CHECK_EQUAL(MemoryPolicy().policy, MPOL_DEFAULT);
    CHECK_EQUAL(prefer_node_of("0000:3B:00.0", devices), 0);
    // A thread that is started from now on has it, too.
    std::thread([] {
      const MemoryPolicy after;
      CHECK_EQUAL(after.policy, MPOL_PREFERRED);
      CHECK_EQUAL(after.nodes[0], 1UL);
    }).join();
    // What somebody has chosen stays.
    CHECK_EQUAL(prefer_node_of("0000:3B:00.0", devices), -1);
  }).join();
  std::filesystem::remove_all(folder);
}

TEST(a_device_that_is_not_there_is_an_error) {
  DeviceOptions options;
  options.library = FAKE_DRIVER;
  options.ordinal = 3;
  std::string message;
  try {
    Device::open(options);
  } catch (const Error &error) {
    message = error.what();
  }
  CHECK(message.find("cuDeviceGet of device 3 failed") != std::string::npos);
}

TEST(a_device_is_found_by_its_uuid) {
  const std::vector<Offered> offered = offered_devices(FAKE_DRIVER);
  CHECK_EQUAL(offered.size(), 2u);
  CHECK(!offered[0].gpu);
  CHECK(offered[1].gpu && offered[1].gpu->bytes[0] == 100);
  DeviceOptions options;
  options.library = FAKE_DRIVER;
  options.ordinal = 0;
  options.uuid = offered[1].uuid;
  {
    const std::shared_ptr<Device> device = Device::open(options);
    CHECK_EQUAL(device->ordinal(), 1);
    const DeviceSnapshot snapshot = device->snapshot();
    CHECK(memcmp(&snapshot.uuid, &offered[1].uuid, sizeof snapshot.uuid) == 0);
    CHECK(snapshot.gpu && snapshot.gpu->bytes[0] == 100);
  }
  // One that has gone: its ordinal is another's now, or no device is left.
  memset(options.uuid->bytes, 9, sizeof options.uuid->bytes);
  const auto code_of = [&] {
    try {
      Device::open(options);
    } catch (const Error &error) {
      return error.code + ": " + error.what();
    }
    return std::string("opened");
  };
  const std::string gone =
      "OB_DEVICE_GONE: the driver has no device 09090909-0909-0909-0909-090909090909 any more";
  CHECK_EQUAL(code_of(), gone);
  World::fake().fail("cuInit", CUDA_ERROR_NO_DEVICE, 0);
  CHECK_EQUAL(code_of(), gone);
  options.uuid.reset();
  World::fake().fail("cuInit", CUDA_ERROR_NO_DEVICE, 0);
  CHECK(code_of().starts_with("OB_DRIVER_LIBRARY: cuInit of "));
}

TEST(compute_modes_are_told_apart) {
  DeviceOptions options;
  options.library = FAKE_DRIVER;
  const auto code_of = [&](CUcomputemode mode, CUresult result) {
    World::fake().set_compute_mode(mode);
    World::fake().fail("cuDevicePrimaryCtxRetain", result, 0);
    std::string code = "opened";
    try {
      Device::open(options);
    } catch (const Error &error) {
      code = error.code;
    }
    World::fake().set_compute_mode(CU_COMPUTEMODE_DEFAULT);
    return code;
  };
  CHECK_EQUAL(code_of(CU_COMPUTEMODE_EXCLUSIVE_PROCESS, CUDA_ERROR_DEVICE_UNAVAILABLE),
              "OB_DEVICE_HELD");
  CHECK_EQUAL(code_of(CU_COMPUTEMODE_EXCLUSIVE_PROCESS, CUDA_ERROR_OUT_OF_MEMORY),
              "OB_DEVICE_FULL");
  CHECK_EQUAL(code_of(CU_COMPUTEMODE_PROHIBITED, CUDA_ERROR_UNKNOWN), "OB_DEVICE_PROHIBITED");
  CHECK_EQUAL(code_of(CU_COMPUTEMODE_DEFAULT, CUDA_ERROR_DEVICE_UNAVAILABLE), "OB_DEVICE_OPEN");
}

TEST(the_window_moves_between_sessions) {
  const std::shared_ptr<Device> device = World::device();
  const uint64_t base = device->window_base();
  const uint64_t size = device->window_size();
  device->move_window(base + 2 * size, size);
  CHECK_EQUAL(device->window_base(), base + 2 * size);
  // Overlapping the old one.
  device->move_window(device->window_base() + WIRE_GRANULE, size);
  // Where it cannot be, it stays.
  const uint64_t before = device->window_base();
  bool refused = false;
  const uint64_t taken = reinterpret_cast<uint64_t>(&World::device) & ~(WIRE_GRANULE - 1);
  try {
    device->move_window(taken, size);
  } catch (const Error &error) {
    CHECK_EQUAL(error.code, "OB_WINDOW");
    refused = true;
  }
  CHECK(refused);
  CHECK_EQUAL(device->window_base(), before);
  {
    World w;
    bool busy = false;
    try {
      device->move_window(base, size);
    } catch (const Error &) {
      busy = true;
    }
    CHECK(busy);
  }
  device->move_window(base, size);
}

TEST(a_snapshot_tells_what_the_driver_tells) {
  const DeviceSnapshot s = World::device()->snapshot();
  CHECK_EQUAL(s.name, "Fake device");
  CHECK_EQUAL(s.attributes.at(1), 2);
  CHECK_EQUAL(s.attributes.at(17), 0);  // refused
  CHECK_EQUAL(s.limits.at(2), uint64_t{8} << 20);
  CHECK_EQUAL(s.greatest_priority, -5);
  CHECK_EQUAL(s.pci_bus_id, "0000:42:00.0");
  CHECK_EQUAL(s.window_base, World::base());
  CHECK_EQUAL(s.window_size, World::device()->window_size());
}

// Each session has one, and a driver takes a moment for each question.
TEST(a_snapshot_asks_again_only_what_may_have_changed) {
  const auto device = World::device();
  const char *const questions[] = {"cuDeviceGetAttribute", "cuDeviceGetName", "cuDeviceTotalMem_v2",
                                   "cuDeviceGetPCIBusId"};
  const auto asked = [&] {
    unsigned all = 0;
    for (const char *question : questions) all += World::fake().calls(question);
    return all;
  };
  const unsigned before = asked();
  device->snapshot();
  CHECK_EQUAL(asked(), before + 1);  // the compute mode
}
