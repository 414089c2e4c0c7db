// The statements of one function. Knows PTX's grammar and its scopes, not its instructions.
#pragma once

#include "parse/syntax.h"

namespace softdev {

// `first_line` is the line of the function's opening brace.
ParseError parse_body(std::string_view module, const FunctionSyntax &function, uint32_t first_line,
                      BodySyntax *out);

}  // namespace softdev
