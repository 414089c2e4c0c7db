#include "streams/launch.h"

#include <algorithm>
#include <cstring>

#include "abi_launch.h"
#include "core/driver.h"
#include "nested/family.h"
#include "streams/event_board.h"

namespace softdev::driver {
namespace {

// The parameters as one block of bytes, from either form in which programs pass them.
CUresult gather(const Kernel &kernel, const LaunchRequest &request, std::vector<uint8_t> *bytes) {
  bytes->assign(kernel.parameter_bytes(), 0);
  if (request.parameters && request.extra)
    return refuse(CUDA_ERROR_INVALID_VALUE, "both kernelParams and extra are given");
  if (request.parameters) {
    size_t index = 0;
    for (const ParameterInfo &parameter : kernel.parameters()) {
      const void *from = request.parameters[index++];
      if (!from) return refuse(CUDA_ERROR_INVALID_VALUE, "kernelParams[%zu] is NULL", index - 1);
      memcpy(bytes->data() + parameter.offset, from, parameter.size);
    }
    return CUDA_SUCCESS;
  }
  if (!request.extra) {
    if (kernel.parameters().empty()) return CUDA_SUCCESS;
    return refuse(CUDA_ERROR_INVALID_VALUE, "%s has parameters, and none are given",
                  kernel.name().c_str());
  }
  const void *buffer = nullptr;
  size_t size = 0;
  for (void **at = request.extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = at[1];
    else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE)
      size = *static_cast<const size_t *>(at[1]);
    else
      return refuse(CUDA_ERROR_INVALID_VALUE, "extra has an entry of unknown kind");
  }
  if (size < bytes->size() || (size && !buffer))
    return refuse(CUDA_ERROR_INVALID_VALUE, "%s takes %zu bytes of parameters, extra has %zu",
                  kernel.name().c_str(), bytes->size(), buffer ? size : 0);
  if (!bytes->empty()) memcpy(bytes->data(), buffer, bytes->size());
  return CUDA_SUCCESS;
}

CUresult check_kernel(const Kernel &kernel, const FunctionSettings &settings, const Device &device,
                      const LaunchRequest &request) {
  const KernelAttributes &attributes = kernel.attributes();
  const Dim3 &block = request.block;
  uint32_t threads = block.x * block.y * block.z;
  if (threads > attributes.max_threads)
    return refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "%s allows blocks of %u threads, not %u",
                  kernel.name().c_str(), attributes.max_threads, threads);
  const uint32_t *required = attributes.required_threads;
  if (required[0] && (block.x != required[0] || block.y != std::max(required[1], 1u) ||
                      block.z != std::max(required[2], 1u)))
    return refuse(CUDA_ERROR_INVALID_VALUE, "%s must be launched with blocks of %u x %u x %u",
                  kernel.name().c_str(), required[0], required[1], required[2]);
  int most = dynamic_shared_limit(attributes, settings);
  if (request.dynamic_shared > static_cast<unsigned>(std::max(most, 0)))
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  "%s may have %d bytes of dynamic shared memory, not %u (see "
                  "cuFuncSetAttribute)",
                  kernel.name().c_str(), most, request.dynamic_shared);
  if (request.cooperative) {
    uint64_t blocks = uint64_t{request.grid.x} * request.grid.y * request.grid.z;
    uint64_t fit = static_cast<uint64_t>(blocks_per_multiprocessor(
                       device, attributes, static_cast<int>(threads), request.dynamic_shared)) *
                   device.multiprocessors;
    if (blocks > fit)
      return refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                    "%llu blocks cannot be resident at once, %llu can",
                    static_cast<unsigned long long>(blocks), static_cast<unsigned long long>(fit));
  }
  return CUDA_SUCCESS;
}

// An assertion is the program's own, and said as a GPU's driver says it.
void report(const Status &status) {
  if (status.code != CUDA_ERROR_ASSERT) return log(Level::kError, "%s", status.message.c_str());
  const std::string line = status.message + "\n";
  fwrite(line.data(), 1, line.size(), stderr);
}

// Runs when the stream has come to the kernel.
void start(Operation &operation, Launch launch, std::shared_ptr<Succession> succession) {
  Work self = operation.shared_from_this();
  std::shared_ptr<Family> family;
  if (launch.kernel->attributes().uses_device_runtime)
    launch.runtime = family = std::make_shared<Family>(
        self, std::static_pointer_cast<Instance>(launch.keep), launch.depth, std::move(succession));
  Device &device = operation.context()->device();
  device.kernels.fetch_add(1);
  launch.worked_ns = &operation.context()->worked_ns;
  launch.turns = device.time_slices.get();
  launch.print = [context = operation.context()](std::string_view text) {
    return context->print(text);
  };
  launch.done = [self, family](Status status) {
    Context &context = *self->context();
    if (!status.ok()) {
      report(status);
      context.fail(static_cast<CUresult>(status.code));
    }
    context.device().kernels.fetch_sub(1);
    if (family)
      family->end_of_grid();
    else
      self->finish();
  };
  driver()->engine().submit(std::move(launch));
}

}  // namespace

CUresult check_shape(const LaunchRequest &request) {
  const Dim3 &grid = request.grid, &block = request.block;
  uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || !threads)
    return refuse(CUDA_ERROR_INVALID_VALUE, "a dimension of the grid or the block is 0");
  if (grid.x > limits::kGridX || grid.y > limits::kGridYZ || grid.z > limits::kGridYZ)
    return refuse(CUDA_ERROR_INVALID_VALUE, "a grid of %u x %u x %u is larger than allowed", grid.x,
                  grid.y, grid.z);
  if (block.x > limits::kBlockXY || block.y > limits::kBlockXY || block.z > limits::kBlockZ ||
      threads > limits::kThreadsPerBlock)
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  "a block of %u x %u x %u threads is larger than allowed", block.x, block.y,
                  block.z);
  return CUDA_SUCCESS;
}

uint32_t cluster_limit(const KernelAttributes &attributes, const FunctionSettings &settings) {
  int most =
      settings.non_portable_cluster ? limits::kClusterBlocks : limits::kPortableClusterBlocks;
  auto limit = static_cast<uint32_t>(most);
  return attributes.max_cluster_blocks ? std::min(limit, attributes.max_cluster_blocks) : limit;
}

CUresult find_cluster(const Kernel &kernel, const FunctionSettings &settings, const Dim3 &asked,
                      Dim3 *cluster) {
  const KernelAttributes &attributes = kernel.attributes();
  const uint32_t *compiled = attributes.required_cluster;
  *cluster = asked;
  if (compiled[0]) {
    if (asked.x && (asked.x != compiled[0] || asked.y != compiled[1] || asked.z != compiled[2]))
      return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "%s was compiled for clusters of %u x %u x %u",
                    kernel.name().c_str(), compiled[0], compiled[1], compiled[2]);
    *cluster = {compiled[0], compiled[1], compiled[2]};
  } else if (!asked.x) {
    const int set[3] = {settings.cluster[0], settings.cluster[1], settings.cluster[2]};
    const auto count = std::count_if(set, set + 3, [](int size) { return size > 0; });
    if (count != 0 && count != 3)
      return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                    "of the cluster's three dimensions %d are set for %s", static_cast<int>(count),
                    kernel.name().c_str());
    if (count == 3)
      *cluster = {static_cast<uint32_t>(set[0]), static_cast<uint32_t>(set[1]),
                  static_cast<uint32_t>(set[2])};
  }
  if (!cluster->x) {
    if (!attributes.cluster_must_be_set) return CUDA_SUCCESS;
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "%s needs a cluster dimension",
                  kernel.name().c_str());
  }
  if (!cluster->y || !cluster->z)
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "a dimension of the cluster of %s is 0",
                  kernel.name().c_str());
  uint64_t blocks = uint64_t{cluster->x} * cluster->y;
  uint32_t most = cluster_limit(attributes, settings);
  if (blocks > most || blocks * cluster->z > most)
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                  "a cluster of %u x %u x %u blocks is larger than the %u that %s may have",
                  cluster->x, cluster->y, cluster->z, most, kernel.name().c_str());
  return CUDA_SUCCESS;
}

int dynamic_shared_limit(const KernelAttributes &attributes, const FunctionSettings &settings) {
  int set = settings.max_dynamic_shared.load(std::memory_order_relaxed);
  if (set >= 0) return set;
  return limits::kSharedPerBlock - static_cast<int>(attributes.static_shared);
}

int blocks_per_multiprocessor(const Device &device, const KernelAttributes &attributes,
                              int block_threads, size_t dynamic_shared) {
  const Multiprocessor &room = device.multiprocessor();
  if (block_threads <= 0 || static_cast<uint32_t>(block_threads) > attributes.max_threads) return 0;
  int warps = (block_threads + limits::kWarp - 1) / limits::kWarp;
  int by_threads = room.threads / (warps * limits::kWarp);
  // Registers are handed out per warp, in units of 256.
  int per_warp = static_cast<int>(std::max(attributes.registers, 1u)) * limits::kWarp;
  per_warp = (per_warp + 255) / 256 * 256;
  int by_registers = limits::kRegistersPerMultiprocessor / (per_warp * warps);
  size_t shared = attributes.static_shared + dynamic_shared;
  if (shared > static_cast<size_t>(room.shared_of_block)) return 0;
  int by_shared = room.shared / std::max(static_cast<int>(shared) + room.reserved, 1);
  return std::max(0, std::min({by_threads, by_registers, by_shared, room.blocks}));
}

namespace {

// The event of an attribute that has one; nullptr for others.
std::shared_ptr<Event> find_event(const CUlaunchAttribute &attribute) {
  if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
    return driver()->handles.find<Event>(attribute.value.programmaticEvent.event);
  if (attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
    return driver()->handles.find<Event>(attribute.value.launchCompletionEvent.event);
  return nullptr;
}

}  // namespace

CUresult apply(const CUlaunchAttribute &attribute, LaunchRequest *request) {
  if (!abi_launch_attribute_known(attribute.id))
    return refuse(abi_launch_attribute_refusal(attribute.id),
                  "launch attribute %d is not supported", attribute.id);
  if (!abi_launch_attribute_sound(attribute.id, &attribute.value))
    return refuse(CUDA_ERROR_INVALID_VALUE, "launch attribute %d has no such value", attribute.id);
  switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      request->cooperative = attribute.value.cooperative != 0;
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      request->cluster = {attribute.value.clusterDim.x, attribute.value.clusterDim.y,
                          attribute.value.clusterDim.z};
      if (!request->cluster.x || !request->cluster.y || !request->cluster.z)
        return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "a dimension of the cluster is 0");
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: {
      auto event = find_event(attribute);
      if (!event) return refuse(CUDA_ERROR_INVALID_HANDLE, "a launch attribute names no event");
      if (!(event->flags & CU_EVENT_DISABLE_TIMING))
        return refuse(CUDA_ERROR_NOT_SUPPORTED, "events of launches take no time");
      break;
    }
    default:  // hints
      log(Level::kDebug, "launch attribute %d has no effect here", attribute.id);
      break;
  }
  request->attributes.push_back(attribute);
  return CUDA_SUCCESS;
}

Work KernelTask::operation(Uses uses) {
  if (prepared.kernel->attributes().prints) context->note_prints();
  const bool empty = std::static_pointer_cast<Instance>(prepared.keep)->empty();
  auto work = std::make_shared<Operation>(context, empty ? Where::kInline : Where::kEngine);
  auto self = std::static_pointer_cast<KernelTask>(shared_from_this());
  const Dim3 &grid = prepared.grid, &block = prepared.block;
  if (trace::on())
    work->span =
        trace::span("%s <<<%ux%ux%u, %ux%ux%u, %u>>>", prepared.kernel->name().c_str(), grid.x,
                    grid.y, grid.z, block.x, block.y, block.z, prepared.dynamic_shared);
  if (empty) return work;
  if (uses == Uses::kOnce)
    work->run = [self](Operation &operation) {
      start(operation, std::move(self->prepared), std::move(self->succession));
    };
  else
    work->run = [self](Operation &operation) { start(operation, self->prepared, nullptr); };
  return work;
}

CUresult make_kernel(const std::shared_ptr<Context> &context, const LaunchRequest &request,
                     std::shared_ptr<KernelTask> *made) {
  Callable callable;
  if (CUresult bad = find_callable(request.function, context, &callable)) return bad;
  if (callable.instance->context() != context)
    return refuse(CUDA_ERROR_INVALID_HANDLE, "the function belongs to another context");
  if (CUresult bad = make_kernel(callable, request, made)) return bad;
  (*made)->function = request.function;
  return gather(*callable.kernel, request, &(*made)->prepared.parameters);
}

CUresult make_kernel(const Callable &callable, const LaunchRequest &request,
                     std::shared_ptr<KernelTask> *made) {
  const std::shared_ptr<Context> &context = callable.instance->context();
  if (CUresult bad = check_shape(request)) return bad;
  if (CUresult bad = prepare(*callable.kernel)) return bad;
  if (CUresult bad = check_kernel(*callable.kernel, *callable.settings, context->device(), request))
    return bad;

  Dim3 cluster;
  if (CUresult bad = find_cluster(*callable.kernel, *callable.settings, request.cluster, &cluster))
    return bad;
  if (cluster.x) {
    const Device &device = context->device();
    if (device.compute_major < 9 && cluster.x * cluster.y * cluster.z > 1)
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "clusters need compute capability 9.0");
    if (request.grid.x % cluster.x || request.grid.y % cluster.y || request.grid.z % cluster.z)
      return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                    "a grid of %u x %u x %u blocks is no multiple of clusters of %u x %u x %u",
                    request.grid.x, request.grid.y, request.grid.z, cluster.x, cluster.y,
                    cluster.z);
  }

  // Lazily loaded: its code comes to the device with the first launch.
  if (!callable.instance->load_code())
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, "the device has no memory for the code of %s",
                  callable.kernel->name().c_str());
  const uint32_t stack = callable.kernel->attributes().local_bytes;
  if (!context->hidden.need_stacks(stack))
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, "the device has no memory for stacks of %u bytes",
                  stack);

  auto task = std::make_shared<KernelTask>(context);
  Launch &prepared = task->prepared;
  prepared.kernel = callable.kernel;
  prepared.keep = callable.instance;
  prepared.grid = request.grid;
  prepared.block = request.block;
  prepared.explicit_cluster = cluster.x != 0;
  if (cluster.x) prepared.cluster = cluster;
  prepared.dynamic_shared = request.dynamic_shared;
  prepared.shared_unit = context->device().compute_major < 8 ? 256 : 128;
  prepared.exact_shared = driver()->settings.exact_checks;
  prepared.cooperative = request.cooperative;
  prepared.stack_bytes =
      static_cast<uint32_t>(std::min<size_t>(context->limit(CU_LIMIT_STACK_SIZE), 512 << 10));
  prepared.limit_ns = driver()->settings.watchdog * 1'000'000'000;
  prepared.images = callable.instance->bound_images();
  prepared.memory = &driver()->memory.space(context->device().ordinal);
  task->attributes = request.attributes;
  *made = std::move(task);
  return CUDA_SUCCESS;
}

CUresult launch(const StreamRef &stream, const LaunchRequest &request) {
  stream.context->flush_prints();
  std::shared_ptr<KernelTask> task;
  if (CUresult bad = make_kernel(stream.context, request, &task)) return bad;
  if (CUresult bad = submit(stream, task)) return bad;
  // Recorded when the kernel has ended, which is later than it might be, and never too early.
  for (const CUlaunchAttribute &attribute : request.attributes)
    if (auto event = find_event(attribute)) {
      if (stream->capturing())
        return refuse(CUDA_ERROR_NOT_SUPPORTED, "events of launches cannot be captured");
      record(*event, stream);
    }
  return CUDA_SUCCESS;
}

}  // namespace softdev::driver
