// Modules and kernels.
#include <cstring>

#include "base/log.h"
#include "base/session_limits.h"
#include "commands/image_search.h"
#include "commands/text.h"
#include "dispatch.h"
#include "session/loading.h"
#include "session/session.h"

namespace outboard {

namespace {

// Asks for an image, unless it is one that could not be sent.
void want(Session &s, Loading &loading) {
  if (loading.total > session_limits.coming_bytes) return answer_no_room(s, loading);
  answer_state(s, loading, CUDA_SUCCESS, WIRE_MODULE_WANTED);
}

void find_and_load(Session &s, Loading loading) {
  if (!s.loaded().can_mint(loading.handle)) {
    return s.violation("a module's handle cannot be minted");
  }
  if (!s.has_room<CUmodule>()) {
    s.pending_images().forget(loading.hash);
    return answer_state(s, loading, CUDA_ERROR_OUT_OF_MEMORY, 0);
  }
  ImageSearch search(s, loading.hash, loading.total, Wanted::kModule);
  if (search.over()) return want(s, loading);
  // Others may be loading, and each has its image meanwhile.
  ImageRoom::Taken room(s.image_room(), loading.total, false);
  if (!room.there()) return answer_no_room(s, loading);
  const Session::Keeps keeps(s);
  s.hand_over();
  if (!search.settle()) return;
  if (!search.image()) return want(s, loading);
  // Writing takes time, and nobody waits for it.
  if (load(s, loading, search.image(), room)) search.save();
}

}  // namespace

void handle_ModulePiece(Session &s, const wire_ModulePiece &in_place) {
  const wire_ModulePiece q = in_place;  // receiving the payload overwrites the frame
  if (q.offset > q.total || q.length > q.total - q.offset) {
    return s.violation("a piece lies outside its image");
  }
  const char *why = nullptr;
  const Hash hash = {q.hash0, q.hash1, q.hash2, q.hash3};
  PendingImage *pending = s.pending_images().get(hash, q.total, &why);
  if (!pending) return s.violation(why);
  // The payload's padding lands behind it, where the next piece may already be.
  uint8_t *to = pending->image()->data() + q.offset;
  uint64_t behind;
  memcpy(&behind, to + q.length, sizeof behind);
  if (!s.payload(to, q.length)) return;
  memcpy(to + q.length, &behind, sizeof behind);
  if (!pending->arrived(q.offset, q.length)) {
    return s.violation("an image is sent in more fragments than allowed");
  }
  s.posted(WIRE_ModulePiece, CUDA_SUCCESS);
}

void handle_ModuleOpen(Session &s, const wire_ModuleOpen &q, std::span<const uint8_t> options) {
  if (!options_make_sense(s, options)) return;
  find_and_load(s, {q.request.request,
                    q.module,
                    {q.hash0, q.hash1, q.hash2, q.hash3},
                    q.total,
                    true,
                    options.empty(),
                    Compiling(options),
                    {options.begin(), options.end()}});
}

void handle_ModuleTake(Session &s, const wire_ModuleTake &q) {
  if (!s.loaded().can_mint(q.module)) return s.violation("a module's handle cannot be minted");
  std::unique_ptr<Module> module = s.expected().take(q.index);
  if (!module) return s.violation("a module is taken that is not there");
  s.note_used(*module);
  s.claimed(*module, q.module);
  s.loaded().keep(q.module, module);
  s.posted(WIRE_ModuleTake, CUDA_SUCCESS);
}

// As guests of earlier releases ask for it.
void handle_ModuleLoad(Session &s, const wire_ModuleLoad &q) {
  find_and_load(s, {q.request.request,
                    q.module,
                    {q.hash0, q.hash1, q.hash2, q.hash3},
                    q.total,
                    false,
                    false,
                    {}});
}

void handle_ModuleUnload(Session &s, const wire_ModuleUnload &q) {
  const std::shared_ptr<Module> module = s.loaded().take(q.module);
  if (!module) return s.posted(WIRE_ModuleUnload, CUDA_ERROR_INVALID_HANDLE);
  s.drop_functions_of(module.get());
  s.textures().drop_references_of(module.get());
  s.reconsider(Hindrance::kTextureReferences);
  for (uint64_t address : module->globals) s.memory().remove_global(address);
  s.unloading(*module);
  // It counts until the driver is rid of it.
  s.posted_aside(WIRE_ModuleUnload, [&s, module] {
    const CUresult result = s.driver().cuLibraryUnload(module->library);
    s.unloaded(*module);
    return result;
  });
}

void handle_ModuleGlobal(Session &s, const wire_ModuleGlobal &q, std::span<const uint8_t> name) {
  const uint64_t request = q.request.request;
  wire_ModuleGlobal_reply reply{};
  Module *module = s.loaded().find(q.module);
  if (!module)
    return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE, &reply.reply, sizeof reply);
  Variable found;
  const CUresult result = module->variable(s.driver(), text_of(name), &found);
  if (result == CUDA_SUCCESS) {
    s.make_reachable(module, found);
    if (!s.arrives()) s.device().modules().learn(module->hash, s.sharer().tenant, found.name);
    reply.address = found.address;
    reply.size = found.size;
    reply.managed = found.managed;
  }
  s.answers().send(request, result, &reply.reply, sizeof reply);
}

void handle_FunctionGet(Session &s, const wire_FunctionGet &q, std::span<const uint8_t> name) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_FunctionGet, result); };
  if (!s.objects().can_mint<CUfunction>(q.function)) {
    return s.violation("a function's handle cannot be minted");
  }
  const Module *module = s.loaded().find(q.module);
  if (!module) return posted(CUDA_ERROR_INVALID_HANDLE);
  uint32_t index;
  const CUkernel kernel = module->kernel(s.driver(), q.kernel, text_of(name), &index);
  if (!kernel) return posted(CUDA_ERROR_NOT_FOUND);
  Function function;
  function.module = module;
  function.cost = s.gate().cost_of(text_of(name));
  const CUresult result = s.driver().cuKernelGetFunction(&function.object, kernel);
  if (result != CUDA_SUCCESS) return posted(result);
  // The driver judges what the image has told, now that the kernel is to be used: launches whose
  // parameters are not as many bytes are refused.
  if (const std::optional<Layout> layout = layout_of(s.driver(), kernel)) {
    function.layout_known = true;
    function.parameter_bytes = layout->bytes;
    const Layout *const told = module->told_layout(index);
    if (told && !(*told == *layout)) {
      log_line(LogLevel::kWarn, s.id(),
               "the image of a module and the driver differ in the parameters of its kernel " +
                   text_of(name));
    }
  }
  s.objects().keep(q.function, function);
  posted(CUDA_SUCCESS);
}

void handle_FunctionFind(Session &s, const wire_FunctionFind &q, std::span<const uint8_t> name) {
  const uint64_t request = q.request.request;
  wire_FunctionFind_reply reply{};
  const auto answer = [&](CUresult result) {
    s.answers().send(request, result, &reply.reply, sizeof reply);
  };
  const Module *module = s.loaded().find(q.module);
  if (!module) return answer(CUDA_ERROR_INVALID_HANDLE);
  const CUkernel kernel = module->kernel(s.driver(), UINT32_MAX, text_of(name), &reply.kernel);
  if (!kernel) return answer(CUDA_ERROR_NOT_FOUND);
  std::optional<Layout> asked;
  const Layout *layout = module->told_layout(reply.kernel);
  if (!layout) {
    asked = layout_of(s.driver(), kernel);
    if (!asked) return answer(CUDA_ERROR_NOT_SUPPORTED);
    layout = &*asked;
  }
  reply.parameter_bytes = layout->bytes;
  reply.layout_size = static_cast<uint32_t>(layout->parameters.size() * sizeof(wire_parameter));
  s.answers().send(request, CUDA_SUCCESS, &reply.reply, sizeof reply, layout->parameters.data(),
                   reply.layout_size);
}

}  // namespace outboard
