// Links: what comes out is the inputs, one after the other. A text that says "nonsense" is refused.
#include <cstdio>
#include <cstring>
#include <set>

#include "device.h"

using namespace fake;

struct CUlinkState_st {
  std::string text;
  char *log = nullptr;
  size_t room = 0;

  CUresult complain(const std::string &what) {
    if (log && room) snprintf(log, room, "%s", what.c_str());
    return CUDA_ERROR_INVALID_PTX;
  }
};

static std::set<CUlinkState> links;

EXPORT CUresult cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values,
                                CUlinkState *state) {
  ENTER;
  auto *link = new CUlinkState_st;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) link->log = static_cast<char *>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      link->room = reinterpret_cast<size_t>(values[i]);
    }
  }
  links.insert(*state = link);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLinkAddData_v2(CUlinkState link, CUjitInputType, void *data, size_t size,
                                 const char *name, unsigned, CUjit_option *, void **) {
  ENTER;
  const std::string text(static_cast<const char *>(data), size);
  if (text.find("nonsense") != std::string::npos) {
    return link->complain(std::string(name ? name : "an input") + " is nonsense");
  }
  link->text += text;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLinkComplete(CUlinkState link, void **cubin, size_t *size) {
  ENTER;
  if (link->text.empty()) return link->complain("nothing to link");
  *cubin = link->text.data();
  *size = link->text.size();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLinkDestroy(CUlinkState link) {
  ENTER;
  if (!links.erase(link)) return CUDA_ERROR_INVALID_HANDLE;
  delete link;
  return CUDA_SUCCESS;
}
