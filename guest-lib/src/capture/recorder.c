#include "capture/recorder.h"

#include "capture/internal.h"
#include "graph/allocation.h"
#include "streams/recorder.h"

static const struct recorder captures = {
    .check_unsafe = capture_check_unsafe,
    .check_wait = capture_check_wait,
    .check_context_wait = capture_check_context_wait,
    .check_legacy_wait = capture_check_legacy_wait,
    .check_event = capture_check_event,
    .check_work = capture_check_work,
    .look = capture_look,
    .launch = capture_launch,
    .copy = capture_copy,
    .fill = capture_fill,
    .host = capture_host,
    .values = capture_values,
    .allocate = capture_allocate,
    .free = capture_free,
    .event_record = capture_event_record,
    .event_wait = capture_event_wait,
    .stream_ends = capture_stream_ends,
    .event_ends = capture_event_ends,
    .free_left = graph_memory_free,
};

void capture_start(void) { recorder = &captures; }
