// software-device-check: which kernels in a file the software device can run, and why not.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "engine.h"
#include "modules/containers.h"
#include "modules/image.h"
#include "report.h"

namespace {

using namespace softdev;
using namespace softdev::check;

constexpr const char *kUsage =
    "usage: software-device-check [--json] [--all] [--compute-capability M.N] FILE...\n"
    "\n"
    "Translates every kernel in programs, libraries, objects, archives, fatbins and PTX files, "
    "and\n"
    "reports those that the software device would refuse, and why.\n"
    "\n"
    "  --json                    everything, as one JSON document\n"
    "  --all                     list translated kernels too\n"
    "  --compute-capability M.N  what the device claims to be; decides which PTX is taken (12.0)\n"
    "\n"
    "exit status: 0 all kernels translate; 1 some do not, or a file could not be read; 2 usage\n";

struct Options {
  bool json = false, all = false;
  int major = 12, minor = 0;
  std::vector<const char *> files;
};

bool read_capability(const char *text, Options *options) {
  char rest = 0;
  return std::sscanf(text, "%d.%d%c", &options->major, &options->minor, &rest) == 2 &&
         options->major > 0 && options->major < 100 && options->minor >= 0 && options->minor < 10;
}

bool read_options(int count, char **words, Options *options) {
  if (const char *set = std::getenv("SOFTWARE_DEVICE_COMPUTE_CAPABILITY");
      set && *set && !read_capability(set, options)) {
    std::fprintf(stderr, "SOFTWARE_DEVICE_COMPUTE_CAPABILITY: \"%s\" is not like 12.0\n", set);
    return false;
  }
  bool only_files = false;
  for (int i = 1; i < count; ++i) {
    std::string_view word = words[i];
    if (only_files || !word.starts_with('-')) {
      options->files.push_back(words[i]);
    } else if (word == "--") {
      only_files = true;
    } else if (word == "--json") {
      options->json = true;
    } else if (word == "--all") {
      options->all = true;
    } else if (word == "--compute-capability" && i + 1 < count &&
               read_capability(words[i + 1], options)) {
      ++i;
    } else {
      std::fprintf(stderr, "%s is no option, or its value is not like 12.0\n\n%s", words[i],
                   kUsage);
      return false;
    }
  }
  if (options->files.empty()) std::fputs(kUsage, stderr);
  return !options->files.empty();
}

// Processor time: what else the machine does makes nothing longer.
double now_us() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

uint64_t memory_in_use() {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// Variables need a place to be given addresses; nothing runs, so pages that the initialisers do
// not touch cost nothing.
class Places {
 public:
  ~Places() {
    for (auto [address, size] : maps_) munmap(address, size);
  }
  uint64_t take(size_t size, size_t align) {
    size_t whole = size + align;
    void *at = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return 0;
    maps_.push_back({at, whole});
    auto address = reinterpret_cast<uint64_t>(at);
    return (address + align - 1) / align * align;
  }

 private:
  std::vector<std::pair<void *, size_t>> maps_;
};

ModuleReport check_image(const driver::Image &image, ModuleReport report) {
  std::string text;
  if (image.unpack(&text, &report.refusal) != CUDA_SUCCESS) return report;
  report.arch = image.arch();
  report.ptx_bytes = text.size();
  Places places;
  Status status;
  double started = now_us();
  auto program = Program::load(
      std::move(text), [&](size_t size, size_t align, Storage) { return places.take(size, align); },
      &status);
  report.index_microseconds = now_us() - started;
  if (!program) {
    report.refusal = status.message;
    return report;
  }
  for (Kernel *kernel : program->kernels()) {
    KernelReport &entry = report.kernels.emplace_back();
    entry.name = kernel->name();
    uint64_t before = memory_in_use();
    started = now_us();
    Status translated = kernel->translate();
    entry.microseconds = now_us() - started;
    uint64_t after = memory_in_use();
    entry.bytes = after > before ? after - before : 0;
    if (!translated.ok()) entry.refusal = translated.message;
  }
  return report;
}

ModuleReport check_module(const driver::Found &found, const Options &options) {
  ModuleReport report;
  report.where = found.where;
  driver::Image image;
  if (image.choose(found.image.data(), found.image.size(), options.major, options.minor, {},
                   &report.refusal) != CUDA_SUCCESS)
    return report;
  return check_image(image, std::move(report));
}

FileReport check_file(const char *path, const Options &options) {
  FileReport report;
  report.path = path;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat about;
  if (file < 0 || fstat(file, &about) != 0) {
    report.problem = std::string("it cannot be opened: ") + std::strerror(errno);
    if (file >= 0) close(file);
    return report;
  }
  size_t size = static_cast<size_t>(about.st_size);
  void *data = S_ISREG(about.st_mode) && size > 0
                   ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0)
                   : MAP_FAILED;
  close(file);
  if (data == MAP_FAILED) {
    report.problem = S_ISREG(about.st_mode) && size == 0 ? "it is empty" : "it is no regular file";
    return report;
  }
  driver::Bytes bytes(static_cast<const uint8_t *>(data), size);
  std::vector<driver::PtxPart> pieces;
  std::string bad = driver::find_images(bytes, [&](const driver::Found &found) {
    std::string no_ptx;  // as the device runtime's piece, which few programs need
    if (found.piece)
      driver::Image::collect(found.image.data(), found.image.size(), options.major, options.minor,
                             &pieces, &no_ptx);
    else if (!driver::is_hollow(found.image))
      report.modules.push_back(check_module(found, options));
  });
  if (!pieces.empty()) {
    driver::Image image;
    image.assemble(std::move(pieces));
    ModuleReport linked;
    linked.where = "linked on the device";
    report.modules.push_back(check_image(image, std::move(linked)));
  }
  if (!bad.empty()) report.problem = bad;
  munmap(data, size);
  return report;
}

}  // namespace

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--help" || std::string_view(argv[i]) == "-h") {
      std::fputs(kUsage, stdout);
      return 0;
    }
  Options options;
  if (!read_options(argc, argv, &options)) return 2;
  std::vector<FileReport> reports;
  for (const char *path : options.files) {
    reports.push_back(check_file(path, options));
    // Big libraries take a while: people see what is known already.
    if (!options.json) {
      std::fputs(as_text({reports.back()}, options.all).c_str(), stdout);
      std::fflush(stdout);
    }
  }
  if (options.json) {
    std::string capability = std::to_string(options.major) + "." + std::to_string(options.minor);
    std::fputs(as_json(reports, capability).c_str(), stdout);
  }
  return softdev::check::count(reports).all_good() ? 0 : 1;
}
