#include "images/links.h"

#include <cstring>

#include "abi_fatbin.h"
#include "base/session_limits.h"

namespace outboard {

Link::Link(const Driver &driver, std::span<const uint8_t> options, Taken all)
    : driver_(driver), all_(std::move(all)), compiling_(options) {
  compiling_.start();
  begun_ = driver_.cuLinkCreate_v2(compiling_.count(), compiling_.options(), compiling_.values(),
                                   &state_);
}

Link::~Link() {
  if (begun_ == CUDA_SUCCESS) driver_.cuLinkDestroy(state_);
  *all_ -= own_;
}

bool Link::take(uint64_t bytes) {
  const uint64_t before = all_->fetch_add(bytes);
  if (bytes > session_limits.link_bytes || before > session_limits.link_bytes - bytes) {
    *all_ -= bytes;
    return false;
  }
  own_ += bytes;
  return true;
}

CUresult Link::add(CUjitInputType type, std::span<const uint8_t> input, const char *name,
                   Compiling *options) {
  if (begun_ != CUDA_SUCCESS) return begun_;
  // What came out before lies with the driver, which may move it now.
  result_ = {};
  options->start();
  // The driver does not write there; its header lacks the const.
  return driver_.cuLinkAddData_v2(state_, type, const_cast<uint8_t *>(input.data()), input.size(),
                                  name, options->count(), options->options(), options->values());
}

CUresult Link::complete() {
  if (begun_ != CUDA_SUCCESS) return begun_;
  result_ = {};
  void *cubin = nullptr;
  size_t size = 0;
  const CUresult result = driver_.cuLinkComplete(state_, &cubin, &size);
  if (result == CUDA_SUCCESS) result_ = {static_cast<const uint8_t *>(cubin), size};
  return result;
}

void Links::keep(uint64_t handle, std::shared_ptr<Link> link) {
  table_.keep(handle, std::move(link));
  ++count_;
}

std::shared_ptr<Link> Links::find(uint64_t handle) {
  const std::shared_ptr<Link> *found = table_.find(handle);
  return found ? *found : nullptr;
}

bool Links::end(uint64_t handle) {
  std::shared_ptr<Link> link;
  if (!table_.take(handle, &link)) return false;
  --count_;
  return true;
}

void Links::clear() {
  table_.clear();
  count_ = 0;
}

std::span<const uint8_t> input_of(const Image &image) {
  wire_image_part part;
  if (image.size() < sizeof part) return {};
  memcpy(&part, image.data(), sizeof part);
  const uint64_t room = image.size() - sizeof part;
  if (part.kind != WIRE_IMAGE_INPUT || part.size > room || room - part.size >= 8) return {};
  return {image.data() + sizeof part, part.size};
}

std::shared_ptr<Image> image_of_result(std::span<const uint8_t> result) {
  if (abi_image_kind(result.data(), result.size()) != ABI_IMAGE_ELF) return nullptr;
  const size_t size = abi_image_size(result.data(), result.size());
  if (size == 0) return nullptr;
  const wire_image_part part = {WIRE_IMAGE_ELF, 0, size};
  std::shared_ptr<Image> image = Image::make(sizeof part + ((size + 7) & ~size_t{7}));
  if (!image) return nullptr;
  memcpy(image->data(), &part, sizeof part);
  memcpy(image->data() + sizeof part, result.data(), size);
  return image;
}

}  // namespace outboard
