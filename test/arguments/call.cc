#include "call.h"

#include <cctype>
#include <utility>

namespace arguments {
namespace {

template <class A>
A as(const Value &value) {
  static_assert(sizeof(A) <= sizeof value.bytes);
  A argument;
  memcpy(&argument, value.bytes, sizeof argument);
  return argument;
}

template <class Function>
struct Invoked;

template <class... A>
struct Invoked<CUresult(A...)> {
  static CUresult invoke(void *function, const Value *values) {
    return with(function, values, std::index_sequence_for<A...>{});
  }
  template <size_t... I>
  static CUresult with(void *function, [[maybe_unused]] const Value *values,
                       std::index_sequence<I...>) {
    return reinterpret_cast<CUresult (*)(A...)>(function)(as<A>(values[I])...);
  }
};

// "const CUgraphNode *from"
Parameter parameter_of(std::string text) {
  Parameter parameter{};
  size_t end = text.size();
  while (end > 0 && (isalnum(text[end - 1]) || text[end - 1] == '_')) end--;
  parameter.name = text.substr(end);
  for (const char c : text.substr(0, end)) {
    if (c == '*')
      parameter.depth++;
    else
      parameter.type += c;
  }
  if (parameter.type.starts_with("const ")) {
    parameter.constant = true;
    parameter.type.erase(0, 6);
  }
  while (parameter.type.ends_with(' ')) parameter.type.pop_back();
  return parameter;
}

// "(CUgraph hGraph, const CUgraphNode *from)"
std::vector<Parameter> parameters_of(const std::string &text) {
  std::vector<Parameter> parameters;
  if (text == "(void)") return parameters;
  for (size_t at = 1; at < text.size();) {
    const size_t end = text.find_first_of(",)", at);
    parameters.push_back(parameter_of(text.substr(at, end - at)));
    at = text.find_first_not_of(' ', end + 1);
  }
  return parameters;
}

// The list as plain data: one expression with as many strings takes a compiler most of a minute,
// with sanitizers.
struct Written {
  const char *name;
  const char *parameters;
  CUresult (*invoke)(void *function, const Value *values);
};

constexpr Written kWritten[] = {
#define ABI_CALL(index, name, parameters, ...) \
  {#name, #parameters, Invoked<CUresult parameters>::invoke},
#define ABI_UNTYPED_CALL(index, name)
#include "entry_calls.h"
#undef ABI_CALL
#undef ABI_UNTYPED_CALL
};

}  // namespace

const std::vector<Call> &all_calls() {
  static const std::vector<Call> all = [] {
    std::vector<Call> calls;
    for (const Written &one : kWritten)
      calls.push_back({one.name, parameters_of(one.parameters), one.invoke});
    return calls;
  }();
  return all;
}

}  // namespace arguments
