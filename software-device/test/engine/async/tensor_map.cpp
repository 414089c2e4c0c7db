// What kernels change of tensor maps, and what is refused of them.
#include "../proven.h"
#include "tensor_rig.h"

using namespace tensor;

namespace {

// One field's new value, and what a map has then.
struct Replacement {
  std::string field, type, operands;
  void (*apply)(TensorMap &map);
};
const std::vector<Replacement> &replacements() {
  static const std::vector<Replacement> all = {
      {"global_address", "b64", "%d10", [](TensorMap &map) { map.address = 0x12340; }},
      {"rank", "b32", "%r20", [](TensorMap &map) { map.rank = 4; }},
      {"box_dim", "b32", "1, %r20", [](TensorMap &map) { map.box[1] = 3; }},
      {"global_dim", "b32", "4, %r20", [](TensorMap &map) { map.last[4] = 2; }},
      {"global_stride", "b64", "3, %d10", [](TensorMap &map) { map.strides[3] = 0x12340; }},
      {"element_stride", "b32", "2, %r20", [](TensorMap &map) { map.steps[2] = 3; }},
      {"elemtype", "b32", "9", [](TensorMap &map) { map.element = TensorElement::F64; }},
      {"elemtype", "b32", "10", [](TensorMap &map) { map.element = TensorElement::BF16; }},
      {"interleave_layout", "b32", "0", [](TensorMap &) {}},
      {"swizzle_mode", "b32", "2", [](TensorMap &map) { map.swizzle = TensorSwizzle::Bytes64; }},
      {"elemtype", "b32", "13", [](TensorMap &map) { map.element = TensorElement::U4; }},
      {"elemtype", "b32", "14", [](TensorMap &map) { map.element = TensorElement::U4Padded; }},
      {"elemtype", "b32", "15", [](TensorMap &map) { map.element = TensorElement::U6Padded; }},
      {"swizzle_atomicity", "b32", "0", [](TensorMap &map) { map.atom = TensorAtom::Bytes16; }},
      {"swizzle_atomicity", "b32", "1", [](TensorMap &map) { map.atom = TensorAtom::Bytes32; }},
      {"swizzle_atomicity", "b32", "3", [](TensorMap &map) { map.atom = TensorAtom::Bytes64; }},
      {"fill_mode", "b32", "1", [](TensorMap &map) { map.fills_nan = true; }},
  };
  return all;
}
const std::string kSet = "mov.u64 %d10, 0x12340; mov.u32 %r20, 3;";

bool same(const TensorMap &a, const TensorMap &b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

TEST(fields_of_tensor_maps_are_replaced) {
  Bench bench;
  for (const Replacement &one : replacements())
    for (const char *space : {"", ".global", ".shared::cta"}) {
      Arguments arguments = bench.arguments(5);
      arguments.map.fills_nan = false;
      TensorMap wanted = arguments.map;
      one.apply(wanted);
      const std::string form = "tensormap.replace.tile." + one.field + space + ".b1024." + one.type;
      const bool shared = std::string(space) == ".shared::cta";
      *bench.map_elsewhere = arguments.map;
      std::memcpy(bench.image, &arguments.map, sizeof wanted);
      CHECK(bench
                .run(kSet + form + (shared ? " [%r10], " : " [%d2], ") + one.operands + ";",
                     arguments)
                .ok());
      TensorMap got;
      std::memcpy(&got, shared ? bench.image : reinterpret_cast<uint8_t *>(bench.map_elsewhere),
                  sizeof got);
      CHECK(same(got, wanted));
      proven::add(form, 1);
    }
}

TEST(tensor_maps_are_copied_out_of_shared_memory) {
  Bench bench;
  for (const char *scope : {"cta", "cluster", "gpu", "sys"}) {
    Arguments arguments = bench.arguments(3);
    std::memcpy(bench.image, &arguments.map, sizeof arguments.map);
    const std::string form = std::string("tensormap.cp_fenceproxy.global.shared::cta") +
                             ".tensormap::generic.release." + scope + ".sync.aligned";
    CHECK(bench
              .run(form + " [%d2], [%r10], 128; fence.proxy.tensormap::generic.acquire." + scope +
                       " [%d2], 128;",
                   arguments)
              .ok());
    CHECK(same(*bench.map_elsewhere, arguments.map));
    proven::add(form, 1);
  }
}

TEST(bad_tensor_copies_are_faults) {
  Bench bench;
  const std::string load =
      "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes";
  const std::string good = load + " [%r10], [%d0, {%r1, %r2}], [%r11];";
  Arguments arguments = bench.arguments(2);
  arguments.map.element = TensorElement::U32;
  arguments.map.swizzle = TensorSwizzle::None;
  arguments.map.atom = TensorAtom::Bytes16;
  arguments.map.fills_nan = false;
  arguments.map.last[0] = arguments.map.last[1] = 15;
  arguments.map.box[0] = arguments.map.box[1] = 8;
  arguments.map.steps[1] = 1;
  arguments.map.strides[0] = 64;
  arguments.at[0] = arguments.at[1] = 0;
  arguments.bytes = 256;
  CHECK(bench.run(good, arguments).ok());
  auto refused = [&](const std::string &text, const char *says, auto change) {
    Arguments bad = arguments;
    change(bad);
    rig::Status status = bench.run(text, bad);
    if (status.ok() || status.message.find(says) == std::string::npos)
      check::fail(__FILE__, __LINE__, std::string(says) + ", not: " + status.message);
  };
  const auto nothing = [](Arguments &) {};
  refused(good, "no tensor map", [](Arguments &bad) { bad.map.mark = 0; });
  refused(good, "another number of dimensions", [](Arguments &bad) { bad.map.rank = 3; });
  refused(good, "one for im2col", [](Arguments &bad) { bad.map.kind = TensorKind::Im2col; });
  refused(good, "no multiple of 16", [](Arguments &bad) { bad.map.address += 4; });
  refused(good, "a stride of the tensor", [](Arguments &bad) { bad.map.strides[0] = 68; });
  refused(good, "longer than what is swizzled", [](Arguments &bad) {
    bad.map.box[0] = 16;
    bad.map.swizzle = TensorSwizzle::Bytes32;
  });
  refused(good, "not allowed", [](Arguments &bad) { bad.map.address += uint64_t{1} << 30; });
  refused(good, "not allowed", [](Arguments &bad) { bad.map.last[1] = ~0u, bad.at[1] = 1 << 26; });
  refused("add.u32 %r10, %r10, 64;" + good, "no multiple of 128", nothing);
  refused("add.u32 %r10, %r10, 65536;" + good, "not allowed", nothing);
  refused("add.u64 %d0, %d0, 8;" + good, "misaligned", nothing);
  refused("mov.u64 %d0, 64;" + good, "not allowed", nothing);
  refused(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.inc.bulk_group [%d0, {%r1, %r2}], "
      "[%r10];",
      "no such reduction", [](Arguments &bad) { bad.map.element = TensorElement::S32; });
  refused("mov.u32 %r20, 9; tensormap.replace.tile.element_stride.global.b1024.b32 [%d2], 0, %r20;",
          "cannot have this value", [&](Arguments &) { *bench.map_elsewhere = arguments.map; });
}

TEST(other_forms_of_tensor_copies_are_refused) {
  Bench bench;
  for (const char *text : {
           "cp.async.bulk.tensor.2d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%r10], "
           "[%d0, {%r1, %r2}], [%r11], {};",
           "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r10], "
           "[%d0, {%r1}], [%r11];",
           "cp.async.bulk.tensor.6d.shared::cta.global.mbarrier::complete_tx::bytes [%r10], "
           "[%d0, {%r1}], [%r11];",
           "cp.async.bulk.tensor.1d.shared::cta.global.bulk_group [%r10], [%d0, {%r1}], [%r11];",
           "cp.async.bulk.tensor.1d.global.shared::cluster.bulk_group [%d0, {%r1}], [%r10];",
           "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
           "[%r10], [%d0, {%r1, %r2}], [%r11];",
           "cp.async.bulk.tensor.3d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
           "[%r10], [%d0, {%r1, %r2, %r3, %r4, %r5}], [%r11];",
           "cp.async.bulk.tensor.2d.shared::cta.global.tile::scatter4.mbarrier::complete_tx::bytes "
           "[%r10], [%d0, {%r1, %r2, %r3, %r4, %r5}], [%r11];",
           "cp.async.bulk.tensor.2d.global.shared::cta.tile::gather4.bulk_group "
           "[%d0, {%r1, %r2, %r3, %r4, %r5}], [%r10];",
           "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile::scatter4.bulk_group "
           "[%d0, {%r1, %r2, %r3, %r4, %r5}], [%r10];",
           "cp.async.bulk.tensor.3d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes "
           "[%r10], [%d0, {%r1, %r2, %r3}], [%r11], {%h1};",
           "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes.cta_group::2 "
           "[%r10], [%d0, {%r1}], [%r11];",
           "cp.reduce.async.bulk.tensor.1d.global.shared::cta.bulk_group [%d0, {%r1}], [%r10];",
           "tensormap.replace.tile.elemtype.b1024.b32 [%d0], 16;",
           "tensormap.replace.tile.swizzle_atomicity.b1024.b32 [%d0], 2;",
           "tensormap.replace.tile.swizzle_mode.b1024.b32 [%d0], 4;",
           "tensormap.replace.tile.interleave_layout.b1024.b32 [%d0], 1;",
           "tensormap.replace.tile.global_stride.b1024.b64 [%d0], 4, %d1;",
           "tensormap.replace.tile.rank.b1024.b64 [%d0], %d1;",
       })
    CHECK(!bench.run(text, bench.arguments(1)).ok());
}
