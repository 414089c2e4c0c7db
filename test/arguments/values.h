// Legal and wrong arguments of each type.
#pragma once
#include <functional>

#include "scene.h"

namespace arguments {

/** What makes an argument wrong; false where that does not say anything of this one. */
struct Wrong {
  std::string name;
  std::function<bool(Scene &scene, Value &value)> apply;
};

/** An argument that, with the others, makes a call that a careful program makes. */
Value legal(Scene &scene, const Parameter &parameter);

/** All that can be wrong with an argument of a call. */
std::vector<Wrong> wrongs(const Parameter &parameter);

/** What the call has told through its pointers; what differs from library to library only as "set".
 */
std::string told(const Scene &scene);

}  // namespace arguments
