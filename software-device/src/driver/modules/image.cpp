#include "modules/image.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace softdev::driver {
namespace {

constexpr uint64_t kMostText = uint64_t{1} << 30;
constexpr uint64_t kLz4MostRatio = 255;

// Whether a device runs PTX that was made for `arch`.
bool runs(const abi_fatbin_entry &entry, int major, int minor) {
  uint32_t own = static_cast<uint32_t>(major * 10 + minor);
  if (entry.flags & ABI_FATBIN_ARCH_SPECIFIC) return entry.arch == own;
  if (entry.flags & ABI_FATBIN_FAMILY_SPECIFIC)
    return entry.arch / 10 == own / 10 && entry.arch <= own;
  return entry.arch <= own;
}

bool better(const abi_fatbin_entry &a, const abi_fatbin_entry &b, int major, int minor) {
  // What was made for this architecture alone is what a GPU would take; the engine executes any.
  // A device newer than all libraries, which makes them choose PTX, needs what is for one family.
  if (runs(a, major, minor) != runs(b, major, minor)) return runs(a, major, minor);
  if (a.arch != b.arch) return a.arch > b.arch;
  return (a.flags & (ABI_FATBIN_ARCH_SPECIFIC | ABI_FATBIN_FAMILY_SPECIFIC)) >
         (b.flags & (ABI_FATBIN_ARCH_SPECIFIC | ABI_FATBIN_FAMILY_SPECIFIC));
}

struct Contents {
  std::vector<abi_fatbin_entry> usable;  // PTX for this device, the best one of each fatbin
  std::string others;                    // what else there is, for the message
};

// Collects from one fatbin. False when it is malformed.
bool collect(const void *fatbin, size_t limit, int major, int minor, Contents *contents) {
  abi_fatbin_reader reader;
  if (!abi_fatbin_open(&reader, fatbin, limit)) return false;
  abi_fatbin_entry entry, best;
  bool found = false;
  while (abi_fatbin_next(&reader, &entry)) {
    if (entry.kind == ABI_ENTRY_PTX && entry.arch <= static_cast<uint32_t>(major * 10 + minor)) {
      if (!found || better(entry, best, major, minor)) best = entry;
      found = true;
    } else {
      if (!contents->others.empty()) contents->others += ", ";
      contents->others += entry.kind == ABI_ENTRY_PTX   ? "PTX for "
                          : entry.kind == ABI_ENTRY_ELF ? "machine code for "
                                                        : "something else for ";
      contents->others += "sm_" + std::to_string(entry.arch);
    }
  }
  if (found) contents->usable.push_back(best);
  return !reader.malformed;
}

}  // namespace

CUresult Image::choose(const void *image, size_t limit, int major, int minor, std::string *reason) {
  Contents contents;
  switch (abi_image_kind(image, limit)) {
    case ABI_IMAGE_UNKNOWN:
      *reason = "the image is neither PTX nor a fatbin";
      return CUDA_ERROR_INVALID_IMAGE;
    case ABI_IMAGE_ELF:
      *reason =
          "the image is machine code (a cubin); this device executes PTX only: compile with "
          "-gencode arch=compute_XX,code=compute_XX";
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case ABI_IMAGE_PTX: {
      const char *text = static_cast<const char *>(image);
      size_t length = limit == ABI_NO_LIMIT ? strlen(text) : strnlen(text, limit);
      bytes_.assign(text, text + length);
      return CUDA_SUCCESS;
    }
    case ABI_IMAGE_FATBIN:
      if (!collect(image, limit, major, minor, &contents)) {
        *reason = "the fatbin is damaged";
        return CUDA_ERROR_INVALID_IMAGE;
      }
      break;
    case ABI_IMAGE_WRAPPER: {
      abi_wrapper wrapper;
      bool whole = abi_wrapper_read(image, &wrapper) &&
                   collect(wrapper.fatbin, ABI_NO_LIMIT, major, minor, &contents);
      // -rdc: the linked program is machine code; the PTX is in the pieces it was linked from.
      if (contents.usable.empty())
        for (size_t i = 0; whole && i < wrapper.piece_count; i++)
          whole = collect(wrapper.pieces[i], ABI_NO_LIMIT, major, minor, &contents);
      if (!whole) {
        *reason = "the fatbin is damaged";
        return CUDA_ERROR_INVALID_IMAGE;
      }
      break;
    }
  }
  if (contents.usable.empty()) {
    *reason = "no PTX that a device of compute capability " + std::to_string(major) + "." +
              std::to_string(minor) + " can run; the image has " +
              (contents.others.empty() ? "nothing" : contents.others) +
              ": compile with -gencode arch=compute_XX,code=compute_XX";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  return choose_entry(contents.usable, reason);
}

CUresult Image::choose_entry(const std::vector<abi_fatbin_entry> &usable, std::string *reason) {
  if (usable.size() > 1) {
    *reason = "the program is linked on the device (-rdc=true) from " +
              std::to_string(usable.size()) + " pieces of PTX, and linking PTX is not supported";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  const abi_fatbin_entry &entry = usable.front();
  flags_ = entry.flags & (ABI_FATBIN_LZ4 | ABI_FATBIN_ZSTD);
  uint64_t size = flags_ ? entry.compressed_size : entry.payload_size;
  bytes_.assign(entry.payload, entry.payload + size);
  claimed_ = entry.uncompressed_size;
  arch_ = entry.arch;
  return CUDA_SUCCESS;
}

namespace {

CUresult damaged(std::string *reason, const char *what) {
  *reason = std::string("the compressed PTX is damaged: ") + what;
  return CUDA_ERROR_INVALID_IMAGE;
}

CUresult unpack_lz4(const std::vector<uint8_t> &bytes, uint64_t claimed, std::string *ptx,
                    std::string *reason) {
  if (claimed > kMostText || bytes.size() > kMostText || claimed > bytes.size() * kLz4MostRatio)
    return damaged(reason, "its size cannot be right");
  ptx->resize(claimed);
  int got = LZ4_decompress_safe(reinterpret_cast<const char *>(bytes.data()), ptx->data(),
                                static_cast<int>(bytes.size()), static_cast<int>(claimed));
  if (got < 0 || static_cast<uint64_t>(got) != claimed) return damaged(reason, "LZ4");
  return CUDA_SUCCESS;
}

// Grows with what really comes out, so that a small image cannot claim a lot of memory.
CUresult unpack_zstd(const std::vector<uint8_t> &bytes, std::string *ptx, std::string *reason) {
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) return CUDA_ERROR_OUT_OF_MEMORY;
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  size_t left = 1;
  while (left != 0) {
    size_t had = ptx->size();
    if (had >= kMostText) return damaged(reason, "more text than can be right");
    ptx->resize(std::min<uint64_t>(kMostText, had + std::max<size_t>(had, ZSTD_DStreamOutSize())));
    ZSTD_outBuffer out{ptx->data(), ptx->size(), had};
    left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left)) return damaged(reason, ZSTD_getErrorName(left));
    bool stuck = out.pos < out.size && in.pos == in.size && left != 0;
    ptx->resize(out.pos);
    if (stuck) return damaged(reason, "it ends too early");
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Image::unpack(std::string *ptx, std::string *reason) const {
  ptx->clear();
  CUresult result = CUDA_SUCCESS;
  if (flags_ & ABI_FATBIN_ZSTD)
    result = unpack_zstd(bytes_, ptx, reason);
  else if (flags_ & ABI_FATBIN_LZ4)
    result = unpack_lz4(bytes_, claimed_, ptx, reason);
  else
    ptx->assign(bytes_.begin(), bytes_.end());
  // Entries are padded with NULs.
  ptx->resize(strnlen(ptx->data(), ptx->size()));
  return result;
}

}  // namespace softdev::driver
