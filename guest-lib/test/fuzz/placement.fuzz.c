// Where what the server sends goes: questions of any shape (rows, slices, deferred or not), then
// any bytes as their answers. Nothing may be written but what was asked for, and everybody who
// waits must be let go. Input: how many questions, eight bytes for each, then the stream.
//
// The target has answer.c in it, for the questions to be begun anew in each run.
#include <sys/socket.h>
#include <unistd.h>

#include "../../src/wire/answer.c"
#include "driver/hooks.h"
#include "streams/listen.h"

enum { QUESTIONS = 6, SHAPE = 8, BODY = 4096 };

static uint8_t *memory_of(const uint8_t *shape, struct answer *answer) {
  const uint64_t width = 1 + shape[0] % 100, height = 1 + shape[1] % 8, depth = 1 + shape[2] % 4;
  const uint64_t pitch = width + shape[3] % 32, slice = pitch * height + shape[4] % 64;
  // Exactly as much as there is: what lies behind is guarded by the sanitizer.
  uint8_t *memory = malloc((depth - 1) * slice + (height - 1) * pitch + width);
  answer_into_rows(answer, memory, width, height, depth, pitch, slice);
  return memory;
}

static void begin_anew(struct inbox *inbox) {
  decode_init(&inbox->decoder, &sink, sessions);
  inbox->next_request = 0;
  atomic_store(&guest_obstacles, 0);
  streams_listen();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!sessions_make(1)) abort();
  struct inbox *inbox = sessions->inbox;
  struct answer asked[QUESTIONS];
  uint8_t *memory[QUESTIONS];
  if (!size) return 0;
  const unsigned count = data[0] % (QUESTIONS + 1);
  if (size < 1 + count * SHAPE) return 0;
  begin_anew(inbox);
  struct answer *of[QUESTIONS];
  for (unsigned i = 0; i < count; i++) {
    const uint8_t *shape = data + 1 + i * SHAPE;
    const _Bool unasked = shape[5] & 4, deferred = !unasked && (shape[5] & 1);
    of[i] = deferred ? answer_take_deferred(sessions) : &asked[i];
    answer_init(of[i]);
    of[i]->deferred = deferred;
    memory[i] = shape[5] & 2 ? NULL : memory_of(shape, of[i]);
    if (unasked)
      answer_expect_unasked(sessions, of[i], WIRE_EXPECTED + i);
    else
      answer_expect(sessions, of[i]);
  }
  data += 1 + count * SHAPE;
  size -= 1 + count * SHAPE;

  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) abort();
  sessions->socket = 1 + pair[0];
  while (size && !guest_is_lost()) {
    const ssize_t sent = send(pair[1], data, size < BODY ? size : BODY, MSG_NOSIGNAL);
    if (sent <= 0) break;
    data += sent;
    size -= (size_t)sent;
    for (int waiting = 1; waiting && !guest_is_lost();) {
      if (!answer_poll(sessions)) abort();
      waiting = recv(pair[0], &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    }
  }
  shutdown(pair[1], SHUT_WR);
  // Until the end of the stream is seen, also when the server has said that it ends the session.
  while (!guest_is_lost() || inbox->first) answer_poll(sessions);
  if (inbox->first || inbox->outstanding || answers_expected(sessions)) abort();
  for (unsigned i = 0; i < count; i++) {
    if (of[i] == &asked[i]) {
      if (!asked[i].done) abort();
      answer_free(&asked[i]);
    }
    free(memory[i]);
  }
  close(pair[1]);
  close(pair[0]);
  sessions->socket = 0;
  return 0;
}
