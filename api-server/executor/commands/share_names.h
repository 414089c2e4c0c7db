// Share names (offers.h) in commands and their answers.
#pragma once

#include <optional>

#include "memory/offers.h"
#include "session/session.h"

namespace outboard {

template <class Q>
ShareName share_name_of(const Q &q) {
  return {{q.name0, q.name1, q.name2, q.name3, q.name4, q.name5, q.name6, q.name7}};
}

template <class Reply>
void answer_share_name(Session &s, uint64_t request, CUresult result,
                       const std::optional<ShareName> &name) {
  Reply reply{};
  if (name) {
    const auto &w = name->words;
    reply.name0 = w[0], reply.name1 = w[1], reply.name2 = w[2], reply.name3 = w[3];
    reply.name4 = w[4], reply.name5 = w[5], reply.name6 = w[6], reply.name7 = w[7];
  } else if (result == CUDA_SUCCESS) {
    result = CUDA_ERROR_OPERATING_SYSTEM;
  }
  s.answers().send(request, result, &reply.reply, sizeof reply);
}

}  // namespace outboard
