#include "wire/records.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "outboard_tls.h"
#include "wire/parts.h"

namespace outboard {

namespace {

// Many records with one call, and the beginning of another behind them.
constexpr size_t kIn = (256 << 10) + OUTBOARD_TLS_RECORD;
// Of a record with as much content as there can be, which is what a payload comes in. So many are
// received in place with one call: they stay in a processor's cache until they are opened.
constexpr size_t kContent = OUTBOARD_TLS_CONTENT;
constexpr size_t kFull = kContent + OUTBOARD_TLS_OVERHEAD;
constexpr size_t kInPlace = 15;
constexpr uint8_t kFullHeader[] = {23, 3, 3, (kContent + OUTBOARD_TLS_TRAILER) >> 8,
                                   (kContent + OUTBOARD_TLS_TRAILER) & 255};
static_assert(sizeof kFullHeader == OUTBOARD_TLS_HEADER);
// What was not opened in place goes there after all.
static_assert(kInPlace * kFull + OUTBOARD_TLS_RECORD <= kIn);
// The header of the first record, then each one's trailer with the header behind it.
constexpr size_t kEdge = OUTBOARD_TLS_OVERHEAD;

// Puts a piece behind the others, of which it may be the rest.
void add(iovec *pieces, size_t *count, uint8_t *at, size_t size) {
  if (*count > 0) {
    iovec &last = pieces[*count - 1];
    if (static_cast<uint8_t *>(last.iov_base) + last.iov_len == at) {
      last.iov_len += size;
      return;
    }
  }
  pieces[(*count)++] = {at, size};
}

constexpr size_t kOutRecords = 8;
constexpr size_t kOut = OUTBOARD_TLS_UPDATE + kOutRecords * kFull;

}  // namespace

static_assert(Records::kStateBytes == OUTBOARD_TLS_STATE);
const size_t Records::kMostUnopened = kIn;

void Records::Ends::operator()(outboard_tls *tls) const { outboard_tls_end(tls); }

Records::Records(std::span<const uint8_t> state, std::span<const uint8_t> unopened)
    : in_(kIn), edges_(kInPlace * kEdge), out_(kOut), sealed_(2 * kOutRecords + 1) {
  outboard_tls *tls = nullptr;
  if (outboard_tls_restore(state.data(), state.size(), &tls) != 0)
    throw Error("OB_INTERNAL", "what should be the keys of a connection by TLS is none");
  tls_.reset(tls);
  if (unopened.size() > kIn)
    throw Error("OB_INTERNAL", "more records arrived before the session than a guest may send");
  if (!unopened.empty()) memcpy(in_.data(), unopened.data(), unopened.size());
  end_ = unopened.size();
}

Records::~Records() { explicit_bzero(in_.data(), in_.size()); }

std::span<const uint8_t> Records::unopened() const { return {in_.data() + begin_, end_ - begin_}; }

// Notes what a record has brought. False: nothing, as more bytes are needed.
bool Records::opened(int failure, const outboard_tls_content &content) {
  content_ = content.at;
  content_size_ = content.size;
  if (content.used != 0) last_was_full_ = content.used == kFull;
  if (failure == OUTBOARD_TLS_CLOSED) closed_ = true;
  // An alert of any other kind ends it as well.
  else if (failure != 0)
    damaged_ = true;
  return failure != 0 || content.used != 0;
}

// Whether there was something to open: content, an end, or a failure.
bool Records::open_next() {
  outboard_tls_content content;
  const int failure = outboard_tls_open(tls_.get(), in_.data() + begin_, end_ - begin_, &content);
  begin_ += content.used;
  return opened(failure, content);
}

bool Records::waiting() const {
  return content_size_ != 0 || closed_ || damaged_ ||
         outboard_tls_has_record(in_.data() + begin_, end_ - begin_);
}

ssize_t Records::receive(int fd, const iovec *parts, int count, int flags) {
  size_t taken = 0;
  size_t filled = 0;  // of the first part
  for (;;) {
    while (content_size_ > 0 && count > 0) {
      const size_t piece = std::min(content_size_, parts->iov_len - filled);
      memcpy(static_cast<uint8_t *>(parts->iov_base) + filled, content_, piece);
      content_ += piece;
      content_size_ -= piece;
      taken += piece;
      filled += piece;
      if (filled < parts->iov_len) continue;
      ++parts;
      --count;
      filled = 0;
    }
    if (count == 0) return static_cast<ssize_t>(taken);
    if (!closed_ && !damaged_ && open_next()) continue;
    if (taken > 0 || closed_) return static_cast<ssize_t>(taken);
    if (damaged_) {
      errno = EBADMSG;
      return -1;
    }
    // More than one part is for a payload, which begins a record.
    if (parts->iov_len > kContent && (next_is_full() || (count > 1 && begin_ == end_))) {
      if (const auto got = receive_in_place(fd, *parts, flags)) return *got;
      continue;
    }
    // The rest of a record has room behind what is there of it.
    if (begin_ == end_ || kIn - begin_ < OUTBOARD_TLS_RECORD) {
      memmove(in_.data(), in_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    // Not more than is asked for, or what completes a record: what follows may be received in
    // place.
    size_t most = 0;
    for (int i = 0; i < count; i++) most += parts[i].iov_len;
    most += (most / kContent + 1) * OUTBOARD_TLS_OVERHEAD;
    if (end_ - begin_ >= OUTBOARD_TLS_HEADER) most = std::max<size_t>(most, OUTBOARD_TLS_RECORD);
    const ssize_t got = recv(fd, in_.data() + end_, std::min(most, kIn - end_), flags);
    if (got <= 0) return got;
    end_ += static_cast<size_t>(got);
  }
}

// ---- payload, whose content is received where it belongs ----------------------------------------

// Whether a record of the largest size comes next, as far as that can be known: where it is not so,
// what has come is copied back.
bool Records::next_is_full() const {
  const size_t here = std::min(end_ - begin_, sizeof kFullHeader);
  return (here == sizeof kFullHeader || last_was_full_) &&
         memcmp(in_.data() + begin_, kFullHeader, here) == 0;
}

// Where the byte at `offset` of the records is, if the contents lie one behind the other from `to`
// on; and how many follow there.
std::span<uint8_t> Records::place(uint8_t *to, size_t offset) {
  const size_t record = offset / kFull;
  size_t within = offset % kFull;
  uint8_t *const edge = edges_.data() + record * kEdge;
  if (within < OUTBOARD_TLS_HEADER) return {edge + within, OUTBOARD_TLS_HEADER - within};
  within -= OUTBOARD_TLS_HEADER;
  if (within < kContent) return {to + record * kContent + within, kContent - within};
  within -= kContent;
  return {edge + OUTBOARD_TLS_HEADER + within, OUTBOARD_TLS_TRAILER - within};
}

// As recv, of what there is of whole records, and waits for one; nothing where what comes is for
// open_next.
std::optional<ssize_t> Records::receive_in_place(int fd, const iovec &part, int flags) {
  auto *const to = static_cast<uint8_t *>(part.iov_base);
  // The byte behind a content is needed to open it.
  const size_t records = std::min((part.iov_len - 1) / kContent, kInPlace), all = records * kFull;
  if (begin_ == end_) begin_ = end_ = 0;
  size_t held = end_ - begin_;
  bool moved = held == 0;  // what is held, to its place
  do {
    iovec places[2 * kInPlace + 2];
    size_t count = 0;
    for (size_t at = held; at < all;) {
      const std::span<uint8_t> next = place(to, at);
      add(places, &count, next.data(), next.size());
      at += next.size();
    }
    // A record at most of what follows.
    const size_t beyond = std::min<size_t>(OUTBOARD_TLS_RECORD, kIn - end_);
    add(places, &count, in_.data() + end_, beyond);
    msghdr message{};
    message.msg_iov = places;
    message.msg_iovlen = count;
    const ssize_t got = recvmsg(fd, &message, flags);
    if (got <= 0) {
      if (moved) gather(to, 0, held);
      return got;
    }
    if (!moved) {
      for (size_t at = 0; at < held;) {
        const std::span<uint8_t> next = place(to, at);
        const size_t size = std::min(next.size(), held - at);
        memcpy(next.data(), in_.data() + begin_ + at, size);
        at += size;
      }
      begin_ = end_;
      moved = true;
    }
    held += static_cast<size_t>(got);
    if (held > all) end_ += held - all;
    held = std::min(held, all);
  } while (held < kFull &&
           memcmp(edges_.data(), kFullHeader, std::min(held, sizeof kFullHeader)) == 0);
  const size_t taken = open_in_place(to, records, held);
  if (taken == 0) return std::nullopt;
  return static_cast<ssize_t>(taken);
}

// Opens records of which `got` bytes have come, and returns how much content there is from `to` on.
// What cannot be opened there is put in front of what else has come.
size_t Records::open_in_place(uint8_t *to, size_t records, size_t got) {
  size_t taken = 0;
  for (size_t record = 0; record < records; record++) {
    const uint8_t *const edge = edges_.data() + record * kEdge;
    const size_t from = record * kFull;
    if (got < from + kFull || memcmp(edge, kFullHeader, sizeof kFullHeader) != 0) {
      gather(to, from, got);
      return taken;
    }
    outboard_tls_content content;
    const int failure = outboard_tls_open_apart(tls_.get(), edge, to + record * kContent, kContent,
                                                edge + OUTBOARD_TLS_HEADER, &content);
    opened(failure, content);
    taken += content_size_;
    content_size_ = 0;
    if (failure != 0) return taken;
    if (content.size == kContent) continue;
    // Padded, or no data.
    gather(to, from + kFull, got);
    return taken;
  }
  return taken;
}

// Puts the bytes from `from` on, of `got`, in front of what has come behind them.
void Records::gather(uint8_t *to, size_t from, size_t got) {
  if (from >= got) return;
  const size_t beyond = end_ - begin_;
  memmove(in_.data() + (got - from), in_.data() + begin_, beyond);
  begin_ = 0;
  end_ = got - from + beyond;
  for (uint8_t *at = in_.data(); from < got;) {
    const std::span<uint8_t> next = place(to, from);
    const size_t size = std::min(next.size(), got - from);
    memcpy(at, next.data(), size);
    at += size;
    from += size;
  }
}

// ---- sending ------------------------------------------------------------------------------------

std::span<iovec> Records::seal(iovec *&parts, int &count, const iovec *spent) {
  uint8_t *at = out_.data() + outboard_tls_update(tls_.get(), out_.data());
  size_t pieces = 0;
  add(sealed_.data(), &pieces, out_.data(), static_cast<size_t>(at - out_.data()));
  for (size_t records = 0; records < kOutRecords && count > 0; records++) {
    // The byte behind a content is needed to seal it.
    if (parts == spent && parts->iov_len > kContent) {
      auto *const content = static_cast<uint8_t *>(parts->iov_base);
      uint8_t *const trailer = at + OUTBOARD_TLS_HEADER;
      if (!outboard_tls_seal_apart(tls_.get(), at, content, kContent, trailer)) return {};
      add(sealed_.data(), &pieces, at, OUTBOARD_TLS_HEADER);
      add(sealed_.data(), &pieces, content, kContent);
      add(sealed_.data(), &pieces, trailer, OUTBOARD_TLS_TRAILER);
      at = trailer + OUTBOARD_TLS_TRAILER;
      advance(parts, count, kContent);
      continue;
    }
    uint8_t *const content = at + OUTBOARD_TLS_HEADER;
    size_t have = 0;
    while (count > 0 && have < kContent) {
      if (have > 0 && parts == spent && parts->iov_len > kContent) break;
      const size_t piece = std::min<size_t>(kContent - have, parts->iov_len);
      if (piece > 0) memcpy(content + have, parts->iov_base, piece);
      have += piece;
      advance(parts, count, piece);
    }
    const size_t sealed = outboard_tls_seal(tls_.get(), at, have);
    if (sealed == 0) return {};
    add(sealed_.data(), &pieces, at, sealed);
    at += sealed;
  }
  return {sealed_.data(), pieces};
}

bool Records::save(std::vector<uint8_t> *state) const {
  state->resize(OUTBOARD_TLS_STATE);
  return !closed_ && !damaged_ && outboard_tls_save(tls_.get(), state->data()) == 0;
}

}  // namespace outboard
