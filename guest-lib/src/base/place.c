#include "base/place.h"

#include <stdio.h>
#include <string.h>

// What is over sooner is not worth a line.
#define MOMENT_MS 1000
#define PAUSE_MS 60000

void place_note(struct place *place, unsigned position, int64_t now) {
  if (!place->since) place->since = now;
  place->now = position;
}

int64_t place_due(const struct place *place) {
  if (!place->since) return -1;
  if (!place->said) return place->since + MOMENT_MS;
  // Half of the way, so that a queue of a thousand takes ten lines at most; and backwards.
  _Bool much = place->now <= place->told / 2 || place->now > place->told;
  return much ? place->said + PAUSE_MS : -1;
}

_Bool place_say(struct place *place, int64_t now, char text[PLACE_TEXT]) {
  int64_t due = place_due(place);
  if (due < 0 || now < due) return 0;
  _Bool first = !place->said;
  place->said = now;
  place->told = place->now;
  snprintf(text, PLACE_TEXT, "%s for a GPU: place %u in the queue",
           first ? "waiting" : "still waiting", place->now);
  return 1;
}

_Bool place_end(struct place *place, int64_t now, char text[PLACE_TEXT]) {
  _Bool told = place->said != 0;
  if (told)
    snprintf(text, PLACE_TEXT, "the wait is over: a GPU is there after %lld seconds",
             (long long)(now - place->since + 500) / 1000);
  memset(place, 0, sizeof *place);
  return told;
}
