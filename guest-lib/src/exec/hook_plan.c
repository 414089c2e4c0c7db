// Which hook fetches and sends what, and which copies need one of their own ahead of them: those
// whose source may change while a launch is under way other than by a hook that sends it.
#include <stdlib.h>
#include <string.h>

#include "copies/box.h"
#include "copies/stream_values.h"
#include "exec/hook.h"
#include "exec/internal.h"

// What may come before something that a hook, or a copy from the program's memory, has to know of.
enum source_kind { SOURCE_HOOK, SOURCE_DOWNLOAD, SOURCE_WAIT };

struct plan {
  struct graph_exec *exec;
  struct graph_node **hooks;
  size_t hook_count;
  size_t *uploads, upload_count;  // by index of the transfer
  size_t *downloads, download_count;
  struct graph_node **waits;
  size_t wait_count;
  size_t words;              // of a row of hooks
  uint64_t *hooks_of;        // by source: the hooks behind it
  unsigned char *reaches;    // by source and upload
  uint64_t *sent_by;         // by upload: the hooks ahead of it that send what they change of it
  struct graph_node **open;  // scratch
};

static _Bool waits(const struct task *task) {
  if (task->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) return 1;
  if (task->type != CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) return 0;
  for (unsigned i = 0; i < task->values.count; i++)
    if (value_waits(task->values.entries[i].operation)) return 1;
  return 0;
}

static _Bool overlap(const struct box_end *a, const struct box *of_a, const struct box_end *b,
                     const struct box *of_b) {
  return a->address < b->address + box_span(b, of_b) && b->address < a->address + box_span(a, of_a);
}

static const struct copy_task *copy_of(const struct plan *plan, size_t transfer) {
  return &plan->exec->transfers[transfer].node->task->copy;
}

// Whether a hook reads or overwrites what a copy brings; whether it changes what a copy takes.
static _Bool needs(const struct plan *plan, size_t hook, size_t download) {
  const struct task *task = plan->hooks[hook]->task;
  if (task->type == CU_GRAPH_NODE_TYPE_HOST) return 1;
  const struct copy_task *brings = copy_of(plan, download), *does = &task->copy;
  return overlap(&brings->to, &brings->box, &does->from, &does->box) ||
         overlap(&brings->to, &brings->box, &does->to, &does->box);
}
static _Bool changes(const struct plan *plan, size_t hook, size_t upload) {
  const struct task *task = plan->hooks[hook]->task;
  if (task->type == CU_GRAPH_NODE_TYPE_HOST) return 1;
  const struct copy_task *takes = copy_of(plan, upload), *does = &task->copy;
  return overlap(&takes->from, &takes->box, &does->to, &does->box);
}
static _Bool feeds(const struct plan *plan, size_t download, size_t upload) {
  const struct copy_task *brings = copy_of(plan, download), *takes = copy_of(plan, upload);
  return overlap(&brings->to, &brings->box, &takes->from, &takes->box);
}

// ---- what comes behind what --------------------------------------------------------------------

static uint64_t marks;

// Marks all nodes behind this one, in graphs around it and in those embedded in what comes behind.
static void mark_behind(struct plan *plan, const struct graph_node *node) {
  size_t count = 0;
  marks++;
#define OPEN(one)                    \
  do {                               \
    struct graph_node *next = (one); \
    if (next->mark == marks) break;  \
    next->mark = marks;              \
    plan->open[count++] = next;      \
  } while (0)
  for (const struct graph_node *at = node; at; at = at->graph->parent)
    for (uint32_t i = 0; i < at->after.count; i++) OPEN(at->after.at[i].node);
  while (count) {
    const struct graph_node *at = plan->open[--count];
    for (uint32_t i = 0; i < at->after.count; i++) OPEN(at->after.at[i].node);
    for (unsigned k = 0; k < at->child_count; k++)
      for (struct graph_node *inner = at->children[k]->first; inner; inner = inner->next)
        OPEN(inner);
  }
#undef OPEN
}

static void set_bit(uint64_t *row, size_t bit) { row[bit / 64] |= 1ull << bit % 64; }
static _Bool get_bit(const uint64_t *row, size_t bit) { return row[bit / 64] >> bit % 64 & 1; }

static void find_behind(struct plan *plan, size_t source, const struct graph_node *node) {
  mark_behind(plan, node);
  for (size_t h = 0; h < plan->hook_count; h++)
    if (plan->hooks[h]->mark == marks) set_bit(plan->hooks_of + source * plan->words, h);
  for (size_t u = 0; u < plan->upload_count; u++)
    plan->reaches[source * plan->upload_count + u] =
        plan->exec->transfers[plan->uploads[u]].node->mark == marks;
}

static const uint64_t *behind_hook(const struct plan *plan, size_t hook) {
  return plan->hooks_of + hook * plan->words;
}
static const uint64_t *behind_download(const struct plan *plan, size_t download) {
  return plan->hooks_of + (plan->hook_count + download) * plan->words;
}
static const uint64_t *behind_wait(const struct plan *plan, size_t wait) {
  return plan->hooks_of + (plan->hook_count + plan->download_count + wait) * plan->words;
}
static _Bool reaches(const struct plan *plan, enum source_kind kind, size_t source, size_t upload) {
  if (kind != SOURCE_HOOK) source += plan->hook_count;
  if (kind == SOURCE_WAIT) source += plan->download_count;
  return plan->reaches[source * plan->upload_count + upload];
}

// Whether a hook that sends the upload lies between; for a download, one that fetches it.
static _Bool is_sent_between(const struct plan *plan, const uint64_t *behind, size_t upload,
                             size_t download) {
  const uint64_t *sent_by = plan->sent_by + upload * plan->words;
  for (size_t w = 0; w < plan->words; w++) {
    uint64_t both = behind[w] & sent_by[w];
    for (; both; both &= both - 1) {
      size_t hook = w * 64 + (size_t)__builtin_ctzll(both);
      if (download == SIZE_MAX || needs(plan, hook, download)) return 1;
    }
  }
  return 0;
}

static _Bool needs_own(const struct plan *plan, size_t u) {
  for (size_t w = 0; w < plan->wait_count; w++)
    if (reaches(plan, SOURCE_WAIT, w, u) &&
        !is_sent_between(plan, behind_wait(plan, w), u, SIZE_MAX))
      return 1;
  for (size_t d = 0; d < plan->download_count; d++)
    if (reaches(plan, SOURCE_DOWNLOAD, d, u) && feeds(plan, plan->downloads[d], plan->uploads[u]) &&
        !is_sent_between(plan, behind_download(plan, d), u, plan->downloads[d]))
      return 1;
  return 0;
}

// ---- all of it ---------------------------------------------------------------------------------

static _Bool gather(struct plan *plan) {
  struct graph_exec *exec = plan->exec;
  const size_t nodes = exec->order_count + 1, transfers = exec->transfer_count + 1;
  plan->hooks = calloc(nodes, sizeof(struct graph_node *));
  plan->waits = calloc(nodes, sizeof(struct graph_node *));
  plan->open = calloc(nodes, sizeof(struct graph_node *));
  plan->uploads = calloc(transfers, sizeof(size_t));
  plan->downloads = calloc(transfers, sizeof(size_t));
  if (!plan->hooks || !plan->waits || !plan->open || !plan->uploads || !plan->downloads) return 0;
  for (size_t i = 0; i < exec->order_count; i++) {
    struct graph_node *node = exec->order[i];
    if (!node->task) continue;
    if (is_hook(node->task)) plan->hooks[plan->hook_count++] = node;
    if (waits(node->task)) plan->waits[plan->wait_count++] = node;
  }
  for (size_t i = 0; i < exec->transfer_count; i++) {
    struct graph_transfer *transfer = &exec->transfers[i];
    if (transfer->node->task->copy.to.place == BOX_HOST)
      plan->downloads[plan->download_count++] = i;
    else
      plan->uploads[plan->upload_count++] = i;
  }
  return 1;
}

static _Bool is_simple(const struct plan *plan) {
  if (plan->hook_count) return 0;
  if (plan->wait_count && plan->upload_count) return 0;
  for (size_t d = 0; d < plan->download_count; d++)
    for (size_t u = 0; u < plan->upload_count; u++)
      if (feeds(plan, plan->downloads[d], plan->uploads[u])) return 0;
  return 1;
}

static _Bool find_order(struct plan *plan) {
  const size_t sources = plan->hook_count + plan->download_count + plan->wait_count;
  plan->words = plan->hook_count / 64 + 1;
  plan->hooks_of = calloc(sources + 1, plan->words * sizeof(uint64_t));
  plan->sent_by = calloc(plan->upload_count + 1, plan->words * sizeof(uint64_t));
  plan->reaches = calloc(sources + 1, plan->upload_count + 1);
  if (!plan->hooks_of || !plan->sent_by || !plan->reaches) return 0;
  size_t source = 0;
  for (size_t h = 0; h < plan->hook_count; h++) find_behind(plan, source++, plan->hooks[h]);
  for (size_t d = 0; d < plan->download_count; d++)
    find_behind(plan, source++, plan->exec->transfers[plan->downloads[d]].node);
  for (size_t w = 0; w < plan->wait_count; w++) find_behind(plan, source++, plan->waits[w]);
  for (size_t u = 0; u < plan->upload_count; u++)
    for (size_t h = 0; h < plan->hook_count; h++)
      if (reaches(plan, SOURCE_HOOK, h, u) && changes(plan, h, plan->uploads[u]))
        set_bit(plan->sent_by + u * plan->words, h);
  return 1;
}

// A disabled copy does nothing at its turn.
static _Bool is_on(const struct plan *plan, size_t transfer) {
  return plan->exec->transfers[transfer].node->enabled;
}

static CUresult renew_hooks(struct plan *plan, size_t *fetch, size_t *send) {
  CUresult result = CUDA_SUCCESS;
  for (size_t h = 0; h < plan->hook_count && !result; h++) {
    size_t fetches = 0, sends = 0;
    for (size_t d = 0; d < plan->download_count; d++) {
      size_t transfer = plan->downloads[d];
      if (!get_bit(behind_download(plan, d), h) || !needs(plan, h, transfer)) continue;
      plan->exec->transfers[transfer].landed = 1;
      if (is_on(plan, transfer)) fetch[fetches++] = transfer;
    }
    for (size_t u = 0; u < plan->upload_count; u++) {
      size_t transfer = plan->uploads[u];
      if (!get_bit(plan->sent_by + u * plan->words, h)) continue;
      plan->exec->transfers[transfer].late = 1;
      // Once is enough: by the last that changes it, or by one of its own.
      if (plan->exec->transfers[transfer].ahead || !is_on(plan, transfer) ||
          is_sent_between(plan, behind_hook(plan, h), u, SIZE_MAX))
        continue;
      send[sends++] = transfer;
    }
    result = hook_renew(plan->exec, plan->hooks[h], fetch, fetches, send, sends);
  }
  for (size_t u = 0; u < plan->upload_count && !result; u++) {
    struct graph_transfer *transfer = &plan->exec->transfers[plan->uploads[u]];
    if (!transfer->ahead) continue;
    size_t fetches = 0;
    transfer->late = 1;
    for (size_t d = 0; d < plan->download_count; d++) {
      if (!reaches(plan, SOURCE_DOWNLOAD, d, u) ||
          !feeds(plan, plan->downloads[d], plan->uploads[u]))
        continue;
      plan->exec->transfers[plan->downloads[d]].landed = 1;
      if (is_on(plan, plan->downloads[d])) fetch[fetches++] = plan->downloads[d];
    }
    result = hook_renew(plan->exec, transfer->node, fetch, fetches, &plan->uploads[u],
                        transfer->node->enabled);
  }
  return result;
}

CUresult hooks_plan(struct graph_exec *exec, _Bool *moved) {
  struct plan plan = {.exec = exec};
  size_t *fetch = NULL, *send = NULL;
  *moved = 0;
  CUresult result = gather(&plan) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  _Bool simple = !result && is_simple(&plan);
  if (!result && !simple) {
    fetch = calloc(exec->transfer_count + 1, sizeof *fetch);
    send = calloc(exec->transfer_count + 1, sizeof *send);
    if (!fetch || !send || !find_order(&plan)) result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (size_t i = 0; i < exec->transfer_count && !result; i++) {
    struct graph_transfer *transfer = &exec->transfers[i];
    transfer->late = transfer->landed = 0;
    *moved |= simple && transfer->ahead;
    if (simple) transfer->ahead = 0;
  }
  for (size_t u = 0; u < plan.upload_count && !result && !simple; u++) {
    struct graph_transfer *transfer = &exec->transfers[plan.uploads[u]];
    _Bool own = needs_own(&plan, u);
    *moved |= own != transfer->ahead;
    transfer->ahead = own;
  }
  if (!result && !simple) result = renew_hooks(&plan, fetch, send);
  void *all[] = {plan.hooks,    plan.waits,   plan.open,    plan.uploads, plan.downloads,
                 plan.hooks_of, plan.sent_by, plan.reaches, fetch,        send};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
  return result;
}
