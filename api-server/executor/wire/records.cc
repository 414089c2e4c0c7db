#include "wire/records.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "outboard_tls.h"

namespace outboard {

namespace {

// Many records with one call, and the beginning of another behind them.
constexpr size_t kIn = (256 << 10) + OUTBOARD_TLS_RECORD;
constexpr size_t kOutRecords = 8;
constexpr size_t kOut =
    OUTBOARD_TLS_UPDATE + kOutRecords * (OUTBOARD_TLS_CONTENT + OUTBOARD_TLS_OVERHEAD);

}  // namespace

static_assert(Records::kStateBytes == OUTBOARD_TLS_STATE);
const size_t Records::kMostUnopened = kIn;

void Records::Ends::operator()(outboard_tls *tls) const { outboard_tls_end(tls); }

Records::Records(std::span<const uint8_t> state, std::span<const uint8_t> unopened)
    : in_(kIn), out_(kOut) {
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

// Whether there was something to open: content, an end, or a failure.
bool Records::open_next() {
  outboard_tls_content content;
  const int failure = outboard_tls_open(tls_.get(), in_.data() + begin_, end_ - begin_, &content);
  begin_ += content.used;
  content_ = content.at;
  content_size_ = content.size;
  if (failure == OUTBOARD_TLS_CLOSED) closed_ = true;
  // An alert of any other kind ends it as well.
  else if (failure != 0)
    damaged_ = true;
  return failure != 0 || content.used != 0;
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
    // The rest of a record has room behind what is there of it.
    if (begin_ == end_ || kIn - begin_ < OUTBOARD_TLS_RECORD) {
      memmove(in_.data(), in_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    const ssize_t got = recv(fd, in_.data() + end_, kIn - end_, flags);
    if (got <= 0) return got;
    end_ += static_cast<size_t>(got);
  }
}

std::span<const uint8_t> Records::seal(iovec *&parts, int &count) {
  uint8_t *at = out_.data() + outboard_tls_update(tls_.get(), out_.data());
  for (size_t records = 0; records < kOutRecords && count > 0; records++) {
    uint8_t *const content = at + OUTBOARD_TLS_HEADER;
    size_t have = 0;
    while (count > 0 && have < OUTBOARD_TLS_CONTENT) {
      const size_t piece = std::min<size_t>(OUTBOARD_TLS_CONTENT - have, parts->iov_len);
      if (piece > 0) memcpy(content + have, parts->iov_base, piece);
      have += piece;
      parts->iov_base = static_cast<uint8_t *>(parts->iov_base) + piece;
      parts->iov_len -= piece;
      if (parts->iov_len > 0) continue;
      ++parts;
      --count;
    }
    const size_t sealed = outboard_tls_seal(tls_.get(), at, have);
    if (sealed == 0) return {};
    at += sealed;
  }
  return {out_.data(), static_cast<size_t>(at - out_.data())};
}

bool Records::save(std::vector<uint8_t> *state) const {
  state->resize(OUTBOARD_TLS_STATE);
  return !closed_ && !damaged_ && outboard_tls_save(tls_.get(), state->data()) == 0;
}

}  // namespace outboard
