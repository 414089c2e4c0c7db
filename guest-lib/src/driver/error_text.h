// What results are called. The driver of the first session's server is asked once for all names and
// sentences, where that server offers it; otherwise this library's own table answers.
#ifndef OUTBOARD_ERROR_TEXT_H
#define OUTBOARD_ERROR_TEXT_H

// Notes that the Welcome of the thread's session said that its server can be asked.
void error_text_offered(void);

#endif
