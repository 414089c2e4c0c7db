// Entry points: objects of the program that graphs keep alive.
#include "entry/graphs/graphs.h"

using namespace softdev::driver;

namespace {

CUresult find(CUuserObject handle, std::shared_ptr<UserObject> *object) {
  *object = driver()->handles.find<UserObject>(handle);
  if (*object) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no user object", static_cast<void *>(handle));
}

constexpr unsigned kMostReferences = 0x7FFFFFFF;

bool sensible(unsigned count) { return count > 0 && count <= kMostReferences; }

}  // namespace

extern "C" {

CUresult cuUserObjectCreate(CUuserObject *out, void *pointer, CUhostFn destroy, unsigned int count,
                            unsigned int flags) {
  if (CUresult bad = enter()) return bad;
  // The one flag says that nobody waits for the destructor, and must be given.
  if (!out || !destroy || !sensible(count) || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    auto object = std::make_shared<UserObject>(pointer, destroy, count);
    driver()->handles.add(object);
    *out = as_handle<CUuserObject>(*object);
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  if (CUresult bad = enter()) return bad;
  std::shared_ptr<UserObject> object;
  if (CUresult bad = find(handle, &object)) return bad;
  if (!sensible(count)) return CUDA_ERROR_INVALID_VALUE;
  object->retain(count);
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  if (CUresult bad = enter()) return bad;
  std::shared_ptr<UserObject> object;
  if (CUresult bad = find(handle, &object)) return bad;
  if (!sensible(count)) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    if (object->release(count)) return CUDA_SUCCESS;
    return refuse(CUDA_ERROR_INVALID_VALUE, "more references are released than there are");
  });
}

CUresult cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count,
                                 unsigned int flags) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Graph> graph;
    std::shared_ptr<UserObject> object;
    if (CUresult bad = find_graph(graph_handle, &graph)) return bad;
    if (CUresult bad = find(handle, &object)) return bad;
    if (!sensible(count) || (flags & ~static_cast<unsigned>(CU_GRAPH_USER_OBJECT_MOVE)))
      return CUDA_ERROR_INVALID_VALUE;
    // Moved references are the caller's, which it has given up.
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) object->retain(count);
    graph->user_objects.add(object, count);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle, unsigned int count) {
  return locked([&]() -> CUresult {
    std::shared_ptr<Graph> graph;
    std::shared_ptr<UserObject> object;
    if (CUresult bad = find_graph(graph_handle, &graph)) return bad;
    if (CUresult bad = find(handle, &object)) return bad;
    if (!sensible(count)) return CUDA_ERROR_INVALID_VALUE;
    if (graph->user_objects.remove(object, count)) return CUDA_SUCCESS;
    return refuse(CUDA_ERROR_INVALID_VALUE, "the graph has not so many references");
  });
}

}  // extern "C"
