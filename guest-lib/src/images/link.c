// Links: inputs become one image. The linker is the server's; what comes out lies here, too, for
// the program reads it, and the server keeps it for the load that follows.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "guest_calls.h"
#include "images/image.h"
#include "images/image_sending.h"
#include "images/jit.h"
#include "session/handle.h"
#include "setup/log.h"
#include "wire/answer.h"

// The longest name of an input that is sent. Names are only for messages.
#define NAME_MAX_BYTES 4096
// Past this nobody has an image; the number is the server's.
#define IMAGE_MAX (1ull << 30)

struct link {
  pthread_mutex_t lock;
  uint64_t handle;
  // The program's own: its buffers are told after every step. `options` is a copy; `given` is what
  // `values` held before we wrote there how much of the buffers is used.
  struct jit jit;
  void **given;
  uint8_t *cubin;  // NULL: not complete
  uint64_t size;
};

static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned count;

static struct link *find(CUlinkState state) {
  return handle_object(WIRE_KIND_LINK, handle_of(state));
}

static void free_link(struct link *link) {
  pthread_mutex_destroy(&link->lock);
  free(link->jit.options);
  free(link->given);
  free(link->cubin);
  free(link);
}

static void report(struct link *link, const struct jit_texts *texts) {
  for (unsigned i = 0; i < link->jit.count; i++)
    if (link->jit.options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES ||
        link->jit.options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
      link->jit.values[i] = link->given[i];
  jit_report(&link->jit, texts->errors, texts->info);
}

// ---- beginning and ending ----------------------------------------------------------------------

static struct link *new_link(struct session *session, const struct jit *jit) {
  struct link *link = calloc(1, sizeof *link);
  if (!link) return NULL;
  pthread_mutex_init(&link->lock, NULL);
  size_t options = jit->count * sizeof *jit->options, values = jit->count * sizeof *jit->values;
  link->jit = *jit;
  link->jit.options = malloc(options + 1);
  link->given = malloc(values + 1);
  if (link->jit.options && link->given) {
    if (options) memcpy(link->jit.options, jit->options, options);
    if (values) memcpy(link->given, jit->values, values);
    link->handle = handle_mint(session, WIRE_KIND_LINK, link);
  }
  if (link->handle) return link;
  free_link(link);
  return NULL;
}

static _Bool take_place(void) {
  pthread_mutex_lock(&count_lock);
  _Bool room = count < WIRE_LINKS_MAX;
  count += room;
  pthread_mutex_unlock(&count_lock);
  return room;
}

static void give_place(void) {
  pthread_mutex_lock(&count_lock);
  count--;
  pthread_mutex_unlock(&count_lock);
}

static CUresult create(unsigned number, CUjit_option *options, void **values, CUlinkState *state) {
  if (!state || (number && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
  struct jit jit = jit_begin(number, options, values);
  if (!take_place()) {
    log_warn("refused: more than %d links at a time", WIRE_LINKS_MAX);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  struct link *link = new_link(session_here(), &jit);
  if (!link) {
    give_place();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  struct jit_options travel;
  jit_read(&jit, &travel);
  *state = (CUlinkState)(uintptr_t)link->handle;
  return put_LinkCreate(session_here(), link->handle, travel.travel,
                        travel.count * (uint32_t)sizeof *travel.travel);
}

CUresult guest_cuLinkDestroy(CUlinkState state) {
  struct link *link = handle_retire(WIRE_KIND_LINK, handle_of(state));
  if (!link) return CUDA_ERROR_INVALID_HANDLE;
  CUresult result = put_LinkDestroy(session_here(), link->handle);
  handle_recycle(WIRE_KIND_LINK, link->handle);
  free_link(link);
  give_place();
  return result;
}

// ---- inputs ------------------------------------------------------------------------------------

struct input {
  CUjitInputType type;
  const char *name;
  struct jit_options options;
};

static CUresult ask_add(struct session *session, const struct link *link, const struct image *image,
                        const struct input *input, struct answer *answer) {
  answer_init(answer);
  size_t length = input->name ? strnlen(input->name, NAME_MAX_BYTES) : 0;
  return ask_LinkAdd(session, link->handle, image->hash[0], image->hash[1], image->hash[2],
                     image->hash[3], image->size, (uint32_t)input->type, input->name != NULL,
                     input->options.travel,
                     input->options.count * (uint32_t)sizeof *input->options.travel,
                     input->name ? input->name : "", (uint32_t)length, answer);
}

// With the link's lock.
static CUresult add_image(struct session *session, struct link *link, const struct image *image,
                          const struct input *input) {
  const _Bool along = image_goes_along(session, image);
  CUresult result = along ? image_send(session, image) : CUDA_SUCCESS;
  struct answer answer;
  answer_init(&answer);
  if (!result) result = ask_add(session, link, image, input, &answer);
  if (along) image_arrived(session, image);
  const struct wire_LinkAdd_reply *reply = answer.reply;
  if (!result && reply->state == WIRE_MODULE_WANTED) {
    answer_free(&answer);
    result = image_send(session, image);
    if (!result) result = ask_add(session, link, image, input, &answer);
    image_arrived(session, image);
    reply = answer.reply;
  }
  if (!result) {
    struct jit_texts texts;
    uint64_t room = reply->reply.header.size - sizeof *reply;
    _Bool sound =
        jit_read_texts(reply + 1, room, reply->errors_size, reply->info_size, &texts) <= room;
    if (sound && reply->state == WIRE_MODULE_REFUSED && reply->refused > 0) {
      result = (CUresult)reply->refused;
      jit_say_refused(result, texts.errors);
      report(link, &texts);
    } else if (!sound || reply->state != WIRE_MODULE_LOADED) {
      log_error("the server's answer about an input of a link makes no sense");
      result = CUDA_ERROR_UNKNOWN;
    }
    image_is_known(session, image->hash);
  }
  answer_free(&answer);
  return result;
}

static CUresult add(CUlinkState state, CUjitInputType type, const void *data, size_t size,
                    const char *name, const struct jit *jit) {
  struct link *link = find(state);
  if (!link) return CUDA_ERROR_INVALID_HANDLE;
  if (!data || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES) return CUDA_ERROR_INVALID_VALUE;
  if (!size) return CUDA_ERROR_INVALID_IMAGE;
  // Text ends where it ends, whatever its size is said to be.
  if (type == CU_JIT_INPUT_PTX) {
    const size_t length = strnlen(data, size);
    if (length < size) size = length + 1;
  }
  if (size > WIRE_IMAGE_MAX) return CUDA_ERROR_OUT_OF_MEMORY;
  struct input input = {.type = type, .name = name};
  jit_read(jit, &input.options);
  CUresult result = CUDA_ERROR_INVALID_HANDLE;  // when it is complete
  pthread_mutex_lock(&link->lock);
  if (!link->cubin) {
    jit_go_on(&link->jit);
    struct image image;
    result = image_of_input(data, size, &image);
    if (!result) result = add_image(session_here(), link, &image, &input);
    image_free(&image);
    jit_pause(&link->jit);
  }
  pthread_mutex_unlock(&link->lock);
  return result;
}

static CUresult add_file(CUlinkState state, CUjitInputType type, const char *path,
                         const struct jit *jit) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  char *bytes;
  size_t size;
  CUresult result = image_file(path, &bytes, &size);
  if (result) return result;
  result = add(state, type, bytes, size, path, jit);
  free(bytes);
  return result;
}

// ---- the result --------------------------------------------------------------------------------

static CUresult fetch(struct link *link, uint64_t size) {
  uint8_t *bytes = size && size <= IMAGE_MAX ? malloc(size) : NULL;
  if (!bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  struct answer answer;
  answer_init(&answer);
  answer_into(&answer, bytes, size);
  struct session *session = session_here();
  CUresult result = ask_LinkFetch(session, link->handle, &answer);
  answer_free(&answer);
  struct image image;
  // A load of it finds it there: the server has kept it under the same hash.
  if (!result && !image_read_bytes(bytes, size, NULL, &image)) {
    image_is_known(session, image.hash);
    image_free(&image);
  }
  if (result) {
    free(bytes);
    return result;
  }
  link->cubin = bytes;
  link->size = size;
  return CUDA_SUCCESS;
}

// With the link's lock.
static CUresult complete(struct link *link) {
  jit_go_on(&link->jit);
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_LinkComplete(session_here(), link->handle, &answer);
  if (!result) {
    const struct wire_LinkComplete_reply *reply = answer.reply;
    struct jit_texts texts;
    uint64_t room = reply->reply.header.size - sizeof *reply;
    if (jit_read_texts(reply + 1, room, reply->errors_size, reply->info_size, &texts) > room) {
      log_error("the server's answer about a link makes no sense");
      result = CUDA_ERROR_UNKNOWN;
    } else {
      result = reply->refused > 0 ? (CUresult)reply->refused : fetch(link, reply->size);
      if (reply->refused > 0) jit_say_refused(result, texts.errors);
      report(link, &texts);
    }
  }
  answer_free(&answer);
  jit_pause(&link->jit);
  return result;
}

CUresult guest_cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut) {
  struct link *link = find(state);
  if (!link) return CUDA_ERROR_INVALID_HANDLE;
  if (!cubinOut) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&link->lock);
  CUresult result = link->cubin ? CUDA_SUCCESS : complete(link);
  if (!result) {
    *cubinOut = link->cubin;
    if (sizeOut) *sizeOut = link->size;
  }
  pthread_mutex_unlock(&link->lock);
  return result;
}

// ---- entry points that come in two versions ----------------------------------------------------

CUresult guest_cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                               CUlinkState *stateOut) {
  return create(numOptions, options, optionValues, stateOut);
}

CUresult guest_cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues,
                            CUlinkState *stateOut) {
  return create(numOptions, options, optionValues, stateOut);
}

CUresult guest_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                                const char *name, unsigned int numOptions, CUjit_option *options,
                                void **optionValues) {
  if (numOptions && (!options || !optionValues)) return CUDA_ERROR_INVALID_VALUE;
  struct jit jit = jit_begin(numOptions, options, optionValues);
  return add(state, type, data, size, name, &jit);
}

CUresult guest_cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
                             const char *name, unsigned int numOptions, CUjit_option *options,
                             void **optionValues) {
  return guest_cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult guest_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                                unsigned int numOptions, CUjit_option *options,
                                void **optionValues) {
  if (numOptions && (!options || !optionValues)) return CUDA_ERROR_INVALID_VALUE;
  struct jit jit = jit_begin(numOptions, options, optionValues);
  return add_file(state, type, path, &jit);
}

CUresult guest_cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
                             unsigned int numOptions, CUjit_option *options, void **optionValues) {
  return guest_cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}
