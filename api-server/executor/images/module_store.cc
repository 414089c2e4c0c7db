#include "images/module_store.h"

#include <algorithm>
#include <iterator>

#include "base/session_limits.h"

namespace outboard {

bool PendingImage::arrived(uint64_t offset, uint64_t length) {
  if (length == 0) return true;
  uint64_t start = offset;
  uint64_t end = offset + length;
  auto at = present_.upper_bound(start);
  if (at != present_.begin() && std::prev(at)->second >= start) --at;
  while (at != present_.end() && at->first <= end) {
    start = std::min(start, at->first);
    end = std::max(end, at->second);
    at = present_.erase(at);
  }
  present_[start] = end;
  return present_.size() <= session_limits.coming_fragments;
}

bool PendingImage::complete() const {
  if (image_->size() == 0) return true;
  return present_.size() == 1 && present_.begin()->first == 0 &&
         present_.begin()->second == image_->size();
}

std::shared_ptr<const Image> ModuleStore::find(const Hash &hash, uint64_t size,
                                               const std::string &tenant) {
  std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (at->hash != hash || at->image->size() != size) continue;
    if (!at->names.count(tenant)) return nullptr;
    entries_.splice(entries_.begin(), entries_, at);
    return at->image;
  }
  return nullptr;
}

ModuleStore::Entry *ModuleStore::entry(const Hash &hash) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry &e) { return e.hash == hash; });
  return found == entries_.end() ? nullptr : &*found;
}

void ModuleStore::learn(const Hash &hash, const std::string &tenant, const std::string &name) {
  std::lock_guard lock(mutex_);
  Entry *known = entry(hash);
  if (!known || !known->names.count(tenant)) return;
  std::vector<std::string> &names = known->names[tenant];
  if (names.size() >= kMostNames || name.empty() || name.size() > kMostNameBytes ||
      std::find(names.begin(), names.end(), name) != names.end()) {
    return;
  }
  names.push_back(name);
  count(known, name.size() + kOfEach);
  trim();
  if (files_) files_->add_name(hash, tenant, name);
}

std::vector<std::string> ModuleStore::names(const Hash &hash, const std::string &tenant) {
  std::lock_guard lock(mutex_);
  Entry *known = entry(hash);
  if (!known || !known->names.count(tenant)) return {};
  std::vector<std::string> &names = known->names[tenant];
  // Another slot may have learnt more.
  std::vector<std::string> more;
  if (files_) files_->read_names(hash, tenant, &more);
  for (std::string &name : more) {
    if (names.size() < kMostNames && name.size() <= kMostNameBytes &&
        std::find(names.begin(), names.end(), name) == names.end()) {
      count(known, name.size() + kOfEach);
      names.push_back(std::move(name));
    }
  }
  std::vector<std::string> all = names;
  trim();
  return all;
}

std::shared_ptr<const Image> ModuleStore::fetch(const Hash &hash, uint64_t size,
                                                const std::string &tenant) {
  std::vector<std::string> names;
  if (!files_ || !files_->read_names(hash, tenant, &names)) return nullptr;
  std::shared_ptr<const Image> image = files_->read(hash, size);
  if (image) keep(hash, image, tenant);
  return image;
}

void ModuleStore::save(const Hash &hash, const Image &image, const std::string &tenant) const {
  if (!files_) return;
  files_->write(hash, image);
  files_->add_tenant(hash, tenant);
}

void ModuleStore::keep(const Hash &hash, std::shared_ptr<const Image> image,
                       const std::string &tenant) {
  std::lock_guard lock(mutex_);
  if (Entry *known = entry(hash)) {
    if (known->names.size() >= kMostTenants || !known->names.try_emplace(tenant).second) return;
    count(known, tenant.size() + kOfEach);
  } else {
    const uint64_t bytes = image->size() + tenant.size() + 2 * kOfEach;
    entries_.push_front({hash, std::move(image), {{tenant, {}}}});
    count(&entries_.front(), bytes);
  }
  trim();
}

void ModuleStore::count(Entry *entry, uint64_t bytes) {
  entry->bytes += bytes;
  total_ += bytes;
}

void ModuleStore::trim() {
  while (total_ > limit_ && entries_.size() > 1) {
    total_ -= entries_.back().bytes;
    entries_.pop_back();
  }
}

}  // namespace outboard
