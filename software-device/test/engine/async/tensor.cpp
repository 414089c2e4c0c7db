// Copies by tensor maps: every form, with random boxes of random tensors, against copies of one
// element after the other.
#include "../instructions/reference.h"
#include "../proven.h"
#include "tensor_rig.h"

using namespace tensor;

namespace {

constexpr unsigned kRounds = 40;
const std::string kCounted = ".mbarrier::complete_tx::bytes";

void load_form(Bench &bench, unsigned rank, Mode mode, const std::string &space,
               const std::string &words, const std::string &operands, unsigned blocks) {
  const std::string form =
      "cp.async.bulk.tensor." + std::to_string(rank) + "d." + space + ".global" + words;
  for (unsigned round = 0; round < kRounds; ++round) {
    Arguments arguments = bench.arguments(rank, mode);
    unsigned end = 0;
    arguments.bytes = each_element(
        arguments, true, [&](unsigned place, const uint8_t *) { end = std::max(end, place + 16); });
    if (end > kImage) continue;
    // The map is among the parameters, or in global memory.
    *bench.map_elsewhere = arguments.map;
    const std::string map = round % 2 ? "[%d2, " : "[%d0, ";
    rig::Status status = bench.run(form + " [%r10], " + map + coordinates(rank, mode) +
                                       "], [%r11]" + offsets(rank, mode) + operands + ";",
                                   arguments, blocks);
    if (!status.ok()) return check::fail(__FILE__, __LINE__, form + ": " + status.message);
    const std::vector<uint8_t> wanted = loaded(bench, arguments, true);
    for (unsigned block = 0; block < blocks; ++block) {
      // Each block began with contents of its own; what the box leaves alone stays.
      std::vector<uint8_t> here(kImage);
      std::vector<bool> touched(kImage);
      const unsigned size = element_bytes(arguments.map.element);
      each_element(arguments, true, [&](unsigned place, const uint8_t *) {
        std::fill_n(touched.begin() + place, size, true);
      });
      for (unsigned at = 0; at < kImage; ++at)
        here[at] = touched[at] ? wanted[at] : bench.image_before[block * kImage + at];
      if (!std::equal(here.begin(), here.end(), bench.image + block * kImage))
        return check::fail(__FILE__, __LINE__, form + ": another box");
    }
    proven::add(form, arguments.bytes);
  }
}

void store_form(Bench &bench, unsigned rank, Mode mode, const std::string &words,
                const std::string &operands) {
  const std::string form =
      "cp.async.bulk.tensor." + std::to_string(rank) + "d.global.shared::cta" + words;
  for (unsigned round = 0; round < kRounds; ++round) {
    Arguments arguments = bench.arguments(rank, mode);
    const unsigned size = element_bytes(arguments.map.element);
    uint8_t *const tensor = bench.tensor;
    std::vector<uint8_t> wanted = bench.tensor_before;
    unsigned end = 0, elements = 0;
    each_element(arguments, false, [&](unsigned place, uint8_t *to) {
      end = std::max(end, place + 16);
      ++elements;
      if (to && end <= kImage)
        std::copy_n(bench.image_before.begin() + place, size, wanted.begin() + (to - tensor));
    });
    if (end > kImage) continue;
    rig::Status status = bench.run(
        form + " [%d0, " + coordinates(rank, mode) + "], [%r10]" + operands + ";", arguments);
    if (!status.ok()) return check::fail(__FILE__, __LINE__, form + ": " + status.message);
    if (!std::equal(wanted.begin(), wanted.end(), tensor))
      return check::fail(__FILE__, __LINE__, form + ": another tensor");
    proven::add(form, elements);
  }
}

struct Word {
  std::string text;
  Mode mode;
  bool fits(unsigned rank) const {
    return mode == Mode::Rows ? rank == 2 : mode < Mode::Im2col || rank >= 3;
  }
};
const std::vector<Word> kLoads = {
    {"", Mode::Tile},          {".tile", Mode::Tile},      {".tile::gather4", Mode::Rows},
    {".im2col", Mode::Im2col}, {".im2col::w", Mode::Wide}, {".im2col::w::128", Mode::Wide128},
};
const std::vector<Word> kStores = {
    {"", Mode::Tile},
    {".tile", Mode::Tile},
    {".tile::scatter4", Mode::Rows},
    {".im2col_no_offs", Mode::Im2col},
};

}  // namespace

TEST(tensor_loads_in_every_form) {
  Bench bench;
  for (unsigned rank = 1; rank <= kRanks; ++rank)
    for (const char *space : {"shared::cluster", "shared::cta"})
      for (const Word &word : kLoads) {
        if (!word.fits(rank)) continue;
        for (bool hint : {false, true})
          load_form(bench, rank, word.mode, space,
                    word.text + kCounted + (hint ? ".L2::cache_hint" : ""), hint ? ", %d3" : "", 1);
        if (std::string(space) == "shared::cluster")
          load_form(bench, rank, word.mode, space, word.text + kCounted + ".multicast::cluster",
                    ", %h4", 2);
        load_form(bench, rank, word.mode, space, word.text + kCounted + ".cta_group::1", "", 1);
      }
}

TEST(tensor_stores_in_every_form) {
  Bench bench;
  for (unsigned rank = 1; rank <= kRanks; ++rank)
    for (const Word &word : kStores) {
      if (!word.fits(rank)) continue;
      for (bool hint : {false, true})
        store_form(bench, rank, word.mode,
                   word.text + ".bulk_group" + (hint ? ".L2::cache_hint" : ""),
                   hint ? ", %d3" : "");
    }
}

TEST(tensor_prefetches_in_every_form) {
  Bench bench;
  for (unsigned rank = 1; rank <= kRanks; ++rank)
    for (const Word &word : kLoads) {
      if (!word.fits(rank)) continue;
      for (bool hint : {false, true}) {
        const std::string form = "cp.async.bulk.prefetch.tensor." + std::to_string(rank) +
                                 "d.L2.global" + word.text + (hint ? ".L2::cache_hint" : "");
        Arguments arguments = bench.arguments(rank, word.mode);
        CHECK(bench
                  .run(form + " [%d0, " + coordinates(rank, word.mode) + "]" +
                           offsets(rank, word.mode) + (hint ? ", %d3" : "") + ";",
                       arguments)
                  .ok());
        CHECK(std::equal(bench.tensor_before.begin(), bench.tensor_before.end(), bench.tensor));
        CHECK(std::equal(bench.image_before.begin(), bench.image_before.end(), bench.image));
        proven::add(form, 1, false, proven::kNoEffect);
      }
    }
}

TEST(small_numbers_are_flushed) {
  Bench bench;
  Arguments arguments = bench.arguments(1);
  arguments.map.element = TensorElement::F32Ftz;
  arguments.map.swizzle = TensorSwizzle::None;
  arguments.map.atom = TensorAtom::Bytes16;
  arguments.map.box[0] = 64;
  arguments.map.last[0] = 63;
  arguments.at[0] = 0;
  arguments.bytes = 256;
  auto *numbers = reinterpret_cast<uint32_t *>(arguments.map.address);
  for (unsigned i = 0; i < 64; ++i) numbers[i] = i % 2 ? 0x80000001 << i % 23 : 0x00400000 << i % 8;
  CHECK(bench
            .run("cp.async.bulk.tensor.1d.shared::cta.global" + kCounted +
                     " [%r10], [%d0, {%r1}], [%r11];",
                 arguments)
            .ok());
  for (unsigned i = 0; i < 64; ++i) {
    uint32_t got;
    std::memcpy(&got, bench.image + 4 * i, 4);
    const bool small = (numbers[i] & 0x7f800000) == 0;
    CHECK(got == (small ? numbers[i] & 0x80000000 : numbers[i]));
  }
}

namespace {

template <class T>
T reduced(const std::string &op, T old, T b) {
  if (op == "add") return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(b));
  if (op == "min") return std::min(old, b);
  if (op == "max") return std::max(old, b);
  if (op == "inc") return old >= b ? 0 : old + 1;
  if (op == "dec") return old == 0 || old > b ? b : old - 1;
  if (op == "and") return old & b;
  if (op == "or") return old | b;
  return old ^ b;
}
template <class T>
void reduce(const std::string &op, uint8_t *to, const uint8_t *from) {
  T old, b;
  std::memcpy(&old, to, sizeof old);
  std::memcpy(&b, from, sizeof b);
  old = reduced(op, old, b);
  std::memcpy(to, &old, sizeof old);
}
void add_floats(uint8_t *to, const uint8_t *from) {
  float old, b;
  std::memcpy(&old, to, 4);
  std::memcpy(&b, from, 4);
  old = harness::flushed(harness::flushed(old) + harness::flushed(b));
  std::memcpy(to, &old, 4);
}

}  // namespace

TEST(tensor_reductions_in_every_form) {
  Bench bench;
  for (const char *op : {"add", "min", "max", "inc", "dec", "and", "or", "xor"})
    for (unsigned rank = 1; rank <= kRanks; ++rank)
      for (const char *mode : {"", ".tile", ".im2col_no_offs"}) {
        const bool im2col = std::string(mode) == ".im2col_no_offs";
        if (im2col && rank < 3) continue;
        const bool hint = rank % 2;
        const std::string form = "cp.reduce.async.bulk.tensor." + std::to_string(rank) +
                                 "d.global.shared::cta." + op + mode + ".bulk_group" +
                                 (hint ? ".L2::cache_hint" : "");
        const bool counter = std::string(op) == "inc" || std::string(op) == "dec";
        for (unsigned round = 0; round < 12; ++round) {
          Arguments arguments = bench.arguments(rank, im2col ? Mode::Im2col : Mode::Tile);
          static constexpr TensorElement kElements[] = {TensorElement::U32, TensorElement::S32,
                                                        TensorElement::F32};
          // Four bytes each, as the box was made for elements of some size: its sides stay.
          const bool floats = std::string(op) == "add" && round % 3 == 2;
          if (element_bytes(arguments.map.element) != 4) continue;
          arguments.map.element = counter ? TensorElement::U32 : kElements[floats ? 2 : round % 2];
          std::vector<uint8_t> wanted = bench.tensor_before, source = bench.image_before;
          if (floats) {  // numbers of a size
            for (uint8_t *all : {bench.tensor, bench.image})
              for (unsigned at = 3; at < kImage; at += 4) all[at] = all[at] % 2 ? 0x40 : 0xc0;
            wanted.assign(bench.tensor, bench.tensor + wanted.size());
            source.assign(bench.image, bench.image + source.size());
          }
          unsigned end = 0, elements = 0;
          uint8_t *const tensor = bench.tensor;
          each_element(arguments, false, [&](unsigned place, uint8_t *to) {
            end = std::max(end, place + 16);
            if (!to || end > kImage) return;
            ++elements;
            uint8_t *target = wanted.data() + (to - tensor);
            if (floats)
              add_floats(target, source.data() + place);
            else if (arguments.map.element == TensorElement::S32)
              reduce<int32_t>(op, target, source.data() + place);
            else
              reduce<uint32_t>(op, target, source.data() + place);
          });
          if (end > kImage) continue;
          rig::Status status = bench.run(
              form + " [%d0, " + coordinates(rank) + "], [%r10]" + (hint ? ", %d3" : "") + ";",
              arguments);
          if (!status.ok()) {
            check::fail(__FILE__, __LINE__, form + ": " + status.message);
            break;
          }
          if (!std::equal(wanted.begin(), wanted.end(), tensor)) {
            check::fail(__FILE__, __LINE__, form + ": another tensor");
            break;
          }
          proven::add(form, elements);
        }
      }
}
