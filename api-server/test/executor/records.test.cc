// Records of TLS between the socket and the receiver and sender of a session.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "check.h"
#include "outboard_tls.h"
#include "wire/receiver.h"
#include "wire/records.h"
#include "wire/sender.h"

namespace {

using outboard::Counters;
using outboard::Receiver;
using outboard::Reconnection;
using outboard::Records;
using outboard::Sender;

// The layout of tls/src/state.rs: one side's, and the other side's.
// The guest has sent so many records.
std::vector<uint8_t> state_of(bool server, uint64_t sent = 0) {
  std::vector<uint8_t> state(OUTBOARD_TLS_STATE);
  memcpy(state.data(), "OBT\x01\x01\x13", 6);
  memcpy(state.data() + (server ? 16 : 8), &sent, sizeof sent);
  memset(state.data() + 24, server ? 1 : 2, 32);
  memset(state.data() + 72, server ? 2 : 1, 32);
  return state;
}

// The session's end and the guest's, over a connection.
struct Connected {
  explicit Connected(std::span<const uint8_t> unopened = {}, uint64_t sent = 0)
      : records(state_of(true, sent), unopened) {
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    const std::vector<uint8_t> state = state_of(false, sent);
    CHECK_EQUAL(outboard_tls_restore(state.data(), state.size(), &guest), 0);
    reconnection.emplace(fds[0], std::chrono::milliseconds(0));
    receiver.emplace(fds[0], std::span<const uint8_t>{}, *counters, *reconnection, &records);
    sender.emplace(fds[0], *counters, *reconnection, &records);
  }
  ~Connected() {
    outboard_tls_end(guest);
    for (int fd : fds) close(fd);
  }

  std::vector<uint8_t> seal(const std::vector<uint8_t> &content) {
    std::vector<uint8_t> record(content.size() + OUTBOARD_TLS_OVERHEAD);
    memcpy(record.data() + OUTBOARD_TLS_HEADER, content.data(), content.size());
    CHECK_EQUAL(outboard_tls_seal(guest, record.data(), content.size()), record.size());
    return record;
  }
  void send(const std::vector<uint8_t> &bytes) {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(fds[1], bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      CHECK(sent > 0);
      at += static_cast<size_t>(sent);
    }
  }
  // So many bytes of what the session has sent.
  std::vector<uint8_t> receive(size_t count) {
    std::vector<uint8_t> bytes, content;
    std::vector<uint8_t> in;
    while (content.size() < count) {
      outboard_tls_content part{};
      CHECK_EQUAL(outboard_tls_open(guest, in.data(), in.size(), &part), 0);
      if (part.used > 0) {
        content.insert(content.end(), part.at, part.at + part.size);
        in.erase(in.begin(), in.begin() + static_cast<ptrdiff_t>(part.used));
        continue;
      }
      uint8_t more[70000];
      const ssize_t got = recv(fds[1], more, sizeof more, 0);
      CHECK(got > 0);
      in.insert(in.end(), more, more + got);
    }
    return content;
  }

  int fds[2] = {-1, -1};
  const std::shared_ptr<Counters> counters = Counters::map();
  Records records;
  outboard_tls *guest = nullptr;
  std::optional<Reconnection> reconnection;
  std::optional<Receiver> receiver;
  std::optional<Sender> sender;
};

std::vector<uint8_t> numbered(size_t size, uint8_t from) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<uint8_t>(from + i * 7 + i / 251);
  return bytes;
}

void takes(Receiver &receiver, const std::vector<uint8_t> &bytes) {
  CHECK(receiver.fill(bytes.size()));
  CHECK(memcmp(receiver.data(), bytes.data(), bytes.size()) == 0);
  receiver.consume(bytes.size());
}

}  // namespace

TEST(a_payload_comes_in_many_records) {
  Connected c;
  const std::vector<uint8_t> head = numbered(64, 1), body = numbered(3 << 20, 2);
  std::thread guest([&] {
    c.send(c.seal(head));
    for (size_t at = 0; at < body.size(); at += 10000) {
      const size_t end = std::min(body.size(), at + 10000);
      c.send(c.seal(
          {body.begin() + static_cast<ptrdiff_t>(at), body.begin() + static_cast<ptrdiff_t>(end)}));
    }
    c.send(c.seal(head));
  });
  takes(*c.receiver, head);
  std::vector<uint8_t> came(body.size());
  CHECK(c.receiver->payload(came.data(), came.size(), came.size()));
  CHECK(came == body);
  takes(*c.receiver, head);
  guest.join();
  CHECK_EQUAL(c.counters->bytes_in.load(), body.size() + 2 * head.size());
}

// Where contents are as large as they can be they are received where they belong. `first` is how
// much of the payload comes before those; a record of another size every so many.
void payload_in_place(size_t size, size_t first, size_t every, size_t piece) {
  Connected c;
  const std::vector<uint8_t> head = numbered(64, 1), body = numbered(size, 2);
  std::vector<uint8_t> all = c.seal(head);
  const auto put = [&](size_t at, size_t end) {
    const auto begin = body.begin();
    const std::vector<uint8_t> record =
        c.seal({begin + static_cast<ptrdiff_t>(at), begin + static_cast<ptrdiff_t>(end)});
    all.insert(all.end(), record.begin(), record.end());
  };
  if (first > 0) put(0, first);
  size_t records = 0;
  for (size_t at = first; at < body.size();) {
    const size_t most = ++records % every == 0 ? 1000 : OUTBOARD_TLS_CONTENT;
    const size_t end = std::min(body.size(), at + most);
    put(at, end);
    at = end;
  }
  const std::vector<uint8_t> last = c.seal(head);
  all.insert(all.end(), last.begin(), last.end());
  std::thread guest([&] {
    for (size_t at = 0; at < all.size(); at += piece) {
      const size_t end = std::min(all.size(), at + piece);
      c.send({all.begin() + static_cast<ptrdiff_t>(at), all.begin() + static_cast<ptrdiff_t>(end)});
    }
  });
  takes(*c.receiver, head);
  std::vector<uint8_t> came(body.size() + 8, 0xee);
  CHECK(c.receiver->payload(came.data(), body.size(), body.size()));
  CHECK(memcmp(came.data(), body.data(), body.size()) == 0);
  for (size_t i = body.size(); i < came.size(); i++) CHECK_EQUAL(came[i], 0xee);
  takes(*c.receiver, head);
  guest.join();
  CHECK_EQUAL(c.counters->bytes_in.load(), body.size() + 2 * head.size());
}

TEST(a_payload_lands_in_its_place) {
  for (const size_t size : {size_t{1} << 20, (size_t{1} << 20) + 8, size_t{40000}, size_t{32768}})
    for (const size_t first : {0, 16344, 100})
      for (const size_t every : {1000, 7, 3, 2})
        for (const size_t piece : {8000000, 131248, 5003, 1448})
          payload_in_place(size, first, every, piece);
}

TEST(bytes_that_come_one_by_one_are_a_payload) { payload_in_place(40000, 100, 1000, 1); }

TEST(keys_change_within_a_payload) {
  Connected c({}, (1 << 23) - 5);
  const std::vector<uint8_t> body = numbered(20 * OUTBOARD_TLS_CONTENT, 3);
  std::vector<uint8_t> all;
  unsigned changes = 0;
  for (size_t at = 0; at < body.size(); at += OUTBOARD_TLS_CONTENT) {
    uint8_t update[OUTBOARD_TLS_UPDATE];
    const size_t size = outboard_tls_update(c.guest, update);
    changes += size > 0;
    all.insert(all.end(), update, update + size);
    const auto begin = body.begin() + static_cast<ptrdiff_t>(at);
    const std::vector<uint8_t> record = c.seal({begin, begin + OUTBOARD_TLS_CONTENT});
    all.insert(all.end(), record.begin(), record.end());
  }
  CHECK_EQUAL(changes, 1u);
  std::thread guest([&] { c.send(all); });
  std::vector<uint8_t> came(body.size());
  CHECK(c.receiver->payload(came.data(), came.size(), came.size()));
  CHECK(came == body);
  guest.join();
}

// What was not the guest's is not there to be read.
TEST(a_changed_record_in_place_ends_the_connection) {
  Connected c;
  const std::vector<uint8_t> body(4 * OUTBOARD_TLS_CONTENT, 'x');
  std::vector<uint8_t> all;
  for (size_t i = 0; i < 4; i++) {
    std::vector<uint8_t> record = c.seal({body.begin(), body.begin() + OUTBOARD_TLS_CONTENT});
    if (i == 2) record[3000] ^= 1;
    all.insert(all.end(), record.begin(), record.end());
  }
  std::thread guest([&] { c.send(all); });
  std::vector<uint8_t> came(body.size());
  CHECK(!c.receiver->payload(came.data(), came.size(), came.size()));
  CHECK_EQUAL(errno, EBADMSG);
  guest.join();
  CHECK_EQUAL(c.counters->bytes_in.load(), 2u * OUTBOARD_TLS_CONTENT);
  const auto behind = came.begin() + 2 * OUTBOARD_TLS_CONTENT;
  CHECK(std::search(behind, came.end(), body.begin(), body.begin() + 8) == came.end());
}

// A receiver that does not wait finds the beginning of a record again.
TEST(a_record_in_place_comes_in_two_halves) {
  Connected c;
  std::vector<uint8_t> memory(100000);
  const iovec part{memory.data(), memory.size()};
  const auto receive = [&] { return c.records.receive(c.fds[0], &part, 1, MSG_DONTWAIT); };
  const std::vector<uint8_t> content = numbered(OUTBOARD_TLS_CONTENT, 4);
  c.send(c.seal(content));
  CHECK_EQUAL(receive(), ssize_t{OUTBOARD_TLS_CONTENT});
  for (const ptrdiff_t first : {3, 5, 8000, 16405}) {
    const std::vector<uint8_t> record = c.seal(content);
    c.send({record.begin(), record.begin() + first});
    memory.assign(memory.size(), 0);
    for (int i = 0; i < 2; i++) {
      CHECK_EQUAL(receive(), ssize_t{-1});
      CHECK_EQUAL(errno, EAGAIN);
      CHECK_EQUAL(c.records.unopened().size(), static_cast<size_t>(first));
      CHECK(memcmp(c.records.unopened().data(), record.data(), static_cast<size_t>(first)) == 0);
    }
    c.send({record.begin() + first, record.end()});
    CHECK_EQUAL(receive(), ssize_t{OUTBOARD_TLS_CONTENT});
    CHECK(memcmp(memory.data(), content.data(), content.size()) == 0);
  }
}

TEST(what_lies_in_records_is_found_without_the_socket) {
  Connected c;
  std::vector<uint8_t> all;
  for (int i = 0; i < 40; i++) {
    const std::vector<uint8_t> record = c.seal(numbered(16000, static_cast<uint8_t>(i)));
    all.insert(all.end(), record.begin(), record.end());
  }
  std::thread guest([&] { c.send(all); });
  // Its buffer is full then, and the rest of what was received is in records.
  std::vector<uint8_t> first(100);
  CHECK(c.receiver->payload(first.data(), first.size(), first.size()));
  while (c.receiver->read_ahead() && c.counters->bytes_in.load() < 40 * 16000) {
  }
  guest.join();
  CHECK(!c.receiver->waiting());
  CHECK_EQUAL(c.counters->bytes_in.load(), 40u * 16000);
  std::vector<uint8_t> rest(40 * 16000 - 100);
  CHECK(c.receiver->payload(rest.data(), rest.size(), rest.size()));
  CHECK(memcmp(rest.data() + 15900, numbered(16000, 1).data(), 16000) == 0);
  CHECK(c.receiver->nothing_readable());
}

TEST(what_came_before_the_session_is_first) {
  std::vector<uint8_t> unopened;
  {
    Connected before;
    unopened = before.seal(numbered(100, 5));
  }
  const size_t half = unopened.size() / 2;
  Connected c(std::span<const uint8_t>(unopened).first(half));
  CHECK(!c.receiver->waiting());
  CHECK(c.receiver->nothing_readable());
  c.send({unopened.begin() + static_cast<ptrdiff_t>(half), unopened.end()});
  takes(*c.receiver, numbered(100, 5));
}

TEST(answers_are_sealed) {
  Connected c;
  const std::vector<uint8_t> small = numbered(24, 3), large = numbered(5 << 20, 4);
  std::thread session([&] {
    for (int i = 0; i < 3; i++) {
      iovec parts[3] = {{const_cast<uint8_t *>(small.data()), small.size()},
                        {nullptr, 0},
                        {const_cast<uint8_t *>(large.data()), large.size()}};
      CHECK(c.sender->send(parts, 3));
    }
  });
  const std::vector<uint8_t> came = c.receive(3 * (small.size() + large.size()));
  session.join();
  for (int i = 0; i < 3; i++) {
    const size_t at = static_cast<size_t>(i) * (small.size() + large.size());
    CHECK(memcmp(came.data() + at, small.data(), small.size()) == 0);
    CHECK(memcmp(came.data() + at + small.size(), large.data(), large.size()) == 0);
  }
  CHECK_EQUAL(c.counters->bytes_out.load(), came.size());
}

// Nothing is copied then, and what lies around it stays.
TEST(what_is_spent_is_sealed_in_its_place) {
  Connected c;
  const std::vector<uint8_t> small = numbered(24, 3);
  for (const size_t size : {1 << 20, 3 * OUTBOARD_TLS_CONTENT, OUTBOARD_TLS_CONTENT, 100}) {
    const std::vector<uint8_t> large = numbered(size, 4);
    std::vector<uint8_t> memory(large);
    memory.resize(size + 64, 0xee);
    std::thread session([&] {
      iovec parts[4] = {{const_cast<uint8_t *>(small.data()), small.size()},
                        {memory.data(), size},
                        {nullptr, 0},
                        {const_cast<uint8_t *>(small.data()), small.size()}};
      CHECK(c.sender->send(parts, 4, -1, &parts[1]));
    });
    const std::vector<uint8_t> came = c.receive(size + 2 * small.size());
    session.join();
    CHECK_EQUAL(came.size(), size + 2 * small.size());
    CHECK(memcmp(came.data(), small.data(), small.size()) == 0);
    CHECK(memcmp(came.data() + small.size(), large.data(), size) == 0);
    CHECK(memcmp(came.data() + small.size() + size, small.data(), small.size()) == 0);
    for (size_t i = size; i < memory.size(); i++) CHECK_EQUAL(memory[i], 0xee);
    // It begins a record; its end shares one with what follows.
    for (size_t at = 0; at + OUTBOARD_TLS_CONTENT < size; at += 4096)
      CHECK(memcmp(memory.data() + at, large.data() + at, 4096) != 0);
  }
}

TEST(a_changed_record_ends_the_connection) {
  Connected c;
  std::vector<uint8_t> good = c.seal(numbered(50, 1)), bad = c.seal(numbered(50, 2));
  bad[20] ^= 1;
  good.insert(good.end(), bad.begin(), bad.end());
  c.send(good);
  // What was good before counts.
  takes(*c.receiver, numbered(50, 1));
  CHECK(!c.receiver->fill(1));
  CHECK_EQUAL(errno, EBADMSG);
}

TEST(a_guest_says_that_it_sends_no_more) {
  Connected c;
  uint8_t last[OUTBOARD_TLS_LAST];
  CHECK_EQUAL(outboard_tls_close(c.guest, last), sizeof last);
  c.send({last, last + sizeof last});
  CHECK(!c.receiver->fill(1));
  CHECK_EQUAL(errno, ENOTCONN);
}

TEST(a_connection_goes_on_elsewhere) {
  Connected c;
  std::vector<uint8_t> all;
  for (int i = 0; i < 3; i++) {
    const std::vector<uint8_t> record = c.seal(numbered(1000, static_cast<uint8_t>(i)));
    all.insert(all.end(), record.begin(), record.end());
  }
  // The last one is not all there.
  c.send({all.begin(), all.end() - 10});
  uint8_t some[300];
  const iovec part{some, sizeof some};
  CHECK_EQUAL(c.records.receive(c.fds[0], &part, 1, 0), ssize_t{sizeof some});
  std::vector<uint8_t> state, bytes(c.records.opened().begin(), c.records.opened().end());
  CHECK_EQUAL(bytes.size(), 700u);
  CHECK(c.records.save(&state));
  Records next(state, c.records.unopened());
  c.send({all.end() - 10, all.end()});
  while (bytes.size() < 2700) {
    uint8_t more[1000];
    const iovec rest{more, sizeof more};
    const ssize_t got = next.receive(c.fds[0], &rest, 1, 0);
    CHECK(got > 0);
    bytes.insert(bytes.end(), more, more + got);
  }
  CHECK(memcmp(bytes.data() + 1700, numbered(1000, 2).data(), 1000) == 0);
}

TEST(no_keys_are_no_records) {
  const auto refused = [](std::span<const uint8_t> state, std::span<const uint8_t> unopened) {
    try {
      Records records(state, unopened);
    } catch (const outboard::Error &) {
      return true;
    }
    return false;
  };
  const std::vector<uint8_t> good = state_of(true);
  CHECK(!refused(good, {}));
  CHECK(refused({}, {}));
  CHECK(refused(std::span<const uint8_t>(good).first(100), {}));
  CHECK(refused(good, std::vector<uint8_t>(Records::kMostUnopened + 1)));
}
