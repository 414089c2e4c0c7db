// A kernel that makes one copy by a tensor map, and a tensor with random contents for it.
#pragma once

#include <algorithm>
#include <random>

#include "../behaviour/check.h"
#include "tensor_map.h"

namespace tensor {

using softdev::TensorAtom;
using softdev::TensorElement;
using softdev::TensorKind;
using softdev::TensorMap;
using softdev::TensorSwizzle;

constexpr unsigned kImage = 32768;  // bytes of shared memory that a kernel shows
constexpr unsigned kRanks = softdev::kTensorRanks;

// How an instruction goes through a tensor.
enum class Mode { Tile, Rows, Im2col, Wide, Wide128 };

inline unsigned element_bytes(TensorElement element) { return softdev::element_bits(element) / 8; }

struct Arguments {
  TensorMap map;
  bool rows = false;         // four, at at[1] to at[4]
  uint8_t *image = nullptr;  // of shared memory, before and after, one for each block
  const TensorMap *elsewhere = nullptr;
  uint32_t bytes = 0;  // that the mbarrier waits for; 0: it does not
  int32_t at[kRanks] = {};
  uint16_t offsets[4] = {};
};

// In it %d0 is the map's address among the parameters, %d1 the image's, %d2 that of a map
// elsewhere, %d3 a policy; %r1 to %r5 and %h1 to %h3 the coordinates and offsets, %h4 a mask of
// both blocks; %r10 and %r11 the box in shared memory and the mbarrier.
inline std::string kernel(const std::string &text) {
  return check::module(R"(
.visible .entry k(.param .align 64 .b8 m[128], .param .u64 image, .param .u64 elsewhere,
                  .param .u32 bytes, .param .align 4 .b8 c[20], .param .align 2 .b8 o[8]) {
  .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<32>; .reg .b64 %d<16>;
  .shared .align 1024 .b8 box[32768]; .shared .align 8 .b64 bar;
  mov.b64 %d0, m; cvta.param.u64 %d0, %d0; ld.param.u64 %d1, [image];
  ld.param.u64 %d2, [elsewhere]; ld.param.u32 %r0, [bytes];
  ld.param.b32 %r1, [c]; ld.param.b32 %r2, [c+4]; ld.param.b32 %r3, [c+8];
  ld.param.b32 %r4, [c+12]; ld.param.b32 %r5, [c+16];
  ld.param.b16 %h1, [o]; ld.param.b16 %h2, [o+2]; ld.param.b16 %h3, [o+4]; mov.b16 %h4, 3;
  createpolicy.fractional.L2::evict_first.b64 %d3;
  mov.u32 %r10, box; mov.u32 %r11, bar; mov.u32 %r12, %cluster_ctarank;
  mul.wide.u32 %d4, %r12, 32768; add.u64 %d1, %d1, %d4;
  mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32768;
  cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [box], [%d1], 32768, [bar];
A: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra A;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r0;
  barrier.cluster.arrive; barrier.cluster.wait;
  setp.ne.u32 %p2, %r12, 0; @%p2 bra B;
)" + text + R"(
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
B: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 1; @!%p1 bra B;
  cp.async.bulk.global.shared::cta.bulk_group [%d1], [box], 32768;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
  barrier.cluster.arrive; barrier.cluster.wait;
  ret;
}
)");
}

inline std::string coordinates(unsigned rank, Mode mode = Mode::Tile) {
  if (mode == Mode::Rows) rank = kRanks;
  std::string text = "{";
  for (unsigned d = 0; d < rank; ++d) text += (d ? ", %r" : "%r") + std::to_string(d + 1);
  return text + "}";
}
// ", {...}" where the mode has offsets.
inline std::string offsets(unsigned rank, Mode mode) {
  if (mode < Mode::Im2col) return "";
  if (mode != Mode::Im2col) return ", {%h1, %h2}";
  std::string text = ", {";
  for (unsigned d = 0; d + 2 < rank; ++d) text += (d ? ", %h" : "%h") + std::to_string(d + 1);
  return text + "}";
}

class Bench {
 public:
  rig::Device device{2};
  uint8_t *image = device.array<uint8_t>(2 * kImage);
  uint8_t *tensor = device.array<uint8_t>(kMostBytes);
  TensorMap *map_elsewhere = device.array<TensorMap>(1);
  std::vector<uint8_t> image_before, tensor_before;
  std::mt19937 random{77};

  unsigned below(unsigned end) { return static_cast<unsigned>(random() % end); }
  // From `least` to `most`.
  unsigned between(unsigned least, unsigned most) { return least + below(most - least + 1); }

  // Random contents, and a random map of so many dimensions with small sides.
  Arguments arguments(unsigned rank, Mode mode = Mode::Tile) {
    scramble(image, 2 * kImage);
    scramble(tensor, kMostBytes);
    image_before.assign(image, image + 2 * kImage);
    tensor_before.assign(tensor, tensor + kMostBytes);
    Arguments made;
    made.image = image;
    made.elsewhere = map_elsewhere;
    TensorMap &map = made.map;
    map.rank = static_cast<uint8_t>(rank);
    static constexpr TensorKind kKinds[] = {TensorKind::Tiled, TensorKind::Tiled,
                                            TensorKind::Im2col, TensorKind::Wide,
                                            TensorKind::Wide128};
    map.kind = kKinds[static_cast<unsigned>(mode)];
    map.element = static_cast<TensorElement>(below(13));
    if (map.element == TensorElement::F32Ftz || map.element == TensorElement::TF32Ftz)
      map.element = TensorElement::BF16;  // the one that changes values has a test of its own
    map.swizzle = static_cast<TensorSwizzle>(below(4));
    if (map.swizzle == TensorSwizzle::Bytes128) map.atom = static_cast<TensorAtom>(below(3));
    map.fills_nan = below(2);
    const unsigned size = element_bytes(map.element), unit = 16 / std::min(size, 16u);
    const unsigned span = softdev::swizzle_span(map.swizzle);
    const unsigned row = (span ? between(1, span / 16) : between(1, 5)) * unit;
    const unsigned most = rank <= 2 ? 30 : rank == 3 ? 9 : rank == 4 ? 5 : 4;
    uint64_t stride = 0;
    for (unsigned d = 0; d < rank; ++d) {
      const unsigned elements = between(1, d ? most : 2 * row + 3);
      map.last[d] = elements - 1;
      map.steps[d] = static_cast<uint8_t>(d ? between(1, 3) : 1);
      map.box[d] = static_cast<uint16_t>(d ? between(1, most) : row);
      if (d) map.strides[d - 1] = stride;
      stride = ((d ? stride : size) * elements + 15) / 16 * 16 + 16 * below(2);
      made.at[d] = static_cast<int32_t>(below(elements + 4)) - 2;
    }
    map.address = reinterpret_cast<uint64_t>(tensor) + 16 * below(3);
    map.channels = static_cast<uint16_t>(row);
    map.pixels = static_cast<uint16_t>(between(1, 40));
    for (unsigned d = 0; d + 2 < rank; ++d) {
      map.lower[d] = static_cast<int16_t>(static_cast<int>(below(5)) - 2);
      map.upper[d] = static_cast<int16_t>(static_cast<int>(below(5)) - 2);
      made.offsets[d] = static_cast<uint16_t>(below(4));
    }
    if (mode == Mode::Rows) {
      made.rows = true;
      map.box[1] = 1;
      for (unsigned r = 1; r <= 4; ++r)
        made.at[r] = static_cast<int32_t>(below(map.last[1] + 4)) - 2;
    }
    if (mode >= Mode::Wide) {
      // As many pixels behind the column, from a place in the box or left of it.
      made.offsets[0] = static_cast<uint16_t>(mode == Mode::Wide ? below(4) : 0);
      made.offsets[1] = static_cast<uint16_t>(below(4));
      map.upper[0] = std::max(map.upper[0], static_cast<int16_t>(map.lower[0] - map.last[1]));
      made.at[1] = map.lower[0] - 1 +
                   static_cast<int32_t>(
                       below(map.last[1] + static_cast<unsigned>(2 + map.upper[0] - map.lower[0])));
    }
    return made;
  }

  rig::Status run(const std::string &text, const Arguments &arguments, unsigned blocks = 1) {
    auto program = device.load(kernel(text));
    if (!program) return {1, false, "not loaded"};
    device.cluster = {blocks, 1, 1};
    struct alignas(64) Aligned {
      TensorMap map;
    };
    return device.launch(program, "k", {blocks}, {1},
                         rig::Parameters()
                             .add(Aligned{arguments.map})
                             .add(arguments.image)
                             .add(arguments.elsewhere)
                             .add(arguments.bytes)
                             .add(Coordinates{arguments})
                             .add(Offsets{arguments}));
  }

 private:
  static constexpr unsigned kMostBytes = 1 << 18;
  void scramble(uint8_t *to, unsigned bytes) {
    for (unsigned at = 0; at < bytes; at += 4) {
      const auto word = static_cast<uint32_t>(random());
      std::memcpy(to + at, &word, 4);
    }
  }
  struct Coordinates {
    explicit Coordinates(const Arguments &from) { std::copy(from.at, from.at + kRanks, at); }
    int32_t at[kRanks];
  };
  struct Offsets {
    explicit Offsets(const Arguments &from) { std::copy(from.offsets, from.offsets + 4, at); }
    uint16_t at[4];
  };
};

// The elements of a box, one after the other, as the ISA describes them: f(place in shared memory
// behind the box's begin, address or nullptr outside of the tensor). Returns the box's bytes.
template <class F>
uint32_t each_element(const Arguments &arguments, bool with_offsets, F f) {
  const TensorMap &map = arguments.map;
  const unsigned size = element_bytes(map.element), rank = map.rank;
  const bool tiled = map.kind == TensorKind::Tiled;
  const bool wide_box = map.kind == TensorKind::Wide || map.kind == TensorKind::Wide128;
  const unsigned wide = tiled ? map.box[0] : map.channels;
  unsigned span = 16;
  for (unsigned i = 0; i < static_cast<unsigned>(map.swizzle); ++i) span *= 2;
  const unsigned pitch = std::max(wide * size, span == 16 ? 0 : span);
  unsigned line = 0;
  auto element = [&](std::vector<int64_t> at) {
    for (unsigned x = 0; x < wide; ++x) {
      at[0] = arguments.at[0] + static_cast<int64_t>(x);
      uint64_t address = map.address + static_cast<uint64_t>(at[0] * size);
      bool inside = true;
      for (unsigned d = 0; d < rank; ++d) {
        inside = inside && at[d] >= 0 && at[d] <= map.last[d];
        if (d) address += static_cast<uint64_t>(at[d]) * map.strides[d - 1];
      }
      const unsigned place = line * pitch + x * size;
      const unsigned piece = 16u << static_cast<unsigned>(map.atom), pieces = span / piece;
      const unsigned chunk = place % span / piece;
      const unsigned moved = pieces ? chunk ^ (place / 128 % pieces) : chunk;
      f(place - chunk * piece + moved * piece,
        inside ? reinterpret_cast<uint8_t *>(address) : nullptr);
    }
    ++line;
  };
  std::vector<int64_t> at(arguments.at, arguments.at + kRanks);
  if (arguments.rows) {
    for (unsigned r = 1; r <= 4; ++r) {
      at[1] = arguments.at[r];
      element(at);
    }
  } else if (wide_box) {
    // All pixels between the corners, image after image, until there are enough.
    unsigned left = map.kind == TensorKind::Wide ? map.pixels + arguments.offsets[0] : 128;
    const int64_t end = int64_t{map.last[1]} + map.upper[0];
    for (int64_t from = arguments.at[1]; left; from = map.lower[0], ++at[rank - 1])
      for (int64_t w = from; w <= end && left; w += map.steps[1], --left) {
        at[1] = w + arguments.offsets[1];
        element(at);
      }
  } else if (tiled) {
    auto sides = [&](auto &self, unsigned d) -> void {
      if (d == 0) return element(at);
      for (unsigned k = 0; k < map.box[d]; k += map.steps[d]) {
        at[d] = arguments.at[d] + static_cast<int64_t>(k);
        self(self, d - 1);
      }
    };
    sides(sides, rank - 1);
  } else {
    for (unsigned pixel = 0; pixel < map.pixels; ++pixel) {
      std::vector<int64_t> moved = at;
      for (unsigned d = 1; d + 1 < rank; ++d)
        moved[d] += with_offsets ? arguments.offsets[d - 1] : 0;
      element(moved);
      bool carry = true;
      for (unsigned d = 1; d + 1 < rank && carry; ++d) {
        at[d] += map.steps[d];
        carry = at[d] > static_cast<int64_t>(map.last[d]) + map.upper[d - 1];
        if (carry) at[d] = map.lower[d - 1];
      }
      if (carry) ++at[rank - 1];
    }
  }
  return line * wide * size;
}

inline std::vector<uint8_t> filling(const TensorMap &map) {
  const unsigned size = element_bytes(map.element);
  std::vector<uint8_t> bytes(size, map.fills_nan && softdev::is_float(map.element) ? 0xff : 0);
  if (bytes.back()) bytes.back() = 0x7f;
  return bytes;
}

// What shared memory has after the box was loaded.
inline std::vector<uint8_t> loaded(const Bench &bench, const Arguments &arguments, bool offsets) {
  std::vector<uint8_t> image(bench.image_before.begin(), bench.image_before.begin() + kImage);
  const unsigned size = element_bytes(arguments.map.element);
  const std::vector<uint8_t> fill = filling(arguments.map);
  each_element(arguments, offsets, [&](unsigned place, const uint8_t *from) {
    std::copy_n(from ? from : fill.data(), size, image.begin() + place);
  });
  return image;
}

}  // namespace tensor
