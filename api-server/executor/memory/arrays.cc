#include "memory/arrays.h"

#include <algorithm>
#include <utility>

#include "abi_array.h"
#include "base/served_values.h"

namespace outboard {

namespace {

constexpr unsigned kLayered = 0x1, kCube = 0x4;  // CUDA_ARRAY3D_LAYERED, _CUBEMAP

}  // namespace

Array Array::at_level(unsigned level) const {
  const auto smaller = [level](uint64_t extent) { return std::max<uint64_t>(extent >> level, 1); };
  Array out;
  out.element = element;
  out.row = smaller(row / element) * element;
  out.rows = smaller(rows);
  out.slices = layered ? slices : smaller(slices);
  out.layered = layered;
  out.is_level = true;
  return out;
}

Arrays::Arrays(const Driver &driver, Memory &memory, Scrubber &scrubber,
               std::function<void(std::function<void()>)> aside)
    : driver_(driver), memory_(memory), scrubber_(scrubber), aside_(std::move(aside)) {
  memory_.on_shortage([this] { drain(); });
}

CUresult Arrays::make(const wire_ArrayCreate &q, Array *array) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = q.width;
  descriptor.Height = q.height;
  descriptor.Depth = q.depth;
  descriptor.Format = static_cast<CUarray_format>(q.format);
  descriptor.NumChannels = q.channels;
  descriptor.Flags = q.flags;
  return q.levels ? driver_.cuMipmappedArrayCreate(&array->mipmapped, &descriptor, q.levels)
                  : driver_.cuArray3DCreate_v2(&array->object, &descriptor);
}

CUresult Arrays::create(const wire_ArrayCreate &q) {
  Array array;
  array.element = abi_element_bytes(static_cast<CUarray_format>(q.format), q.channels);
  array.layered = q.flags & (kLayered | kCube);
  if (array.element == 0 || q.width == 0 || !is_served_array(q.flags)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  array.bytes = abi_array_bytes(array.element, q.width, q.height, q.depth, array.layered, q.levels);
  if (array.bytes == UINT64_MAX) return CUDA_ERROR_INVALID_VALUE;
  array.row = q.width * array.element;
  array.rows = std::max<uint64_t>(q.height, 1);
  array.slices = std::max<uint64_t>(q.depth, 1);
  array.levels = q.levels;
  if (!memory_.take_beside(array.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  // What zeros come from has to be there before there is anything to overwrite.
  CUresult result = scrubber_.prepare();
  if (result == CUDA_SUCCESS) result = make(q, &array);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    drain();
    result = make(q, &array);
  }
  if (result != CUDA_SUCCESS) {
    memory_.leave_beside(array.bytes);
    memory_.gone_beside(array.bytes);
    return result;
  }
  array.number = ++numbers_;
  table_.keep(q.array, std::move(array));
  ++count_;
  return CUDA_SUCCESS;
}

const char *Arrays::misuse(const wire_ArrayLevel &q) {
  if (!table_.can_mint(q.array)) return "an array's handle cannot be minted";
  Array *whole = table_.find(q.mipmapped);
  if (whole && whole->minted.size() >= whole->levels) return "an array has more levels than it has";
  return nullptr;
}

CUresult Arrays::level(const wire_ArrayLevel &q) {
  Array *whole = table_.find(q.mipmapped);
  if (!whole || !whole->mipmapped || q.level >= whole->levels) return CUDA_ERROR_INVALID_HANDLE;
  Array array = whole->at_level(q.level);
  const CUresult result =
      driver_.cuMipmappedArrayGetLevel(&array.object, whole->mipmapped, q.level);
  if (result != CUDA_SUCCESS) return result;
  whole->minted.push_back(q.array);
  array.number = ++numbers_;
  table_.keep(q.array, std::move(array));
  return CUDA_SUCCESS;
}

CUresult Arrays::destroy(uint64_t handle) {
  Array *found = table_.find(handle);
  Array array;
  if (!found || found->is_level || !table_.take(handle, &array)) return CUDA_ERROR_INVALID_HANDLE;
  Array level;
  for (uint64_t each : array.minted) table_.take(each, &level);
  memory_.leave_beside(array.bytes);
  std::lock_guard lock(mutex_);
  doomed_.push_back(std::move(array));
  if (!reaping_) {
    reaping_ = true;
    aside_([this] { reap(); });
  }
  return CUDA_SUCCESS;
}

CUresult Arrays::overwrite(const Array &array) {
  if (array.object) return scrubber_.zero(array.object, array.row, array.rows, array.slices);
  CUresult result = CUDA_SUCCESS;
  for (unsigned i = 0; i < array.levels; i++) {
    const Array level = array.at_level(i);
    CUarray object = nullptr;
    // A driver may make fewer levels than it was asked for.
    if (driver_.cuMipmappedArrayGetLevel(&object, array.mipmapped, i) != CUDA_SUCCESS) break;
    keep_first(result, scrubber_.zero(object, level.row, level.rows, level.slices));
  }
  return result;
}

CUresult Arrays::give_back(const Array &array) {
  CUresult result = overwrite(array);
  keep_first(result, scrubber_.wait());
  keep_first(result, array.object ? driver_.cuArrayDestroy(array.object)
                                  : driver_.cuMipmappedArrayDestroy(array.mipmapped));
  memory_.gone_beside(array.bytes);
  --count_;
  return result;
}

void Arrays::reap() {
  std::unique_lock lock(mutex_);
  while (!doomed_.empty()) {
    const std::vector<Array> doomed = std::exchange(doomed_, {});
    lock.unlock();
    // What was begun before may still write there: a guest should have waited for it.
    CUresult result = driver_.cuCtxSynchronize();
    for (const Array &array : doomed) keep_first(result, give_back(array));
    lock.lock();
    keep_first(unclean_, result);
  }
  reaping_ = false;
  drained_.notify_all();
}

void Arrays::drain() {
  std::unique_lock lock(mutex_);
  drained_.wait_for(lock, kPatience, [this] { return !reaping_; });
}

CUresult Arrays::release() {
  CUresult result = std::exchange(unclean_, CUDA_SUCCESS);
  table_.each([&](Array &array) {
    if (array.is_level) return;
    keep_first(result, give_back(array));
    memory_.leave_beside(array.bytes);
  });
  table_.clear();
  return result;
}

}  // namespace outboard
