// Both sides of TLS in memory: handshakes, who is believed, records, and connections that go on
// elsewhere.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
// cmocka's header needs those before it.
#include <cmocka.h>

#include "pair.h"

static const struct outboard_tls_bytes kNone = {NULL, 0};

static struct outboard_tls_server *serve(bool asks) {
  const struct outboard_tls_files files = {
      .certificate = PEM(server),
      .key = PEM(server_key),
      .authorities = asks ? (struct outboard_tls_bytes)PEM(authority) : kNone,
  };
  struct outboard_tls_server *made = NULL;
  assert_int_equal(outboard_tls_serve(&files, &made), 0);
  return made;
}

static struct pair *meet_as(const struct outboard_tls_server *server,
                            struct outboard_tls_bytes certificate, struct outboard_tls_bytes key,
                            uint64_t now) {
  const struct outboard_tls_client client = {
      .host = PEM("gpu1"),
      .authorities = PEM(authority),
      .certificate = certificate,
      .key = key,
      .now = NOW,
  };
  struct pair *pair = calloc(1, sizeof *pair);
  assert_non_null(pair);
  assert_int_equal(outboard_tls_begin(&client, &pair->client.tls), 0);
  assert_int_equal(outboard_tls_accept(server, now, &pair->server.tls), 0);
  pair_shake(pair);
  return pair;
}

static struct pair *meet(void) {
  struct outboard_tls_server *server = serve(false);
  struct pair *pair = meet_as(server, kNone, kNone, NOW);
  // A connection does not need it any more.
  outboard_tls_server_end(server);
  assert_true(pair->client.done && pair->server.done);
  assert_int_equal(pair->client.failure | pair->server.failure, 0);
  return pair;
}

// ---- records -----------------------------------------------------------------------------------

static size_t seal(struct outboard_tls *tls, uint8_t *record, uint8_t with, size_t size) {
  memset(record + OUTBOARD_TLS_HEADER, with, size);
  const size_t sealed = outboard_tls_seal(tls, record, size);
  assert_int_equal(sealed, size + OUTBOARD_TLS_OVERHEAD);
  return sealed;
}

static void opens(struct outboard_tls *tls, uint8_t *record, size_t sealed, uint8_t with,
                  size_t size) {
  struct outboard_tls_content content;
  assert_int_equal(outboard_tls_open(tls, record, sealed, &content), 0);
  assert_int_equal(content.used, sealed);
  assert_int_equal(content.size, size);
  for (size_t i = 0; i < size; i++) assert_int_equal(content.at[i], with);
}

static uint8_t record[OUTBOARD_TLS_RECORD];

static void sends(struct outboard_tls *from, struct outboard_tls *to, uint8_t with, size_t size) {
  opens(to, record, seal(from, record, with, size), with, size);
}

static void data_both_ways(void **state) {
  (void)state;
  struct pair *pair = meet();
  for (unsigned i = 0; i < 300; i++) {
    sends(pair->client.tls, pair->server.tls, (uint8_t)i, 1 + i * 37);
    sends(pair->server.tls, pair->client.tls, (uint8_t)(i + 1), OUTBOARD_TLS_CONTENT - i);
  }
  sends(pair->server.tls, pair->client.tls, 7, 0);
  pair_end(pair);
}

// ---- in three parts

struct apart {
  uint8_t header[OUTBOARD_TLS_HEADER];
  uint8_t content[OUTBOARD_TLS_CONTENT + 300];
  uint8_t trailer[OUTBOARD_TLS_TRAILER];
};

static void seal_apart(struct outboard_tls *tls, struct apart *apart, uint8_t with, size_t size) {
  memset(apart->content, with, size);
  memset(apart->content + size, 0xa5, sizeof apart->content - size);
  assert_true(outboard_tls_seal_apart(tls, apart->header, apart->content, size, apart->trailer));
  for (size_t i = size; i < sizeof apart->content; i++) assert_int_equal(apart->content[i], 0xa5);
}

static int open_apart(struct outboard_tls *tls, struct apart *apart, size_t size,
                      struct outboard_tls_content *content) {
  memset(apart->content + size, 0x5a, sizeof apart->content - size);
  const int failure =
      outboard_tls_open_apart(tls, apart->header, apart->content, size, apart->trailer, content);
  for (size_t i = size; i < sizeof apart->content; i++) assert_int_equal(apart->content[i], 0x5a);
  return failure;
}

static void take_apart(const uint8_t *whole, size_t size, struct apart *apart) {
  memcpy(apart->header, whole, sizeof apart->header);
  memcpy(apart->content, whole + sizeof apart->header, size);
  memcpy(apart->trailer, whole + sizeof apart->header + size, sizeof apart->trailer);
}

// They are the same as in one.
static void records_in_parts_go_both_ways(void **state) {
  (void)state;
  struct pair *pair = meet();
  struct outboard_tls *client = pair->client.tls, *server = pair->server.tls;
  static struct apart apart;
  struct outboard_tls_content content;
  for (size_t size = OUTBOARD_TLS_CONTENT; size; size /= 3) {
    const uint8_t with = (uint8_t)(size % 251 + 1);
    seal_apart(client, &apart, with, size);
    memcpy(record, apart.header, sizeof apart.header);
    memcpy(record + sizeof apart.header, apart.content, size);
    memcpy(record + sizeof apart.header + size, apart.trailer, sizeof apart.trailer);
    opens(server, record, size + OUTBOARD_TLS_OVERHEAD, with, size);

    seal(server, record, with, size);
    take_apart(record, size, &apart);
    assert_int_equal(open_apart(client, &apart, size, &content), 0);
    assert_int_equal(content.used, size + OUTBOARD_TLS_OVERHEAD);
    assert_int_equal(content.size, size);
    assert_ptr_equal(content.at, apart.content);
    for (size_t i = 0; i < size; i++) assert_int_equal(apart.content[i], with);
  }
  assert_false(outboard_tls_seal_apart(client, apart.header, apart.content,
                                       OUTBOARD_TLS_CONTENT + 1, apart.trailer));
  pair_end(pair);
}

// Wherever a bit is another one, nothing of what was said is left to be read.
static void a_damaged_record_in_parts_ends_what_comes(void **state) {
  (void)state;
  static struct apart apart;
  uint8_t *const spoiled[] = {apart.header,      apart.header + 1,    apart.header + 4,
                              apart.content,     apart.content + 999, apart.trailer,
                              apart.trailer + 16};
  for (unsigned i = 0; i < sizeof spoiled / sizeof *spoiled; i++) {
    struct pair *pair = meet();
    struct outboard_tls_content content;
    seal_apart(pair->client.tls, &apart, 'x', 1000);
    *spoiled[i] ^= 1;
    assert_int_equal(open_apart(pair->server.tls, &apart, 1000, &content), OUTBOARD_TLS_DAMAGED);
    assert_int_equal(content.size, 0);
    for (size_t at = 0; at + 4 < 1000; at++) assert_memory_not_equal(apart.content + at, "xxxx", 4);
    // Nor does what would have been good.
    *spoiled[i] ^= 1;
    assert_int_equal(open_apart(pair->server.tls, &apart, 1000, &content), OUTBOARD_TLS_DAMAGED);
    pair_end(pair);
  }
}

static void the_end_comes_in_parts_as_well(void **state) {
  (void)state;
  struct pair *pair = meet();
  static struct apart apart;
  struct outboard_tls_content content;
  const size_t size = OUTBOARD_TLS_LAST - OUTBOARD_TLS_OVERHEAD;
  assert_int_equal(outboard_tls_close(pair->client.tls, record), OUTBOARD_TLS_LAST);
  take_apart(record, size, &apart);
  assert_int_equal(open_apart(pair->server.tls, &apart, size, &content), OUTBOARD_TLS_CLOSED);
  assert_false(
      outboard_tls_seal_apart(pair->client.tls, apart.header, apart.content, 1, apart.trailer));
  pair_end(pair);
}

static void records_right_behind_the_handshake_stay(void **state) {
  (void)state;
  struct outboard_tls_server *server = serve(true);
  const struct outboard_tls_client client = {.host = PEM("gpu1"),
                                             .authorities = PEM(authority),
                                             .certificate = PEM(vision),
                                             .key = PEM(vision_key),
                                             .now = NOW};
  struct pair *pair = calloc(1, sizeof *pair);
  assert_int_equal(outboard_tls_begin(&client, &pair->client.tls), 0);
  assert_int_equal(outboard_tls_accept(server, NOW, &pair->server.tls), 0);
  pair_step(&pair->client, &pair->server);
  pair_step(&pair->server, &pair->client);
  pair_step(&pair->client, &pair->server);
  assert_true(pair->client.done);
  uint8_t *end = pair->server.in + pair->server.have;
  const size_t first = seal(pair->client.tls, end, 1, 100);
  const size_t second = seal(pair->client.tls, end + first, 2, 200);
  pair->server.have += first + second;
  pair_step(&pair->server, &pair->client);
  assert_true(pair->server.done);
  assert_int_equal(pair->server.have, first + second);
  opens(pair->server.tls, pair->server.in, first, 1, 100);
  opens(pair->server.tls, pair->server.in + first, second, 2, 200);
  pair_end(pair);
  outboard_tls_server_end(server);
}

static void a_handshake_comes_byte_by_byte(void **state) {
  (void)state;
  struct pair *pair = meet();
  pair_end(pair);
  struct outboard_tls_server *server = serve(true);
  const struct outboard_tls_client client = {.host = PEM("gpu1"),
                                             .authorities = PEM(authority),
                                             .certificate = PEM(vision),
                                             .key = PEM(vision_key),
                                             .now = NOW};
  pair = calloc(1, sizeof *pair);
  assert_int_equal(outboard_tls_begin(&client, &pair->client.tls), 0);
  assert_int_equal(outboard_tls_accept(server, NOW, &pair->server.tls), 0);
  static struct side flight;
  while (!pair->client.done || !pair->server.done) {
    struct side *const sides[] = {&pair->client, &pair->server};
    for (unsigned turn = 0; turn < 2; turn++) {
      struct side *side = sides[turn], *other = sides[1 - turn];
      if (side->done) continue;
      flight.have = side->have;
      memcpy(flight.in, side->in, side->have);
      side->have = 0;
      if (!flight.have) pair_step(side, other);
      for (size_t i = 0; i < flight.have && !side->done; i++) {
        side->in[side->have++] = flight.in[i];
        pair_step(side, other);
        assert_int_equal(side->failure, 0);
      }
    }
  }
  sends(pair->client.tls, pair->server.tls, 1, 10);
  pair_end(pair);
  outboard_tls_server_end(server);
}

static void a_damaged_record_ends_what_comes(void **state) {
  (void)state;
  struct outboard_tls_content content;
  const struct {
    size_t at;
    uint8_t flip;
  } damage[] = {{0, 1}, {3, 0x40}, {OUTBOARD_TLS_HEADER, 1}, {60, 0x80}, {121, 1}};
  for (unsigned i = 0; i < sizeof damage / sizeof *damage; i++) {
    struct pair *pair = meet();
    const size_t sealed = seal(pair->client.tls, record, 1, 100);
    record[damage[i].at] ^= damage[i].flip;
    int failure = outboard_tls_open(pair->server.tls, record, sealed, &content);
    // A length that is longer than what there is asks for more.
    if (damage[i].at != 3) assert_int_equal(failure, OUTBOARD_TLS_DAMAGED);
    const size_t next = seal(pair->client.tls, record, 1, 100);
    failure = outboard_tls_open(pair->server.tls, record, next, &content);
    assert_int_equal(failure, OUTBOARD_TLS_DAMAGED);
    pair_end(pair);
  }
}

static void records_cut_left_out_and_replayed(void **state) {
  (void)state;
  struct outboard_tls_content content;
  static uint8_t copy[OUTBOARD_TLS_RECORD];
  struct pair *pair = meet();
  const size_t sealed = seal(pair->client.tls, record, 1, 1000);
  memcpy(copy, record, sealed);
  for (size_t size = 0; size < sealed; size++) {
    assert_int_equal(outboard_tls_open(pair->server.tls, record, size, &content), 0);
    assert_int_equal(content.used, 0);
    assert_false(outboard_tls_has_record(record, size));
  }
  opens(pair->server.tls, record, sealed, 1, 1000);
  assert_int_equal(outboard_tls_open(pair->server.tls, copy, sealed, &content),
                   OUTBOARD_TLS_DAMAGED);
  pair_end(pair);

  pair = meet();
  seal(pair->client.tls, record, 1, 1000);
  const size_t second = seal(pair->client.tls, record, 2, 1000);
  assert_int_equal(outboard_tls_open(pair->server.tls, record, second, &content),
                   OUTBOARD_TLS_DAMAGED);
  pair_end(pair);
}

static void a_record_of_too_much_is_refused(void **state) {
  (void)state;
  struct pair *pair = meet();
  static uint8_t large[OUTBOARD_TLS_RECORD + 64];
  assert_int_equal(outboard_tls_seal(pair->client.tls, large, OUTBOARD_TLS_CONTENT + 1), 0);
  struct outboard_tls_content content;
  const uint8_t longer[] = {23, 3, 3, 0x41, 0x01};
  memcpy(large, longer, sizeof longer);
  assert_int_equal(outboard_tls_open(pair->server.tls, large, sizeof large, &content),
                   OUTBOARD_TLS_DAMAGED);
  pair_end(pair);
}

// Whoever opens them works for each, and nobody has reason to send many.
static void many_records_without_content_end_what_comes(void **state) {
  (void)state;
  struct pair *pair = meet();
  for (unsigned round = 0; round < 2; round++) {
    for (unsigned i = 0; i < 32; i++) sends(pair->client.tls, pair->server.tls, 0, 0);
    if (round == 0) sends(pair->client.tls, pair->server.tls, 1, 1);
  }
  struct outboard_tls_content content;
  const size_t sealed = seal(pair->client.tls, record, 0, 0);
  assert_int_equal(outboard_tls_open(pair->server.tls, record, sealed, &content),
                   OUTBOARD_TLS_DAMAGED);
  pair_end(pair);
}

static void no_more_is_sent(void **state) {
  (void)state;
  struct pair *pair = meet();
  assert_int_equal(outboard_tls_close(pair->server.tls, record), OUTBOARD_TLS_LAST);
  struct outboard_tls_content content;
  assert_int_equal(outboard_tls_open(pair->client.tls, record, OUTBOARD_TLS_LAST, &content),
                   OUTBOARD_TLS_CLOSED);
  assert_int_equal(outboard_tls_seal(pair->server.tls, record, 10), 0);
  sends(pair->client.tls, pair->server.tls, 1, 10);
  pair_end(pair);
}

// ---- states ------------------------------------------------------------------------------------

static void numbers(struct outboard_tls *tls, uint64_t *sent, uint64_t *received) {
  uint8_t state[OUTBOARD_TLS_STATE];
  assert_int_equal(outboard_tls_save(tls, state), 0);
  memcpy(sent, state + 8, sizeof *sent);
  memcpy(received, state + 16, sizeof *received);
}

// As it would be elsewhere.
static void go_elsewhere(struct outboard_tls **tls) {
  uint8_t state[OUTBOARD_TLS_STATE];
  assert_int_equal(outboard_tls_save(*tls, state), 0);
  outboard_tls_end(*tls);
  *tls = NULL;
  assert_int_equal(outboard_tls_restore(state, sizeof state, tls), 0);
}

static void both_sides_go_on_elsewhere(void **state) {
  (void)state;
  struct pair *pair = meet();
  for (unsigned round = 0; round < 5; round++) {
    for (unsigned i = 0; i < 3; i++) sends(pair->client.tls, pair->server.tls, 1, 500);
    sends(pair->server.tls, pair->client.tls, 2, 700);
    // One that is under way meanwhile.
    static uint8_t coming[OUTBOARD_TLS_RECORD];
    const size_t sealed = seal(pair->client.tls, coming, 3, 900);
    go_elsewhere(round % 2 ? &pair->client.tls : &pair->server.tls);
    opens(pair->server.tls, coming, sealed, 3, 900);
  }
  uint64_t sent, received;
  numbers(pair->server.tls, &sent, &received);
  assert_int_equal(sent, 5);
  assert_int_equal(received, 20);
  pair_end(pair);
}

// As if that many records had been sent.
static void wind_on(struct outboard_tls **from, struct outboard_tls **to, uint64_t number) {
  uint8_t state[OUTBOARD_TLS_STATE];
  assert_int_equal(outboard_tls_save(*from, state), 0);
  memcpy(state + 8, &number, sizeof number);
  outboard_tls_end(*from);
  assert_int_equal(outboard_tls_restore(state, sizeof state, from), 0);
  assert_int_equal(outboard_tls_save(*to, state), 0);
  memcpy(state + 16, &number, sizeof number);
  outboard_tls_end(*to);
  assert_int_equal(outboard_tls_restore(state, sizeof state, to), 0);
}

static void keys_change(struct outboard_tls **from, struct outboard_tls **to) {
  struct outboard_tls_content content;
  assert_int_equal(outboard_tls_update(*from, record), 0);
  wind_on(from, to, (1 << 23) - 1);
  assert_int_equal(outboard_tls_update(*from, record), 0);
  sends(*from, *to, 1, 100);
  const size_t update = outboard_tls_update(*from, record);
  assert_int_equal(update, OUTBOARD_TLS_UPDATE);
  assert_int_equal(outboard_tls_open(*to, record, update, &content), 0);
  assert_int_equal(content.used, update);
  assert_int_equal(content.size, 0);
  uint64_t sent, received;
  numbers(*from, &sent, &received);
  assert_int_equal(sent, 0);
  sends(*from, *to, 2, 100);
  // What is saved has the new ones.
  go_elsewhere(from);
  sends(*from, *to, 3, 100);
  go_elsewhere(to);
  sends(*from, *to, 4, 100);
  sends(*to, *from, 5, 100);
}

static void keys_change_both_ways(void **state) {
  (void)state;
  struct pair *pair = meet();
  for (unsigned round = 0; round < 3; round++) {
    keys_change(&pair->client.tls, &pair->server.tls);
    keys_change(&pair->server.tls, &pair->client.tls);
  }
  pair_end(pair);
}

static void what_is_no_state_is_refused(void **unused) {
  (void)unused;
  struct pair *pair = meet();
  uint8_t state[OUTBOARD_TLS_STATE];
  struct outboard_tls *made = NULL;
  assert_int_equal(outboard_tls_save(pair->server.tls, state), 0);
  for (size_t size = 0; size < sizeof state; size++)
    assert_int_equal(outboard_tls_restore(state, size, &made), OUTBOARD_TLS_BAD_STATE);
  // Name, layout, suite, what is yes or no.
  const size_t wrong[] = {0, 3, 4, 5, 6, 7};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    state[wrong[i]] ^= 0x80;
    assert_int_equal(outboard_tls_restore(state, sizeof state, &made), OUTBOARD_TLS_BAD_STATE);
    state[wrong[i]] ^= 0x80;
  }
  assert_null(made);
  // One that shakes hands still, and one that sends no more.
  struct outboard_tls_server *server = serve(false);
  assert_int_equal(outboard_tls_accept(server, NOW, &made), 0);
  assert_int_equal(outboard_tls_save(made, state), OUTBOARD_TLS_BAD_STATE);
  outboard_tls_end(made);
  outboard_tls_server_end(server);
  outboard_tls_close(pair->server.tls, record);
  assert_int_equal(outboard_tls_save(pair->server.tls, state), OUTBOARD_TLS_BAD_STATE);
  pair_end(pair);
}

static void the_last_number_is_the_last_record(void **state) {
  (void)state;
  struct pair *pair = meet();
  wind_on(&pair->client.tls, &pair->server.tls, UINT64_MAX - 1);
  sends(pair->client.tls, pair->server.tls, 1, 100);
  assert_int_equal(outboard_tls_seal(pair->client.tls, record, 100), 0);
  pair_end(pair);
}

// ---- who is believed ---------------------------------------------------------------------------

static int judged(struct outboard_tls_bytes certificate, struct outboard_tls_bytes key,
                  uint64_t now, size_t *size) {
  struct outboard_tls_server *server = serve(true);
  struct pair *pair = meet_as(server, certificate, key, now);
  assert_int_equal(pair->server.failure, 0);
  assert_true(pair->client.done && pair->server.done);
  struct outboard_tls_bytes shown;
  const int judgement = outboard_tls_shown(pair->server.tls, &shown);
  *size = shown.size;
  if (shown.size) assert_int_equal(shown.at[0], 0x30);
  // Refused or not, it can be told.
  sends(pair->server.tls, pair->client.tls, 1, 10);
  pair_end(pair);
  outboard_tls_server_end(server);
  return judgement;
}

#define JUDGED(name, now, size)                                                                   \
  judged((struct outboard_tls_bytes)PEM(name), (struct outboard_tls_bytes)PEM(name##_key), (now), \
         (size))

static void clients_are_judged(void **state) {
  (void)state;
  size_t size;
  assert_int_equal(JUDGED(vision, NOW, &size), 0);
  assert_true(size > 100);
  assert_int_equal(JUDGED(brief, NOW, &size), 0);
  assert_int_equal(JUDGED(brief, NOW + 86400, &size), OUTBOARD_TLS_EXPIRED);
  assert_int_equal(JUDGED(brief, NOW - 7200, &size), OUTBOARD_TLS_NOT_YET);
  assert_int_equal(JUDGED(stranger, NOW, &size), OUTBOARD_TLS_UNKNOWN);
  assert_int_equal(JUDGED(old, NOW, &size), OUTBOARD_TLS_VERSION_1);
  assert_true(size > 100);
  assert_int_equal(judged(kNone, kNone, NOW, &size), 0);
  assert_int_equal(size, 0);
}

// The certificate is in the middle of the server's flight.
static void a_server_that_is_not_believed_is_told(void **state) {
  (void)state;
  struct outboard_tls_server *server = serve(false);
  const struct {
    struct outboard_tls_client client;
    int failure;
  } wrong[] = {
      {{.host = PEM("gpu2"), .authorities = PEM(authority), .now = NOW}, OUTBOARD_TLS_WRONG_NAME},
      {{.host = PEM("gpu1"), .authorities = PEM(stranger), .now = NOW}, OUTBOARD_TLS_UNKNOWN},
      {{.host = PEM("gpu1"), .authorities = PEM(authority), .now = 1}, OUTBOARD_TLS_NOT_YET},
  };
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct pair *pair = calloc(1, sizeof *pair);
    assert_int_equal(outboard_tls_begin(&wrong[i].client, &pair->client.tls), 0);
    assert_int_equal(outboard_tls_accept(server, NOW, &pair->server.tls), 0);
    pair_shake(pair);
    assert_int_equal(pair->client.failure, wrong[i].failure);
    while (!pair->server.failure && pair_step(&pair->server, &pair->client)) {
    }
    assert_true(pair->server.failure >= OUTBOARD_TLS_ALERT);
    pair_end(pair);
  }
  outboard_tls_server_end(server);
}

static int believes(struct outboard_tls_bytes authorities, struct outboard_tls_bytes certificate,
                    struct outboard_tls_bytes key) {
  const struct outboard_tls_client client = {
      .host = PEM("gpu1"), .authorities = authorities, .now = NOW};
  const struct outboard_tls_files files = {.certificate = certificate, .key = key};
  struct outboard_tls_server *server = NULL;
  assert_int_equal(outboard_tls_serve(&files, &server), 0);
  struct pair *pair = calloc(1, sizeof *pair);
  assert_non_null(pair);
  assert_int_equal(outboard_tls_begin(&client, &pair->client.tls), 0);
  assert_int_equal(outboard_tls_accept(server, NOW, &pair->server.tls), 0);
  pair_shake(pair);
  const int failure = pair->client.failure;
  pair_end(pair);
  outboard_tls_server_end(server);
  return failure;
}

#define BELIEVES(authorities, name)                                                           \
  believes((struct outboard_tls_bytes)PEM(authorities), (struct outboard_tls_bytes)PEM(name), \
           (struct outboard_tls_bytes)PEM(name##_key))

// A certificate that is named stands for itself: who has its key signs nothing for others.
static void what_a_server_signs_is_not_believed(void **state) {
  (void)state;
  static char both[sizeof server + sizeof authority];
  strcat(strcpy(both, server), authority);
  assert_int_equal(BELIEVES(authority, server), 0);
  assert_int_equal(BELIEVES(server, server), 0);
  assert_int_equal(BELIEVES(both, server), 0);
  assert_int_equal(BELIEVES(forged, forged), 0);
  assert_int_equal(BELIEVES(server, forged), OUTBOARD_TLS_UNKNOWN);
  assert_int_equal(BELIEVES(both, forged), OUTBOARD_TLS_UNKNOWN);
  assert_int_equal(BELIEVES(brief, forged), OUTBOARD_TLS_UNKNOWN);
}

static void what_a_client_signs_is_not_believed(void **state) {
  (void)state;
  static char both[sizeof server + sizeof authority];
  strcat(strcpy(both, authority), server);
  const struct outboard_tls_files files = {
      .certificate = PEM(server), .key = PEM(server_key), .authorities = PEM(both)};
  struct outboard_tls_server *server = NULL;
  assert_int_equal(outboard_tls_serve(&files, &server), 0);
  const struct {
    struct outboard_tls_bytes certificate, key;
    int judgement;
  } clients[] = {
      {PEM(vision), PEM(vision_key), 0},
      {PEM(forged), PEM(forged_key), OUTBOARD_TLS_UNKNOWN},
  };
  for (unsigned i = 0; i < sizeof clients / sizeof *clients; i++) {
    struct pair *pair = meet_as(server, clients[i].certificate, clients[i].key, NOW);
    struct outboard_tls_bytes shown;
    assert_true(pair->server.done);
    assert_int_equal(outboard_tls_shown(pair->server.tls, &shown), clients[i].judgement);
    pair_end(pair);
  }
  outboard_tls_server_end(server);
}

static int judged_by(struct outboard_tls_bytes authorities, struct outboard_tls_bytes certificate,
                     struct outboard_tls_bytes key, uint64_t now) {
  const struct outboard_tls_files files = {
      .certificate = PEM(server), .key = PEM(server_key), .authorities = authorities};
  struct outboard_tls_server *server = NULL;
  assert_int_equal(outboard_tls_serve(&files, &server), 0);
  struct pair *pair = meet_as(server, certificate, key, now);
  assert_true(pair->server.done);
  struct outboard_tls_bytes shown;
  const int judgement = outboard_tls_shown(pair->server.tls, &shown);
  pair_end(pair);
  outboard_tls_server_end(server);
  return judgement;
}

#define JUDGED_BY(authorities, name, now)                                                      \
  judged_by((struct outboard_tls_bytes)PEM(authorities), (struct outboard_tls_bytes)PEM(name), \
            (struct outboard_tls_bytes)PEM(name##_key), (now))

// Without an authority in the file.
static void a_client_that_is_named_stands_for_itself(void **state) {
  (void)state;
  assert_int_equal(JUDGED_BY(brief, brief, NOW), 0);
  assert_int_equal(JUDGED_BY(brief, brief, NOW + 86400), OUTBOARD_TLS_EXPIRED);
  assert_int_equal(JUDGED_BY(brief, brief, NOW - 7200), OUTBOARD_TLS_NOT_YET);
  assert_int_equal(JUDGED_BY(brief, vision, NOW), OUTBOARD_TLS_UNKNOWN);
  assert_int_equal(JUDGED_BY(brief, old, NOW), OUTBOARD_TLS_VERSION_1);
  assert_int_equal(JUDGED_BY(forged, forged, NOW), 0);
  assert_int_equal(JUDGED_BY(server, forged, NOW), OUTBOARD_TLS_UNKNOWN);
  static char both[sizeof vision + sizeof brief];
  strcat(strcpy(both, vision), brief);
  assert_int_equal(JUDGED_BY(both, brief, NOW), 0);
  assert_int_equal(JUDGED_BY(both, stranger, NOW), OUTBOARD_TLS_UNKNOWN);
}

static void nobody_is_asked(void **state) {
  (void)state;
  struct outboard_tls_server *server = serve(false);
  struct pair *pair = meet_as(server, (struct outboard_tls_bytes)PEM(vision),
                              (struct outboard_tls_bytes)PEM(vision_key), NOW);
  struct outboard_tls_bytes shown;
  assert_true(pair->server.done);
  assert_int_equal(outboard_tls_shown(pair->server.tls, &shown), 0);
  assert_int_equal(shown.size, 0);
  pair_end(pair);
  outboard_tls_server_end(server);
}

static void a_server_cannot_be_of_these_files(void **state) {
  (void)state;
  const struct {
    struct outboard_tls_files files;
    int failure;
  } wrong[] = {
      {{PEM("nothing"), PEM(server_key), {NULL, 0}}, OUTBOARD_TLS_BAD_CERTIFICATE},
      {{PEM(server), PEM("nothing"), {NULL, 0}}, OUTBOARD_TLS_BAD_KEY},
      {{PEM(server), PEM(vision_key), {NULL, 0}}, OUTBOARD_TLS_BAD_PAIR},
      {{PEM(server), PEM(server_key), PEM("nothing")}, OUTBOARD_TLS_NO_AUTHORITY},
  };
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct outboard_tls_server *made = NULL;
    assert_int_equal(outboard_tls_serve(&wrong[i].files, &made), wrong[i].failure);
    assert_null(made);
  }
}

// ---- what is no TLS 1.3 ------------------------------------------------------------------------

static int greeted(const uint8_t *hello, size_t size, size_t *made) {
  struct outboard_tls_server *server = serve(false);
  struct outboard_tls *tls = NULL;
  assert_int_equal(outboard_tls_accept(server, NOW, &tls), 0);
  static uint8_t in[4096], out[32 << 10];
  memcpy(in, hello, size);
  struct outboard_tls_shake shake;
  const int failure = outboard_tls_shake(tls, in, size, out, sizeof out, &shake);
  assert_false(shake.done);
  // After a failure there is no way on.
  if (failure) {
    struct outboard_tls_shake again;
    assert_int_not_equal(outboard_tls_shake(tls, in, 0, out, sizeof out, &again), 0);
    assert_int_equal(again.made, 0);
  }
  *made = shake.made;
  outboard_tls_end(tls);
  outboard_tls_server_end(server);
  return failure;
}

// A ClientHello that offers TLS 1.2 alone: one suite, and groups and signatures that we know.
static const uint8_t kOld[] =
    "\x16\x03\x01\x00\x49\x01\x00\x00\x45\x03\x03"
    "\0\1\2\3\4\5\6\7\0\1\2\3\4\5\6\7\0\1\2\3\4\5\6\7\0\1\2\3\4\5\6\7"
    "\x00\x00\x02\xc0\x2b\x01\x00\x00\x1a"
    "\x00\x0a\x00\x04\x00\x02\x00\x17"
    "\x00\x0b\x00\x02\x01\x00"
    "\x00\x0d\x00\x04\x00\x02\x04\x03"
    "\x00\x17\x00\x00";

static void who_speaks_only_older_tls_is_told(void **state) {
  (void)state;
  size_t made;
  assert_int_equal(greeted(kOld, sizeof kOld - 1, &made), OUTBOARD_TLS_OLD);
  // An alert.
  assert_int_equal(made, 7);
}

static void what_is_no_tls_is_seen_at_once(void **state) {
  (void)state;
  size_t made;
  const char *const strange[] = {"GET / HTTP/1.1\r\n", "\x0a\x0b\x0c\x0d\x0e",
                                 "\x16\x03\x01\xff\xff"};
  for (unsigned i = 0; i < sizeof strange / sizeof *strange; i++)
    assert_int_equal(greeted((const uint8_t *)strange[i], strlen(strange[i]), &made),
                     OUTBOARD_TLS_NOT_TLS);
  assert_int_equal(greeted((const uint8_t *)"\x16\x03\x01", 3, &made), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(data_both_ways),
      cmocka_unit_test(records_in_parts_go_both_ways),
      cmocka_unit_test(a_damaged_record_in_parts_ends_what_comes),
      cmocka_unit_test(the_end_comes_in_parts_as_well),
      cmocka_unit_test(records_right_behind_the_handshake_stay),
      cmocka_unit_test(a_handshake_comes_byte_by_byte),
      cmocka_unit_test(a_damaged_record_ends_what_comes),
      cmocka_unit_test(records_cut_left_out_and_replayed),
      cmocka_unit_test(a_record_of_too_much_is_refused),
      cmocka_unit_test(many_records_without_content_end_what_comes),
      cmocka_unit_test(no_more_is_sent),
      cmocka_unit_test(both_sides_go_on_elsewhere),
      cmocka_unit_test(keys_change_both_ways),
      cmocka_unit_test(what_is_no_state_is_refused),
      cmocka_unit_test(the_last_number_is_the_last_record),
      cmocka_unit_test(clients_are_judged),
      cmocka_unit_test(a_server_that_is_not_believed_is_told),
      cmocka_unit_test(what_a_server_signs_is_not_believed),
      cmocka_unit_test(what_a_client_signs_is_not_believed),
      cmocka_unit_test(a_client_that_is_named_stands_for_itself),
      cmocka_unit_test(nobody_is_asked),
      cmocka_unit_test(a_server_cannot_be_of_these_files),
      cmocka_unit_test(who_speaks_only_older_tls_is_told),
      cmocka_unit_test(what_is_no_tls_is_seen_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
