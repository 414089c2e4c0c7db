// Captures as the streams know them: what is asked by streams/recorder.h.
#ifndef OUTBOARD_CAPTURE_RECORDER_H
#define OUTBOARD_CAPTURE_RECORDER_H

// Sets the recorder, which whoever puts work on a stream asks. To be called before a session
// begins.
void capture_start(void);

#endif
