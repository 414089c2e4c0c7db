// What is said of a place in a queue where nobody watches it move, as in the log of a build: a line
// when the wait has become one, lines for large steps, no two of them within a minute, and a line
// when it is over.
#ifndef OUTBOARD_PLACE_H
#define OUTBOARD_PLACE_H

#include <stddef.h>
#include <stdint.h>

#define PLACE_TEXT 96

// All zero: nobody waits. Moments are milliseconds of one clock, above 0.
struct place {
  int64_t since;  // when the wait began
  int64_t said;   // when the last line was said; 0: none was yet
  unsigned now;
  unsigned told;  // the place in that line
};

// Notes the place at a moment, which begins a wait where there was none.
void place_note(struct place *place, unsigned position, int64_t now);

// Returns from when on there is something to say unless the place changes before; below 0: nothing.
int64_t place_due(const struct place *place);

// Writes what is to be said at that moment, and notes that it was. False: nothing is.
_Bool place_say(struct place *place, int64_t now, char text[PLACE_TEXT]);

// Ends the wait. Writes that it is over, where somebody was told that it had begun; else false.
_Bool place_end(struct place *place, int64_t now, char text[PLACE_TEXT]);

#endif
