// The decoder of what the server sends: every kind of frame, cut at every byte, and nonsense.
#include "wire/decode.h"

#include <string.h>
#include <sys/mman.h>

#include "check.h"

static struct decode decoder;

// What the sink was told, as text.
static char told[8192];
static uint8_t destination[4096];

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t used = strlen(told);
  vsnprintf(told + used, sizeof told - used, format, arguments);
  va_end(arguments);
}

// Downloads 7 and 8 are waited for, 4096 bytes each into the same place.
static void *place(struct session *session, uint64_t request, uint64_t offset, uint64_t length,
                   uint64_t *run) {
  (void)session;

  if (request != 7 && request != 8) return NULL;
  if (offset > sizeof destination || length > sizeof destination - offset) return NULL;
  tell("data %d %d+%d\n", (int)request, (int)offset, (int)length);
  *run = length;
  return destination + offset;
}
static _Bool reply(struct session *session, const struct wire_reply *r) {
  (void)session;

  assert_int_equal((uintptr_t)r % 8, 0);
  if (r->request == 99) return 0;
  unsigned sum = 0;
  for (uint32_t i = sizeof *r; i < r->header.size; i++) sum += ((const uint8_t *)r)[i];
  tell("reply %d %d %d size %u sum %u\n", (int)r->request, r->result, r->async, r->header.size,
       sum);
  return 1;
}
// Nobody has asked for one here.
static _Bool placed(struct session *session, const struct wire_placed *p) {
  (void)session, (void)p;
  return 0;
}
static void idle(struct session *session) {
  (void)session;
  tell("idle\n");
}
static void output(struct session *session, uint16_t op, const char *text, uint64_t length) {
  (void)session;

  tell("%s %.*s\n", op == WIRE_ERRORS ? "errors" : "output", (int)length, text);
}
static void finished(struct session *session, const struct wire_done *d) {
  (void)session;

  assert_int_equal((uintptr_t)d % 8, 0);
  tell("done %llx %d\n", (unsigned long long)d->handle, (int)d->request);
}
static void passed(struct session *session, const struct wire_passed *p) {
  (void)session;

  assert_int_equal((uintptr_t)p % 8, 0);
  tell("passed %llx %d\n", (unsigned long long)p->stream, (int)p->place);
}
static void fault(struct session *session, const struct wire_fault *f) {
  (void)session;

  tell("fault %d op %d at %d\n", f->result, f->op, (int)f->posted_number);
}
static _Bool call(struct session *session, const struct wire_call *c) {
  (void)session;

  assert_int_equal((uintptr_t)c % 8, 0);
  if (c->function == 99) return 0;
  tell("call %d %d status %d\n", (int)c->function, (int)c->call, c->status);
  return 1;
}
static void end(struct session *session, int32_t result, const char *sentence, uint32_t length) {
  (void)session;

  tell("end %d %.*s\n", result, (int)length, sentence);
}
static void unwritable(struct session *session, uint64_t request) {
  (void)session;
  tell("unwritable %d\n", (int)request);
}
static const struct decode_sink sink = {
    .place = place,
    .unwritable = unwritable,
    .placed = placed,
    .reply = reply,
    .idle = idle,
    .output = output,
    .finished = finished,
    .passed = passed,
    .fault = fault,
    .call = call,
    .end = end,
};

// Rows of `row` bytes, a byte between them.
static uint64_t row;
static void *place_in_rows(struct session *session, uint64_t request, uint64_t offset,
                           uint64_t length, uint64_t *run) {
  (void)session;

  if (request != 7 || offset + length > sizeof destination) return NULL;
  *run = length < row - offset % row ? length : row - offset % row;
  return destination + offset / row * (row + 1) + offset % row;
}

// ---- a stream with every kind of frame ---------------------------------------------------------

static uint8_t stream[16384] __attribute__((aligned(8)));
static size_t length;
static size_t frame_ends[512];
static int frame_count;

static void add(const void *bytes, size_t size) {
  assert_true(length + size <= sizeof stream);
  memcpy(stream + length, bytes, size);
  length += size;
}
static void pad(void) {
  while (length % 8) stream[length++] = 0;
  frame_ends[frame_count++] = length;
}
static struct wire_header head(uint16_t op, size_t size) {
  return (struct wire_header){op, 0, wire_round_up((uint32_t)size)};
}

static void add_idle(void) {
  struct wire_header h = head(WIRE_IDLE, sizeof h);
  add(&h, sizeof h);
  pad();
}
static void add_reply(uint64_t request, int32_t result, int32_t async, size_t results) {
  uint8_t bytes[512];
  struct wire_reply r = {head(WIRE_REPLY, sizeof r + results), request, result, async};
  memset(bytes, 3, sizeof bytes);
  add(&r, sizeof r);
  add(bytes, results);
  pad();
}
static void add_data(uint64_t request, uint64_t offset, uint64_t size) {
  struct wire_data d = {head(WIRE_DATA, sizeof d + size), request, offset, size};
  add(&d, sizeof d);
  for (uint64_t i = 0; i < size; i++) stream[length++] = (uint8_t)(request * 31 + offset + i);
  pad();
}
static void add_output(uint16_t op, const char *text) {
  struct wire_output o = {head(op, sizeof o + strlen(text)), strlen(text)};
  add(&o, sizeof o);
  add(text, strlen(text));
  pad();
}
static void add_done(uint64_t handle, uint64_t request) {
  struct wire_done d = {head(WIRE_DONE, sizeof d), handle, request};
  add(&d, sizeof d);
  pad();
}
static void add_passed(uint64_t handle, uint64_t place) {
  struct wire_passed p = {head(WIRE_PASSED, sizeof p), handle, place};
  add(&p, sizeof p);
  pad();
}
static void add_call(void) {
  struct wire_call c = {head(WIRE_CALL, sizeof c), 12, 34, 710, 0};
  add(&c, sizeof c);
  pad();
}
static void add_fault(void) {
  struct wire_fault f = {head(WIRE_FAULT, sizeof f), 700, 1020, 0, 5};
  add(&f, sizeof f);
  pad();
}
static void add_end(const char *text) {
  struct wire_end e = {head(WIRE_END, sizeof e + strlen(text)), 46, (uint32_t)strlen(text)};
  add(&e, sizeof e);
  add(text, strlen(text));
  pad();
}

static int fill(void **state) {
  (void)state;
  length = 0;
  frame_count = 0;
  add_idle();
  add_reply(1, 0, 0, 0);
  add_reply(2, 700, 1, 40);
  add_data(7, 0, 1);
  add_data(7, 1, 13);
  add_data(8, 100, 800);
  add_output(WIRE_OUTPUT, "printed");
  add_call();
  add_output(WIRE_ERRORS, "wrong");
  add_idle();
  add_data(7, 14, 8);
  add_done(0x2000001000001, 6);
  add_passed(0x2000001000001, 192);
  add_fault();
  add_output(WIRE_OUTPUT, "");
  add_reply(7, 0, 0, 8);
  add_data(8, 900, 9);
  add_end("over");
  return 0;
}

static const char *const expected =
    "idle\n"
    "reply 1 0 0 size 24 sum 0\n"
    "reply 2 700 1 size 64 sum 120\n"
    "data 7 0+1\n"
    "data 7 1+13\n"
    "data 8 100+800\n"
    "output printed\n"
    "call 12 34 status 710\n"
    "errors wrong\n"
    "idle\n"
    "data 7 14+8\n"
    "done 2000001000001 6\n"
    "passed 2000001000001 192\n"
    "fault 700 op 1020 at 5\n"
    "output \n"
    "reply 7 0 0 size 32 sum 24\n"
    "data 8 900+9\n"
    "end 46 over\n";

static void begin(void) {
  decode_init(&decoder, &sink, NULL);
  told[0] = 0;
  memset(destination, 0, sizeof destination);
}

// Hands over `size` bytes as recv would: no more at once than are welcome.
static void give(const uint8_t *bytes, size_t size) {
  while (size) {
    size_t room;
    void *to = decode_want(&decoder, &room);
    if (!room) return;
    size_t part = size < room ? size : room;
    memcpy(to, bytes, part);
    decode_got(&decoder, part);
    bytes += part;
    size -= part;
  }
}

static void check_all(void) {
  assert_null(decoder.failure);
  assert_string_equal(told, expected);
  for (int i = 0; i < 22; i++) assert_int_equal(destination[i], (uint8_t)(7 * 31 + i));
  for (int i = 100; i < 909; i++) assert_int_equal(destination[i], (uint8_t)(8 * 31 + i));
  assert_int_equal(destination[22], 0);
  assert_int_equal(destination[99], 0);
  assert_int_equal(destination[909], 0);
}

static void in_one_piece(void **state) {
  (void)state;
  begin();
  give(stream, length);
  check_all();
  // Replies (24, 64, 32), downloads with their heads and output.
  assert_int_equal(decoder.counted,
                   24 + 64 + 32 + 5 * 32 + (8 + 16 + 800 + 8 + 16) + 2 * (16 + 8) + 16);
}

static void cut_at_every_byte(void **state) {
  (void)state;
  for (size_t cut = 0; cut <= length; cut++) {
    begin();
    give(stream, cut);
    give(stream + cut, length - cut);
    check_all();
  }
}

static void byte_by_byte(void **state) {
  (void)state;
  begin();
  for (size_t i = 0; i < length; i++) give(stream + i, 1);
  check_all();
}

static void in_pieces_of_any_size(void **state) {
  (void)state;
  for (size_t piece = 2; piece < 200; piece++) {
    begin();
    for (size_t at = 0; at < length; at += piece)
      give(stream + at, length - at < piece ? length - at : piece);
    check_all();
  }
}

// What is left of a payload is received where it belongs, not in the decoder's buffer.
static void payload_goes_straight_to_its_place(void **state) {
  (void)state;
  length = 0;
  add_data(8, 100, 800);
  begin();
  give(stream, sizeof(struct wire_data));
  size_t room;
  assert_ptr_equal(decode_want(&decoder, &room), destination + 100);
  assert_int_equal(room, 800);
  give(stream + sizeof(struct wire_data), 300);
  assert_ptr_equal(decode_want(&decoder, &room), destination + 400);
  assert_int_equal(room, 500);
}

// Short rows arrive together, long ones where they go; in pieces of any size, frames behind them.
static void payload_goes_to_rows_that_lie_apart(void **state) {
  (void)state;
  static const struct decode_sink in_rows = {
      .place = place_in_rows,
      .placed = placed,
      .reply = reply,
      .idle = idle,
      .output = output,
      .finished = finished,
      .passed = passed,
      .fault = fault,
      .end = end,
      .call = call,
  };
  const uint64_t rows[] = {1, 3, 100, 255};
  for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++)
    for (size_t piece = 1; piece < 2000; piece = piece * 3 + 1) {
      row = rows[r];
      length = 0;
      add_data(7, 0, 800);
      add_data(7, 800, 77);
      add_reply(7, 0, 0, 8);
      decode_init(&decoder, &in_rows, NULL);
      told[0] = 0;
      memset(destination, 0xee, sizeof destination);
      for (size_t at = 0; at < length; at += piece)
        give(stream + at, length - at < piece ? length - at : piece);
      assert_null(decoder.failure);
      const uint8_t *first = stream + sizeof(struct wire_data);
      const uint8_t *second = first + 800 + sizeof(struct wire_data);
      for (uint64_t i = 0; i < 877; i++)
        assert_int_equal(destination[i / row * (row + 1) + i % row],
                         i < 800 ? first[i] : second[i - 800]);
      for (uint64_t i = 0; i < 877 / row; i++)
        assert_int_equal(destination[i * (row + 1) + row], 0xee);
      assert_non_null(strstr(told, "reply 7"));
    }
}

// Memory of the program's: `pages` of them that can be written, and one that can only be read.
static uint8_t *half_writable(size_t pages) {
  uint8_t *memory =
      mmap(NULL, (pages + 1) * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(memory, MAP_FAILED);
  assert_int_equal(mprotect(memory + pages * 4096, 4096, PROT_READ), 0);
  return memory;
}

static uint8_t *program;
static void *place_in_program(struct session *session, uint64_t request, uint64_t offset,
                              uint64_t length, uint64_t *run) {
  (void)session, (void)request;
  *run = length;
  return program + offset;
}

static void begin_in_program(uint64_t size) {
  static const struct decode_sink in_program = {.place = place_in_program,
                                                .unwritable = unwritable};
  decode_init(&decoder, &in_program, NULL);
  told[0] = 0;
  const struct wire_data d = {head(WIRE_DATA, sizeof d + size), 7, 0, size};
  give((const uint8_t *)&d, sizeof d);
}

// What lies in front of memory that cannot be written comes as it does from a socket, however much
// was asked about; and what can be written is asked about before it is touched.
static void payload_is_put_where_it_can_be(void **state) {
  (void)state;
  static uint8_t bytes[10 * 4096];
  memset(bytes, 7, sizeof bytes);
  for (size_t soon = 0; soon < 20 * 4096; soon += 3000) {
    program = half_writable(8);
    begin_in_program(9 * 4096);
    for (size_t at = 0; at < 8 * 4096; at += 4096) {
      assert_true(decode_put(&decoder, bytes, 4096, soon));
      decode_got(&decoder, 4096);
    }
    assert_memory_equal(program, bytes, 8 * 4096);
    assert_false(decode_put(&decoder, bytes, 4096, soon));
    decode_unwritable(&decoder);
    assert_string_equal(told, "unwritable 7\n");
    // The rest goes nowhere.
    assert_true(decode_put(&decoder, bytes, 4096, soon));
    decode_got(&decoder, 4096);
    assert_null(decoder.failure);
    assert_int_equal(program[8 * 4096], 0);
    assert_int_equal(munmap(program, 9 * 4096), 0);
  }
}

// What the kernel has said holds for one payload.
static void each_payload_is_asked_about(void **state) {
  (void)state;
  static uint8_t bytes[4 * 4096];
  memset(bytes, 7, sizeof bytes);
  program = half_writable(4);
  begin_in_program(4 * 4096);
  assert_true(decode_put(&decoder, bytes, sizeof bytes, 1 << 20));
  decode_got(&decoder, sizeof bytes);
  assert_memory_equal(program, bytes, sizeof bytes);
  const struct wire_data d = {head(WIRE_DATA, sizeof d + 4 * 4096), 7, 0, 4 * 4096};
  give((const uint8_t *)&d, sizeof d);
  assert_int_equal(mprotect(program, 4 * 4096, PROT_READ), 0);
  assert_false(decode_put(&decoder, bytes, sizeof bytes, 1 << 20));
  assert_int_equal(munmap(program, 5 * 4096), 0);
}

static void the_largest_reply(void **state) {
  (void)state;
  static uint8_t frame[WIRE_FRAME_MAX] __attribute__((aligned(8)));
  struct wire_reply r = {{WIRE_REPLY, 0, WIRE_FRAME_MAX}, 1, 0, 0};
  memcpy(frame, &r, sizeof r);
  for (size_t lead = 0; lead < 4; lead++) {  // behind others, so that it wraps in the buffer
    begin();
    length = 0;
    for (size_t i = 0; i < lead; i++) add_reply(2, 0, 0, 400);
    give(stream, length);
    give(frame, sizeof frame);
    assert_null(decoder.failure);
    assert_non_null(strstr(told, "size 65536"));
  }
}

// ---- nonsense ----------------------------------------------------------------------------------

struct nonsense {
  const char *what, *says;
  uint16_t op, flags;
  uint32_t size;
  uint64_t words[3];
};

static const struct nonsense nonsense[] = {
    {"an unknown kind", "unknown kind", 0x8fff, 0, 8, {0}},
    {"a guest's command", "unknown kind", 1020, 0, 8, {0}},
    {"kind 0", "unknown kind", 0, 0, 8, {0}},
    {"size 0", "impossible size", WIRE_IDLE, 0, 0, {0}},
    {"a size below a header's", "impossible size", WIRE_IDLE, 0, 4, {0}},
    {"an unaligned size", "impossible size", WIRE_REPLY, 0, 25, {0}},
    {"flags", "unknown flags", WIRE_IDLE, 1, 8, {0}},
    {"too large", "too large", WIRE_REPLY, 0, WIRE_FRAME_MAX + 8, {0}},
    {"the largest size", "too large", WIRE_OUTPUT, 0, 0xfffffff8, {0}},
    {"a short reply", "reply", WIRE_REPLY, 0, 16, {1}},
    {"an answer to nothing", "reply to nothing", WIRE_REPLY, 0, 24, {99}},
    {"a short output", "output", WIRE_OUTPUT, 0, 8, {0}},
    {"output longer than its frame", "output", WIRE_OUTPUT, 0, 24, {9}},
    {"output of the largest length", "output", WIRE_OUTPUT, 0, 24, {UINT64_MAX}},
    {"a short completion", "completion", WIRE_DONE, 0, 16, {0}},
    {"a short passed mark", "passed mark", WIRE_PASSED, 0, 16, {0}},
    {"a short call", "call", WIRE_CALL, 0, 24, {1}},
    {"a call of nothing", "never posted", WIRE_CALL, 0, 32, {99}},
    {"short errors", "output", WIRE_ERRORS, 0, 8, {0}},
    {"a short fault", "fault", WIRE_FAULT, 0, 16, {0}},
    {"a short end", "end", WIRE_END, 0, 8, {0}},
    {"an end longer than its frame", "end", WIRE_END, 0, 24, {(uint64_t)9 << 32}},
    {"a short download part", "too short", WIRE_DATA, 0, 24, {7, 0}},
    {"a download part of nothing", "disagree", WIRE_DATA, 0, 32, {7, 0, 0}},
    {"a download part longer than its frame", "disagree", WIRE_DATA, 0, 40, {7, 0, 9}},
    {"a download part with too much padding", "disagree", WIRE_DATA, 0, 48, {7, 0, 8}},
    {"a download part above the limit",
     "disagree",
     WIRE_DATA,
     0,
     32 + WIRE_BULK_MAX + 8,
     {7, 0, WIRE_BULK_MAX + 1}},
    {"a download part of the largest length", "disagree", WIRE_DATA, 0, 32, {7, 0, UINT64_MAX}},
    {"a download that nobody asked for", "nobody asked", WIRE_DATA, 0, 40, {5, 0, 8}},
    {"a download past its end", "nobody asked", WIRE_DATA, 0, 40, {7, 4089, 8}},
    {"a download past all ends", "nobody asked", WIRE_DATA, 0, 40, {7, UINT64_MAX, 8}},
};

static void nonsense_is_refused(void **state) {
  (void)state;
  for (unsigned i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
    const struct nonsense *n = &nonsense[i];
    struct {
      struct wire_header header;
      uint64_t words[3];
      uint8_t rest[64];
    } frame = {.header = {n->op, n->flags, n->size}};
    memcpy(frame.words, n->words, sizeof frame.words);
    for (size_t first = 1; first <= sizeof frame; first += 7) {
      begin();
      give((uint8_t *)&frame, first);
      give((uint8_t *)&frame + first, sizeof frame - first);
      if (!decoder.failure || !strstr(decoder.failure, n->says))
        fail_msg("%s: %s", n->what, decoder.failure ? decoder.failure : "accepted");
      if (strlen(told)) fail_msg("%s: the sink was told %s", n->what, told);
    }
  }
}

static void a_failure_is_for_good(void **state) {
  (void)state;
  begin();
  uint64_t zeros[2] = {0};
  give((uint8_t *)zeros, sizeof zeros);
  assert_non_null(decoder.failure);
  size_t room;
  decode_want(&decoder, &room);
  assert_int_equal(room, 0);
}

// What came before the nonsense counts; what comes after does not.
static void frames_before_nonsense_count(void **state) {
  (void)state;
  length = 0;
  add_idle();
  add_reply(1, 0, 0, 0);
  memset(stream + length, 0xff, 16);
  length += 16;
  add_idle();
  begin();
  give(stream, length);
  assert_non_null(decoder.failure);
  assert_string_equal(told, "idle\nreply 1 0 0 size 24 sum 0\n");
}

// Random bytes, and the sound stream with random bytes changed: any outcome but a bad access.
static void random_damage(void **state) {
  (void)state;
  uint64_t seed = 1;
  static uint8_t damaged[sizeof stream];
  for (int round = 0; round < 3000; round++) {
    memcpy(damaged, stream, length);
    for (int change = 0; change < round % 8 + 1; change++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      damaged[(seed >> 33) % length] = (uint8_t)(seed >> 24);
    }
    begin();
    for (size_t at = 0; at < length; at += 61)
      give(damaged + at, length - at < 61 ? length - at : 61);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(in_one_piece, fill),
      cmocka_unit_test_setup(cut_at_every_byte, fill),
      cmocka_unit_test_setup(byte_by_byte, fill),
      cmocka_unit_test_setup(in_pieces_of_any_size, fill),
      cmocka_unit_test_setup(payload_goes_straight_to_its_place, fill),
      cmocka_unit_test_setup(payload_goes_to_rows_that_lie_apart, fill),
      cmocka_unit_test(payload_is_put_where_it_can_be),
      cmocka_unit_test(each_payload_is_asked_about),
      cmocka_unit_test_setup(the_largest_reply, fill),
      cmocka_unit_test_setup(nonsense_is_refused, fill),
      cmocka_unit_test_setup(a_failure_is_for_good, fill),
      cmocka_unit_test_setup(frames_before_nonsense_count, fill),
      cmocka_unit_test_setup(random_damage, fill),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
