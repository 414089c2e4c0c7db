// Text for the caller's buffers.
#ifndef OUTBOARD_TEXT_H
#define OUTBOARD_TEXT_H

#include "nvml_api.h"

// The whole text and its end, or nothing.
nvmlReturn_t text_give(char *buffer, unsigned int length, const char *text);

#endif
