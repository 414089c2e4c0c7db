// Entry points: linking. What comes out is PTX in the form of a cubin, which this device loads.
#include "entry/entry.h"
#include "entry/modules/load.h"
#include "modules/containers.h"
#include "modules/linker.h"
#include "modules/ptx_version.h"

using namespace softdev::driver;

namespace {

class Link : public Object {
 public:
  static constexpr Kind kKind = Kind::kLink;
  std::mutex mutex;
  int major = 0, minor = 0;
  std::vector<LinkInput> inputs;
  uint32_t arch = 0;
  std::vector<uint8_t> result;
  std::string log;
  // The program's log buffers, and their sizes before we wrote there how much we used.
  std::vector<CUjit_option> options;
  std::vector<void *> given;
  void **values = nullptr;
  int64_t begun_ns = 0, spent_ns = 0;  // the step that is under way; those before it

  // Adds a line to the error log, and returns `why`.
  CUresult fail(CUresult why, const std::string &reason) {
    // The compiler's own words say themselves how bad it is.
    if (why != CUDA_ERROR_UNSUPPORTED_PTX_VERSION) log += "error   : ";
    log += reason + "\n";
    for (size_t i = 0; i < given.size(); i++) values[i] = given[i];
    return report_load_failure(why, log, jit());
  }

  // As if the steps had followed one another.
  JitLog jit() {
    return {options.data(), values, static_cast<unsigned>(options.size()), begun_ns - spent_ns};
  }
};

// A step of a link, which has it to itself.
class Step {
 public:
  explicit Step(Link &link) : link_(link), lock_(link.mutex) { link.begun_ns = now_ns(); }
  ~Step() { link_.spent_ns += now_ns() - link_.begun_ns; }
  Step(const Step &) = delete;

 private:
  Link &link_;
  std::lock_guard<std::mutex> lock_;
};

CUresult find(CUlinkState handle, std::shared_ptr<Link> *link) {
  if (CUresult bad = enter()) return bad;
  *link = driver()->handles.find<Link>(handle);
  if (!*link)
    return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no link", static_cast<void *>(handle));
  return CUDA_SUCCESS;
}

CUresult create(unsigned count, CUjit_option *options, void **values, CUlinkState *handle) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!handle || (count && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    auto link = std::make_shared<Link>();
    link->major = context->device().compute_major;
    link->minor = context->device().compute_minor;
    link->options.assign(options, options + count);
    link->given.assign(values, values + count);
    link->values = values;
    *handle = reinterpret_cast<CUlinkState>(driver()->handles.add(link));
    return CUDA_SUCCESS;
  });
}

// With the link's lock held.
CUresult add_text(Link &link, std::string text, std::string name) {
  std::string reason;
  if (CUresult bad = check_ptx_version(text, &reason)) return link.fail(bad, reason);
  // What is no PTX at all is refused now, so that programs learn which input it was.
  LinkResult alone = link_ptx({{text, name}});
  if (!alone.ok) return link.fail(CUDA_ERROR_INVALID_PTX, alone.problem);
  link.inputs.push_back({std::move(text), std::move(name)});
  return CUDA_SUCCESS;
}

CUresult add_pieces(Link &link, const void *data, size_t size, const std::string &name,
                    bool library) {
  std::vector<PtxPart> parts;
  std::string reason;
  CUresult result = Image::collect(data, size, link.major, link.minor, &parts, &reason);
  // Of a library only what has PTX can be wanted: the device runtime has machine code alone.
  if (library && result == CUDA_ERROR_NO_BINARY_FOR_GPU) return CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) return link.fail(result, name + ": " + reason);
  for (const PtxPart &part : parts) {
    std::string text;
    if (CUresult bad = unpack(part, &text, &reason)) return link.fail(bad, name + ": " + reason);
    link.arch = std::max(link.arch, part.arch);
    if (CUresult bad = add_text(link, std::move(text), part.name.empty() ? name : part.name))
      return bad;
  }
  return CUDA_SUCCESS;
}

CUresult add(CUlinkState handle, CUjitInputType type, const void *data, size_t size,
             const char *given_name, const JitLog &jit) {
  std::shared_ptr<Link> link;
  if (CUresult bad = find(handle, &link)) return bad;
  if (!data || static_cast<unsigned>(type) >= CU_JIT_NUM_INPUT_TYPES || !jit.complete())
    return CUDA_ERROR_INVALID_VALUE;
  if (!size) return refuse(CUDA_ERROR_INVALID_IMAGE, "an input of a link is empty");
  Step step(*link);
  if (!link->result.empty())
    return refuse(CUDA_ERROR_INVALID_HANDLE, "the link is complete: nothing can be added");
  std::string name = given_name ? given_name : "input " + std::to_string(link->inputs.size() + 1);
  switch (type) {
    case CU_JIT_INPUT_PTX: {
      const char *text = static_cast<const char *>(data);
      return add_text(*link, std::string(text, strnlen(text, size)), name);
    }
    case CU_JIT_INPUT_NVVM:
      return link->fail(CUDA_ERROR_NOT_SUPPORTED, name + ": intermediate code cannot be linked");
    default:
      return add_pieces(*link, data, size, name, type == CU_JIT_INPUT_LIBRARY);
  }
}

CUresult add_file(CUlinkState handle, CUjitInputType type, const char *path, const JitLog &jit) {
  return guarded([&]() -> CUresult {
    if (CUresult bad = enter()) return bad;
    if (!jit.complete()) return CUDA_ERROR_INVALID_VALUE;
    std::vector<uint8_t> bytes;
    if (CUresult bad = read_image_file(path, &bytes)) return bad;
    // A byte behind the end was added for text; other files end where they end.
    return add(handle, type, bytes.data(), bytes.size() - 1, path, jit);
  });
}

CUresult complete(Link &link, void **cubin, size_t *size) {
  Step step(link);
  if (link.result.empty()) {
    LinkResult linked = link_ptx(link.inputs);
    if (linked.ok && link.inputs.empty()) linked = {false, {}, "there is nothing to link", {}};
    if (!linked.ok) return link.fail(CUDA_ERROR_INVALID_PTX, linked.problem);
    if (!linked.unresolved.empty()) {
      CUresult result = CUDA_SUCCESS;
      for (const std::string &name : linked.unresolved)
        result = link.fail(CUDA_ERROR_NO_BINARY_FOR_GPU, "Undefined reference to '" + name + "'");
      return result;
    }
    uint32_t own = static_cast<uint32_t>(link.major * 10 + link.minor);
    link.result = wrap_ptx(linked.text, link.arch ? link.arch : own);
  }
  *cubin = link.result.data();
  if (size) *size = link.result.size();
  for (size_t i = 0; i < link.given.size(); i++) link.values[i] = link.given[i];
  report_load_success(link.jit());
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values,
                         CUlinkState *state) {
  return create(count, options, values, state);
}
CUresult cuLinkCreate(unsigned int count, CUjit_option *options, void **values,
                      CUlinkState *state) {
  return create(count, options, values, state);
}

#define OPTIONS unsigned int count, CUjit_option *options, void **values
#define JIT \
  { options, values, count }

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                          const char *name, OPTIONS) {
  return guarded([&] { return add(state, type, data, size, name, JIT); });
}
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
                       const char *name, OPTIONS) {
  return guarded([&] { return add(state, type, data, size, name, JIT); });
}
CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, OPTIONS) {
  return add_file(state, type, path, JIT);
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, OPTIONS) {
  return add_file(state, type, path, JIT);
}

CUresult cuLinkComplete(CUlinkState state, void **cubin, size_t *size) {
  std::shared_ptr<Link> link;
  if (CUresult bad = find(state, &link)) return bad;
  if (!cubin) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] { return complete(*link, cubin, size); });
}

CUresult cuLinkDestroy(CUlinkState state) {
  if (CUresult bad = enter()) return bad;
  return driver()->handles.remove<Link>(state) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // extern "C"
