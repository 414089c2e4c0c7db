#include "modules/ptx_version.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/driver.h"

namespace softdev::driver {
namespace {

// Where the first directive begins, behind blanks and comments; npos where there is none.
size_t first_directive(std::string_view text) {
  for (size_t at = 0; (at = text.find_first_not_of(" \t\r\n", at)) != text.npos;) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with('.')) return at;
    const bool line = rest.starts_with("//") || rest.starts_with('#');
    if (!line && !rest.starts_with("/*")) break;
    const size_t end = line ? text.find('\n', at) : text.find("*/", at + 2);
    if (end == text.npos) break;
    at = line ? end : end + 2;
  }
  return text.npos;
}

}  // namespace

CUresult check_ptx_version(std::string_view text, std::string *reason) {
  const Traits &traits = driver()->settings.traits;
  constexpr std::string_view kDirective = ".version";
  const size_t at = first_directive(text);
  if (!traits.ptx || traits.newer_ptx || at == text.npos ||
      !text.substr(at).starts_with(kDirective))
    return CUDA_SUCCESS;
  const std::string version(text.substr(at + kDirective.size(), 16));
  int major, minor;
  if (sscanf(version.c_str(), "%d.%d", &major, &minor) != 2 || major * 10 + minor <= traits.ptx)
    return CUDA_SUCCESS;
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
  char said[160];
  snprintf(said, sizeof said,
           "ptxas application ptx input, line %td; fatal   : Unsupported .version %d.%d; current "
           "version is '%d.%d'",
           line, major, minor, traits.ptx / 10, traits.ptx % 10);
  *reason = said;
  return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

}  // namespace softdev::driver
