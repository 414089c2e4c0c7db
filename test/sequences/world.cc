#include "world.h"

#include <algorithm>
#include <cstring>

namespace sequences {

uint32_t Choices::below(uint32_t count) {
  if (count < 2) return 0;
  if (bytes_) {
    uint32_t value = 0;
    for (uint32_t reach = 1; reach < count && size_ > 0; reach <<= 8, size_--)
      value = value << 8 | *bytes_++;
    return value % count;
  }
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return static_cast<uint32_t>(state_ >> 32) % count;
}

void World::add_strand(CUstream stream, unsigned device) {
  Strand &strand = strands.emplace_back();
  strand.stream = stream;
  strand.device = device;
  strand.source.resize(kHostBytes);
  for (size_t i = 0; i < kHostBytes; i++)
    strand.source[i] = static_cast<uint8_t>((i * 2654435761u >> 16) + strands.size());
  strand.target.resize(kHostBytes);
  void *pinned = nullptr;
  if (!CALL(*this, cuMemHostAlloc)(&pinned, kHostBytes, 0)) {
    strand.pinned = static_cast<uint8_t *>(pinned);
    memset(pinned, 0, kHostBytes);
  }
}

void World::wait_for(unsigned device) {
  CALL(*this, cuCtxSetCurrent)(contexts[device]);
  CALL(*this, cuCtxSynchronize)();
  CALL(*this, cuCtxSetCurrent)(contexts[here().device]);
}

// Of pools, too: a device that may use the memory of one may use all (docs/several-devices.md).
bool World::reaches(unsigned borrower, unsigned owner) const {
  bool found = open.count({borrower, owner}) != 0;
  for (const auto &[number, pool] : pools.live)
    found = found || (pool.device == owner && pool.borrowers.count(borrower));
  return found;
}

bool World::capturing() {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return !CALL(*this, cuStreamIsCapturing)(here().stream, &status) &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool World::any_capturing() {
  const unsigned at = strand;
  bool any = false;
  for (strand = 0; strand < strands.size(); strand++) any = any || (here().live && capturing());
  strand = at;
  return any;
}

std::string World::name(CUdeviceptr address) const {
  for (const auto &[number, piece] : memory.live)
    if (address - piece.address < piece.size)
      return "m" + std::to_string(number) + "+" + std::to_string(address - piece.address);
  return address ? "somewhere" : "0";
}

Line &Line::arg(const std::string &text) {
  if (!first_) text_ += ", ";
  first_ = false;
  text_ += text;
  return *this;
}

CUresult Line::result(CUresult result) {
  text_ += ") = " + std::to_string(result);
  return result;
}

CUresult Line::result(CUresult result, CUresult same) {
  if (result && result != same) return this->result(result);
  text_ += ") = 0 or " + std::to_string(same);
  return result;
}

Line &Line::out(const std::string &text) {
  text_ += ' ' + text;
  return *this;
}

Range range(World &world, bool of_capture) {
  Choices &choices = world.choices;
  const bool captures = world.capturing();
  const auto found = world.memory.pick(choices, [&](const Memory &memory) {
    return memory.strand == world.strand &&
           (memory.kind != Memory::kCapture || (captures && of_capture));
  });
  if (!found) return {};
  auto &[number, memory] = *found;
  if (captures) memory.kept = true;
  size_t offset = 0;
  if (choices.once_in(3)) offset = choices.below(static_cast<uint32_t>(memory.size)) & ~size_t{15};
  if (choices.once_in(16)) offset = choices.below(static_cast<uint32_t>(memory.size));
  return {memory.address + offset, static_cast<int>(number), offset, memory.size - offset,
          "m" + std::to_string(number) + "+" + std::to_string(offset)};
}

size_t apart(const Range &one, const Range &other, size_t size) {
  if (one.piece != other.piece) return size;
  const size_t between =
      one.offset > other.offset ? one.offset - other.offset : other.offset - one.offset;
  return std::min(size, between);
}

size_t count(World &world, size_t room, size_t element) {
  Choices &choices = world.choices;
  const size_t fits = room / element;
  if (choices.once_in(24)) return fits + 1 + choices.below(100);
  if (choices.once_in(16)) return 0;
  if (choices.once_in(3)) return fits;
  return choices.below(static_cast<uint32_t>(fits) + 1);
}

uint64_t digest(const void *bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ static_cast<const uint8_t *>(bytes)[i]) * 0x100000001b3u;
  return hash;
}

}  // namespace sequences
