#include "core/traits.h"

#include <algorithm>
#include <charconv>

#include "core/instances.h"

namespace softdev::driver {
namespace {

constexpr unsigned kQueueEntries = 1024;
constexpr std::string_view kHints[] = {"ignored", "low", "high"};  // from Hints::kIgnored on

bool parse(std::string_view text, unsigned least, unsigned most, unsigned *number) {
  const char *const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end && *number >= least && *number <= most;
}

struct Version {
  std::string_view text;
  int number;
  int ptx;
};
constexpr Version kDrivers[] = {{"12.4", 12040, 84},
                                {"12.6", 12060, 85},
                                {"12.8", 12080, 87},
                                {"13.0", 13000, 90},
                                {"13.5", 13050, 95}};

struct Granularity {
  std::string_view text;
  uint64_t bytes;
};
constexpr Granularity kGranularities[] = {
    {"64K", 64 << 10}, {"2M", kUsualGranularity}, {"32M", 32 << 20}};

struct Trait {
  std::string_view name;
  std::string_view expected;  // what may stand behind '='; empty: nothing
  bool nvidia_like;
  // Switches it on, with the text behind '=', which is empty where there is none. False where that
  // cannot be used.
  bool (*set)(Traits *traits, std::string_view value);
  void (*clear)(Traits *traits);
  // Returns whether it is on; *value is what stands behind '=' then, if anything does.
  bool (*is_on)(const Traits &traits, std::string *value);
  std::string_view nvidia_value = {};  // what stands behind '=' for `nvidia-like`
};

// A trait that is on or off.
template <bool Traits::*kMember>
constexpr Trait flag(std::string_view name, bool nvidia_like) {
  return {name,
          "",
          nvidia_like,
          [](Traits *traits, std::string_view) { return traits->*kMember = true; },
          [](Traits *traits) { traits->*kMember = false; },
          [](const Traits &traits, std::string *) { return traits.*kMember; }};
}

// A trait whose value is a path, or the beginning of some.
template <std::string Traits::*kMember>
constexpr Trait path(std::string_view name) {
  return {name,
          "a path, from / on,",
          false,
          [](Traits *traits, std::string_view value) {
            traits->*kMember = value;
            return value.starts_with('/');
          },
          [](Traits *traits) { (traits->*kMember).clear(); },
          [](const Traits &traits, std::string *value) {
            *value = traits.*kMember;
            return !value->empty();
          }};
}

constexpr Trait kTraits[] = {
    {"finite-queue", "entries from 1 to 1000000", true,
     [](Traits *traits, std::string_view value) {
       traits->queue = kQueueEntries;
       return value.empty() || parse(value, 1, 1'000'000, &traits->queue);
     },
     [](Traits *traits) { traits->queue = 0; },
     [](const Traits &traits, std::string *value) {
       *value = std::to_string(traits.queue);
       return traits.queue != 0;
     }},
    flag<&Traits::serial_host_functions>("serial-host-functions", true),
    {"reservation-hints", "ignored, low or high", true,
     [](Traits *traits, std::string_view value) {
       if (value.empty()) value = "ignored";
       const auto *const at = std::find(std::begin(kHints), std::end(kHints), value);
       if (at == std::end(kHints)) return false;
       traits->hints = static_cast<Hints>(at - kHints + 1);
       return true;
     },
     [](Traits *traits) { traits->hints = Hints::kAll; },
     [](const Traits &traits, std::string *value) {
       if (traits.hints == Hints::kAll) return false;
       *value = kHints[static_cast<size_t>(traits.hints) - 1];
       return true;
     }},
    flag<&Traits::spinning>("spinning", true),
    {"lazy-loading", "waiting or locking", true,
     [](Traits *traits, std::string_view value) {
       traits->lazy_loading = true;
       traits->lazy_waiting = !value.empty();
       traits->lazy_locking = value == "locking";
       return value.empty() || value == "waiting" || value == "locking";
     },
     [](Traits *traits) {
       traits->lazy_loading = traits->lazy_waiting = traits->lazy_locking = false;
     },
     [](const Traits &traits, std::string *value) {
       if (traits.lazy_waiting) *value = traits.lazy_locking ? "locking" : "waiting";
       return traits.lazy_loading;
     }},
    flag<&Traits::hidden_memory>("hidden-memory", true),
    flag<&Traits::residue>("residue", true),
    flag<&Traits::slow_export>("slow-export", true),
    path<&Traits::exclusive>("exclusive-process"),
    path<&Traits::lost>("lost-gpu"),
    flag<&Traits::prohibited>("prohibited", false),
    {"mig", kInstances, false,
     [](Traits *traits, std::string_view value) {
       traits->mig = true;
       return parse_instances(value, &traits->instances);
     },
     [](Traits *traits) {
       traits->mig = false;
       traits->instances.clear();
     },
     [](const Traits &traits, std::string *value) {
       if (traits.mig) *value = instances_text(traits.instances);
       return traits.mig;
     }},
    path<&Traits::time_slices>("time-slices"),
    flag<&Traits::uncounted_work>("uncounted-work", true),
    {"device", "h100, a10, l4 or t4", true,
     [](Traits *traits, std::string_view value) {
       traits->model = find_model(value);
       return traits->model != nullptr;
     },
     [](Traits *traits) { traits->model = nullptr; },
     [](const Traits &traits, std::string *value) {
       if (traits.model) *value = traits.model->name;
       return traits.model != nullptr;
     },
     "h100"},
    {"granularity", "64K, 2M or 32M", false,
     [](Traits *traits, std::string_view value) {
       const auto *const at = std::find_if(std::begin(kGranularities), std::end(kGranularities),
                                           [&](const Granularity &is) { return is.text == value; });
       if (at == std::end(kGranularities)) return false;
       traits->granularity = at->bytes;
       return true;
     },
     [](Traits *traits) { traits->granularity = kUsualGranularity; },
     [](const Traits &traits, std::string *value) {
       for (const Granularity &is : kGranularities)
         if (is.bytes == traits.granularity) *value = is.text;
       return traits.granularity != kUsualGranularity;
     }},
    {"driver", "12.4, 12.6, 12.8, 13.0 or 13.5", true,
     [](Traits *traits, std::string_view value) {
       const auto *const at = std::find_if(std::begin(kDrivers), std::end(kDrivers),
                                           [&](const Version &is) { return is.text == value; });
       if (at == std::end(kDrivers)) return false;
       traits->driver = at->number;
       traits->ptx = at->ptx;
       return true;
     },
     [](Traits *traits) { traits->driver = traits->ptx = 0; },
     [](const Traits &traits, std::string *value) {
       for (const Version &is : kDrivers)
         if (is.number == traits.driver) *value = is.text;
       return traits.driver != 0;
     },
     "13.0"},
    flag<&Traits::newer_ptx>("newer-ptx", false),
    flag<&Traits::empty_cubins>("empty-cubins", false),
};

const Trait *find(std::string_view name) {
  for (const Trait &trait : kTraits)
    if (trait.name == name) return &trait;
  return nullptr;
}

// Takes one entry of the list. What is expected in its place; empty when it was taken.
std::string take(std::string_view entry, Traits *traits) {
  if (entry == "nvidia-like") {
    for (const Trait &trait : kTraits)
      if (trait.nvidia_like) trait.set(traits, trait.nvidia_value);
    return {};
  }
  const bool off = entry.starts_with('-');
  if (off) entry.remove_prefix(1);
  const size_t equals = entry.find('=');
  const Trait *const trait = find(entry.substr(0, equals));
  if (!trait) {
    std::string names = "nvidia-like";
    for (const Trait &each : kTraits) names.append(", ").append(each.name);
    return "one of " + names;
  }
  const bool has_value = equals != entry.npos;
  const std::string_view value = has_value ? entry.substr(equals + 1) : std::string_view();
  if (has_value && (off || trait->expected.empty()))
    return "'" + std::string(trait->name) + "' without a value";
  if (off)
    trait->clear(traits);
  else if ((has_value && value.empty()) || !trait->set(traits, value))
    return std::string(trait->expected) + " behind '" + std::string(trait->name) + "='";
  return {};
}

}  // namespace

bool read_traits(std::string_view names, Traits *traits, std::string *problem) {
  while (!names.empty()) {
    const size_t comma = names.find(',');
    const std::string_view entry = names.substr(0, comma);
    if (const std::string expected = take(entry, traits); !expected.empty()) {
      *problem = "'" + std::string(entry) + "' is not usable: expected " + expected;
      return false;
    }
    if (comma == names.npos) break;
    names.remove_prefix(comma + 1);
  }
  return true;
}

std::string traits_text(const Traits &traits) {
  std::string text;
  for (const Trait &trait : kTraits) {
    std::string value;
    if (!trait.is_on(traits, &value)) continue;
    if (!text.empty()) text += ',';
    text += trait.name;
    if (!value.empty()) text.append("=").append(value);
  }
  return text;
}

}  // namespace softdev::driver
