// Captures as the streams know them: what is asked by streams/recorder.h.
#ifndef OUTBOARD_CAPTURE_RECORDER_H
#define OUTBOARD_CAPTURE_RECORDER_H

// From now on what puts work on streams asks here (streams/recorder.h). To be called before a
// session begins.
void capture_start(void);

#endif
