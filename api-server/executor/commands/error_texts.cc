// What the driver calls its results: programs print it, and it is the device's driver that they
// ask.
#include <algorithm>
#include <cstring>
#include <string>

#include "dispatch.h"
#include "session/session.h"

namespace outboard {

namespace {

std::string text_of(CUresult (*ask)(CUresult, const char **), int result) {
  const char *text = nullptr;
  if (ask(static_cast<CUresult>(result), &text) != CUDA_SUCCESS || !text) return {};
  return {text, strnlen(text, WIRE_ERROR_TEXT_MAX)};
}

}  // namespace

// A driver newer than our header has results that we know nothing of: all numbers are tried.
void handle_ErrorTexts(Session &s, const wire_ErrorTexts &q) {
  const uint64_t request = q.request.request;
  wire_ErrorTexts_reply reply{};
  std::string list;
  for (int result = 0; result < WIRE_ERROR_TEXTS_MAX; result++) {
    const std::string name = text_of(s.driver().cuGetErrorName, result);
    const std::string sentence = text_of(s.driver().cuGetErrorString, result);
    if (name.empty() && sentence.empty()) continue;
    const wire_error_text head = {result, static_cast<uint16_t>(name.size()),
                                  static_cast<uint16_t>(sentence.size())};
    std::string one(reinterpret_cast<const char *>(&head), sizeof head);
    one += name + sentence;
    one.resize(wire_round_up(static_cast<uint32_t>(one.size())));
    if (sizeof reply + list.size() + one.size() > WIRE_FRAME_MAX) break;
    list += one;
    reply.count++;
  }
  reply.texts_size = static_cast<uint32_t>(list.size());
  s.answers().send(request, CUDA_SUCCESS, &reply.reply, sizeof reply, list.data(), list.size());
}

}  // namespace outboard
