#include "modules/image.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <string_view>

#include "modules/containers.h"
#include "modules/cubin.h"
#include "modules/grid_barrier.h"
#include "modules/linker.h"

namespace softdev::driver {
namespace {

constexpr uint64_t kMostText = uint64_t{1} << 30;
constexpr uint64_t kLz4MostRatio = 255;

// Whether a device runs code that was made for `arch`.
bool runs(const abi_fatbin_entry &entry, int major, int minor) {
  uint32_t own = static_cast<uint32_t>(major * 10 + minor);
  if (entry.flags & ABI_FATBIN_ARCH_SPECIFIC) return entry.arch == own;
  if (entry.kind == ABI_ENTRY_ELF || (entry.flags & ABI_FATBIN_FAMILY_SPECIFIC))
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

PtxPart part_of(const abi_fatbin_entry &entry) {
  PtxPart part;
  part.flags = entry.flags & (ABI_FATBIN_LZ4 | ABI_FATBIN_ZSTD);
  uint64_t size = part.flags ? entry.compressed_size : entry.payload_size;
  part.bytes.assign(entry.payload, entry.payload + size);
  part.claimed = entry.uncompressed_size;
  part.arch = entry.arch;
  part.cubin = entry.kind == ABI_ENTRY_ELF;
  part.version = entry.version_major * 10 + entry.version_minor;
  if (entry.name) part.name.assign(entry.name, entry.name_length);
  return part;
}

PtxPart part_of(const char *text, size_t limit) {
  size_t length = limit == ABI_NO_LIMIT ? strlen(text) : strnlen(text, limit);
  PtxPart part;
  const auto *bytes = reinterpret_cast<const uint8_t *>(text);  // no conversion of each
  part.bytes.assign(bytes, bytes + length);
  return part;
}

// A module's text begins with a directive, behind blanks and comments.
bool begins_as_ptx(std::string_view text) {
  for (size_t at = 0; at < text.size(); at++) {
    const std::string_view rest = text.substr(at);
    if (isspace(static_cast<unsigned char>(text[at]))) continue;
    // Lines of a preprocessor, as it leaves them behind.
    const bool marker = text[at] == '#';
    if (!marker && !rest.starts_with("//") && !rest.starts_with("/*")) return rest.starts_with(".");
    const bool line = marker || rest[1] == '/';
    const size_t end = rest.find(line ? "\n" : "*/", marker ? 0 : 2);
    if (end == std::string_view::npos) return false;
    at += line ? end : end + 1;
  }
  return false;
}

struct Contents {
  std::vector<PtxPart> usable;  // PTX for this device, the best one of each fatbin
  std::vector<PtxPart> cubins;  // machine code for it, likewise
  std::string others;           // what else there is, for the message
};

// Collects from one fatbin. False when it is malformed.
bool collect(const void *fatbin, size_t limit, int major, int minor, Contents *contents) {
  abi_fatbin_reader reader;
  if (!abi_fatbin_open(&reader, fatbin, limit)) return false;
  abi_fatbin_entry entry, best = {}, best_cubin = {};
  bool found = false, found_cubin = false;
  while (abi_fatbin_next(&reader, &entry)) {
    if (entry.kind == ABI_ENTRY_ELF && runs(entry, major, minor)) {
      if (!found_cubin || better(entry, best_cubin, major, minor)) best_cubin = entry;
      found_cubin = true;
    }
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
  if (found) contents->usable.push_back(part_of(best));
  if (found_cubin) contents->cubins.push_back(part_of(best_cubin));
  return !reader.malformed;
}

constexpr const char *kAdvice = "compile with -gencode arch=compute_XX,code=compute_XX";

CUresult nothing_usable(const Contents &contents, int major, int minor, std::string *reason) {
  *reason = "no PTX that a device of compute capability " + std::to_string(major) + "." +
            std::to_string(minor) + " can run; the image has " +
            (contents.others.empty() ? "nothing" : contents.others) + ": " + kAdvice;
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

CUresult broken_fatbin(std::string *reason) {
  *reason = "the fatbin is damaged";
  return CUDA_ERROR_INVALID_IMAGE;
}

}  // namespace

CUresult Image::collect(const void *file, size_t size, int major, int minor,
                        std::vector<PtxPart> *parts, std::string *reason) {
  Contents contents;
  bool whole = true;
  std::string bad =
      find_images({static_cast<const uint8_t *>(file), size}, [&](const Found &found) {
        switch (abi_image_kind(found.image.data(), found.image.size())) {
          case ABI_IMAGE_PTX:
            contents.usable.push_back(
                part_of(reinterpret_cast<const char *>(found.image.data()), found.image.size()));
            break;
          case ABI_IMAGE_FATBIN:
            whole &=
                driver::collect(found.image.data(), found.image.size(), major, minor, &contents);
            break;
          default:
            contents.others += contents.others.empty() ? "machine code" : ", machine code";
            break;
        }
      });
  if (!whole) return broken_fatbin(reason);
  if (!bad.empty()) {
    *reason = bad;
    return CUDA_ERROR_INVALID_IMAGE;
  }
  if (contents.usable.empty()) return nothing_usable(contents, major, minor, reason);
  for (PtxPart &part : contents.usable) parts->push_back(std::move(part));
  return CUDA_SUCCESS;
}

CUresult Image::choose(const void *image, size_t limit, int major, int minor, CubinUse cubins,
                       std::string *reason) {
  Contents contents;
  parts_.clear();
  switch (abi_image_kind(image, limit)) {
    case ABI_IMAGE_UNKNOWN:
      *reason = "the image is neither PTX nor a fatbin";
      return CUDA_ERROR_INVALID_IMAGE;
    case ABI_IMAGE_ELF: {
      size_t size = abi_image_size(image, limit);
      if (size && collect(image, size, major, minor, &parts_, reason) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
      if (cubins.taken)
        return choose_cubin({static_cast<const uint8_t *>(image), size}, major, minor, reason);
      *reason =
          std::string("the image is machine code (a cubin); this device executes PTX only: ") +
          kAdvice;
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    case ABI_IMAGE_PTX: {
      PtxPart part = part_of(static_cast<const char *>(image), limit);
      if (!begins_as_ptx({reinterpret_cast<const char *>(part.bytes.data()), part.bytes.size()})) {
        *reason = "the image is text, but no PTX, which begins with .version";
        return CUDA_ERROR_INVALID_IMAGE;
      }
      parts_.push_back(std::move(part));
      return CUDA_SUCCESS;
    }
    case ABI_IMAGE_FATBIN:
      if (!driver::collect(image, limit, major, minor, &contents)) return broken_fatbin(reason);
      break;
    case ABI_IMAGE_WRAPPER: {
      abi_wrapper wrapper;
      bool whole = abi_wrapper_read(image, &wrapper) &&
                   driver::collect(wrapper.fatbin, ABI_NO_LIMIT, major, minor, &contents);
      // -rdc: the linked program is machine code; the PTX is in the pieces it was linked from.
      if (contents.usable.empty())
        for (size_t i = 0; whole && i < wrapper.piece_count; i++)
          whole = driver::collect(wrapper.pieces[i], ABI_NO_LIMIT, major, minor, &contents);
      if (!whole) return broken_fatbin(reason);
      break;
    }
  }
  const bool none_in_time = std::all_of(
      contents.usable.begin(), contents.usable.end(),
      [&](const PtxPart &part) { return cubins.newest_ptx && part.version > cubins.newest_ptx; });
  if (cubins.taken && none_in_time && !contents.cubins.empty()) {
    // Of a program in pieces, the code of all of them is in the first one.
    contents.cubins.resize(1);
    parts_ = std::move(contents.cubins);
    return CUDA_SUCCESS;
  }
  if (contents.usable.empty()) return nothing_usable(contents, major, minor, reason);
  parts_ = std::move(contents.usable);
  return CUDA_SUCCESS;
}

CUresult Image::choose_cubin(std::span<const uint8_t> file, int major, int minor,
                             std::string *reason) {
  abi_fatbin_entry entry = {};
  entry.kind = ABI_ENTRY_ELF;
  entry.arch = cubin_arch(file);
  if (!driver::is_cubin(file)) {
    *reason = "the image is an ELF file, but no cubin that can be loaded as it is";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  if (!runs(entry, major, minor)) {
    *reason = "the image is machine code for sm_" + std::to_string(entry.arch) +
              ", and the device has compute capability " + std::to_string(major) + "." +
              std::to_string(minor);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  entry.payload = file.data();
  entry.payload_size = file.size();
  parts_.push_back(part_of(entry));
  return CUDA_SUCCESS;
}

uint32_t Image::arch() const {
  uint32_t highest = 0;
  for (const PtxPart &part : parts_) highest = std::max(highest, part.arch);
  return highest;
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

CUresult unpack(const PtxPart &part, std::string *ptx, std::string *reason) {
  ptx->clear();
  CUresult result = CUDA_SUCCESS;
  if (part.flags & ABI_FATBIN_ZSTD)
    result = unpack_zstd(part.bytes, ptx, reason);
  else if (part.flags & ABI_FATBIN_LZ4)
    result = unpack_lz4(part.bytes, part.claimed, ptx, reason);
  else
    ptx->assign(reinterpret_cast<const char *>(part.bytes.data()), part.bytes.size());
  // Texts are padded with NULs.
  if (!part.cubin) ptx->resize(strnlen(ptx->data(), ptx->size()));
  return result;
}

CUresult Image::unpack(std::string *ptx, std::string *reason) const {
  if (parts_.size() == 1) {
    CUresult result = driver::unpack(parts_.front(), ptx, reason);
    if (result != CUDA_SUCCESS || is_cubin() || !mentions_grid_barrier(*ptx)) return result;
  }
  std::vector<LinkInput> inputs;
  for (const PtxPart &part : parts_) {
    LinkInput &input = inputs.emplace_back();
    input.name = part.name.empty() ? "piece " + std::to_string(inputs.size()) : part.name;
    if (CUresult bad = driver::unpack(part, &input.text, reason)) return bad;
  }
  LinkResult linked = link_ptx(inputs);
  if (!linked.ok) {
    *reason = "linking the program failed: " + linked.problem;
    return CUDA_ERROR_INVALID_PTX;
  }
  *ptx = std::move(linked.text);
  return CUDA_SUCCESS;
}

}  // namespace softdev::driver
