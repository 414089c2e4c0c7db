#include "session/learnt.h"

#include <cstring>
#include <vector>

#include "learnt_calls.h"
#include "libraries/cublas.h"
#include "session/session.h"

namespace outboard {

namespace {

// What is told, as learnt_calls.h of the wire says.
class Told {
 public:
  // False: there is no room for it.
  bool add(uint64_t key, int32_t status, const void *results, uint32_t size) {
    const learnt_call head{key, status, size};
    const size_t padded = (size_t{size} + 7) / 8 * 8;
    if (size > LEARNT_RESULTS_MOST) return true;
    if (bytes_.size() + sizeof head + padded > LEARNT_BYTES_MOST) return false;
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof head + padded);
    memcpy(&bytes_[at], &head, sizeof head);
    if (size) memcpy(&bytes_[at + sizeof head], results, size);
    return true;
  }
  const std::vector<uint8_t> &bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// Whether the library was asked, so that it has told its status.
bool ask_again(Session &s, const LearntCalls::Call &call, int *status, LtAnswer *answer) {
  Libraries &libraries = s.libraries();
  LtArguments arguments;
  const auto *bytes = reinterpret_cast<const uint8_t *>(call.arguments.data());
  if (arguments.decode(call.function, {bytes, call.arguments.size() * 8})) return false;
  if (arguments.starts() || (arguments.has_algo && !libraries.algos().has(arguments.algo)))
    return false;
  void *const handle = libraries.lt_handle(status);
  if (!handle) return false;
  *status = libraries.cublas()->lt().ask(handle, arguments, &libraries.algos(), answer);
  // The algorithms are this machine's.
  s.hinder(Hindrance::kLibraries);
  return true;
}

}  // namespace

void tell_learnt(Session &s) {
  s.run([&s, keeps = std::make_shared<Session::Keeps>(s)] {
    Told told;
    for (const LearntCalls::Call &call : s.libraries().learnt().all()) {
      if (s.is_ending() || !s.libraries().cublas()) break;
      LtAnswer answer;
      int status = kCublasSuccess;
      const bool lt_starts = call.function == LearntCalls::kStartsLt;
      // It is posted, so its handle has to be there.
      if (lt_starts && !s.libraries().lt_handle(&status)) continue;
      if (lt_starts || call.function == LearntCalls::kStarts) {
        if (!told.add(call.key, kCublasSuccess, nullptr, 0)) break;
        continue;
      }
      if (!ask_again(s, call, &status, &answer)) continue;
      if (cublas_status_lasts(status) && !told.add(call.key, status, answer.words, answer.size))
        break;
    }
    wire_LibraryAsk_reply reply{};
    reply.results_size = static_cast<uint32_t>(told.bytes().size());
    s.answers().send(WIRE_LEARNT, CUDA_SUCCESS, &reply.reply, sizeof reply, told.bytes().data(),
                     told.bytes().size());
  });
}

}  // namespace outboard
