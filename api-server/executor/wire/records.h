// Records of TLS on the guest's connection, behind the handshake (tls/). Where there are any, the
// receiver and the sender move bytes through this instead of the socket. One thread may receive
// while another sends.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

struct outboard_tls;
struct outboard_tls_content;

namespace outboard {

class Records {
 public:
  // Sizes of what `save` writes, and of the most that `unopened` has.
  static constexpr size_t kStateBytes = 120;
  static const size_t kMostUnopened;

  // `state` says where the connection is, and `unopened` has come already. Throws Error where it is
  // none, or there is no TLS in this build.
  Records(std::span<const uint8_t> state, std::span<const uint8_t> unopened);
  // Overwrites the keys and what was received.
  ~Records();
  Records(const Records &) = delete;

  // As recvmsg, of what is in the records; -1 and EBADMSG where one is not the guest's next one.
  // Takes up what has been received before it asks the socket. The parts are memory that nobody
  // else uses meanwhile: also behind what it returns they may have changed, and what was not the
  // guest's may have lain there.
  ssize_t receive(int fd, const iovec *parts, int count, int flags);
  // Whether `receive` has something without the socket, even if that is a failure.
  bool waiting() const;

  // Seals as many bytes of the parts as there is room for, and takes them away from these; those of
  // the part `spent`, where that is one of them, in their place. Returns what is to be sent, which
  // stays until the next call, as what is spent must; nothing: nothing can be sent any more.
  std::span<iovec> seal(iovec *&parts, int &count, const iovec *spent = nullptr);

  // For another process, while nobody receives or sends: what was opened and not taken is for its
  // receiver, and what `unopened` returns for its Records. False where a direction has ended.
  bool save(std::vector<uint8_t> *state) const;
  std::span<const uint8_t> opened() const { return {content_, content_size_}; }
  std::span<const uint8_t> unopened() const;

 private:
  bool open_next();
  bool opened(int failure, const outboard_tls_content &content);
  bool next_is_full() const;
  std::optional<ssize_t> receive_in_place(int fd, const iovec &to, int flags);
  size_t open_in_place(uint8_t *to, size_t records, size_t got);
  void gather(uint8_t *to, size_t from, size_t got);
  std::span<uint8_t> place(uint8_t *to, size_t offset);

  struct Ends {
    void operator()(outboard_tls *tls) const;
  };
  std::unique_ptr<outboard_tls, Ends> tls_;
  const uint8_t *content_ = nullptr;  // of a record that was opened, what was not taken
  size_t content_size_ = 0;
  size_t begin_ = 0;  // of what has come and was not opened
  size_t end_ = 0;
  bool closed_ = false;  // the guest sends no more
  bool damaged_ = false;
  bool last_was_full_ = false;  // the record that was opened last
  std::vector<uint8_t> in_;
  std::vector<uint8_t> edges_;  // headers and trailers of records whose content lies elsewhere
  std::vector<uint8_t> out_;
  std::vector<iovec> sealed_;
};

}  // namespace outboard
