// The names of the variables that an image may have, so that their contents can be taken along when
// its session goes on elsewhere: no driver lists them.
#pragma once

#include <string>
#include <vector>

#include "images/image_bytes.h"

namespace outboard {

// Returns the names of variables in all parts of the image, each once, also of those that the
// driver does not take: who looks them up passes over what there is not. Nothing, with a reason in
// *why, for an image that cannot be read.
std::vector<std::string> variable_names(const Image &image, std::string *why);

}  // namespace outboard
