// The process that a session is to move to, played by the test.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/local_socket.h"
#include "check.h"
#include "world.h"

struct Told {
  bool moved;
  std::string why;
};

struct Target {
  explicit Target(World &w) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    here = fds[0];
    w.session->move(fds[1], [this](bool moved, const std::string &why, uint64_t) {
      told.set_value({moved, why});
    });
  }
  ~Target() {
    outboard::close_fd(here);
    outboard::close_fd(connection);
  }
  bool take_connection() {
    char carrier;
    return outboard::receive_message(here, &carrier, sizeof carrier, &connection);
  }
  // The next command, with its payload, but for those with which the move begins and memory is
  // settled: these are answered. Empty: the session has gone.
  std::vector<uint8_t> next() {
    for (;;) {
      std::vector<uint8_t> frame = receive();
      wire_header head{};
      if (!frame.empty()) memcpy(&head, frame.data(), std::min(sizeof head, frame.size()));
      if (head.op == WIRE_RegionOpen) {
        open_region(frame);
      } else if (head.op == WIRE_RegionSettle) {
        wire_RegionSettle_reply settled{};
        settled.busy = busy;
        answer(frame, CUDA_SUCCESS, settled);
      } else if (head.op == WIRE_cuCtxSynchronize) {
        answer(frame);
      } else {
        return frame;
      }
    }
  }
  // Shares memory if it is to, which can become shorter if it is to.
  void open_region(const std::vector<uint8_t> &question) {
    if (!shares) return answer(question, CUDA_ERROR_NOT_SUPPORTED, wire_RegionOpen_reply{});
    const int fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(ftruncate(fd, kSlots * kSlot) == 0);
    if (sealed) CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    region = static_cast<uint8_t *>(
        mmap(nullptr, kSlots * kSlot, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    CHECK(region != MAP_FAILED);
    wire_RegionOpen_reply reply{};
    reply.reply.header = {WIRE_REPLY, 0, sizeof reply};
    memcpy(&reply.reply.request, question.data() + sizeof(wire_header), sizeof(uint64_t));
    reply.slot = kSlot;
    reply.uploads = kSlots;
    CHECK(outboard::send_message(here, &reply, sizeof reply, fd));
    close(fd);
  }
  std::vector<uint8_t> receive() {
    wire_header head;
    int came = -1;
    if (!outboard::receive_message(here, &head, sizeof head, &came)) return {};
    if (came >= 0) outboard::close_fd(std::exchange(connection, came));
    std::vector<uint8_t> frame(head.size);
    memcpy(frame.data(), &head, sizeof head);
    const size_t rest = frame.size() - sizeof head;
    if (rest && recv(here, frame.data() + sizeof head, rest, MSG_WAITALL) != ssize_t(rest))
      return {};
    return frame;
  }
  template <class Reply = wire_Echo_reply>
  void answer(const std::vector<uint8_t> &question, int32_t result = 0, Reply reply = {}) {
    memcpy(&reply.reply.request, question.data() + sizeof(wire_header), sizeof(uint64_t));
    reply.reply.header = {WIRE_REPLY, 0, sizeof reply};
    reply.reply.result = result;
    CHECK(send(here, &reply, sizeof reply, MSG_NOSIGNAL) == sizeof reply);
  }
  void take_state(const std::vector<uint8_t> &frame) {
    wire_MoveState q;
    memcpy(&q, frame.data(), sizeof q);
    states[q.kind].emplace_back(reinterpret_cast<const char *>(frame.data()) + sizeof q, q.length);
  }
  // Answers everything of a move that is given up before its commit.
  Told serve_until_told() {
    std::thread serves([this] { CHECK(serve_until_commit().empty()); });
    Told given_up = told.get_future().get();
    shutdown(here, SHUT_RDWR);
    serves.join();
    return given_up;
  }
  // Answers everything up to the commit, which is returned; what came before it is counted.
  std::vector<uint8_t> serve_until_commit() {
    for (;;) {
      const std::vector<uint8_t> frame = next();
      if (frame.empty()) return frame;
      wire_header head;
      memcpy(&head, frame.data(), sizeof head);
      if (head.op == WIRE_MoveCommit) return frame;
      commands.push_back(head.op);
      if (head.op == WIRE_MemoryAccess) {
        wire_MemoryAccess q;
        memcpy(&q, frame.data(), sizeof q);
        open[q.address] = q.flags;
      }
      if (head.op == WIRE_MoveState) take_state(frame);
      if (head.op == WIRE_Echo) answer(frame);
      if (head.op == WIRE_RegionUpload) {
        wire_RegionUpload q;
        memcpy(&q, frame.data(), sizeof q);
        CHECK(q.slot < kSlots && q.length <= kSlot);
        uploaded[q.destination].assign(reinterpret_cast<char *>(region) + q.slot * kSlot, q.length);
      }
      if (head.op == WIRE_MemoryDisplace) answer<wire_MemoryDisplace_reply>(frame);
      if (head.op == WIRE_ModuleOpen) {
        wire_ModuleOpen_reply loaded{};
        loaded.state = WIRE_MODULE_LOADED;
        answer(frame, CUDA_SUCCESS, loaded);
      }
    }
  }

  static constexpr size_t kSlot = 4096;
  static constexpr unsigned kSlots = 2;

  int here = -1;
  int connection = -1;
  bool shares = false, sealed = true;
  uint64_t busy = 0;  // pieces of the region that it says it uses still
  uint8_t *region = nullptr;
  std::map<uint64_t, std::string> uploaded;  // through the region, by address
  std::map<uint64_t, uint32_t> open;         // what kernels may do last, by address
  std::vector<uint16_t> commands;
  std::map<uint32_t, std::vector<std::string>> states;  // by kind
  std::promise<Told> told;
};
