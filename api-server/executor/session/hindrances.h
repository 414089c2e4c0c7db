// What hinders a session from going on on another GPU (docs/moving.md): noted while commands are
// carried out, and told by the counter `hindrances`, so that people need not try.
#pragma once

#include "moving.h"

namespace outboard {

class Session;

// Made by dispatch around a command whose effect may hinder. Notes the hindrance before the
// command, and afterwards looks whether it is there, as the command may have failed or ended the
// last of such objects.
class Hindered {
 public:
  // The leader's.
  Hindered(Session &session, Hindrance hindrance);
  ~Hindered();
  Hindered(const Hindered &) = delete;
  Hindered &operator=(const Hindered &) = delete;

 private:
  Session &session_;
  const Hindrance hindrance_;
};

}  // namespace outboard
