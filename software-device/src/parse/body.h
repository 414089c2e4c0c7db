// The statements of one function. Knows PTX's grammar and its scopes, not its instructions.
#pragma once

#include "parse/syntax.h"

namespace softdev {

ParseError parse_body(std::string_view module, const FunctionSyntax &function, BodySyntax *out);

}  // namespace softdev
