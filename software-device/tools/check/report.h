// What was found out about files, as text for people and as JSON for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace softdev::check {

struct KernelReport {
  std::string name;
  std::string refusal;  // empty: translated
  double microseconds = 0;
  uint64_t bytes = 0;  // that the translated kernel occupies
};

struct ModuleReport {
  std::string where;  // the member of an archive, or empty
  uint32_t arch = 0;  // of its PTX, 0 when not told
  uint64_t ptx_bytes = 0;
  double index_microseconds = 0;
  std::string refusal;  // of the module as a whole: no PTX, damaged
  std::vector<KernelReport> kernels;
};

struct FileReport {
  std::string path;
  std::string problem;  // the file could not be read to its end
  std::vector<ModuleReport> modules;
};

struct Totals {
  uint64_t modules = 0, refused_modules = 0, kernels = 0, refused = 0, problems = 0;
  bool all_good() const { return refused_modules == 0 && refused == 0 && problems == 0; }
};
Totals count(const std::vector<FileReport> &files);

std::string as_text(const std::vector<FileReport> &files, bool every_kernel);
std::string as_json(const std::vector<FileReport> &files, const std::string &capability);

}  // namespace softdev::check
