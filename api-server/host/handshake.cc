#include "handshake.h"

#include <sys/socket.h>

#include <cstring>

#include "wire.h"

namespace outboard {

namespace {

struct Preface {
  char magic[8];
  uint32_t protocol;
  uint32_t length;
};
static_assert(sizeof(Preface) == WIRE_PREFACE_BYTES);

// ---- protobuf, the parts of it that these messages use -----------------------------------------

enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class Message {
 public:
  void number(unsigned field, uint64_t value) {
    varint(field << 3 | kVarint);
    varint(value);
  }
  void bytes(unsigned field, const std::string &value) {
    varint(field << 3 | kBytes);
    varint(value.size());
    text_ += value;
  }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  const std::string &text() const { return text_; }

 private:
  std::string text_;
};

uint64_t zigzag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}

class Parser {
 public:
  explicit Parser(const std::string &text) : text_(text) {}
  bool more() const { return !failed_ && at_ < text_.size(); }
  bool failed() const { return failed_; }

  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == text_.size()) break;
      const auto byte = static_cast<uint8_t>(text_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    failed_ = true;
    return 0;
  }
  std::string bytes() {
    const uint64_t length = varint();
    if (failed_ || length > text_.size() - at_) {
      failed_ = true;
      return {};
    }
    at_ += length;
    return text_.substr(at_ - length, length);
  }
  void skip(unsigned type) {
    const size_t fixed = type == kFixed64 ? 8 : type == kFixed32 ? 4 : 0;
    if (type == kVarint) {
      varint();
    } else if (type == kBytes) {
      bytes();
    } else if (fixed && fixed <= text_.size() - at_) {
      at_ += fixed;
    } else {
      failed_ = true;
    }
  }

 private:
  const std::string &text_;
  size_t at_ = 0;
  bool failed_ = false;
};

bool parse(const std::string &text, Hello *hello) {
  Parser in(text);
  while (in.more()) {
    const uint64_t key = in.varint();
    const unsigned field = static_cast<unsigned>(key >> 3);
    const unsigned type = key & 7;
    if (field == 1 && type == kBytes) {
      hello->program = in.bytes();
    } else if (field == 6 && type == kVarint) {
      hello->memory = in.varint();
    } else if (field == 15 && type == kBytes) {
      in.bytes();
      hello->query = true;
    } else if (field == 10 && type == kVarint) {
      hello->window_bases.push_back(in.varint());
    } else if (field == 10 && type == kBytes) {
      const std::string packed = in.bytes();
      Parser bases(packed);
      while (bases.more()) hello->window_bases.push_back(bases.varint());
      if (bases.failed()) return false;
    } else {
      in.skip(type);
    }
  }
  return !in.failed();
}

std::string device_message(const DeviceSnapshot &device) {
  Message attributes, limits, message;
  for (int32_t value : device.attributes) attributes.varint(zigzag(value));
  for (uint64_t value : device.limits) limits.varint(value);
  message.bytes(1, device.name);
  message.bytes(2, {device.uuid.bytes, sizeof device.uuid.bytes});
  message.number(3, device.total_memory);
  message.bytes(4, attributes.text());
  message.bytes(5, limits.text());
  message.number(6, zigzag(device.least_priority));
  message.number(7, zigzag(device.greatest_priority));
  message.bytes(8, device.pci_bus_id);
  return message.text();
}

// ---- the connection ----------------------------------------------------------------------------

bool read_all(int fd, void *to, size_t size) {
  auto *at = static_cast<char *>(to);
  while (size > 0) {
    const ssize_t got = recv(fd, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// `body` is the answer's one field.
bool send_answer(int fd, unsigned field, const std::string &body) {
  Message answer;
  answer.bytes(field, body);
  Preface preface{{}, WIRE_PROTOCOL, static_cast<uint32_t>(answer.text().size())};
  memcpy(preface.magic, WIRE_PREFACE_MAGIC, sizeof preface.magic);
  std::string all(reinterpret_cast<const char *>(&preface), sizeof preface);
  all += answer.text();
  return send(fd, all.data(), all.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(all.size());
}

}  // namespace

std::optional<Hello> read_hello(int fd, std::string *why) {
  Preface preface;
  if (!read_all(fd, &preface, sizeof preface)) {
    *why = "the connection ended before the preface was complete";
    return std::nullopt;
  }
  if (memcmp(preface.magic, WIRE_PREFACE_MAGIC, sizeof preface.magic) != 0) {
    *why = "the other side does not speak Outboard's protocol";
    return std::nullopt;
  }
  if (preface.protocol != WIRE_PROTOCOL) {
    *why = "the guest speaks protocol " + std::to_string(preface.protocol) + ", this server " +
           std::to_string(WIRE_PROTOCOL);
    return std::nullopt;
  }
  std::string text(std::min(preface.length, uint32_t{WIRE_CONTROL_MAX}), '\0');
  Hello hello;
  if (preface.length > WIRE_CONTROL_MAX || !read_all(fd, text.data(), text.size()) ||
      !parse(text, &hello)) {
    *why = "the Hello is malformed";
    return std::nullopt;
  }
  return hello;
}

bool send_welcome(int fd, const Welcome &welcome) {
  Message body;
  body.number(1, welcome.session);
  body.number(2, static_cast<uint64_t>(welcome.device.driver_version));
  body.bytes(3, device_message(welcome.device));
  body.number(4, welcome.device.window_base);
  body.number(5, welcome.device.window_size);
  body.number(6, welcome.memory_limit);
  body.bytes(7, "executor-host");
  body.number(10, 1);  // region
  body.number(12, welcome.pinned_memory);
  body.number(13, 1);  // error_texts
  body.number(14, 1);  // memory_room
  body.number(15, welcome.device.stream_operations);
  body.number(16, welcome.device.granularity);
  body.number(17, 1);  // share_ends
  body.number(21, 1);  // late_uploads
  return send_answer(fd, 2, body.text());
}

bool send_version(int fd, int driver_version) {
  Message body;
  body.bytes(1, "executor-host");
  body.number(2, static_cast<uint64_t>(driver_version));
  return send_answer(fd, 4, body.text());
}

bool send_refusal(int fd, const std::string &code, const std::string &sentence) {
  Message body;
  body.bytes(1, code);
  body.bytes(2, sentence);
  body.bytes(3, "See the log of executor-host.");
  body.number(4, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  return send_answer(fd, 3, body.text());
}

}  // namespace outboard
