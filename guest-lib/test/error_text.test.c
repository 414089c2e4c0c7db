// What results are called: asked of the server once, kept, and this library's own where nobody can
// be asked or the answer makes no sense.
#include "driver/error_text.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "session.h"
#include "wire/enter.h"

// ---- the server's side -------------------------------------------------------------------------

static struct {
  struct wire_ErrorTexts_reply reply;
  uint8_t list[4096];
} answer;
static int32_t async;

static void add(int result, const char *name, const char *sentence) {
  const struct wire_error_text head = {result, (uint16_t)strlen(name), (uint16_t)strlen(sentence)};
  uint8_t *at = answer.list + answer.reply.texts_size;
  memcpy(at, &head, sizeof head);
  memcpy(at + sizeof head, name, head.name_size);
  memcpy(at + sizeof head + head.name_size, sentence, head.sentence_size);
  answer.reply.texts_size +=
      (uint32_t)sizeof head + wire_round_up((uint32_t)head.name_size + head.sentence_size);
  answer.reply.count++;
}

static _Bool serve(struct server *server, const struct wire_header *h, void *context) {
  (void)context;
  if (h->op != WIRE_ErrorTexts) return 0;
  answer.reply.reply.async = async;
  answer.reply.reply.request = ((const struct wire_request *)h)->request;
  answer.reply.reply.header = (struct wire_header){WIRE_REPLY, 0, sizeof answer};
  server_send(server, &answer, sizeof answer);
  return 1;
}

static struct server *start(void) {
  struct server *server = session_start(64ull << 20, (struct server_hook){serve, NULL});
  error_text_offered(session_here());
  return server;
}

static void the_driver_speaks(void) {
  add(CUDA_SUCCESS, "CUDA_SUCCESS", "all is well");
  add(CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "the server says: bad value");
  add(998, "CUDA_ERROR_NEWER", "newer than this library");
  add(CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "");
}

// ---- the program's side ------------------------------------------------------------------------

static const char *name_of(int result) {
  const char *text = "unset";
  const CUresult told = cuGetErrorName((CUresult)result, &text);
  assert_int_equal(told, text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
  return text;
}

static const char *sentence_of(int result) {
  const char *text = "unset";
  const CUresult told = cuGetErrorString((CUresult)result, &text);
  assert_int_equal(told, text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
  return text;
}

static void asked_once_and_kept(void **state) {
  (void)state;
  // Before there is a session.
  const char *before = name_of(CUDA_ERROR_INVALID_VALUE);
  assert_string_equal(before, "CUDA_ERROR_INVALID_VALUE");
  const char *ours = sentence_of(CUDA_ERROR_INVALID_VALUE);
  the_driver_speaks();
  struct server *server = start();
  assert_int_equal(server_count(server, WIRE_ErrorTexts), 0);

  const char *sentence = sentence_of(CUDA_ERROR_INVALID_VALUE);
  assert_string_equal(sentence, "the server says: bad value");
  for (int i = 0; i < 1000; i++) {
    assert_ptr_equal(sentence_of(CUDA_ERROR_INVALID_VALUE), sentence);
    sentence_of(i);
    name_of(i);
  }
  assert_int_equal(server_count(server, WIRE_ErrorTexts), 1);
  // What the program got before is as it was.
  assert_ptr_equal(name_of(CUDA_ERROR_INVALID_VALUE), before);
  assert_string_not_equal(ours, sentence);

  assert_string_equal(name_of(998), "CUDA_ERROR_NEWER");
  assert_string_equal(sentence_of(998), "newer than this library");
  assert_string_equal(name_of(CUDA_ERROR_NOT_FOUND), "CUDA_ERROR_NOT_FOUND");
  assert_null(sentence_of(CUDA_ERROR_NOT_FOUND));
  // As the driver there does not know it.
  assert_null(name_of(CUDA_ERROR_UNKNOWN));
  assert_null(name_of(12345));
  assert_null(name_of(-1));
  assert_int_equal(cuGetErrorName(CUDA_SUCCESS, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGetErrorString(CUDA_SUCCESS, NULL), CUDA_ERROR_INVALID_VALUE);

  guest_set_lost(CUDA_ERROR_DEVICE_UNAVAILABLE);
  assert_ptr_equal(sentence_of(CUDA_ERROR_INVALID_VALUE), sentence);
}

static void not_asked_where_it_was_not_offered(void **state) {
  (void)state;
  struct server *server = session_start(64ull << 20, (struct server_hook){serve, NULL});
  assert_string_equal(name_of(CUDA_ERROR_UNKNOWN), "CUDA_ERROR_UNKNOWN");
  assert_non_null(sentence_of(CUDA_ERROR_UNKNOWN));
  assert_int_equal(server_count(server, WIRE_ErrorTexts), 0);
}

static void not_asked_once_it_is_lost(void **state) {
  (void)state;
  the_driver_speaks();
  struct server *server = start();
  guest_set_lost(CUDA_ERROR_DEVICE_UNAVAILABLE);
  assert_string_equal(name_of(CUDA_ERROR_UNKNOWN), "CUDA_ERROR_UNKNOWN");
  assert_int_equal(server_count(server, WIRE_ErrorTexts), 0);
}

static void not_asked_in_a_child(void **state) {
  (void)state;
  the_driver_speaks();
  struct server *server = start();
  pid_t child = fork();
  if (!child) {
    const char *text = NULL;
    _exit(cuGetErrorName(CUDA_ERROR_UNKNOWN, &text) == CUDA_SUCCESS && text &&
                  !strcmp(text, "CUDA_ERROR_UNKNOWN")
              ? 0
              : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(server_count(server, WIRE_ErrorTexts), 0);
  assert_string_equal(name_of(998), "CUDA_ERROR_NEWER");
  // What is known by now is known to children, too.
  child = fork();
  if (!child) {
    const char *text = NULL;
    _exit(cuGetErrorName((CUresult)998, &text) == CUDA_SUCCESS && text ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void errors_of_work_are_not_taken(void **state) {
  (void)state;
  the_driver_speaks();
  start();
  async = CUDA_ERROR_INVALID_HANDLE;
  assert_string_equal(name_of(998), "CUDA_ERROR_NEWER");
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_INVALID_HANDLE);
}

static void *ask_all(void *from) {
  for (int i = 0; i < 1000; i++) {
    const char *text = NULL;
    CHECK(cuGetErrorName((CUresult)998, &text) == CUDA_SUCCESS);
    CHECK(!strcmp(text, "CUDA_ERROR_NEWER"));
  }
  return from;
}

static void threads_ask_once(void **state) {
  (void)state;
  the_driver_speaks();
  struct server *server = start();
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], NULL, ask_all, NULL));
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_int_equal(server_count(server, WIRE_ErrorTexts), 1);
}

// ---- answers that make no sense ----------------------------------------------------------------

static void is_not_believed(void) {
  struct server *server = start();
  for (int i = 0; i < 3; i++) {
    assert_string_equal(name_of(CUDA_ERROR_UNKNOWN), "CUDA_ERROR_UNKNOWN");
    assert_non_null(sentence_of(CUDA_ERROR_INVALID_VALUE));
  }
  assert_int_equal(server_count(server, WIRE_ErrorTexts), 1);
}

static void nothing_told(void **state) {
  (void)state;
  is_not_believed();
}

static void more_than_there_is(void **state) {
  (void)state;
  the_driver_speaks();
  answer.reply.count = 900;
  is_not_believed();
}

static void more_than_may_be(void **state) {
  (void)state;
  the_driver_speaks();
  answer.reply.count = UINT32_MAX;
  is_not_believed();
}

static void bytes_beyond_the_answer(void **state) {
  (void)state;
  the_driver_speaks();
  answer.reply.texts_size = sizeof answer.list + 8;
  is_not_believed();
}

static void a_text_beyond_the_list(void **state) {
  (void)state;
  the_driver_speaks();
  const struct wire_error_text head = {5, 200, 100};
  memcpy(answer.list + answer.reply.texts_size, &head, sizeof head);
  answer.reply.texts_size += sizeof head;
  answer.reply.count++;
  is_not_believed();
}

static void a_text_that_is_too_long(void **state) {
  (void)state;
  the_driver_speaks();
  const struct wire_error_text head = {5, UINT16_MAX, 0};
  memcpy(answer.list + answer.reply.texts_size, &head, sizeof head);
  answer.reply.texts_size = sizeof answer.list;
  answer.reply.count++;
  is_not_believed();
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(asked_once_and_kept),
      cmocka_unit_test(not_asked_where_it_was_not_offered),
      cmocka_unit_test(not_asked_once_it_is_lost),
      cmocka_unit_test(not_asked_in_a_child),
      cmocka_unit_test(errors_of_work_are_not_taken),
      cmocka_unit_test(threads_ask_once),
      cmocka_unit_test(nothing_told),
      cmocka_unit_test(more_than_there_is),
      cmocka_unit_test(more_than_may_be),
      cmocka_unit_test(bytes_beyond_the_answer),
      cmocka_unit_test(a_text_beyond_the_list),
      cmocka_unit_test(a_text_that_is_too_long),
  };
  RUN_ONE_TEST(tests, argc, argv);
}
