// What results are called. The driver of the first session's server is asked once for all names and
// sentences, where that server offers it; otherwise this library's own table answers.
#ifndef OUTBOARD_ERROR_TEXT_H
#define OUTBOARD_ERROR_TEXT_H

struct session;
// Notes that the session's Welcome said that its server can be asked.
void error_text_offered(const struct session *session);

#endif
