#include "session/loading.h"

#include <cstring>
#include <optional>

#include "base/log.h"
#include "base/session_limits.h"
#include "images/describe.h"
#include "session/session.h"

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
    // A driver that is asked may load the kernel, used or not.
    std::optional<Layout> asked;
    const Layout *layout = module.told_layout(i);
    if (!layout) {
      asked = layout_of(driver, kernel.object);
      // A kernel whose layout is not known is left out: the guest must not guess.
      if (!asked) continue;
      layout = &*asked;
    }
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

void read_layouts(Session &s, Module *module) {
  std::string why;
  const size_t unknown = module->read_layouts(s.device().capability(), &why);
  if (!unknown) return;
  log_line(LogLevel::kInfo, s.id(),
           "the driver is asked for the parameters of " + std::to_string(unknown) + " of the " +
               std::to_string(module->kernels.size()) + " kernels of a module: " + why);
}

void answer_refused(Session &s, const Loading &loading, CUresult result) {
  if (!loading.open) return answer_state(s, loading, result, 0);
  wire_ModuleOpen_reply reply{};
  reply.state = WIRE_MODULE_REFUSED;
  reply.refused = result;
  reply.errors_size = static_cast<uint32_t>(loading.compiling.errors.size());
  Bytes tail;
  append_padded(tail, loading.compiling.errors.data(), loading.compiling.errors.size());
  s.answers().send(loading.request, CUDA_SUCCESS, &reply.reply, sizeof reply, tail.data(),
                   tail.size());
}

}  // namespace

void answer_state(Session &s, const Loading &loading, CUresult result, uint32_t state) {
  if (loading.open) {
    wire_ModuleOpen_reply reply{};
    reply.state = state;
    return s.answers().send(loading.request, result, &reply.reply, sizeof reply);
  }
  wire_ModuleLoad_reply reply{};
  reply.state = state;
  s.answers().send(loading.request, result, &reply.reply, sizeof reply);
}

void answer_no_room(Session &s, Loading &loading) {
  const uint64_t room = s.image_room().most();
  const bool may_come = loading.total <= session_limits.coming_bytes;
  log_line(LogLevel::kWarn, s.id(),
           "a module is refused: its image of " + std::to_string(loading.total >> 20) +
               " MiB is beyond the " +
               std::to_string((may_come ? room : session_limits.coming_bytes) >> 20) +
               (may_come ? " MiB of the host's memory that images of a session's modules may take "
                           "(--image-memory)"
                         : " MiB that are sent at a time"));
  answer_refused(s, loading, CUDA_ERROR_OUT_OF_MEMORY);
}

// Whether the image is one that can be loaded.
bool load(Session &s, Loading &loading, std::shared_ptr<const Image> image,
          ImageRoom::Taken &room) {
  std::unique_ptr<Module> module;
  Compiling &compiling = loading.compiling;
  LoadLog::Load noted{std::move(image), loading.hash, loading.options, loading.handle,
                      loading.expected};
  std::optional<Detours::Load> loads(std::in_place, s.detours());
  const CUresult result = s.load_module(std::move(noted), &compiling, &module);
  if (result != CUDA_SUCCESS) {
    loads.reset();
    answer_refused(s, loading, result);
    return false;
  }
  room.keep();
  count(s.count().modules);
  read_layouts(s, module.get());
  const auto kernels = static_cast<uint32_t>(module->kernels.size());
  const bool describe = loading.open && kernels <= kFewKernels;
  KernelList list = list_kernels(s.driver(), *module, describe);
  module->hash = loading.hash;
  if (loading.open) list_variables(s, module.get(), &list);
  loads.reset();
  module->answer_bytes = static_cast<uint32_t>(sizeof(wire_ModuleOpen_reply) + list.bytes.size());
  loading.told = module->answer_bytes;
  // A program may set the size of the heap before it loads a module that fixes it: such a module is
  // loaded when it asks.
  if (loading.plain && !loading.expected && !s.heap_is_fixed()) s.note_used(*module);
  // From here on it is the leader's, who may unload it at once.
  if (loading.expected ? !s.expected().keep(*loading.expected, module)
                       : !s.loaded().keep(loading.handle, module)) {
    s.unloading(*module);
    s.driver().cuLibraryUnload(module->library);
    // It gives back what the program has.
    if (loading.expected) (void)s.image_room().claim(module->image->size());
    s.unloaded(*module);
    s.violation(loading.expected ? "two modules are expected at a place"
                                 : "a module's handle was used twice");
    return true;
  }
  s.answers().output();
  const auto list_size = static_cast<uint32_t>(list.bytes.size());
  if (!loading.open) {
    wire_ModuleLoad_reply reply{};
    reply.state = WIRE_MODULE_LOADED;
    reply.kernels = kernels;
    reply.listed = list.listed;
    reply.list_size = list_size;
    s.answers().send(loading.request, CUDA_SUCCESS, &reply.reply, sizeof reply, list.bytes.data(),
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
  s.answers().send(loading.request, CUDA_SUCCESS, &reply.reply, sizeof reply, tail.data(),
                   tail.size());
  return true;
}

void load_expected(Session &s, std::vector<ExpectedModule> expected) {
  s.run([&s, expected = std::move(expected), keeps = std::make_shared<Session::Keeps>(s)] {
    ModuleStore &store = s.device().modules();
    const std::string &tenant = s.sharer().tenant;
    size_t told = 0;
    for (uint32_t i = 0; i < expected.size() && !s.is_ending(); i++) {
      const auto &[hash, size] = expected[i];
      Loading loading{WIRE_EXPECTED + i, 0, hash, size, true, true, {}, {}, i};
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

}  // namespace outboard
