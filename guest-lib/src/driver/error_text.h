// What results are called: as the server's driver says it.
#ifndef OUTBOARD_ERROR_TEXT_H
#define OUTBOARD_ERROR_TEXT_H

// The Welcome of the thread's session said that the server can be asked.
void error_text_offered(void);

#endif
