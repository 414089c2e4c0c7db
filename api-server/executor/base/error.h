// What goes wrong outside of a session: opening a library or a device, starting a session.
#pragma once

#include <stdexcept>
#include <string>

namespace outboard {

// `code` is one of the monitor's table of errors. The message says what was wrong and what to do.
struct Error : std::runtime_error {
  Error(std::string code, const std::string &message)
      : std::runtime_error(message), code(std::move(code)) {}
  std::string code;
};

}  // namespace outboard
