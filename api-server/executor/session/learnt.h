// Tells a session's guest what earlier sessions of its function have learnt of libraries.
#pragma once

namespace outboard {

class Session;

// Asks the library again what was asked before, on a thread of the session's, and sends all of it.
// The guest has been told that it comes (Welcome.learnt).
void tell_learnt(Session &s);

}  // namespace outboard
