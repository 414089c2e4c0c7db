#include "core/instances.h"

#include <algorithm>

#include "core/settings.h"

namespace softdev::driver {
namespace {

// NVIDIA's profiles: slices of the multiprocessors, and eighths of the memory.
struct Profile {
  std::string_view text;
  int slices, eighths;
};
constexpr Profile kProfiles[] = {
    {"1g", 1, 1}, {"2g", 2, 2}, {"3g", 3, 4}, {"4g", 4, 4}, {"7g", 7, 8}};
constexpr int kSlices = 7, kEighths = 8;
constexpr std::string_view kNone = "none";

const Profile &profile_of(int slices) {
  return *std::find_if(std::begin(kProfiles), std::end(kProfiles),
                       [&](const Profile &is) { return is.slices == slices; });
}

}  // namespace

bool parse_instances(std::string_view text, std::vector<int> *slices) {
  slices->clear();
  if (text == kNone) return true;
  int taken = 0, memory = 0;
  for (;;) {
    const size_t plus = text.find('+');
    const auto *const found =
        std::find_if(std::begin(kProfiles), std::end(kProfiles),
                     [&](const Profile &is) { return is.text == text.substr(0, plus); });
    if (found == std::end(kProfiles)) return false;
    taken += found->slices;
    memory += found->eighths;
    if (taken > kSlices || memory > kEighths) return false;
    slices->push_back(found->slices);
    if (plus == text.npos) return true;
    text.remove_prefix(plus + 1);
  }
}

std::string instances_text(const std::vector<int> &slices) {
  if (slices.empty()) return std::string(kNone);
  std::string text;
  for (const int each : slices) {
    if (!text.empty()) text += '+';
    text += profile_of(each).text;
  }
  return text;
}

DeviceSettings instance_of(const DeviceSettings &gpu, int slices) {
  constexpr uint64_t granule = uint64_t{2} << 20, gib = uint64_t{1} << 30;
  const Profile &profile = profile_of(slices);
  DeviceSettings instance = gpu;
  instance.mig = false;
  instance.instances.clear();
  const uint64_t bytes = gpu.memory / kEighths * static_cast<uint64_t>(profile.eighths);
  instance.memory = std::max(bytes / granule * granule, granule);
  if (slices < kSlices)
    instance.multiprocessors = std::max(gpu.multiprocessors * slices / kEighths, 1);
  instance.name += " MIG " + std::string(profile.text) + "." +
                   std::to_string((instance.memory + gib - 1) / gib) + "gb";
  return instance;
}

}  // namespace softdev::driver
