// Runs one instruction over many operands on the engine and compares with a scalar reference.
//
// The references in this folder share no code with the engine: integers by __int128, floating
// point by the host's libm under fesetround() or by searching all values of a format.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace harness {

enum class Kind : uint8_t {
  P,
  B8,
  U8,
  S8,
  B16,
  U16,
  S16,
  F16,
  BF16,
  B32,
  U32,
  S32,
  F32,
  F16x2,
  BF16x2,
  B64,
  U64,
  S64,
  F64,
  F32x2
};

using Reference = std::function<uint64_t(uint64_t a, uint64_t b, uint64_t c)>;
// Whether `got` may stand for `want`.
using Accept = std::function<bool(uint64_t got, uint64_t want)>;

// "add.s32", or a template: $d $a $b $c are registers; $m, $s and $l hold the address of 64 bytes
// of the thread's own in global, shared and local memory.
struct Case {
  std::string instruction;
  Kind result;
  std::vector<Kind> sources;
  Reference reference;
  Accept accept = nullptr;  // equality by default
  std::vector<uint64_t> third =
      {};                        // values of the last source, when not all of its kind make sense
  unsigned result_register = 0;  // bits, when wider than the kind
  unsigned source_register = 0;
  std::string proves = {};  // forms that the template proves; by default its first word
  std::string bound = {};   // how far results may be from the reference's; empty: not at all
  bool few = false;         // of many alike: fewer values
};

void add(Case one);
int run_all(const std::string &filter);
// What the cases prove: a page to read and a table of all forms. The second compares them with
// files there are.
int write_tables(const std::string &folder);
int check_tables(const std::string &folder);
const std::vector<Case> &all_cases();
size_t planned_values(const Case &one, bool *exhaustive);

// The bytes of `constants`, a variable in constant memory.
constexpr unsigned constant_byte(unsigned i) { return (i * 37 + 139) & 255; }

// Bits of values.
uint64_t bits(float value);
uint64_t bits(double value);
float as_float(uint64_t bits);
double as_double(uint64_t bits);

// NaNs are equal; otherwise bits.
bool same_float(uint64_t got, uint64_t want);
bool same_double(uint64_t got, uint64_t want);
// f32 results whose relative error is at most 2^-exponent.
Accept within(int exponent, double absolute = 0);

void integer_cases();
void bit_cases();
void single_cases();
void double_cases();
void half_cases();
void convert_cases();
void compare_cases();
void set_cases();
void pack_cases();
void small_cases();
void video_cases();
void memory_cases();
void atomic_cases();

}  // namespace harness
