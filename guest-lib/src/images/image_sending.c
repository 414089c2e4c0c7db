#include "images/image_sending.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/ablation.h"
#include "base/stats.h"
#include "guest_calls.h"
#include "session/session.h"
#include "streams/room.h"

// Larger ones are asked for first, which costs a round trip more when the server has not got them.
#define SEND_UNASKED_MAX (64u << 10)

// By session, the last hashes that its server is known to have. One that has been dropped here, or
// there, costs no more than its bytes or a question.
#define KNOWN 256
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
// The server ends a session that sends more at a time than it takes, so threads wait for each
// other.
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
struct known_images {
  uint64_t hashes[KNOWN][4];
  unsigned next;
  unsigned coming;  // images that are being sent, or whose command is not answered
  uint64_t coming_bytes;
};

_Bool known_images_make(struct session *session) { return session_part(session->known_images); }

static _Bool is_known(const struct known_images *known, const uint64_t hash[4]) {
  for (unsigned i = 0; i < KNOWN; i++)
    if (memcmp(known->hashes[i], hash, sizeof known->hashes[i]) == 0) return 1;
  return 0;
}

void image_is_known(struct session *session, const uint64_t hash[4]) {
  struct known_images *known = session->known_images;
  pthread_mutex_lock(&lock);
  if (!is_known(known, hash))
    memcpy(known->hashes[known->next++ % KNOWN], hash, sizeof known->hashes[0]);
  pthread_mutex_unlock(&lock);
}

_Bool image_goes_along(struct session *session, const struct image *image) {
  if (ablated(ABLATE_MODULES)) return 1;
  if (image->size > SEND_UNASKED_MAX) return 0;
  pthread_mutex_lock(&lock);
  _Bool there = is_known(session->known_images, image->hash);
  pthread_mutex_unlock(&lock);
  return !there;
}

static _Bool has_room(const struct known_images *known, const struct image *image) {
  return known->coming < WIRE_IMAGES_COMING && known->coming_bytes <= WIRE_IMAGE_MAX &&
         image->size <= WIRE_IMAGE_MAX - known->coming_bytes;
}

static void wait_for_room(struct known_images *known, const struct image *image) {
  pthread_mutex_lock(&lock);
  while (known->coming && !has_room(known, image)) pthread_cond_wait(&arrived, &lock);
  known->coming++;
  known->coming_bytes += image->size;
  pthread_mutex_unlock(&lock);
}

void image_arrived(struct session *session, const struct image *image) {
  struct known_images *known = session->known_images;
  pthread_mutex_lock(&lock);
  known->coming--;
  known->coming_bytes -= image->size;
  pthread_cond_broadcast(&arrived);
  pthread_mutex_unlock(&lock);
}

CUresult image_send(struct session *session, const struct image *image) {
  wait_for_room(session->known_images, image);
  for (uint64_t offset = 0; offset < image->size; offset += WIRE_BULK_MAX) {
    uint64_t part = image->size - offset < WIRE_BULK_MAX ? image->size - offset : WIRE_BULK_MAX;
    stream_await_server(session, part);
    CUresult result =
        put_ModulePiece(session, image->hash[0], image->hash[1], image->hash[2], image->hash[3],
                        image->size, offset, part, image->bytes + offset);
    if (result) return result;
    stats_add(&guest_stats->image_bytes,
              sizeof(struct wire_ModulePiece) + wire_round_up((uint32_t)part));
  }
  return CUDA_SUCCESS;
}
