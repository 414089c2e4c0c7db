#include "abi_visible.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ENTRIES_MOST 256

enum kind { NUMBER, GPU, INSTANCE };

struct entry {
  const char *text;  // without the comma
  int length;
  int number;  // of kind NUMBER; those that are too large are INT32_MAX
};

static enum kind kind_of(const char *text) {
  if (strncmp(text, "GPU-", 4) == 0) return GPU;
  return strncmp(text, "MIG-", 4) == 0 ? INSTANCE : NUMBER;
}

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// -1 where there is no number, or one below 0.
static int number_in(const char *text, int length) {
  int at = 0;
  while (at < length && is_blank(text[at])) at++;
  const bool minus = at < length && text[at] == '-';
  if (at < length && (minus || text[at] == '+')) at++;
  const int first = at;
  int64_t number = 0;
  for (; at < length && text[at] >= '0' && text[at] <= '9'; at++)
    if (number < INT32_MAX) number = number * 10 + (text[at] - '0');
  if (at == first || (minus && number)) return -1;
  return number < INT32_MAX ? (int)number : INT32_MAX;
}

static bool same(enum kind kind, const struct entry *one, const struct entry *other) {
  if (kind == NUMBER) return one->number == other->number;
  return one->length == other->length &&
         strncasecmp(one->text, other->text, (size_t)one->length) == 0;
}

static void end_at(struct abi_visible_list *list, const struct entry *entry,
                   enum abi_visible_why why) {
  list->why = why;
  list->end = entry->text;
  list->end_length = entry->length;
  if (why == ABI_VISIBLE_TWICE) list->count = 0;
}

// The entries that are of the first one's kind, up to the first that is not. Their number, or -1
// when one of them stands there twice.
static int split(const char *value, enum kind kind, struct entry *entries,
                 struct abi_visible_list *list) {
  int count = 0;
  for (const char *at = value; count < ENTRIES_MOST; at++) {
    struct entry *entry = &entries[count];
    *entry = (struct entry){at, (int)strcspn(at, ","), 0};
    at += entry->length;
    if (!*at && !entry->length) return count;  // nothing, or behind the last comma
    if (kind == NUMBER && kind_of(entry->text) == NUMBER)
      entry->number = number_in(entry->text, entry->length);
    if (kind_of(entry->text) != kind || entry->number < 0) {
      // What is neither a number nor a UUID is of no kind.
      const bool names =
          kind_of(entry->text) != NUMBER || number_in(entry->text, entry->length) >= 0;
      end_at(list, entry, names ? ABI_VISIBLE_OTHER_KIND : ABI_VISIBLE_NO_DEVICE);
      return count;
    }
    for (int before = 0; before < count; before++)
      if (same(kind, &entries[before], entry)) {
        end_at(list, entry, ABI_VISIBLE_TWICE);
        return -1;
      }
    count++;
    if (!*at) break;
  }
  return count;
}

static bool fits(enum kind kind, const struct entry *entry,
                 const struct abi_visible_device *device) {
  if (kind == NUMBER) return device->number == entry->number;
  const size_t length = (size_t)entry->length, whole = strlen(device->name);
  return (kind == GPU ? length <= whole : length == whole) &&
         strncasecmp(device->name, entry->text, length) == 0;
}

struct abi_visible_list abi_visible_read(const char *value,
                                         const struct abi_visible_device *devices, int device_count,
                                         int *chosen) {
  struct abi_visible_list list = {0, ABI_VISIBLE_ALL_READ, NULL, 0};
  struct entry entries[ENTRIES_MOST];
  const enum kind kind = kind_of(value);
  const int count = split(value, kind, entries, &list);
  for (int i = 0; i < count; i++) {
    int found = -1;
    for (int device = 0; device < device_count; device++) {
      if (!fits(kind, &entries[i], &devices[device])) continue;
      if (found >= 0) {
        end_at(&list, &entries[i], ABI_VISIBLE_SEVERAL);
        return list;
      }
      found = device;
    }
    if (found < 0 || devices[found].absent) {
      end_at(&list, &entries[i], ABI_VISIBLE_NO_DEVICE);
      return list;
    }
    for (int before = 0; before < list.count; before++)
      if (chosen[before] == found) {
        end_at(&list, &entries[i], ABI_VISIBLE_TWICE);
        return list;
      }
    chosen[list.count++] = found;
  }
  return list;
}

bool abi_visible_explain(const struct abi_visible_list *list, const char *value, char *text,
                         size_t size) {
  static const char *const sentences[] = {
      [ABI_VISIBLE_NO_DEVICE] = "names no device; the list ends there",
      [ABI_VISIBLE_SEVERAL] = "fits several devices; the list ends there",
      [ABI_VISIBLE_OTHER_KIND] =
          "is of another kind than the first (numbers, GPU-..., MIG-...); the list ends there",
      [ABI_VISIBLE_TWICE] = "names a device twice: no device is visible",
  };
  if (list->why == ABI_VISIBLE_ALL_READ) return false;
  snprintf(text, size, "CUDA_VISIBLE_DEVICES=\"%s\": \"%.*s\" %s", value, list->end_length,
           list->end, sentences[list->why]);
  return true;
}
