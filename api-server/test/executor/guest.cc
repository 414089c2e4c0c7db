#include "guest.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "check.h"
#include "images/module_store.h"

void Guest::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

void Guest::half_close() { shutdown(fd_, SHUT_WR); }

void Guest::await_unread() {
  pollfd event = {fd_, POLLIN, 0};
  while (poll(&event, 1, -1) < 1) continue;
}

void Guest::send(const void *bytes, size_t size) {
  const auto *at = static_cast<const uint8_t *>(bytes);
  while (size > 0) {
    const ssize_t sent = ::send(fd_, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      at += sent;
      size -= static_cast<size_t>(sent);
      continue;
    }
    if (errno != EAGAIN) return;  // the server has gone; the test sees that when it reads
    pollfd event = {fd_, POLLIN | POLLOUT, 0};
    poll(&event, 1, -1);
    if ((event.revents & POLLIN) && !receive()) return;
  }
}

bool Guest::receive() {
  char bytes[64 << 10];
  alignas(cmsghdr) char beside[CMSG_SPACE(sizeof descriptor)];
  iovec part = {bytes, sizeof bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = beside;
  message.msg_controllen = sizeof beside;
  ssize_t got;
  do {
    got = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  const cmsghdr *head = CMSG_FIRSTHDR(&message);
  if (head && head->cmsg_type == SCM_RIGHTS) {
    if (descriptor >= 0) ::close(descriptor);
    memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
  }
  inbox_.append(bytes, static_cast<size_t>(got));
  return true;
}

void Guest::put_frame(uint16_t op, void *frame, size_t size, const std::string &tail) {
  const size_t padding = -tail.size() & 7;
  *static_cast<wire_header *>(frame) = {op, 0, static_cast<uint32_t>(size + tail.size() + padding)};
  std::string all(static_cast<const char *>(frame), size);
  all += tail + std::string(padding, '\0');
  send(all.data(), all.size());
}

Frame Guest::read_frame() {
  wire_header header;
  while (inbox_.size() < sizeof header ||
         (memcpy(&header, inbox_.data(), sizeof header), inbox_.size() < header.size)) {
    if (!receive()) {
      CHECK(inbox_.empty());  // a frame is whole
      return {};
    }
  }
  CHECK(header.size >= sizeof header && header.size % 8 == 0);
  Frame frame;
  frame.bytes.assign(inbox_.begin(), inbox_.begin() + header.size);
  inbox_.erase(0, header.size);
  return frame;
}

Frame Guest::next() {
  if (kept.empty()) return read_frame();
  Frame frame = std::move(kept.front());
  kept.pop_front();
  return frame;
}

Frame Guest::next(uint16_t op) {
  auto found = std::find_if(kept.begin(), kept.end(), [&](const Frame &f) { return f.op() == op; });
  if (found != kept.end()) {
    Frame frame = std::move(*found);
    kept.erase(found);
    return frame;
  }
  for (;;) {
    Frame frame = read_frame();
    if (frame.bytes.empty() || frame.op() == op) return frame;
    kept.push_back(std::move(frame));
  }
}

Answer Guest::wait(uint64_t request) {
  Answer answer;
  std::deque<Frame> others;
  for (;;) {
    Frame frame = next();
    if (frame.bytes.empty()) fail(__FILE__, __LINE__, "the server has gone");
    if (frame.op() == WIRE_DATA && frame.as<wire_data>().request == request) {
      const auto &data = frame.as<wire_data>();
      CHECK(data.offset >= answer.data.size());
      answer.data.resize(data.offset);  // only PagesChanged leaves something out
      CHECK(data.length <= WIRE_BULK_MAX && sizeof data + data.length <= frame.bytes.size());
      answer.data += frame.tail<wire_data>(data.length);
    } else if (frame.op() == WIRE_REPLY && frame.as<wire_reply>().request == request) {
      answer.reply = frame.as<wire_reply>();
      answer.frame = std::move(frame);
      break;
    } else {
      others.push_back(std::move(frame));
    }
  }
  kept.insert(kept.begin(), std::make_move_iterator(others.begin()),
              std::make_move_iterator(others.end()));
  return answer;
}

// ---- commands ----------------------------------------------------------------------------------

void Guest::map(uint64_t address, uint64_t size) {
  wire_MemoryMap q{};
  q.address = address;
  q.size = size;
  put(WIRE_MemoryMap, q);
}

void Guest::map_pinned(uint64_t address, uint64_t size) {
  wire_PinnedMap q{};
  q.address = address;
  q.size = size;
  put(WIRE_PinnedMap, q);
}

void Guest::unmap(uint64_t address, uint64_t size) {
  wire_MemoryUnmap q{};
  q.address = address;
  q.size = size;
  put(WIRE_MemoryUnmap, q);
}

void Guest::upload(uint64_t to, const std::string &data, uint64_t stream) {
  for (size_t at = 0; at < data.size(); at += WIRE_BULK_MAX) {
    const std::string piece = data.substr(at, WIRE_BULK_MAX);
    wire_Upload q{};
    q.destination = to + at;
    q.stream = stream;
    q.length = piece.size();
    put(WIRE_Upload, q, piece);
  }
}

uint64_t Guest::ask_download(uint64_t from, uint64_t length, uint64_t stream) {
  wire_Download q{};
  q.source = from;
  q.length = length;
  q.stream = stream;
  return ask(WIRE_Download, q);
}

std::string Guest::download(uint64_t from, uint64_t length, uint64_t stream) {
  const Answer answer = wait(ask_download(from, length, stream));
  CHECK_EQUAL(answer.reply.result, CUDA_SUCCESS);
  CHECK_EQUAL(answer.data.size(), length);
  return answer.data;
}

void Guest::memset32(uint64_t to, uint32_t value, uint64_t n, uint64_t stream) {
  wire_cuMemsetD32Async q{};
  q.dstDevice = to;
  q.ui = value;
  q.N = n;
  q.hStream = stream;
  put(WIRE_cuMemsetD32Async, q);
}

uint64_t Guest::stream(uint32_t index, unsigned flags) {
  wire_cuStreamCreateWithPriority q{};
  q.phStream = wire_handle(WIRE_KIND_STREAM, 1, index);
  q.flags = flags;
  put(WIRE_cuStreamCreateWithPriority, q);
  return q.phStream;
}

uint64_t Guest::event(uint32_t index) {
  wire_cuEventCreate q{};
  q.phEvent = wire_handle(WIRE_KIND_EVENT, 1, index);
  put(WIRE_cuEventCreate, q);
  return q.phEvent;
}

void Guest::record(uint64_t event, uint64_t stream) {
  wire_cuEventRecord q{};
  q.hEvent = event;
  q.hStream = stream;
  put(WIRE_cuEventRecord, q);
}

void Guest::wait_event(uint64_t stream, uint64_t event) {
  wire_cuStreamWaitEvent q{};
  q.hStream = stream;
  q.hEvent = event;
  put(WIRE_cuStreamWaitEvent, q);
}

uint64_t Guest::ask_synchronize() { return ask(WIRE_cuCtxSynchronize, wire_cuCtxSynchronize{}); }

uint64_t Guest::ask_synchronize_stream(uint64_t stream) {
  wire_cuStreamSynchronize q{};
  q.hStream = stream;
  return ask(WIRE_cuStreamSynchronize, q);
}

uint64_t Guest::ask_synchronize_event(uint64_t event) {
  wire_cuEventSynchronize q{};
  q.hEvent = event;
  return ask(WIRE_cuEventSynchronize, q);
}

wire_reply Guest::synchronize() { return wait(ask_synchronize()).reply; }

std::string Guest::image(const std::string &text, uint32_t kind) {
  wire_image_part part{};
  part.kind = kind;
  part.size = text.size();
  std::string image(reinterpret_cast<const char *>(&part), sizeof part);
  image += text;
  image.resize((image.size() + 7) & ~size_t{7});
  return image;
}

static outboard::Hash hash_of(const std::string &image) {
  return outboard::blake2b({reinterpret_cast<const uint8_t *>(image.data()), image.size()});
}

wire_ModuleLoad Guest::load_command(uint64_t module, const std::string &image) const {
  const outboard::Hash hash = hash_of(image);
  wire_ModuleLoad q{};
  q.module = module;
  q.hash0 = hash[0];
  q.hash1 = hash[1];
  q.hash2 = hash[2];
  q.hash3 = hash[3];
  q.total = image.size();
  return q;
}

wire_ModuleOpen Guest::open_command(uint64_t module, const std::string &image) const {
  const wire_ModuleLoad load = load_command(module, image);
  wire_ModuleOpen q{};
  q.module = load.module;
  q.hash0 = load.hash0;
  q.hash1 = load.hash1;
  q.hash2 = load.hash2;
  q.hash3 = load.hash3;
  q.total = load.total;
  return q;
}

void Guest::send_image(const std::string &image, size_t piece) {
  const outboard::Hash hash = hash_of(image);
  // Backwards: pieces may come in any order.
  for (size_t left = image.size(); left > 0;) {
    const size_t start = (left - 1) / piece * piece;
    wire_ModulePiece q{};
    q.hash0 = hash[0];
    q.hash1 = hash[1];
    q.hash2 = hash[2];
    q.hash3 = hash[3];
    q.total = image.size();
    q.offset = start;
    q.length = left - start;
    put(WIRE_ModulePiece, q, image.substr(start, left - start));
    left = start;
  }
}

Answer Guest::load(uint64_t module, const std::string &image) {
  Answer answer = call(WIRE_ModuleLoad, load_command(module, image));
  if (answer.frame.as<wire_ModuleLoad_reply>().state != WIRE_MODULE_WANTED) return answer;
  send_image(image);
  return call(WIRE_ModuleLoad, load_command(module, image));
}

void Guest::function(uint64_t module, uint64_t function, const std::string &name, uint32_t index) {
  wire_FunctionGet q{};
  q.module = module;
  q.function = function;
  q.kernel = index;
  q.name_size = static_cast<uint32_t>(name.size());
  put(WIRE_FunctionGet, q, name);
}

void Guest::launch(uint64_t function, uint64_t stream, const std::string &parameters) {
  wire_Launch q{};
  q.function = function;
  q.stream = stream;
  q.grid_x = q.grid_y = q.grid_z = q.block_x = q.block_y = q.block_z = 1;
  q.parameters_size = static_cast<uint32_t>(parameters.size());
  put(WIRE_Launch, q, parameters);
}

std::string pattern(size_t size, uint32_t seed) {
  std::string text(size, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (char &c : text) {
    state = state * 1664525u + 1013904223u;
    c = static_cast<char>(state >> 24);
  }
  return text;
}
