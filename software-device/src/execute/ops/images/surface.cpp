// Loads, stores and reductions of surfaces: by byte, or by element with conversion.
#include <type_traits>

#include "execute/ops/arithmetic/half.h"
#include "execute/ops/families.h"
#include "execute/ops/images/image.h"
#include "translate/texture_request.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// Where each lane's access goes; lanes that are outside of the surface and should not be are not
// among `inside`.
struct Places {
  alignas(64) uint64_t at[kLanes];
  const ImageView *image[kLanes];
  uint32_t inside = 0;
};

SOFTDEV_INLINE int64_t clamped(int64_t value, int64_t most) {
  return value < 0 ? 0 : value > most ? most : value;
}

bool find_places(Warp &w, const Ins *i, const SurfaceRequest &request, unsigned size, bool write,
                 Places *out) {
  const uint32_t *inputs[4];
  for (unsigned d = 0; d < 4; ++d) {
    uint32_t offset = i->list[i->count - kSurfaceInputs + d];
    inputs[d] = offset == kNone ? nullptr : slot<uint32_t>(w, offset);
  }
  return for_each_image(
      w, i, ImageView::Kind::Surface, [&](const ImageView &image, uint32_t lanes) {
        const ImageLevel &level = image.levels[0];
        // By element, one is accessed whole, whatever the type of the instruction.
        const unsigned bytes = request.formatted && !size ? image.element : size;
        const int64_t step = request.formatted ? image.element : 1;
        const int64_t row = int64_t{level.width} * image.element;
        const int64_t most[4] = {row - bytes, int64_t{level.height} - 1, int64_t{level.depth} - 1,
                                 (image.layers ? int64_t{image.layers} * (image.cube ? 6 : 1)
                                  : image.cube ? 6
                                               : 1) -
                                     1};
        uint32_t inside = 0;
        for (uint32_t left = lanes; left; left &= left - 1) {
          auto l = static_cast<unsigned>(__builtin_ctz(left));
          int64_t at[4] = {0, 0, 0, 0};
          bool good = most[0] >= 0, trap = !good;
          for (unsigned d = 0; d < 4; ++d) {
            if (!inputs[d]) continue;
            // The layer is unsigned.
            at[d] = d == 3 ? int64_t{inputs[d][l]} : int64_t{static_cast<int32_t>(inputs[d][l])};
            if (d == 0) at[d] *= step;
            if (at[d] >= 0 && at[d] <= most[d]) continue;
            if (request.bounds == SurfaceBounds::Clamp)
              at[d] = clamped(at[d], most[d]);
            else
              good = false;
          }
          if (!good) {
            if (request.bounds != SurfaceBounds::Trap && !trap) continue;
            int32_t shown[4];
            for (unsigned d = 0; d < 4; ++d)
              shown[d] = inputs[d] ? static_cast<int32_t>(inputs[d][l]) : 0;
            surface_fault(w, i, image, shown, l);
            return false;
          }
          out->at[l] = level.address + static_cast<uint64_t>(at[0]) +
                       static_cast<uint64_t>(at[1]) * level.pitch +
                       static_cast<uint64_t>(at[2] + at[3]) * level.slice;
          out->image[l] = &image;
          if (out->at[l] % bytes) {
            memory_fault(w, i, Space::Global, out->at[l], bytes, write, l);
            return false;
          }
          inside |= kBit[l];
        }
        out->inside |= inside;
        return check(w, i, out->at, inside, bytes, write);
      });
}

template <class R>
void put(Warp &w, uint32_t to, const uint64_t *values) {
  R *d = slot<R>(w, to);
  running(w.mask, [&](unsigned l) { d[l] = static_cast<R>(values[l]); });
}
template <class R>
uint64_t get(Warp &w, uint32_t from, unsigned l) {
  return slot<R>(w, from)[l];
}

// M: an element in memory; R: its register.
template <class M, class R>
const Ins *load(Warp &w, const Ins *i) {
  const auto request = from_immediate<SurfaceRequest>(i->imm);
  const unsigned count = i->mode;
  Places places;
  if (!find_places(w, i, request, sizeof(M) * count, false, &places)) return nullptr;
  for (unsigned k = 0; k < count; ++k) {
    if (i->list[k] == kNone) continue;
    alignas(64) uint64_t values[kLanes] = {};
    running(places.inside, [&](unsigned l) {
      values[l] = __atomic_load_n(reinterpret_cast<const M *>(places.at[l]) + k, __ATOMIC_RELAXED);
    });
    put<R>(w, i->list[k], values);
  }
  return i + 1;
}

template <class M, class R>
const Ins *store(Warp &w, const Ins *i) {
  const auto request = from_immediate<SurfaceRequest>(i->imm);
  const unsigned count = i->mode;
  Places places;
  if (!find_places(w, i, request, sizeof(M) * count, true, &places)) return nullptr;
  const uint32_t *data = i->list + i->count - kSurfaceInputs + kInputData;
  for (unsigned k = 0; k < count; ++k)
    running(places.inside, [&](unsigned l) {
      __atomic_store_n(reinterpret_cast<M *>(places.at[l]) + k,
                       static_cast<M>(get<R>(w, data[k], l)), __ATOMIC_RELAXED);
    });
  return i + 1;
}

// A component in 32 bits, as the format of the surface has it.
template <class T>
T saturated(const ImageView &image, uint32_t value) {
  const bool with_sign = image.channel == Channel::Signed8 || image.channel == Channel::Signed16;
  const int64_t least = with_sign ? -(int64_t{1} << (sizeof(T) * 8 - 1)) : 0;
  const int64_t most = (int64_t{1} << (sizeof(T) * 8 - (with_sign ? 1 : 0))) - 1;
  int64_t wide = with_sign ? int64_t{static_cast<int32_t>(value)} : int64_t{value};
  if (image.read_as_float) {  // normalised: from [0, 1] or [-1, 1]
    auto x = static_cast<double>(bit_cast<float>(value));
    x = x != x ? 0 : x < (with_sign ? -1.0 : 0.0) ? (with_sign ? -1.0 : 0.0) : x > 1 ? 1 : x;
    wide = static_cast<int64_t>(std::rint(x * static_cast<double>(most)));
  }
  return static_cast<T>(wide < least ? least : wide > most ? most : wide);
}

const Ins *store_formatted(Warp &w, const Ins *i) {
  const auto request = from_immediate<SurfaceRequest>(i->imm);
  Places places;
  if (!find_places(w, i, request, 0, true, &places)) return nullptr;
  const uint32_t *data = i->list + i->count - kSurfaceInputs + kInputData;
  running(places.inside, [&](unsigned l) {
    const ImageView &image = *places.image[l];
    uint8_t element[16];
    for (unsigned c = 0; c < image.channels; ++c) {
      // What the instruction does not give is 0.
      uint32_t value = c < i->mode ? slot<uint32_t>(w, data[c])[l] : 0;
      switch (image.channel) {
        case Channel::Unsigned8:
        case Channel::Signed8:
          element[c] = saturated<uint8_t>(image, value);
          break;
        case Channel::Unsigned16:
        case Channel::Signed16: {
          auto narrow_value = saturated<uint16_t>(image, value);
          std::memcpy(element + 2 * c, &narrow_value, 2);
          break;
        }
        case Channel::Half: {
          uint16_t half = nearest<F16Format>(bit_cast<float>(value));
          std::memcpy(element + 2 * c, &half, 2);
          break;
        }
        case Channel::Unsigned1010102: {
          uint32_t word = 0;
          if (c) std::memcpy(&word, element, 4);
          float x = bit_cast<float>(value), most = c < 3 ? 1023.0f : 3.0f;
          x = x > 0 ? x < 1 ? x : 1 : 0;
          word |= static_cast<uint32_t>(std::rint(x * most)) << (10 * c);
          std::memcpy(element, &word, 4);
          break;
        }
        default:
          std::memcpy(element + 4 * c, &value, 4);
          break;
      }
    }
    std::memcpy(reinterpret_cast<void *>(places.at[l]), element, image.element);
  });
  return i + 1;
}

template <class T>
const Ins *reduce(Warp &w, const Ins *i) {
  const auto request = from_immediate<SurfaceRequest>(i->imm);
  Places places;
  if (!find_places(w, i, request, sizeof(T), true, &places)) return nullptr;
  const T *data = slot<T>(w, i->list[i->count - kSurfaceInputs + kInputData]);
  running(places.inside, [&](unsigned l) {
    T *at = reinterpret_cast<T *>(places.at[l]);
    const T value = data[l];
    switch (static_cast<AtomicOp>(i->mode)) {
      case AtomicOp::Add:
        __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
        break;
      case AtomicOp::And:
        __atomic_fetch_and(at, value, __ATOMIC_RELAXED);
        break;
      case AtomicOp::Or:
        __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
        break;
      default: {
        const bool least = static_cast<AtomicOp>(i->mode) == AtomicOp::Min;
        // Bits have the sign that the format of the surface has.
        const bool signed_format =
            request.formatted && places.image[l]->channel == Channel::Signed32;
        auto less = [=](T a, T b) {
          using Signed = std::make_signed_t<T>;
          return signed_format ? static_cast<Signed>(a) < static_cast<Signed>(b) : a < b;
        };
        T old = __atomic_load_n(at, __ATOMIC_RELAXED);
        while ((least ? less(value, old) : less(old, value)) &&
               !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED)) {
        }
        break;
      }
    }
  });
  return i + 1;
}

template <template <class, class> class Access>
Handler pick(const Ir &ir) {
  const unsigned bytes = from_immediate<SurfaceRequest>(ir.offset).bytes;
  switch (bytes * 10 + ir.register_size) {
    case 12:
      return Access<uint8_t, uint16_t>::run;
    case 14:
      return Access<uint8_t, uint32_t>::run;
    case 18:
      return Access<uint8_t, uint64_t>::run;
    case 22:
      return Access<uint16_t, uint16_t>::run;
    case 24:
      return Access<uint16_t, uint32_t>::run;
    case 28:
      return Access<uint16_t, uint64_t>::run;
    case 44:
      return Access<uint32_t, uint32_t>::run;
    case 48:
      return Access<uint32_t, uint64_t>::run;
    case 88:
      return Access<uint64_t, uint64_t>::run;
    default:
      return nullptr;
  }
}
template <class M, class R>
struct Load {
  static constexpr Handler run = load<M, R>;
};
template <class M, class R>
struct Store {
  static constexpr Handler run = store<M, R>;
};

}  // namespace

Handler select_surface(const Ir &ir) {
  switch (ir.op) {
    case Op::SurfaceLoad:
      return pick<Load>(ir);
    case Op::SurfaceStore:
      if (from_immediate<SurfaceRequest>(ir.offset).formatted)
        return ir.register_size == 4 ? store_formatted : nullptr;
      return pick<Store>(ir);
    case Op::SurfaceReduce: {
      // Minimum and maximum have a sign; the others do not care.
      const bool ordered = ir.mode == static_cast<uint8_t>(AtomicOp::Min) ||
                           ir.mode == static_cast<uint8_t>(AtomicOp::Max);
      const bool logic = ir.mode == static_cast<uint8_t>(AtomicOp::And) ||
                         ir.mode == static_cast<uint8_t>(AtomicOp::Or);
      switch (ir.type) {
        case Type::B32:
        case Type::U32:
          return reduce<uint32_t>;
        case Type::S32:
          return logic ? nullptr : ordered ? Handler{reduce<int32_t>} : Handler{reduce<uint32_t>};
        case Type::B64:
        case Type::U64:
          return logic ? nullptr : reduce<uint64_t>;
        case Type::S64:
          return logic ? nullptr : ordered ? Handler{reduce<int64_t>} : Handler{reduce<uint64_t>};
        default:
          return nullptr;
      }
    }
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
