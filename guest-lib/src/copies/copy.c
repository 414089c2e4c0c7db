// The way of every copy, whichever entry point it comes from.
#include "copies/copy.h"

#include "copies/cross_device.h"
#include "copies/download.h"
#include "copies/late_upload.h"
#include "copies/on_device.h"
#include "copies/on_host.h"
#include "copies/resolve.h"
#include "copies/upload.h"
#include "copies/upload_cache.h"
#include "memory/host_memory.h"
#include "session/session.h"
#include "streams/recorder.h"
#include "streams/stream.h"

// Waits for a copy that was only posted, if the call is to return when it is done.
static CUresult wait_for(const struct copy *copy, CUresult posted) {
  return posted || copy->async ? posted : stream_synchronize(copy->session, copy->stream);
}

// Does the same only where the program could notice. After a copy that waits it sees in memory that
// it shares with the device what kernels before the copy have written there; and other devices,
// which do not wait for this one, see what was copied. CUDA does not wait either for a copy that is
// said to be from device to device.
static CUresult wait_where_it_shows(const struct copy *copy, CUresult posted) {
  if (!host_shared && !copy->session->borrowers) return posted;
  const _Bool on_device = copy->to.place == BOX_DEVICE && copy->from.place == BOX_DEVICE;
  return copy->covered || (copy->ends_known && on_device) ? posted : wait_for(copy, posted);
}

CUresult copy_route(const struct copy *copy) {
  if (capture_active()) {
    CUresult captured = recorder->copy(copy);
    if (captured != CAPTURE_NONE) return captured;
  }
  if (!copy->bytes) return CUDA_SUCCESS;
  if (copy->across) return cross_device_copy(copy);

  const _Bool to_host = copy->to.place == BOX_HOST, from_host = copy->from.place == BOX_HOST;
  CUresult posted;
  if (to_host && from_host)
    posted = copy_on_host(copy);
  else if (to_host)
    return copy_download(copy, copy_landing(copy));
  else if (!from_host)
    posted = copy_on_device(copy);
  else if (late_is_due(copy))
    // The program may change its memory as soon as the call returns.
    return wait_for(copy, late_upload(copy));
  else if (upload_cache_wants(copy))
    posted = upload_cache_copy(copy);
  else
    posted = copy_upload(copy);
  return wait_where_it_shows(copy, posted);
}

CUresult copy_make(struct copy *copy) {
  CUresult result = copy_resolve(copy);
  return result ? result : copy_route(copy);
}
