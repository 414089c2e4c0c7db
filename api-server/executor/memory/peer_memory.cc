// Memory that the sessions of a program lend each other.
#include <unistd.h>

#include "base/session_limits.h"
#include "memory/memory.h"
#include "wire.h"

namespace outboard {

// Where the program has other sessions, all that it has can be lent, as far as there are
// descriptors: exchanging it later, as for `share_mapping`, would want the device at rest, and
// room.
CUresult Memory::create_lendable(uint64_t size, bool shareable,
                                 CUmemGenericAllocationHandle *memory, bool *lendable) {
  *lendable = lender_ && lendable_count_ < session_limits.lendable;
  CUresult result = create(size, shareable || *lendable, memory);
  if (*lendable && !shareable && result != CUDA_SUCCESS) {
    *lendable = false;
    result = create(size, false, memory);
  }
  if (result == CUDA_SUCCESS && *lendable) ++lendable_count_;
  return result;
}

CUresult Memory::lend(uint64_t address, uint64_t size, uint64_t number) {
  const auto found = ranges_.find(address);
  Range *range = found == ranges_.end() || found->second.size != size ? nullptr : &found->second;
  Physical *physical = range && range->placed ? physicals_.find(range->placed) : nullptr;
  // Making it may have failed, which the guest has not heard of.
  if (!range || !(physical ? physical->lendable : range->lendable)) {
    lender_->lend(number, nullptr);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  std::shared_ptr<Loan> &loan = physical ? physical->loan : range->loan;
  if (!loan) loan = std::make_shared<Loan>();
  withdraw(range);
  range->lent = number;
  const Lent lent{range->memory, range->offset, size, loan};
  lender_->lend(number, &lent);
  return CUDA_SUCCESS;
}

void Memory::withdraw(Range *range) {
  if (range->lent && !range->borrowed) lender_->withdraw(range->lent);
}

// What was unmapped while somebody had it, and nobody has any more, is overwritten.
CUresult Memory::overwrite_returned(bool wait) {
  CUresult first = CUDA_SUCCESS;
  if (wait) {
    std::vector<std::shared_ptr<Loan>> loans;
    for (const Retired &r : retired_) {
      if (r.loan) loans.push_back(r.loan);
    }
    if (!loans.empty()) lender_->await(loans);
  }
  for (Retired &r : retired_) {
    if (!r.loan || r.early || lender_->is_held(*r.loan)) continue;
    keep_first(first, overwrite(&r));
  }
  return first;
}

CUresult Memory::borrow(uint64_t address, uint64_t size, unsigned peer, uint64_t number,
                        uint32_t flags) {
  if (placed_count_ == session_limits.placed) return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = reap(overlaps_retired(address, size));
  if (result != CUDA_SUCCESS) return result;
  PeerLink &link = *peers_[peer];
  uint64_t offset = 0, length = 0;
  int fd = -1;
  const Borrowed borrowed = link.borrow(number, &offset, &length, &fd);
  // Gone before it was here: the guest has freed it meanwhile, and takes it back here next.
  if (borrowed == Borrowed::kGone) return CUDA_SUCCESS;
  if (borrowed != Borrowed::kThere) return CUDA_ERROR_MAP_FAILED;
  CUmemGenericAllocationHandle memory = 0;
  result = driver_.cuMemImportFromShareableHandle(
      &memory, reinterpret_cast<void *>(static_cast<intptr_t>(fd)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  close(fd);
  if (result != CUDA_SUCCESS) {
    link.give_back(number);
    return result;
  }
  result = length == size ? clear_way(address, size) : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) result = driver_.cuMemMap(address, size, offset, memory, 0);
  if (result == CUDA_SUCCESS && flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) {
    result = set_access(address, size, flags);
    if (result != CUDA_SUCCESS) driver_.cuMemUnmap(address, size);
  }
  if (result != CUDA_SUCCESS) {
    driver_.cuMemRelease(memory);
    link.give_back(number);
    return result;
  }
  std::unique_lock lock(ranges_mutex_);
  Range &range = ranges_[address] = {size, memory, false};
  lock.unlock();
  range.borrowed = peer + 1;
  range.lent = number;
  ++placed_count_;
  return CUDA_SUCCESS;
}

bool Memory::is_borrowed(uint64_t address, uint64_t size) const {
  const auto found = ranges_.find(address);
  return found != ranges_.end() && found->second.borrowed && found->second.size == size;
}

CUresult Memory::give_back(uint64_t address) {
  const auto found = ranges_.find(address);
  const Range range = found->second;
  forget(found);
  last_size_ = last_start_ = 0;
  --placed_count_;
  const CUresult unmapped = driver_.cuMemUnmap(address, range.size);
  const CUresult released = driver_.cuMemRelease(range.memory);
  // Who cannot be sure that it is gone here must not say so.
  if (unmapped == CUDA_SUCCESS && released == CUDA_SUCCESS) {
    peers_[range.borrowed - 1]->give_back(range.lent);
  }
  return unmapped == CUDA_SUCCESS ? released : unmapped;
}

CUresult Memory::give_back_all() {
  CUresult first = CUDA_SUCCESS;
  for (auto at = ranges_.begin(); at != ranges_.end();) {
    const auto &[address, range] = *at++;  // what is visited may be erased
    if (range.borrowed) keep_first(first, give_back(address));
  }
  // The other side takes the end of the connection for the return of all that is left.
  if (first == CUDA_SUCCESS) peers_ = {};
  return first;
}

}  // namespace outboard
