#include "session/moved_events.h"

#include <algorithm>
#include <cmath>

namespace outboard {

namespace {

int64_t ns_of(float milliseconds) { return std::llround(double{milliseconds} * 1e6); }

}  // namespace

// What the driver tells of two events that are far apart is not exact. So those that have a time
// are sorted, and each is asked for its time since the one before it.
std::vector<wire_moved_event> MovedEvents::times(const std::vector<Event> &events) {
  CUevent now = nullptr;
  if (driver_.cuEventCreate(&now, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return {};
  driver_.cuEventRecord(now, nullptr);
  driver_.cuEventSynchronize(now);
  struct Timed {
    const Event *event;
    float before_now;
  };
  std::vector<Timed> timed;
  std::vector<wire_moved_event> times;
  int64_t moved_ns = 0;
  float since_base = 0;
  if (base_ && driver_.cuEventElapsedTime_v2(&since_base, base_, now) == CUDA_SUCCESS)
    moved_ns = ns_of(since_base);
  for (const Event &event : events) {
    float before = 0;
    int64_t ns = 0;
    if (driver_.cuEventElapsedTime_v2(&before, event.object, now) != CUDA_SUCCESS) continue;
    // It was moved before, and is as it came.
    if (find(event.handle, event.object, &ns))
      times.push_back({event.handle, ns - moved_ns});
    else
      timed.push_back({&event, before});
  }
  std::sort(timed.begin(), timed.end(),
            [](const Timed &a, const Timed &b) { return a.before_now < b.before_now; });
  int64_t ns = 0;
  CUevent later = now;
  for (const Timed &each : timed) {
    float between = 0;
    if (driver_.cuEventElapsedTime_v2(&between, each.event->object, later) != CUDA_SUCCESS)
      continue;
    ns -= ns_of(between);
    later = each.event->object;
    times.push_back({each.event->handle, ns});
  }
  driver_.cuEventDestroy_v2(now);
  return times;
}

CUresult MovedEvents::keep(std::span<const wire_moved_event> times,
                           std::span<const CUevent> objects) {
  clear();
  if (times.empty()) return CUDA_SUCCESS;
  CUresult first = driver_.cuEventCreate(&base_, CU_EVENT_DEFAULT);
  if (first != CUDA_SUCCESS) return first;
  keep_first(first, driver_.cuEventRecord(base_, nullptr));
  for (CUevent object : objects) keep_first(first, driver_.cuEventRecord(object, nullptr));
  keep_first(first, driver_.cuCtxSynchronize());
  for (size_t i = 0; i < times.size(); i++) {
    float mark = 0;
    keep_first(first, driver_.cuEventElapsedTime_v2(&mark, base_, objects[i]));
    events_[times[i].event] = {times[i].ns, mark};
  }
  return first;
}

bool MovedEvents::find(uint64_t handle, CUevent object, int64_t *ns) const {
  const auto found = events_.find(handle);
  float mark = 0;
  if (found == events_.end() ||
      driver_.cuEventElapsedTime_v2(&mark, base_, object) != CUDA_SUCCESS ||
      mark != found->second.mark) {
    return false;
  }
  *ns = found->second.ns;
  return true;
}

CUresult MovedEvents::elapsed(uint64_t start, CUevent start_object, uint64_t end,
                              CUevent end_object, float *milliseconds) {
  const CUresult result = driver_.cuEventElapsedTime_v2(milliseconds, start_object, end_object);
  if (events_.empty() || result != CUDA_SUCCESS) [[likely]]
    return result;
  int64_t from = 0, to = 0;
  const bool start_moved = find(start, start_object, &from);
  const bool end_moved = find(end, end_object, &to);
  if (!start_moved && !end_moved) return result;
  float since = 0;
  if (!start_moved) {
    driver_.cuEventElapsedTime_v2(&since, base_, start_object);
    from = ns_of(since);
  }
  if (!end_moved) {
    driver_.cuEventElapsedTime_v2(&since, base_, end_object);
    to = ns_of(since);
  }
  *milliseconds = static_cast<float>(static_cast<double>(to - from) / 1e6);
  return result;
}

void MovedEvents::clear() {
  events_.clear();
  if (base_) driver_.cuEventDestroy_v2(base_);
  base_ = nullptr;
}

}  // namespace outboard
