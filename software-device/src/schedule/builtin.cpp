// Functions that the device's system provides: vprintf, __assertfail, malloc, free, and
// cudaGraphSetConditional. Those of CUDA's device runtime are in device_runtime.cpp.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "schedule/builtin.h"
#include "schedule/grid.h"

namespace softdev {
namespace {

constexpr size_t kMaxString = 1 << 16;
constexpr int kNoRoom = -2;  // of printf: an error of the system

template <class T>
void print_one(const std::string &spec, T value, std::string *out) {
  char text[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
  int length = std::snprintf(text, sizeof text, spec.c_str(), value);
  if (length >= static_cast<int>(sizeof text) && length < (1 << 20)) {
    std::string longer(static_cast<size_t>(length) + 1, '\0');
    std::snprintf(longer.data(), longer.size(), spec.c_str(), value);
    longer.pop_back();
    *out += longer;
  } else if (length > 0) {
    out->append(text, static_cast<size_t>(std::min<int>(length, sizeof text - 1)));
  }
#pragma GCC diagnostic pop
}

// Formats as C does, with arguments laid out as nvcc lays them out: each at its natural alignment.
// Returns the number of conversions, or -1 when a pointer is bad.
int format(ThreadMemory &reader, uint64_t format_address, uint64_t arguments, std::string *out) {
  std::string text;
  if (!reader.string(format_address, &text)) return -1;
  int conversions = 0;
  auto argument = [&](unsigned size) {
    arguments = (arguments + size - 1) / size * size;
    uint64_t at = arguments;
    arguments += size;
    return at;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      *out += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == '%') {
      *out += '%';
      ++i;
      continue;
    }
    std::string spec = "%";
    size_t at = i + 1;
    auto number = [&](size_t digits) {
      while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
        if (digits-- == 0) break;
        spec += text[at++];
      }
      while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    };
    auto star = [&]() {
      if (at >= text.size() || text[at] != '*') return true;
      ++at;
      int32_t value = 0;
      if (!reader.read(argument(4), &value)) return false;
      spec += std::to_string(std::max(-9999, std::min(9999, value)));
      return true;
    };
    while (at < text.size() && std::strchr("-+ #0", text[at]) && spec.size() < 8)
      spec += text[at++];
    if (!star()) return -1;
    number(4);
    if (at < text.size() && text[at] == '.') {
      spec += text[at++];
      if (!star()) return -1;
      number(4);
    }
    int longs = 0;
    std::string narrow;  // h, hh: the argument is an int, of which less is printed
    while (at < text.size() && std::strchr("hlqjztL", text[at])) {
      if (text[at] == 'h' && narrow.size() < 2) narrow += 'h';
      longs += text[at] != 'h';
      ++at;
    }
    if (at >= text.size()) {
      *out += text.substr(i);
      break;
    }
    char conversion = text[at];
    switch (conversion) {
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X': {
        ++conversions;
        bool is_signed = conversion == 'd' || conversion == 'i';
        if (longs) {
          uint64_t value = 0;
          if (!reader.read(argument(8), &value)) return -1;
          spec += "ll";
          spec += conversion;
          if (is_signed)
            print_one(spec, static_cast<long long>(value), out);
          else
            print_one(spec, static_cast<unsigned long long>(value), out);
        } else {
          uint32_t value = 0;
          if (!reader.read(argument(4), &value)) return -1;
          spec += narrow;
          spec += conversion;
          if (is_signed)
            print_one(spec, static_cast<int>(value), out);
          else
            print_one(spec, value, out);
        }
        break;
      }
      case 'c': {
        ++conversions;
        int32_t value = 0;
        if (!reader.read(argument(4), &value)) return -1;
        spec += conversion;
        print_one(spec, value, out);
        break;
      }
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
      case 'a':
      case 'A': {
        ++conversions;
        double value = 0;
        if (!reader.read(argument(8), &value)) return -1;
        spec += conversion;
        print_one(spec, value, out);
        break;
      }
      case 'p': {
        ++conversions;
        uint64_t value = 0;
        if (!reader.read(argument(8), &value)) return -1;
        spec += conversion;
        print_one(spec, reinterpret_cast<void *>(value), out);
        break;
      }
      case 's': {
        ++conversions;
        uint64_t value = 0;
        std::string string;
        if (!reader.read(argument(8), &value)) return -1;
        if (value == 0)
          string = "(null)";
        else if (!reader.string(value, &string))
          return -1;
        spec += conversion;
        print_one(spec, string.c_str(), out);
        break;
      }
      default:
        *out += text.substr(i, at - i + 1);
        break;
    }
    i = at;
  }
  return conversions;
}

}  // namespace

bool ThreadMemory::string(uint64_t address, std::string *out) {
  out->clear();
  for (char c; out->size() < kMaxString; ++address) {
    if (!read(address, &c)) return false;
    if (c == '\0') return true;
    *out += c;
  }
  return true;
}

bool ThreadMemory::may(uint64_t address, unsigned size, bool write) {
  if (memory_allowed(warp_, Space::Generic, address, size, write ? kWritable : kReadable, lane_))
    return true;
  bad_ = address;
  bad_size_ = size;
  bad_write_ = write;
  return false;
}

const Ins *ThreadMemory::fault(const Ins *ins) const {
  return range_fault(warp_, ins, Space::Global, bad_, bad_size_, bad_write_, lane_);
}

const Ins *run_call_builtin(Warp &warp, const Ins *ins) {
  Grid &grid = *warp.cta->grid;
  const CallCode &call = *ins->call;
  for (uint32_t left = warp.mask; left; left &= left - 1) {
    auto lane = static_cast<unsigned>(__builtin_ctz(left));
    uint8_t *frame = warp.local + size_t{lane} * warp.local_stride + warp.frame->local;
    auto argument = [&](size_t i) {
      uint64_t value = 0;
      std::memcpy(&value, frame + call.arguments[i].local,
                  std::min<size_t>(8, call.arguments[i].size));
      return value;
    };
    uint64_t result = 0;
    ThreadMemory reader(warp, lane);
    switch (call.builtin->builtin) {
      case Builtin::Printf: {
        std::string text;
        int count = format(reader, argument(0), argument(1), &text);
        if (count < 0) return reader.fault(ins);
        if (grid.launch.print) {
          std::lock_guard lock(grid.mutex);
          if (!grid.launch.print(text)) count = kNoRoom;
        }
        result = static_cast<uint64_t>(count);
        break;
      }
      case Builtin::Assert: {
        std::string message, file, function;
        if (!reader.string(argument(0), &message) || !reader.string(argument(1), &file) ||
            !reader.string(argument(3), &function))
          return reader.fault(ins);
        uint32_t thread[3];
        warp.cta->thread_of(warp, lane, thread);
        const uint32_t *block = warp.cta->position;
        char place[160];
        std::snprintf(place, sizeof place, ": block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `",
                      block[0], block[1], block[2], thread[0], thread[1], thread[2]);
        grid.fail({710, true,
                   file + ":" + std::to_string(static_cast<uint32_t>(argument(2))) + ": " +
                       function + place + message + "` failed."});
        warp.event = Event::Fault;
        return nullptr;
      }
      case Builtin::Malloc:
        result = grid.kernel->program().heap().allocate(argument(0));
        break;
      case Builtin::Free:
        grid.kernel->program().heap().release(argument(0));
        break;
      case Builtin::SetConditional: {
        // The handle of a condition is the address of its value.
        uint64_t handle = argument(0);
        if (handle % 4 || !memory_allowed(warp, Space::Global, handle, 4, 2, lane))
          return memory_fault(warp, ins, Space::Global, handle, 4, true, lane);
        __atomic_store_n(reinterpret_cast<uint32_t *>(handle), static_cast<uint32_t>(argument(1)),
                         __ATOMIC_RELEASE);
        break;
      }
      default:
        if (!call_device_runtime(reader, call, frame, &result)) return reader.fault(ins);
        break;
    }
    if (!call.results.empty())
      std::memcpy(frame + call.results[0].local, &result,
                  std::min<size_t>(8, call.results[0].size));
  }
  return ins + 1;
}

}  // namespace softdev
