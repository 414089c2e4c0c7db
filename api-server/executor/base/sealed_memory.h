// Memory that another process has made, and shares by a descriptor.
#pragma once

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstdint>

namespace outboard {

// Whether a descriptor is memory of exactly so many bytes that nobody can make shorter: reading
// what is mapped of it would end this process. Nor of huge pages: where somebody punches a hole
// there may be no other one.
inline bool is_sealed_memory(int descriptor, uint64_t size) {
  struct stat status;
  struct statfs of;
  const int seals = fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(descriptor, &status) == 0 &&
         static_cast<uint64_t>(status.st_size) == size && fstatfs(descriptor, &of) == 0 &&
         of.f_type != HUGETLBFS_MAGIC;
}

}  // namespace outboard
