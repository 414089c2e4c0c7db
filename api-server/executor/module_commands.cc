// Modules and kernels.
#include <cstring>

#include "describe.h"
#include "dispatch.h"
#include "image_search.h"
#include "log.h"
#include "session.h"

namespace outboard {

namespace {

// Of the kernels and their layouts in a load's answer; the guest asks for the others by name.
// With the compiler's messages it fits a frame.
constexpr size_t kListBytes = (48 << 10) - 256;
// Kernels of a module are described with its answer if they are no more: to be asked for their
// attributes, they have to be translated or loaded by the driver, used or not.
constexpr size_t kFewKernels = 8;

using Bytes = std::vector<uint8_t>;

void append(Bytes &to, const void *bytes, size_t size) {
  const auto *from = static_cast<const uint8_t *>(bytes);
  to.insert(to.end(), from, from + size);
}

void append_padded(Bytes &to, const void *bytes, size_t size) {
  append(to, bytes, size);
  to.resize((to.size() + 7) & ~size_t{7});
}

struct KernelList {
  Bytes bytes;
  uint32_t listed = 0;
};

// `describe`: with attributes.
KernelList list_kernels(const Driver &driver, const Module &module, bool describe) {
  KernelList list;
  for (uint32_t i = 0; i < module.kernels.size(); i++) {
    const Kernel &kernel = module.kernels[i];
    // A kernel whose layout is not known is left out: the guest must not guess.
    const std::optional<Layout> layout = layout_of(driver, kernel.object);
    if (!layout) continue;
    const size_t size = sizeof(wire_kernel) + (describe ? sizeof(wire_description) : 0) +
                        layout->parameters.size() * sizeof(wire_parameter) +
                        ((kernel.name.size() + 7) & ~size_t{7});
    if (list.bytes.size() + size > kListBytes) break;
    const wire_kernel entry = {static_cast<uint32_t>(kernel.name.size()),
                               static_cast<uint32_t>(layout->parameters.size()), layout->bytes, i};
    append(list.bytes, &entry, sizeof entry);
    if (describe) {
      CUfunction function = nullptr;
      wire_description description{};
      if (driver.cuKernelGetFunction(&function, kernel.object) == CUDA_SUCCESS) {
        description = describe_function(driver, function);
      }
      append(list.bytes, &description, sizeof description);
    }
    append(list.bytes, layout->parameters.data(),
           layout->parameters.size() * sizeof(wire_parameter));
    append_padded(list.bytes, kernel.name.data(), kernel.name.size());
    ++list.listed;
  }
  return list;
}

// Adds variables that sessions have asked for in this image, so that they need not be asked for
// again.
void list_variables(Session &s, Module *module, KernelList *list) {
  for (const std::string &name : s.device().modules().names(module->hash, s.sharer().tenant)) {
    Variable variable;
    const size_t size = sizeof(wire_variable) + ((name.size() + 7) & ~size_t{7});
    if (list->bytes.size() + size > kListBytes) return;
    if (module->variable(s.driver(), name, &variable) != CUDA_SUCCESS) continue;
    const wire_variable entry = {variable.address, variable.size, variable.managed,
                                 static_cast<uint32_t>(name.size())};
    append(list->bytes, &entry, sizeof entry);
    append_padded(list->bytes, name.data(), name.size());
    module->variables.push_back(std::move(variable));
  }
}

// A load, in either of its forms.
struct Loading {
  uint64_t request, handle;
  Hash hash;
  uint64_t total;
  bool open;   // ModuleOpen
  bool plain;  // without options of the compiler
  Compiling compiling;
  std::optional<uint32_t> expected{};  // nobody has asked: its place among those expected
  size_t told = 0;                     // bytes of the answer
};

void answer_state(Session &s, const Loading &loading, CUresult result, uint32_t state) {
  if (loading.open) {
    wire_ModuleOpen_reply reply{};
    reply.state = state;
    return s.answer(loading.request, result, &reply.reply, sizeof reply);
  }
  wire_ModuleLoad_reply reply{};
  reply.state = state;
  s.answer(loading.request, result, &reply.reply, sizeof reply);
}

void answer_refused(Session &s, const Loading &loading, CUresult result) {
  if (!loading.open) return answer_state(s, loading, result, 0);
  wire_ModuleOpen_reply reply{};
  reply.state = WIRE_MODULE_REFUSED;
  reply.refused = result;
  reply.errors_size = static_cast<uint32_t>(loading.compiling.errors.size());
  Bytes tail;
  append_padded(tail, loading.compiling.errors.data(), loading.compiling.errors.size());
  s.answer(loading.request, CUDA_SUCCESS, &reply.reply, sizeof reply, tail.data(), tail.size());
}

void no_room(Session &s, Loading &loading) {
  log_line(LogLevel::kWarn, s.id(),
           "a module is refused: its image of " + std::to_string(loading.total >> 20) +
               " MiB is beyond the " + std::to_string(s.image_room().most() >> 20) +
               " MiB of the host's memory that images of a session's modules may take "
               "(--image-memory)");
  answer_refused(s, loading, CUDA_ERROR_OUT_OF_MEMORY);
}

// Whether the image is one that can be loaded.
bool load(Session &s, Loading &loading, std::shared_ptr<const Image> image,
          ImageRoom::Taken &room) {
  std::unique_ptr<Module> module;
  Compiling &compiling = loading.compiling;
  const CUresult result = s.load_module(std::move(image), &compiling, &module);
  if (result != CUDA_SUCCESS) {
    answer_refused(s, loading, result);
    return false;
  }
  room.keep();
  count(s.count().modules);
  const auto kernels = static_cast<uint32_t>(module->kernels.size());
  const bool describe = loading.open && kernels <= kFewKernels;
  KernelList list = list_kernels(s.driver(), *module, describe);
  module->hash = loading.hash;
  if (loading.open) list_variables(s, module.get(), &list);
  module->answer_bytes = static_cast<uint32_t>(sizeof(wire_ModuleOpen_reply) + list.bytes.size());
  loading.told = module->answer_bytes;
  // A program may set the size of the heap before it loads a module that fixes it: such a module is
  // loaded when it asks.
  if (loading.plain && !loading.expected && !heap_is_fixed(s)) s.note_used(*module);
  // From here on it is the leader's, who may unload it at once.
  if (loading.expected) {
    s.expected().keep(*loading.expected, module);
  } else if (!s.loaded().keep(loading.handle, module)) {
    s.driver().cuLibraryUnload(module->library);
    s.unloaded(*module);
    s.violation("a module's handle was used twice");
    return true;
  }
  s.flush_output();
  const auto list_size = static_cast<uint32_t>(list.bytes.size());
  if (!loading.open) {
    wire_ModuleLoad_reply reply{};
    reply.state = WIRE_MODULE_LOADED;
    reply.kernels = kernels;
    reply.listed = list.listed;
    reply.list_size = list_size;
    s.answer(loading.request, CUDA_SUCCESS, &reply.reply, sizeof reply, list.bytes.data(),
             list_size);
    return true;
  }
  wire_ModuleOpen_reply reply{};
  reply.state = WIRE_MODULE_LOADED;
  reply.kernels = kernels;
  reply.listed = list.listed;
  reply.described = describe;
  reply.info_size = static_cast<uint32_t>(compiling.info.size());
  reply.list_size = list_size;
  Bytes tail;
  append_padded(tail, compiling.info.data(), compiling.info.size());
  append(tail, list.bytes.data(), list_size);
  s.answer(loading.request, CUDA_SUCCESS, &reply.reply, sizeof reply, tail.data(), tail.size());
  return true;
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
  if (search.over()) return answer_state(s, loading, CUDA_SUCCESS, WIRE_MODULE_WANTED);
  // Others may be loading, and each has its image meanwhile.
  ImageRoom::Taken room(s.image_room(), loading.total, false);
  if (!room.there()) return no_room(s, loading);
  s.hand_over();
  if (!search.settle()) return;
  if (!search.image()) return answer_state(s, loading, CUDA_SUCCESS, WIRE_MODULE_WANTED);
  // Writing takes time, and nobody waits for it.
  if (load(s, loading, search.image(), room)) search.save();
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

void handle_ModuleOpen(Session &s, const wire_ModuleOpen &q, std::span<const uint8_t> options) {
  if (!options_make_sense(s, options)) return;
  find_and_load(s, {q.request.request,
                    q.module,
                    {q.hash0, q.hash1, q.hash2, q.hash3},
                    q.total,
                    true,
                    options.empty(),
                    Compiling(options)});
}

void load_expected(Session &s, std::vector<ExpectedModule> expected) {
  s.post([&s, expected = std::move(expected)] {
    ModuleStore &store = s.device().modules();
    const std::string &tenant = s.sharer().tenant;
    size_t told = 0;
    for (uint32_t i = 0; i < expected.size() && !s.is_ending(); i++) {
      const auto &[hash, size] = expected[i];
      Loading loading{WIRE_EXPECTED + i, 0, hash, size, true, true, {}, i};
      ImageRoom::Taken room(s.image_room(), size, true);
      std::shared_ptr<const Image> image;
      const bool wanted = room.there() && told < UsedModules::kMostAnswerBytes;
      if (wanted) image = store.find(hash, size, tenant);
      if (wanted && !image) image = store.fetch(hash, size, tenant);
      if (!image) answer_state(s, loading, CUDA_SUCCESS, WIRE_MODULE_WANTED);
      if (image) load(s, loading, std::move(image), room);
      told += loading.told;
    }
  });
}

void handle_ModuleTake(Session &s, const wire_ModuleTake &q) {
  if (!s.loaded().can_mint(q.module)) return s.violation("a module's handle cannot be minted");
  std::unique_ptr<Module> module = s.expected().take(q.index);
  if (!module) return s.violation("a module is taken that is not there");
  s.note_used(*module);
  s.image_room().claim(module->image->size());
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
  for (uint64_t address : module->globals) s.memory().remove_global(address);
  // It counts until the driver is rid of it.
  s.posted_aside(WIRE_ModuleUnload, [&s, module] {
    const CUresult result = s.driver().cuLibraryUnload(module->library);
    s.unloaded(*module);
    return result;
  });
}

namespace {

void make_reachable(Session &s, Module *module, const Variable &variable) {
  if (s.memory().add_global(variable.address, variable.size)) {
    module->globals.push_back(variable.address);
  }
}

}  // namespace

void adopt_variables(Session &s) {
  s.loaded().adopt([&](Module &module) {
    for (const Variable &variable : module.variables) make_reachable(s, &module, variable);
    module.variables.clear();
  });
}

void handle_ModuleGlobal(Session &s, const wire_ModuleGlobal &q, std::span<const uint8_t> name) {
  const uint64_t request = q.request.request;
  wire_ModuleGlobal_reply reply{};
  Module *module = s.loaded().find(q.module);
  if (!module) return s.answer(request, CUDA_ERROR_INVALID_HANDLE, &reply.reply, sizeof reply);
  Variable found;
  const CUresult result = module->variable(s.driver(), text(name), &found);
  if (result == CUDA_SUCCESS) {
    make_reachable(s, module, found);
    s.device().modules().learn(module->hash, s.sharer().tenant, found.name);
    reply.address = found.address;
    reply.size = found.size;
    reply.managed = found.managed;
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
