#include "streams/recorder.h"

_Atomic unsigned capture_count;
_Atomic unsigned capture_event_count;
const struct recorder *recorder;
