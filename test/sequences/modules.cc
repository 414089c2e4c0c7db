// Modules, functions, launches.
#include <cstring>

#include "world.h"

namespace sequences {
namespace {

constexpr char kKernels[] = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .global .align 4 .u32 numbers[1024];

.visible .entry bump(.param .u64 memory, .param .u32 count) {
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [memory];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %d2, %r5, 4;
  add.u64 %d3, %d1, %d2;
  ld.global.u32 %r6, [%d3];
  add.u32 %r6, %r6, 1;
  st.global.u32 [%d3], %r6;
DONE:
  ret;
}

.visible .entry mix(.param .u64 memory, .param .u32 count, .param .u32 factor) {
  .reg .pred %p<2>;
  .reg .b32 %r<9>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [memory];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r7, [factor];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %d2, %r5, 4;
  add.u64 %d3, %d1, %d2;
  ld.global.u32 %r6, [%d3];
  mad.lo.u32 %r6, %r6, %r7, %r5;
  st.global.u32 [%d3], %r6;
DONE:
  ret;
}
)";

void load(World &world, Line &line) {
  if (world.modules.live.size() > 4) return;
  const bool broken = world.choices.once_in(10);
  CUmodule module = nullptr;
  line.arg(broken);
  const char *image = broken ? ".version 7.0\n.target sm_70\nnonsense" : kKernels;
  if (line.result(CALL(world, cuModuleLoadData)(&module, image))) return;
  line.out("module" + std::to_string(world.modules.add({module, world.here().device})));
}

void function(World &world, Line &line) {
  const auto module = world.modules.pick(world.choices);
  if (!module) return;
  const int which = static_cast<int>(world.choices.below(3));
  const char *const names[] = {"bump", "mix", "none"};
  CUfunction function = nullptr;
  line.arg(module->first).arg(names[which]);
  if (line.result(CALL(world, cuModuleGetFunction)(&function, module->second.handle, names[which])))
    return;
  line.out("f" + std::to_string(world.functions.add({function, which, module->second.device})));
}

void variable(World &world, Line &line) {
  const auto module = world.modules.pick(
      world.choices, [&](const Module &of) { return of.device == world.here().device; });
  if (!module) return;
  const char *name = world.choices.once_in(6) ? "letters" : "numbers";
  CUdeviceptr address = 0;
  size_t size = 0;
  line.arg(module->first).arg(name);
  if (line.result(CALL(world, cuModuleGetGlobal_v2)(&address, &size, module->second.handle, name)))
    return;
  line.out(size);
  for (const auto &[number, memory] : world.memory.live)
    if (memory.address == address && world.strands[memory.strand].device == module->second.device) {
      line.out("m" + std::to_string(number));
      return;
    }
  const Memory::Kind kind = Memory::kVariable;
  line.out("m" + std::to_string(world.memory.add({address, size, world.strand, kind})));
}

void unload(World &world, Line &line) {
  // A module whose functions or variables are known stays: what uses them would not be legal.
  if (!world.functions.live.empty()) return;
  for (const auto &[number, memory] : world.memory.live)
    if (memory.kind == Memory::kVariable) return;
  const auto module = world.modules.pick(world.choices);
  if (!module) return;
  const unsigned number = module->first;
  if (!line.arg(number).result(CALL(world, cuModuleUnload)(module->second.handle)))
    world.modules.live.erase(number);
}

void describe(World &world, Line &line) {
  const auto function = world.functions.pick(world.choices);
  if (!function) return;
  const auto attribute = static_cast<CUfunction_attribute>(world.choices.below(17));
  int value = -77;
  line.arg(function->first).arg(attribute);
  if (!line.result(CALL(world, cuFuncGetAttribute)(&value, attribute, function->second.handle)))
    line.out(std::to_string(value));
  size_t offset = 0, size = 0;
  const size_t index = world.choices.below(5);
  line.out(CALL(world, cuFuncGetParamInfo)(function->second.handle, index, &offset, &size));
  line.out(offset).out(size);
}

void set_attribute(World &world, Line &line) {
  const auto function = world.functions.pick(world.choices);
  if (!function) return;
  const auto attribute = static_cast<CUfunction_attribute>(world.choices.of({8, 9, 10, 14, 0, 99}));
  const int value = world.choices.of({0, 100, -1, 1024, 1 << 20});
  line.arg(function->first).arg(attribute).arg(std::to_string(value));
  line.result(CALL(world, cuFuncSetAttribute)(function->second.handle, attribute, value));
}

void occupancy(World &world, Line &line) {
  const auto function = world.functions.pick(world.choices);
  if (!function) return;
  const int block = world.choices.of({32, 256, 1024, 2000, 0, -1});
  const size_t shared = world.choices.of<size_t>({0, 1000, 40000, 300000});
  int blocks = -1;
  line.arg(function->first).arg(std::to_string(block)).arg(shared);
  if (!line.result(CALL(world, cuOccupancyMaxActiveBlocksPerMultiprocessor)(
          &blocks, function->second.handle, block, shared)))
    line.out(std::to_string(blocks));
}

void launch(World &world, Line &line) {
  Choices &choices = world.choices;
  const auto function = world.functions.pick(choices);
  Range part = range(world);
  // A kernel that goes wrong ends the context: this one must not.
  if (!function || part.room < 16) return;
  part.room -= part.address & 3 ? 4 : 0;
  const CUdeviceptr address = (part.address + 3) & ~CUdeviceptr{3};
  unsigned elements = static_cast<unsigned>(choices.below(static_cast<uint32_t>(part.room / 4)));
  unsigned factor = choices.below(1000);
  const unsigned block = choices.of<unsigned>({32, 64, 256, 33, 1024, 0, 1025});
  const unsigned grid = block ? (elements + block) / block : 1;
  const unsigned shared = choices.of<unsigned>({0, 0, 0, 64, 1 << 20});
  line.arg(function->first).arg(part.text).arg(elements).arg(factor);
  line.arg(grid).arg(block).arg(shared).arg(world.strand);
  CUdeviceptr pointer = address;
  void *values[] = {&pointer, &elements, &factor};
  const CUfunction handle = function->second.handle;
  const CUstream stream = world.here().stream;
  const unsigned how = choices.below(4);
  line.arg(how);
  if (how == 0) {
    struct {
      CUdeviceptr pointer;
      unsigned elements, factor;
    } packed = {pointer, elements, factor};
    size_t size = function->second.which ? 16 : 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    line.result(CALL(world, cuLaunchKernel)(handle, grid, 1, 1, block, 1, 1, shared, stream,
                                            nullptr, extra));
  } else if (how == 1) {
    line.result(CALL(world, cuLaunchCooperativeKernel)(handle, grid, 1, 1, block, 1, 1, shared,
                                                       stream, values));
  } else if (how == 2) {
    CUlaunchConfig config = {};
    CUlaunchAttribute attribute = {};
    config.gridDimX = grid, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = block, config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = shared;
    config.hStream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    attribute.id = static_cast<CUlaunchAttributeID>(choices.of({0, 2, 8, 4}));
    attribute.value.cooperative = static_cast<int>(choices.below(2));
    if (attribute.id == 4) attribute.value.clusterDim = {choices.below(3) + 1, 1, 1};
    line.arg(attribute.id).arg(attribute.value.clusterDim.x);
    line.result(CALL(world, cuLaunchKernelEx)(&config, handle, values, nullptr));
  } else {
    line.result(CALL(world, cuLaunchKernel)(handle, grid, 1, 1, block, 1, 1, shared, stream, values,
                                            nullptr));
  }
}

}  // namespace

const std::vector<Entry> &module_steps() {
  static const std::vector<Entry> steps = {
      {"cuModuleLoadData", 2, load},
      {"cuModuleGetFunction", 4, function},
      {"cuModuleGetGlobal", 1, variable},
      {"cuModuleUnload", 1, unload},
      {"cuFuncGetAttribute", 2, describe},
      {"cuFuncSetAttribute", 1, set_attribute},
      {"cuOccupancyMaxActiveBlocksPerMultiprocessor", 1, occupancy},
      {"cuLaunchKernel", 14, launch},
  };
  return steps;
}

}  // namespace sequences
