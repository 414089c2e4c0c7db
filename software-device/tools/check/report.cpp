#include "report.h"

#include <cxxabi.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace softdev::check {
namespace {

std::string readable(const std::string &name) {
  int status = 0;
  std::unique_ptr<char, void (*)(void *)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text ? text.get() : name;
}

std::string format(const char *pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string counted(uint64_t number, const char *noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (char letter : text) {
    auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (code < 0x20 || code >= 0x7f) {
      // Names and messages are ASCII; any other byte is shown as the character of its number.
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", code);
      out += escaped;
    } else {
      out += letter;
    }
  }
  return out + "\"";
}

}  // namespace

Totals count(const std::vector<FileReport> &files) {
  Totals totals;
  for (const FileReport &file : files) {
    if (!file.problem.empty()) ++totals.problems;
    for (const ModuleReport &module : file.modules) {
      ++totals.modules;
      if (!module.refusal.empty()) ++totals.refused_modules;
      totals.kernels += module.kernels.size();
      for (const KernelReport &kernel : module.kernels) totals.refused += !kernel.refusal.empty();
    }
  }
  return totals;
}

std::string as_text(const std::vector<FileReport> &files, bool every_kernel) {
  std::string out;
  for (const FileReport &file : files) {
    Totals totals = count({file});
    out += file.path + ": " + counted(totals.modules, "module") + ", " +
           counted(totals.kernels, "kernel");
    if (totals.kernels > 0)
      out += ": " + std::to_string(totals.kernels - totals.refused) + " translated, " +
             std::to_string(totals.refused) + " refused";
    out += "\n";
    if (!file.problem.empty()) out += "  " + file.problem + "\n";
    if (file.modules.empty() && file.problem.empty()) out += "  no GPU code in it\n";
    for (const ModuleReport &module : file.modules) {
      std::string where = module.where.empty() ? "" : module.where + ": ";
      if (!module.refusal.empty()) out += "  " + where + module.refusal + "\n";
      for (const KernelReport &kernel : module.kernels) {
        if (!kernel.refusal.empty())
          out += "  refused     " + where + readable(kernel.name) + ": " + kernel.refusal + "\n";
        else if (every_kernel)
          out += "  translated  " + where + readable(kernel.name) + " (" +
                 format("%.0f us, ", kernel.microseconds) + std::to_string(kernel.bytes) +
                 " bytes)\n";
      }
    }
  }
  return out;
}

std::string as_json(const std::vector<FileReport> &files, const std::string &capability) {
  Totals totals = count(files);
  std::string out = "{\"computeCapability\":" + quoted(capability) +
                    ",\"modules\":" + std::to_string(totals.modules) +
                    ",\"refusedModules\":" + std::to_string(totals.refused_modules) +
                    ",\"kernels\":" + std::to_string(totals.kernels) +
                    ",\"refusedKernels\":" + std::to_string(totals.refused) + ",\"files\":[";
  const char *between_files = "";
  for (const FileReport &file : files) {
    out += between_files;
    between_files = ",";
    out += "\n{\"file\":" + quoted(file.path);
    if (!file.problem.empty()) out += ",\"problem\":" + quoted(file.problem);
    out += ",\"modules\":[";
    const char *between_modules = "";
    for (const ModuleReport &module : file.modules) {
      out += between_modules;
      between_modules = ",";
      out += "\n {\"arch\":" + std::to_string(module.arch) +
             ",\"ptxBytes\":" + std::to_string(module.ptx_bytes) +
             ",\"indexMicroseconds\":" + format("%.1f", module.index_microseconds);
      if (!module.where.empty()) out += ",\"member\":" + quoted(module.where);
      if (!module.refusal.empty()) out += ",\"refusal\":" + quoted(module.refusal);
      out += ",\"kernels\":[";
      const char *between_kernels = "";
      for (const KernelReport &kernel : module.kernels) {
        out += between_kernels;
        between_kernels = ",";
        out += "\n  {\"name\":" + quoted(kernel.name) +
               ",\"translated\":" + (kernel.refusal.empty() ? "true" : "false") +
               ",\"microseconds\":" + format("%.1f", kernel.microseconds) +
               ",\"bytes\":" + std::to_string(kernel.bytes);
        if (!kernel.refusal.empty()) out += ",\"refusal\":" + quoted(kernel.refusal);
        out += "}";
      }
      out += "]}";
    }
    out += "]}";
  }
  return out + "]}\n";
}

}  // namespace softdev::check
