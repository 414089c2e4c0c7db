// The executor's parts by themselves.
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/handles.h"
#include "base/session_limits.h"
#include "base/span.h"
#include "check.h"
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

TEST(digests_are_those_of_sha_256) {
  const std::string text = "abc";
  const Hash hash = sha256({reinterpret_cast<const uint8_t *>(text.data()), text.size()});
  CHECK_EQUAL(hash[0], 0xeacf018fbf1678bau);
  CHECK_EQUAL(hash[3], 0xad1500f261ff10b4u);
}

TEST(the_receiver_moves_frames_only_when_they_do_not_fit) {
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
  const auto counters = Counters::map();
  Receiver receiver(fds[0], {}, *counters);
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
  message.clear();
  try {
    Driver::open("/nowhere/libcuda.so.1");
  } catch (const Error &error) {
    message = error.what();
  }
  CHECK(message.find("/nowhere/libcuda.so.1 cannot be loaded") != std::string::npos);
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
