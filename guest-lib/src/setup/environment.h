// The environment of the process. It is read here and nowhere else.
#ifndef OUTBOARD_ENVIRONMENT_H
#define OUTBOARD_ENVIRONMENT_H

// The variable's value; NULL where it is unset or empty, or the process has more rights than its
// caller (setuid). It is the environment's own: it stays until the program changes the variable.
const char *environment(const char *variable);

// The same for a variable of which an empty value means something: NULL only where it is unset.
const char *environment_or_empty(const char *variable);

#endif
