#include "core/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "core/log.h"

namespace softdev::driver {

bool Claim::take(const std::string &path) {
  if (path.empty()) return true;
  std::lock_guard guard(mutex_);
  if (contexts_ == 0) {
    // Of the process: a child that is forked does not have it.
    flock whole{};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    file_ = descriptor_above(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (file_ < 0 || fcntl(file_, F_SETLK, &whole) < 0) {
      const int why = errno;
      const bool taken = file_ >= 0 && (why == EAGAIN || why == EACCES);
      log(taken ? Level::kInfo : Level::kError, "%s: %s", path.c_str(),
          taken ? "another process has the device" : strerror(why));
      if (file_ >= 0) close(file_);
      file_ = -1;
      return false;
    }
  }
  contexts_++;
  return true;
}

void Claim::give_back() {
  std::lock_guard guard(mutex_);
  if (contexts_ == 0 || --contexts_ > 0) return;
  close(file_);
  file_ = -1;
}

}  // namespace softdev::driver
