// What people call the program of this process.
#ifndef OUTBOARD_PROGRAM_H
#define OUTBOARD_PROGRAM_H

#include <stddef.h>

// Writes the name of a program into `name`, cut to `size` bytes with the 0 at its end: that of the
// executable or, where this is an interpreter, of the script or module that it runs. `arguments`
// are those of /proc/PID/cmdline, `length` bytes with a 0 behind each, and may be anything.
void program_name_of(const char *executable, const char *arguments, size_t length, char *name,
                     size_t size);

// The same of this process.
void program_name(char *name, size_t size);

#endif
