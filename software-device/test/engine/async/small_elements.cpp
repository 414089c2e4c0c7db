// Boxes of elements of 4 and 6 bits, which lie packed in global memory and in three ways in shared
// memory, against copies of one element after the other.
#include "../proven.h"
#include "tensor_rig.h"

using namespace tensor;

namespace {

unsigned get(const uint8_t *base, uint64_t bit, unsigned count) {
  unsigned value = 0;
  for (unsigned i = 0; i < count; ++i, ++bit) value |= (base[bit / 8] >> bit % 8 & 1u) << i;
  return value;
}
void put(uint8_t *base, uint64_t bit, unsigned count, unsigned value) {
  for (unsigned i = 0; i < count; ++i, ++bit) {
    const auto mask = static_cast<uint8_t>(1u << bit % 8);
    base[bit / 8] = static_cast<uint8_t>((base[bit / 8] & ~mask) | (value >> i & 1 ? mask : 0));
  }
}

// A map of two dimensions.
Arguments small_arguments(Bench &bench, TensorElement element) {
  Arguments made = bench.arguments(2);
  TensorMap &map = made.map;
  const bool padded = softdev::is_padded(element);
  const unsigned bits = softdev::element_bits(element);
  map.element = element;
  map.fills_nan = false;
  map.atom = TensorAtom::Bytes16;
  map.swizzle = static_cast<TensorSwizzle>(padded ? 3 * bench.below(2) : bench.below(4));
  if (map.swizzle == TensorSwizzle::Bytes128) map.atom = static_cast<TensorAtom>(bench.below(3));
  const unsigned span = softdev::swizzle_span(map.swizzle);
  map.box[0] = static_cast<uint16_t>(padded ? 128 : 32 * bench.between(1, span ? span / 16 : 6));
  map.last[0] = (padded ? 128 * bench.between(1, 3) : 2 * bench.between(1, 150)) - 1;
  map.address = reinterpret_cast<uint64_t>(bench.tensor) + 32 * bench.below(3);
  map.strides[0] = ((map.last[0] + 1) * bits / 8 + 31) / 32 * 32 + 32 * bench.below(2);
  made.at[0] = padded ? 128 * static_cast<int32_t>(bench.below(5)) - 128
                      : 2 * static_cast<int32_t>(bench.below(map.last[0] / 2 + 4)) - 6;
  return made;
}

// f(bit in shared memory behind the box's begin, bit of the tensor's memory or -1), for each.
template <class F>
void each_small(const Bench &bench, const Arguments &arguments, bool bytes, F f) {
  const TensorMap &map = arguments.map;
  const unsigned bits = softdev::element_bits(map.element);
  const unsigned span = softdev::swizzle_span(map.swizzle);
  const unsigned pitch =
      softdev::is_padded(map.element) ? 128 : std::max<unsigned>(map.box[0] / 2, span);
  unsigned line = 0;
  for (unsigned y = 0; y < map.box[1]; y += map.steps[1], ++line)
    for (unsigned x = 0; x < map.box[0]; ++x) {
      const int64_t at[] = {arguments.at[0] + int64_t{x}, arguments.at[1] + int64_t{y}};
      const bool inside = at[0] >= 0 && at[0] <= map.last[0] && at[1] >= 0 && at[1] <= map.last[1];
      // Sixteen elements take 16 bytes where they are padded: each in a byte, or one behind the
      // other at the begin of them.
      uint64_t bit = uint64_t{line} * pitch * 8;
      if (bytes)
        bit += x * 8;
      else if (softdev::is_padded(map.element))
        bit += x / 16 * 128 + x % 16 * bits;
      else
        bit += x * 4;
      uint64_t byte = bit / 8;
      if (span) {
        const unsigned piece = 16u << static_cast<unsigned>(map.atom), pieces = span / piece;
        const uint64_t chunk = byte % span / piece;
        byte += ((chunk ^ (byte / 128 % pieces)) - chunk) * piece;
      }
      const auto base =
          static_cast<int64_t>(map.address - reinterpret_cast<uint64_t>(bench.tensor));
      f(byte * 8 + bit % 8,
        inside ? (base + at[1] * static_cast<int64_t>(map.strides[0])) * 8 + at[0] * bits : -1);
    }
}

const std::string kLoad =
    "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes"
    " [%r10], [%d0, {%r1, %r2}], [%r11];";
const std::string kStore =
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d0, {%r1, %r2}], [%r10];";

}  // namespace

TEST(small_elements_are_loaded) {
  Bench bench;
  for (TensorElement element :
       {TensorElement::U4, TensorElement::U4Padded, TensorElement::U6Padded})
    for (unsigned round = 0; round < 60; ++round) {
      Arguments arguments = small_arguments(bench, element);
      const unsigned bits = softdev::element_bits(element);
      std::vector<uint8_t> wanted(bench.image_before.begin(), bench.image_before.begin() + kImage);
      unsigned elements = 0;
      each_small(bench, arguments, false, [&](uint64_t place, int64_t from) {
        ++elements;
        put(wanted.data(), place, bits,
            from < 0 ? 0 : get(bench.tensor_before.data(), static_cast<uint64_t>(from), bits));
      });
      // Bytes are counted as they lie in global memory.
      arguments.bytes = elements * bits / 8;
      rig::Status status = bench.run(kLoad, arguments);
      if (!status.ok()) return check::fail(__FILE__, __LINE__, status.message);
      CHECK(std::equal(wanted.begin(), wanted.end(), bench.image));
    }
}

TEST(small_elements_are_stored) {
  Bench bench;
  for (TensorElement element : {TensorElement::U4, TensorElement::U6Padded})
    for (unsigned round = 0; round < 60; ++round) {
      Arguments arguments = small_arguments(bench, element);
      const unsigned bits = softdev::element_bits(element);
      std::vector<uint8_t> wanted = bench.tensor_before;
      each_small(bench, arguments, element == TensorElement::U6Padded,
                 [&](uint64_t place, int64_t to) {
                   if (to >= 0)
                     put(wanted.data(), static_cast<uint64_t>(to), bits,
                         get(bench.image_before.data(), place, bits));
                 });
      rig::Status status = bench.run(kStore, arguments);
      if (!status.ok()) return check::fail(__FILE__, __LINE__, status.message);
      CHECK(std::equal(wanted.begin(), wanted.end(), bench.tensor));
    }
}

TEST(bad_copies_of_newer_kinds_are_faults) {
  Bench bench;
  auto refused = [&](const std::string &text, Arguments bad, const char *says, auto change) {
    change(bad);
    rig::Status status = bench.run(text, bad);
    if (status.ok() || status.message.find(says) == std::string::npos)
      check::fail(__FILE__, __LINE__, std::string(says) + ", not: " + status.message);
  };
  const auto nothing = [](Arguments &) {};
  const Arguments six = small_arguments(bench, TensorElement::U6Padded);
  refused(kLoad, six, "multiples of 128", [](Arguments &bad) { bad.at[0] = 64; });
  refused(kLoad, six, "not of 128", [](Arguments &bad) { bad.map.box[0] = 64; });
  refused(kLoad, six, "no whole row", [](Arguments &bad) { bad.map.last[0] -= 64; });
  refused(kLoad, six, "multiple of 32", [](Arguments &bad) { bad.map.address += 16; });
  refused(kLoad, six, "multiple of 32", [](Arguments &bad) { bad.map.strides[0] += 16; });
  refused(kLoad, six, "by 128 bytes only", [](Arguments &bad) {
    bad.map.atom = TensorAtom::Bytes16;
    bad.map.swizzle = TensorSwizzle::Bytes64;
  });
  refused(kStore, small_arguments(bench, TensorElement::U4Padded), "loaded only", nothing);
  refused(kLoad, small_arguments(bench, TensorElement::U4), "multiples of 2",
          [](Arguments &bad) { bad.at[0] = 3; });
  refused(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%d0, {%r1, %r2}], "
      "[%r10];",
      small_arguments(bench, TensorElement::U4), "no such reduction", nothing);
  refused(kLoad, bench.arguments(2), "in other chunks", [](Arguments &bad) {
    bad.map.atom = TensorAtom::Bytes32;
    bad.map.swizzle = TensorSwizzle::Bytes64;
  });
  const std::string wide =
      "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w::128.mbarrier::complete_tx::bytes"
      " [%r10], [%d0, {%r1, %r2, %r3}], [%r11], {%h1, %h2};";
  refused(wide, bench.arguments(3, Mode::Wide128), "no document says",
          [](Arguments &bad) { bad.offsets[0] = 1; });
  refused(wide, bench.arguments(3, Mode::Wide), "another number of pixels", nothing);
  refused(wide, bench.arguments(3, Mode::Im2col), "one for im2col", nothing);
  refused(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group"
      " [%d0, {%r1, %r2, %r3, %r4, %r5}], [%r10];",
      bench.arguments(2, Mode::Rows), "more than one row",
      [](Arguments &bad) { bad.map.box[1] = 2; });
}
