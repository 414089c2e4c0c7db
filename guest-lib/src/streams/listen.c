#include "streams/listen.h"

#include "streams/internal.h"
#include "wire/answer.h"

static const struct answer_listener streams = {
    .event_finished = event_finished,
    .called = host_function_called,
    .reader_left = host_function_reader_left,
};

void streams_listen(void) { answer_listen(&streams); }
