// Links: inputs, results, and the way of both.
#include "base/session_limits.h"
#include "commands/image_search.h"
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

namespace {

// Fills in what the linker has said; `tail` gets the texts.
template <class Reply>
void tell_logs(Reply *reply, const Link &link, std::vector<uint8_t> *tail) {
  const auto add = [&](std::string_view text) {
    tail->insert(tail->end(), text.begin(), text.end());
    tail->resize((tail->size() + 7) & ~size_t{7});
    return static_cast<uint32_t>(text.size());
  };
  reply->errors_size = add(link.errors());
  reply->info_size = add(link.info());
}

struct Adding {
  uint64_t request;
  std::shared_ptr<Link> link;
  CUjitInputType type;
  bool named;
  std::string name;
  Compiling options;
};

void add(Session &s, Adding &adding, const Image &image) {
  const std::span<const uint8_t> input = input_of(image);
  wire_LinkAdd_reply reply{};
  if (input.empty()) return s.violation("an image is no input of a link");
  std::vector<uint8_t> tail;
  std::lock_guard lock(adding.link->mutex());
  const CUresult result = adding.link->add(
      adding.type, input, adding.named ? adding.name.c_str() : nullptr, &adding.options);
  reply.state = result == CUDA_SUCCESS ? WIRE_MODULE_LOADED : WIRE_MODULE_REFUSED;
  reply.refused = result;
  tell_logs(&reply, *adding.link, &tail);
  s.answers().send(adding.request, CUDA_SUCCESS, &reply.reply, sizeof reply, tail.data(),
                   tail.size());
}

}  // namespace

void handle_LinkCreate(Session &s, const wire_LinkCreate &q, std::span<const uint8_t> options) {
  if (!options_make_sense(s, options)) return;
  if (!s.links().can_mint(q.link)) return s.violation("a link's handle cannot be minted");
  // The guest knows how many there may be.
  if (!s.links().has_room()) return s.violation("more links at a time than allowed");
  s.links().keep(q.link, s.links().make(s.driver(), options));
  s.posted(WIRE_LinkCreate, CUDA_SUCCESS);
}

void handle_LinkAdd(Session &s, const wire_LinkAdd &q, std::span<const uint8_t> options,
                    std::span<const uint8_t> name) {
  const uint64_t request = q.request.request;
  if (!options_make_sense(s, options)) return;
  std::shared_ptr<Link> link = s.links().find(q.link);
  wire_LinkAdd_reply reply{};
  if (!link)
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE, &reply.reply, sizeof reply);
  if (q.type >= CU_JIT_NUM_INPUT_TYPES) {
    return s.answers().send(request, CUDA_ERROR_INVALID_VALUE, &reply.reply, sizeof reply);
  }
  const auto type = static_cast<CUjitInputType>(q.type);
  Adding adding{request,
                std::move(link),
                type,
                q.named != 0,
                {reinterpret_cast<const char *>(name.data()), name.size()},
                Compiling(options)};
  ImageSearch search(s, {q.hash0, q.hash1, q.hash2, q.hash3}, q.total, Wanted::kInput);
  if (search.over() && q.total > session_limits.coming_bytes) {
    return s.answers().send(request, CUDA_ERROR_OUT_OF_MEMORY, &reply.reply, sizeof reply);
  }
  if (search.over()) {
    reply.state = WIRE_MODULE_WANTED;
    return s.answers().send(request, CUDA_SUCCESS, &reply.reply, sizeof reply);
  }
  // Before anything waits that has its image.
  if (!adding.link->take(q.total)) {
    return s.answers().send(request, CUDA_ERROR_OUT_OF_MEMORY, &reply.reply, sizeof reply);
  }
  s.hand_over();
  if (search.settle()) add(s, adding, *search.image());
}

void handle_LinkComplete(Session &s, const wire_LinkComplete &q) {
  const uint64_t request = q.request.request;
  wire_LinkComplete_reply reply{};
  const std::shared_ptr<Link> link = s.links().find(q.link);
  if (!link)
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE, &reply.reply, sizeof reply);
  s.hand_over();
  std::vector<uint8_t> tail;
  std::lock_guard lock(link->mutex());
  reply.refused = link->complete();
  tell_logs(&reply, *link, &tail);
  std::shared_ptr<Image> image;
  Hash hash{};
  if (reply.refused == CUDA_SUCCESS) {
    reply.size = link->result().size();
    image = image_of_result(link->result());
  }
  if (image) {
    hash = blake2b({image->data(), image->size()});
    s.device().modules().keep(hash, image, s.sharer().tenant);
  }
  s.answers().send(request, CUDA_SUCCESS, &reply.reply, sizeof reply, tail.data(), tail.size());
  if (image) s.device().modules().save(hash, *image, s.sharer().tenant);
}

void handle_LinkFetch(Session &s, const wire_LinkFetch &q) {
  const uint64_t request = q.request.request;
  const std::shared_ptr<Link> link = s.links().find(q.link);
  if (!link) return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE);
  s.hand_over();
  std::lock_guard lock(link->mutex());
  const std::span<const uint8_t> result = link->result();
  if (result.empty()) return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE);
  for (size_t at = 0; at < result.size(); at += WIRE_BULK_MAX) {
    const size_t part = std::min<size_t>(WIRE_BULK_MAX, result.size() - at);
    if (!s.answers().data(request, at, result.data() + at, part)) return;
  }
  s.answers().send(request, CUDA_SUCCESS);
}

void handle_LinkDestroy(Session &s, const wire_LinkDestroy &q) {
  s.posted(WIRE_LinkDestroy, s.links().end(q.link) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace outboard
