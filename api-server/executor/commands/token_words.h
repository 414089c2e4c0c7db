// Tokens (offers.h) in commands and their answers.
#pragma once

#include <optional>

#include "memory/offers.h"
#include "session/session.h"

namespace outboard {

template <class Q>
Token token_of(const Q &q) {
  return {{q.token0, q.token1, q.token2, q.token3, q.token4, q.token5, q.token6, q.token7}};
}

template <class Reply>
void answer_token(Session &s, uint64_t request, CUresult result,
                  const std::optional<Token> &token) {
  Reply reply{};
  if (token) {
    const auto &w = token->words;
    reply.token0 = w[0], reply.token1 = w[1], reply.token2 = w[2], reply.token3 = w[3];
    reply.token4 = w[4], reply.token5 = w[5], reply.token6 = w[6], reply.token7 = w[7];
  } else if (result == CUDA_SUCCESS) {
    result = CUDA_ERROR_OPERATING_SYSTEM;
  }
  s.answers().send(request, result, &reply.reply, sizeof reply);
}

}  // namespace outboard
