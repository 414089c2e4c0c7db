// CUDA_VISIBLE_DEVICES as NVIDIA's driver reads it: which of a machine's devices a program sees,
// and in what order.
//
// The first entry says what the list is of: "GPU-", whole GPUs by their UUIDs; "MIG-", instances in
// MIG mode by theirs; anything else, numbers. The list ends in front of the first entry that is of
// another kind. A number is read as strtol(3) does, blanks around it and whatever follows it left
// out, so "1gpu" is 1, "-0" is 0, and the list ends in front of "-1". A UUID of a GPU may be any
// part of its beginning that fits one GPU only; that of an instance is all of it. Where the same
// number or text stands twice in what is of one kind, or two entries are the same device, no device
// is visible. The list also ends in front of the first entry whose device is not there.
#ifndef ABI_VISIBLE_H
#define ABI_VISIBLE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#else
#include <stdbool.h>
#endif

// What "GPU-" or "MIG-" and a UUID take, with the 0 behind them.
#define ABI_VISIBLE_NAME 41

// A device that a list may name.
struct abi_visible_device {
  char name[ABI_VISIBLE_NAME];  // "GPU-" or "MIG-" and its UUID
  int number;                   // by which it may be named; -1: by none
  bool absent;                  // it cannot be used: the list ends in front of it
};

enum abi_visible_why {
  ABI_VISIBLE_ALL_READ,
  ABI_VISIBLE_NO_DEVICE,   // there is none of that number or UUID
  ABI_VISIBLE_SEVERAL,     // the beginning of a UUID fits more than one
  ABI_VISIBLE_OTHER_KIND,  // a number behind UUIDs, or the other way round
  ABI_VISIBLE_TWICE        // so that no device is visible
};

struct abi_visible_list {
  int count;                 // of the visible devices
  enum abi_visible_why why;  // it ends where it does
  const char *end;           // the entry that it ends in front of, or that is named twice
  int end_length;            // of that entry
};

// Reads `value`, which is not NULL. `chosen` has room for `device_count` numbers, and gets the
// places in `devices` of those that are visible. Not more than the first 256 entries are read.
struct abi_visible_list abi_visible_read(const char *value,
                                         const struct abi_visible_device *devices, int device_count,
                                         int *chosen);

// Writes into `text` one sentence for a log about why the list has ended, cut to `size` bytes.
// False, and nothing written, where it was read to its end.
bool abi_visible_explain(const struct abi_visible_list *list, const char *value, char *text,
                         size_t size);

#ifdef __cplusplus
}
#endif
#endif
