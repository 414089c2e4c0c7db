// Modules and kernels.
#include <cstring>

#include "dispatch.h"
#include "session.h"

namespace outboard {

namespace {

// Of the kernels and their layouts in a load's answer; the guest asks for the others by name.
constexpr size_t kListBytes = 48 << 10;

void append(std::vector<uint8_t> &to, const void *bytes, size_t size) {
  const auto *from = static_cast<const uint8_t *>(bytes);
  to.insert(to.end(), from, from + size);
}

// False when the kernel does not fit any more.
bool append_kernel(std::vector<uint8_t> &list, const Kernel &kernel, uint32_t index,
                   const Layout &layout) {
  const size_t name_space = (kernel.name.size() + 7) & ~size_t{7};
  const size_t size =
      sizeof(wire_kernel) + layout.parameters.size() * sizeof(wire_parameter) + name_space;
  if (list.size() + size > kListBytes) return false;
  const wire_kernel entry = {static_cast<uint32_t>(kernel.name.size()),
                             static_cast<uint32_t>(layout.parameters.size()), layout.bytes, index};
  append(list, &entry, sizeof entry);
  append(list, layout.parameters.data(), layout.parameters.size() * sizeof(wire_parameter));
  append(list, kernel.name.data(), kernel.name.size());
  list.resize((list.size() + 7) & ~size_t{7});
  return true;
}

std::vector<uint8_t> list_kernels(const Driver &driver, const Module &module,
                                  wire_ModuleLoad_reply *reply) {
  std::vector<uint8_t> list;
  reply->kernels = static_cast<uint32_t>(module.kernels.size());
  for (uint32_t i = 0; i < reply->kernels; i++) {
    // A kernel whose layout is not known is left out: the guest must not guess.
    const std::optional<Layout> layout = layout_of(driver, module.kernels[i].object);
    if (!layout) continue;
    if (!append_kernel(list, module.kernels[i], i, *layout)) break;
    ++reply->listed;
  }
  reply->list_size = static_cast<uint32_t>(list.size());
  return list;
}

void answer_state(Session &s, uint64_t request, CUresult result, uint32_t state) {
  wire_ModuleLoad_reply reply{};
  reply.state = state;
  s.answer(request, result, &reply.reply, sizeof reply);
}

void load(Session &s, uint64_t request, uint64_t handle, std::shared_ptr<const Image> image) {
  std::unique_ptr<Module> module;
  const CUresult result = s.load_module(std::move(image), &module);
  if (result != CUDA_SUCCESS) return answer_state(s, request, result, 0);
  count(s.count().modules);
  wire_ModuleLoad_reply reply{};
  reply.state = WIRE_MODULE_LOADED;
  const std::vector<uint8_t> list = list_kernels(s.driver(), *module, &reply);
  // From here on it is the leader's, who may unload it at once.
  if (!s.loaded().keep(handle, module)) {
    s.driver().cuLibraryUnload(module->library);
    s.unloaded(*module);
    return s.violation("a module's handle was used twice");
  }
  s.flush_output();
  s.answer(request, CUDA_SUCCESS, &reply.reply, sizeof reply, list.data(), list.size());
}

std::string text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char *>(bytes.data()),
          strnlen(reinterpret_cast<const char *>(bytes.data()), bytes.size())};
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

void handle_ModuleLoad(Session &s, const wire_ModuleLoad &q) {
  const uint64_t request = q.request.request;
  const uint64_t handle = q.module;
  const Hash hash = {q.hash0, q.hash1, q.hash2, q.hash3};
  if (!s.loaded().can_mint(handle)) return s.violation("a module's handle cannot be minted");
  if (!s.has_room<CUmodule>()) return answer_state(s, request, CUDA_ERROR_OUT_OF_MEMORY, 0);
  if (std::shared_ptr<const Image> known = s.device().modules().find(hash, q.total)) {
    s.hand_over();
    return load(s, request, handle, std::move(known));
  }
  std::shared_ptr<Image> sent = s.pending_images().take_complete(hash, q.total);
  if (!sent) return answer_state(s, request, CUDA_SUCCESS, WIRE_MODULE_WANTED);
  s.hand_over();
  if (sha256({sent->data(), sent->size()}) != hash) {
    return s.violation("an image is not what its hash says");
  }
  s.device().modules().keep(hash, sent);
  load(s, request, handle, std::move(sent));
}

void handle_ModuleUnload(Session &s, const wire_ModuleUnload &q) {
  const std::unique_ptr<Module> module = s.loaded().take(q.module);
  if (!module) return s.posted(WIRE_ModuleUnload, CUDA_ERROR_INVALID_HANDLE);
  s.drop_functions_of(module.get());
  for (uint64_t address : module->globals) s.memory().remove_global(address);
  s.unloaded(*module);
  s.posted(WIRE_ModuleUnload, s.driver().cuLibraryUnload(module->library));
}

void handle_ModuleGlobal(Session &s, const wire_ModuleGlobal &q, std::span<const uint8_t> name) {
  const uint64_t request = q.request.request;
  wire_ModuleGlobal_reply reply{};
  Module *module = s.loaded().find(q.module);
  if (!module) return s.answer(request, CUDA_ERROR_INVALID_HANDLE, &reply.reply, sizeof reply);
  CUdeviceptr address = 0;
  size_t size = 0;
  const std::string wanted = text(name);
  CUresult result = s.driver().cuLibraryGetGlobal(&address, &size, module->library, wanted.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    result = s.driver().cuLibraryGetManaged(&address, &size, module->library, wanted.c_str());
  }
  if (result == CUDA_SUCCESS) {
    if (s.memory().add_global(address, size)) module->globals.push_back(address);
    reply.address = address;
    reply.size = size;
  }
  s.answer(request, result, &reply.reply, sizeof reply);
}

void handle_FunctionGet(Session &s, const wire_FunctionGet &q, std::span<const uint8_t> name) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_FunctionGet, result); };
  if (!s.can_mint<CUfunction>(q.function)) {
    return s.violation("a function's handle cannot be minted");
  }
  const Module *module = s.loaded().find(q.module);
  if (!module) return posted(CUDA_ERROR_INVALID_HANDLE);
  uint32_t index;
  const CUkernel kernel = module->kernel(s.driver(), q.kernel, text(name), &index);
  if (!kernel) return posted(CUDA_ERROR_NOT_FOUND);
  Function function;
  function.module = module;
  function.cost = s.gate().kernel(text(name));
  const CUresult result = s.driver().cuKernelGetFunction(&function.object, kernel);
  if (result != CUDA_SUCCESS) return posted(result);
  if (const std::optional<Layout> layout = layout_of(s.driver(), kernel)) {
    function.layout_known = true;
    function.parameter_bytes = layout->bytes;
  }
  s.keep(q.function, function);
  posted(CUDA_SUCCESS);
}

void handle_FunctionFind(Session &s, const wire_FunctionFind &q, std::span<const uint8_t> name) {
  const uint64_t request = q.request.request;
  wire_FunctionFind_reply reply{};
  const auto answer = [&](CUresult result) {
    s.answer(request, result, &reply.reply, sizeof reply);
  };
  const Module *module = s.loaded().find(q.module);
  if (!module) return answer(CUDA_ERROR_INVALID_HANDLE);
  const CUkernel kernel = module->kernel(s.driver(), UINT32_MAX, text(name), &reply.kernel);
  if (!kernel) return answer(CUDA_ERROR_NOT_FOUND);
  const std::optional<Layout> layout = layout_of(s.driver(), kernel);
  if (!layout) return answer(CUDA_ERROR_NOT_SUPPORTED);
  reply.parameter_bytes = layout->bytes;
  reply.layout_size = static_cast<uint32_t>(layout->parameters.size() * sizeof(wire_parameter));
  s.answer(request, CUDA_SUCCESS, &reply.reply, sizeof reply, layout->parameters.data(),
           reply.layout_size);
}

}  // namespace outboard
