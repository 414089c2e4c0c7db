#include "exec/parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "copies/resolve.h"
#include "exec/internal.h"
#include "graph/task.h"
#include "graph/task_session.h"
#include "guest_calls.h"
#include "session/handle.h"
#include "session/session.h"
#include "setup/log.h"
#include "streams/device_wait.h"
#include "streams/room.h"
#include "streams/stream.h"

struct graph_part {
  struct session *session;
  unsigned level, number;      // number: of a copy; 0: there is one part of a session and level
  struct graph *plan;          // until its executable graph has it
  struct graph_exec *exec;     // NULL: a copy between two devices
  struct graph_node *copy;     // which; of the whole's plan
  size_t after[SESSIONS_MAX];  // how many parts there are up to the last of a session that it needs
  _Bool needed;                // by one of another session
  _Bool last;                  // of its session
  uint64_t event;              // behind it
};

struct graph_parts {
  struct graph_part *at;  // by levels
  size_t count;
  uint64_t streams[SESSIONS_MAX];  // for launches into streams of other sessions
  uint64_t events[SESSIONS_MAX];   // where launches into a session's streams begin, and end
  // The last launch.
  _Bool launched;
  struct session *session;
  uint64_t stream;
};

// ---- dividing ----------------------------------------------------------------------------------

// A node, or where a graph begins or ends that is embedded in the nodes of several devices.
struct piece {
  struct graph_node *node;  // NULL: begins or ends
  struct session *session;
  unsigned level, number;
  size_t part;
  size_t first_edge, edge_count;  // from pieces before it
  struct graph_node *made;        // in its part's plan
};
struct piece_edge {
  size_t from;
  CUgraphEdgeData data;
};

struct division {
  struct piece *pieces;
  size_t piece_count, piece_room;
  struct piece_edge *edges;
  size_t edge_count, edge_room;
  struct graph_part *parts;
  size_t part_count;
  unsigned copies;
  struct graph_node *culprit;
};

static CUresult add_edge(struct division *division, size_t from, CUgraphEdgeData data) {
  if (!grow(&division->edges, &division->edge_room, division->edge_count, sizeof *division->edges))
    return CUDA_ERROR_OUT_OF_MEMORY;
  division->edges[division->edge_count++] = (struct piece_edge){from, data};
  return CUDA_SUCCESS;
}

// Gives the last piece its place, behind those that its edges, which were just added, lead from.
static void place(struct division *division, struct session *otherwise) {
  struct piece *piece = &division->pieces[division->piece_count - 1];
  const struct piece_edge *edges = &division->edges[piece->first_edge];
  piece->edge_count = division->edge_count - piece->first_edge;
  // What any session may do is done by that of what it waits for.
  unsigned highest = 0;
  for (size_t i = 0; i < piece->edge_count && !piece->session; i++) {
    const struct piece *from = &division->pieces[edges[i].from];
    if (from->level < highest) continue;
    highest = from->level;
    otherwise = from->session;
  }
  if (!piece->session) piece->session = otherwise;
  for (size_t i = 0; i < piece->edge_count; i++) {
    const struct piece *from = &division->pieces[edges[i].from];
    const _Bool same = from->session == piece->session && !from->number && !piece->number;
    if (piece->level < from->level + !same) piece->level = from->level + !same;
  }
}

static CUresult add_piece(struct division *division, struct graph_node *node,
                          struct session *session) {
  if (!grow(&division->pieces, &division->piece_room, division->piece_count,
            sizeof *division->pieces))
    return CUDA_ERROR_OUT_OF_MEMORY;
  division->pieces[division->piece_count++] =
      (struct piece){.node = node, .session = session, .first_edge = division->edge_count};
  return CUDA_SUCCESS;
}

// The session in whose stream a copy between two devices is: the one it was asked for, or where it
// leads.
static struct session *session_of_copy(const struct task *task) {
  struct session *own = session_of_context(task->context), *to = holder_of(&task->copy.to);
  return own == holder_of(&task->copy.from) ? own : to;
}

static CUresult add_graph(struct division *division, const struct graph *graph, size_t begin);

// Adds a node. `begin` is one more than the piece that it comes behind when nothing else is before
// it, or 0.
static CUresult add_node(struct division *division, struct graph_node *node, size_t begin) {
  struct session *session = graph_node_session(node);
  const _Bool several = session == SESSION_SEVERAL, copy = several && !node->child_count;
  if (several && node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    log_warn("conditions with nodes of several devices are not served");
    division->culprit = node;
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (several) session = copy ? session_of_copy(node->task) : NULL;
  CUresult result = add_piece(division, several && !copy ? NULL : node, session);
  if (!result && copy) division->pieces[division->piece_count - 1].number = ++division->copies;
  for (uint32_t i = 0; i < node->before.count && !result; i++)
    result = add_edge(division, node->before.at[i].node->number, node->before.at[i].data);
  if (!result && begin && !node->before.count)
    result = add_edge(division, begin - 1, (CUgraphEdgeData){0});
  if (result) return result;
  place(division, node->task ? session_of_context(node->task->context) : session_here());
  if (several && !copy) result = add_graph(division, node->children[0], division->piece_count);
  node->number = (uint32_t)division->piece_count - 1;
  return result;
}

// Adds the nodes of a graph. An embedded one begins with the piece before, and gets one more at its
// end.
static CUresult add_graph(struct division *division, const struct graph *graph, size_t begin) {
  _Bool cycle;
  struct graph_node **sorted = graph_sort(graph, &cycle);
  if (!sorted) return cycle ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < graph->node_count && !result; i++)
    result = add_node(division, sorted[i], begin);
  if (!result && begin) result = add_piece(division, NULL, NULL);
  for (size_t i = 0; i < graph->node_count && !result && begin; i++)
    if (!sorted[i]->after.count)
      result = add_edge(division, sorted[i]->number, (CUgraphEdgeData){0});
  if (!result && begin) place(division, session_here());
  free(sorted);
  return result;
}

static int by_level(const void *a, const void *b) {
  const struct graph_part *x = a, *y = b;
  if (x->level != y->level) return x->level < y->level ? -1 : 1;
  if (x->session != y->session) return x->session < y->session ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

// Finds which part each piece is in, and which parts each needs.
static CUresult find_parts(struct division *division) {
  struct graph_part *parts = calloc(division->piece_count + 1, sizeof *parts);
  if (!parts) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t count = 0;
  for (size_t i = 0; i < division->piece_count; i++) {
    const struct piece *piece = &division->pieces[i];
    parts[i] = (struct graph_part){
        .session = piece->session, .level = piece->level, .number = piece->number};
  }
  qsort(parts, division->piece_count, sizeof *parts, by_level);
  for (size_t i = 0; i < division->piece_count; i++)
    if (!count || by_level(&parts[count - 1], &parts[i])) parts[count++] = parts[i];
  division->parts = parts;
  division->part_count = count;
  _Bool seen[SESSIONS_MAX] = {0};
  for (size_t i = count; i-- > 0;) {
    parts[i].last = !seen[parts[i].session->number];
    seen[parts[i].session->number] = 1;
  }
  for (size_t i = 0; i < division->piece_count; i++) {
    struct piece *piece = &division->pieces[i];
    const struct graph_part wanted = {
        .session = piece->session, .level = piece->level, .number = piece->number};
    struct graph_part *part = bsearch(&wanted, parts, count, sizeof *parts, by_level);
    piece->part = (size_t)(part - parts);
    if (piece->number) part->copy = piece->node;
    for (size_t k = 0; k < piece->edge_count; k++) {
      const size_t from = division->pieces[division->edges[piece->first_edge + k].from].part;
      if (parts[from].session == part->session) continue;
      parts[from].needed = 1;
      if (part->after[parts[from].session->number] <= from)
        part->after[parts[from].session->number] = from + 1;
    }
  }
  return CUDA_SUCCESS;
}

static CUresult copy_piece(struct division *division, struct piece *piece) {
  struct graph_part *part = &division->parts[piece->part];
  if (!part->plan && !(part->plan = graph_new())) return CUDA_ERROR_OUT_OF_MEMORY;
  part->plan->named = 0;
  struct graph_edges before = {0};
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < piece->edge_count && !result; i++) {
    const struct piece_edge *edge = &division->edges[piece->first_edge + i];
    const struct piece *from = &division->pieces[edge->from];
    if (from->part == piece->part && !graph_edges_add(&before, from->made, edge->data))
      result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  const struct graph_node *node = piece->node;
  const CUgraphNodeType type = node ? node->type : CU_GRAPH_NODE_TYPE_EMPTY;
  if (!result)
    result = graph_add(part->plan, type, node ? node->task : NULL, &before, &piece->made);
  graph_edges_free(&before);
  if (result || !node) return result;
  piece->made->origin = node->origin;
  for (unsigned i = 0; i < node->child_count; i++) {
    struct graph *child = graph_clone(node->children[i], 0);
    if (!child) return CUDA_ERROR_OUT_OF_MEMORY;
    if (graph_embed(piece->made, child)) continue;
    graph_unref(child);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

static _Bool holds_conditions(const struct graph *graph) {
  for (const struct graph_node *node = graph->first; node; node = node->next) {
    if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return 1;
    for (unsigned i = 0; i < node->child_count; i++)
      if (holds_conditions(node->children[i])) return 1;
  }
  return 0;
}

// Makes the executable graphs of all parts, by which their servers get them.
static CUresult make_all(struct graph_exec *exec, struct graph *graph, struct graph_node **culprit,
                         CUgraphInstantiateResult *why) {
  struct graph_parts *parts = exec->parts;
  struct graph_part *conditional = NULL;
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < parts->count && !result; i++) {
    struct graph_part *part = &parts->at[i];
    if (part->copy) continue;
    const _Bool conditions = graph->condition_count && holds_conditions(part->plan);
    if (conditions && conditional) {
      log_warn(
          "graphs with conditions before and behind the work of another device are not served");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (conditions) conditional = part;
    struct graph *plan = part->plan;
    part->plan = NULL;
    result = exec_make_of(plan, part->session, exec->flags, conditions ? graph : NULL, &part->exec,
                          culprit, why);
  }
  return result;
}

CUresult parts_make(struct graph_exec *exec, struct graph *graph, struct graph_node **culprit,
                    CUgraphInstantiateResult *why) {
  struct division division = {0};
  exec->split = 1;
  exec->session = NULL;
  CUresult result = add_graph(&division, exec->plan, 0);
  if (result == CUDA_ERROR_INVALID_VALUE) *why = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
  if (result == CUDA_ERROR_NOT_SUPPORTED)
    *why = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
  *culprit = division.culprit;
  if (!result) result = find_parts(&division);
  exec->parts = result ? NULL : calloc(1, sizeof *exec->parts);
  if (!result && !exec->parts) result = CUDA_ERROR_OUT_OF_MEMORY;
  if (exec->parts)
    *exec->parts = (struct graph_parts){.at = division.parts, .count = division.part_count};
  for (size_t i = 0; i < division.piece_count && !result; i++)
    if (!division.pieces[i].number) result = copy_piece(&division, &division.pieces[i]);
  if (!result) result = make_all(exec, graph, culprit, why);
  if (!exec->parts) free(division.parts);
  free(division.pieces);
  free(division.edges);
  return result;
}

// ---- changes -----------------------------------------------------------------------------------

struct graph_exec *parts_find(const struct graph_exec *exec, struct graph_node **node) {
  for (size_t i = 0; i < exec->parts->count; i++) {
    struct graph_exec *part = exec->parts->at[i].exec;
    struct graph_node *found = part ? graph_copy_of(part->plan, (*node)->origin, 1) : NULL;
    if (!found) continue;
    *node = found;
    return part;
  }
  return NULL;
}

CUresult parts_each(struct graph_exec *exec, CUresult (*visit)(struct graph_exec *part)) {
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < exec->parts->count && !result; i++)
    if (exec->parts->at[i].exec) result = visit(exec->parts->at[i].exec);
  return result;
}

// ---- launches ----------------------------------------------------------------------------------

// Sees to it that *event is a live event of the thread's session. A reset of the context ends it
// like any other.
static CUresult event_there(uint64_t *event) {
  if (handle_is_live(WIRE_KIND_EVENT, *event)) return CUDA_SUCCESS;
  CUevent made;
  CUresult result = guest_cuEventCreate(&made, CU_EVENT_DISABLE_TIMING);
  if (!result) *event = handle_of(made);
  return result;
}

static CUresult record(struct session *session, uint64_t *event, uint64_t stream) {
  CUresult result = event_there(event);
  return result ? result : put_cuEventRecord(session, *event, stream);
}

static CUresult stream_there(uint64_t *stream) {
  if (handle_is_live(WIRE_KIND_STREAM, *stream)) return CUDA_SUCCESS;
  return stream_begin_apart(session_here(), stream);
}

static CUresult wait_for(uint64_t stream, struct session *of, uint64_t event) {
  struct session *session = session_here();
  return of == session ? put_cuStreamWaitEvent(session, stream, event, 0)
                       : device_wait(stream, of, event);
}

struct launch {
  struct graph_exec *exec;
  struct session *here;
  uint64_t stream;
  size_t launched[SESSIONS_MAX];  // parts up to the last of a session
  size_t reached[SESSIONS_MAX]
                [SESSIONS_MAX];  // by session: the same, of another session that it waited for
};

// The most operations that a part, or the whole, has on a stream beside its own work.
#define WAITS_MOST (SESSIONS_MAX + 3)

static CUresult wait_for_part(struct launch *launch, uint64_t stream, size_t count,
                              struct session *of) {
  size_t *reached = &launch->reached[session_here()->number][of->number];
  if (count <= *reached) return CUDA_SUCCESS;
  *reached = count;
  return device_wait(stream, of, launch->exec->parts->at[count - 1].event);
}

static CUresult copy_between(const struct graph_node *node, uint64_t stream) {
  const struct copy_task *task = &node->task->copy;
  struct copy copy = {
      .to = task->to, .from = task->from, .box = task->box, .stream = stream, .async = 1};
  if (!node->enabled) return CUDA_SUCCESS;
  const CUresult result = stream_await_room(session_here(), stream);
  return result ? result : copy_make(&copy);
}

// Launches a part. The thread is in the part's session.
static CUresult launch_part(struct launch *launch, size_t index) {
  struct graph_parts *parts = launch->exec->parts;
  struct graph_part *part = &parts->at[index];
  const _Bool away = part->session != launch->here,
              first = !launch->launched[part->session->number];
  uint64_t stream = launch->stream;
  CUresult result = CUDA_SUCCESS;
  if (away) {
    result = stream_there(&parts->streams[part->session->number]);
    stream = parts->streams[part->session->number];
  }
  if (!result) result = stream_await_operations(session_here(), stream, WAITS_MOST);
  // Behind what comes before in the stream that the graph is launched into.
  if (!result && away && first && !part->after[launch->here->number])
    result = device_wait(stream, launch->here, parts->events[launch->here->number]);
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX && !result; session++)
    result = wait_for_part(launch, stream, part->after[session->number], session);
  if (!result)
    result = part->copy ? copy_between(part->copy, stream) : exec_launch_here(part->exec, stream);
  if (!result) result = stream_await_room(session_here(), stream);
  if (!result && (part->needed || (away && part->last)))
    result = record(session_here(), &part->event, stream);
  launch->launched[part->session->number] = index + 1;
  return result;
}

// Makes one part of an executable graph that is one session's, and is launched into a stream of
// another.
static CUresult be_one_part(struct graph_exec *exec) {
  if (exec->parts) return CUDA_SUCCESS;
  struct graph_parts *parts = calloc(1, sizeof *parts);
  struct graph_part *part = calloc(1, sizeof *part);
  if (!parts || !part) {
    free(parts);
    free(part);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  part->session = exec->session;
  part->exec = exec;
  part->last = 1;
  parts->at = part;
  parts->count = 1;
  exec->parts = parts;
  return CUDA_SUCCESS;
}

CUresult parts_launch(struct graph_exec *exec, uint64_t stream) {
  CUresult result = be_one_part(exec);
  if (result) return result;
  struct graph_parts *parts = exec->parts;
  struct launch launch = {.exec = exec, .here = session_here(), .stream = stream};
  if ((result = stream_await_operations(launch.here, stream, WAITS_MOST))) return result;
  // One launch begins when all of the one before is done.
  const uint64_t before_it = parts->launched ? parts->events[parts->session->number] : 0;
  if (handle_is_live(WIRE_KIND_EVENT, before_it) &&
      (parts->session != launch.here || parts->stream != stream))
    result = wait_for(stream, parts->session, before_it);
  if (!result) result = record(launch.here, &parts->events[launch.here->number], stream);
  for (size_t i = 0; i < parts->count && !result; i++) {
    struct thread_session before = session_switch(parts->at[i].session);
    result = launch_part(&launch, i);
    session_back(before);
  }
  if (!result) result = stream_await_operations(launch.here, stream, WAITS_MOST);
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX && !result; session++)
    if (session != launch.here)
      result = wait_for_part(&launch, stream, launch.launched[session->number], session);
  if (!result) result = record(launch.here, &parts->events[launch.here->number], stream);
  parts->launched = 1;
  parts->session = launch.here;
  parts->stream = stream;
  if (exec->split) exec->launches++;
  return result;
}

// ---- the end -----------------------------------------------------------------------------------

static void end_event(uint64_t event, struct session *session) {
  struct thread_session before = session_switch(session);
  if (event) guest_cuEventDestroy_v2((CUevent)(uintptr_t)event);
  session_back(before);
}

static void end_all(struct graph_exec *exec, void (*end)(struct graph_exec *part)) {
  struct graph_parts *parts = exec->parts;
  if (!parts) return;
  for (size_t i = 0; i < parts->count; i++) {
    struct graph_part *part = &parts->at[i];
    if (part->plan) graph_unref(part->plan);
    if (part->exec && part->exec != exec) end(part->exec);
    end_event(part->event, part->session);
  }
  for (struct session *session = sessions; session < sessions + SESSIONS_MAX; session++) {
    end_event(parts->events[session->number], session);
    struct thread_session before = session_switch(session);
    if (parts->streams[session->number]) stream_end(parts->streams[session->number]);
    session_back(before);
  }
  free(parts->at);
  free(parts);
  exec->parts = NULL;
}

static void retire(struct graph_exec *part) { exec_retire(part); }

void parts_retire(struct graph_exec *exec) { end_all(exec, retire); }
void parts_end(struct graph_exec *exec) { end_all(exec, exec_give_up); }
