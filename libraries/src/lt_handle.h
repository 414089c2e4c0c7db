// Handles of cuBLASLt. They keep nothing: what serves them on the server is the session's.
#ifndef LIBRARIES_LT_HANDLE_H
#define LIBRARIES_LT_HANDLE_H

// Whether it is one of ours that can be used here. One of cuBLAS is one of cuBLASLt, too.
_Bool lt_usable(const void *handle);

#endif
