// Functions that are not served.
#ifndef LIBRARIES_UNSERVED_H
#define LIBRARIES_UNSERVED_H

// Every symbol of the library, sorted.
extern const unsigned library_symbol_count;
extern const char *const library_symbols[];

// Counts a call of the symbol of that number, says in the log the first time that it is not served,
// and returns CUBLAS_STATUS_NOT_SUPPORTED.
int library_unserved(int symbol);

#endif
