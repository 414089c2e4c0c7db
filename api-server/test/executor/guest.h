// The guest's side of a connection, frame by frame, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "cuda_driver.h"
#include "wire_calls.h"

struct Frame {
  std::vector<uint8_t> bytes;

  uint16_t op() const { return as<wire_header>().op; }
  template <class T>
  const T &as() const {
    return *reinterpret_cast<const T *>(bytes.data());
  }
  // What follows a frame's fixed part.
  template <class T>
  std::string tail(size_t length) const {
    return {reinterpret_cast<const char *>(bytes.data()) + sizeof(T), length};
  }
};

// What a download brought.
struct Answer {
  wire_reply reply;
  Frame frame;
  std::string data;
};

class Guest {
 public:
  explicit Guest(int fd) : fd_(fd) {}
  ~Guest() { close(); }
  void close();
  // Sends nothing more, and would still read.
  void half_close();
  // Waits until something has come that is not read. If it is closed now, the connection is reset.
  void await_unread();

  // As guests must, it reads while it cannot send.
  void send(const void *bytes, size_t size);
  // A command of any kind; blobs and payloads behind it are padded.
  template <class T>
  void put(uint16_t op, T frame, const std::string &tail = {}) {
    put_frame(op, &frame, sizeof frame, tail);
  }
  // A round trip: its request number.
  template <class T>
  uint64_t ask(uint16_t op, T frame, const std::string &tail = {}) {
    frame.request.request = ++requests_;
    put_frame(op, &frame, sizeof frame, tail);
    return requests_;
  }
  // Waits for the answer; frames of other kinds, and answers of other requests, are kept.
  Answer wait(uint64_t request);
  template <class T>
  Answer call(uint16_t op, T frame, const std::string &tail = {}) {
    return wait(ask(op, frame, tail));
  }
  // The next frame in order of arrival; `bytes` is empty at the end of the stream.
  Frame next();
  // The next one of that kind; others are kept.
  Frame next(uint16_t op);

  // ---- commands that tests send often ----------------------------------------------------------

  void map(uint64_t address, uint64_t size);
  void map_pinned(uint64_t address, uint64_t size);
  void unmap(uint64_t address, uint64_t size);
  void upload(uint64_t to, const std::string &data, uint64_t stream = 0);
  uint64_t ask_download(uint64_t from, uint64_t length, uint64_t stream = 0);
  std::string download(uint64_t from, uint64_t length, uint64_t stream = 0);
  void memset32(uint64_t to, uint32_t value, uint64_t n, uint64_t stream = 0);
  // A stream or event, by index.
  uint64_t stream(uint32_t index, unsigned flags = 0);
  uint64_t event(uint32_t index);
  void record(uint64_t event, uint64_t stream);
  void wait_event(uint64_t stream, uint64_t event);
  wire_reply synchronize();
  uint64_t ask_synchronize();
  uint64_t ask_synchronize_stream(uint64_t stream);
  uint64_t ask_synchronize_event(uint64_t event);
  // An image of one PTX part.
  static std::string image(const std::string &text, uint32_t kind = WIRE_IMAGE_PTX);
  wire_ModuleLoad load_command(uint64_t module, const std::string &image) const;
  // Without options: `options_size` is the caller's.
  wire_ModuleOpen open_command(uint64_t module, const std::string &image) const;
  void send_image(const std::string &image, size_t piece = 1 << 20);
  // Sends what the server lacks.
  Answer load(uint64_t module, const std::string &image);
  void function(uint64_t module, uint64_t function, const std::string &name, uint32_t index = 0);
  void launch(uint64_t function, uint64_t stream, const std::string &parameters);

  // Frames that came while something else was waited for, in order.
  std::deque<Frame> kept;
  // The last one that came along; -1: none.
  int descriptor = -1;

 private:
  void put_frame(uint16_t op, void *frame, size_t size, const std::string &tail);
  Frame read_frame();
  // Takes what has arrived, waiting for it if there is none. False at the end of the stream.
  bool receive();

  int fd_;
  std::string inbox_;  // arrived, not looked at yet
  uint64_t requests_ = 0;
};

inline uint64_t module_handle(uint32_t index) { return wire_handle(WIRE_KIND_MODULE, 1, index); }
inline uint64_t function_handle(uint32_t index) {
  return wire_handle(WIRE_KIND_FUNCTION, 1, index);
}

// Packed parameters.
template <class T>
std::string packed(T value) {
  return {reinterpret_cast<const char *>(&value), sizeof value};
}
// Text of `size` bytes that repeats nowhere soon.
std::string pattern(size_t size, uint32_t seed = 1);
