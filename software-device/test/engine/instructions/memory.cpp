// Loads and stores: every type, vector width, state space, order and hint. What is loaded or stored
// is checked byte for byte by folding it into one number.
#include <string>
#include <vector>

#include "harness.h"

namespace harness {
namespace {

struct Type {
  const char *name;
  unsigned bytes;
  bool is_signed;
};
const Type kTypes[] = {{"b8", 1, false},  {"u8", 1, false},  {"s8", 1, true},    {"b16", 2, false},
                       {"u16", 2, false}, {"s16", 2, true},  {"b32", 4, false},  {"u32", 4, false},
                       {"s32", 4, true},  {"f32", 4, false}, {"b64", 8, false},  {"u64", 8, false},
                       {"s64", 8, true},  {"f64", 8, false}, {"b128", 16, false}};
struct Place {
  const char *space;    // of the form
  const char *address;  // $m, $s, $l or a name
  const char *access;   // how the test itself writes and reads there
};
const Place kPlaces[] = {{".global", "$m", ".global"}, {"", "$m", ".global"},
                         {".shared", "$s", ".shared"}, {".shared::cta", "$s", ".shared"},
                         {".local", "$l", ".local"},   {".param", "q", ".param"}};

uint64_t fold(uint64_t sum, uint64_t next) { return sum * 31 + next; }

// What lies in memory: 32 bytes made of a and b.
uint64_t word(uint64_t a, uint64_t b, unsigned i) {
  return i == 0 ? a : i == 1 ? b : i == 2 ? a ^ (b * 3) : a + b;
}
const char *const kFill = "mul.lo.u64 w, $b, 3; xor.b64 w, w, $a; add.u64 x, $a, $b; ";

std::string fill(const Place &at) {
  std::string text = kFill;
  const char *words[] = {"$a", "$b", "w", "x"};
  for (int i = 0; i < 4; ++i)
    text += std::string("st") + at.access + ".b64 [" + at.address + "+" + std::to_string(8 * i) +
            "], " + words[i] + "; ";
  return text;
}
std::string prologue(const Place &at) {
  return std::string("{ .reg .b64 w, x, y; ") +
         (at.address[0] == 'q' ? ".param .align 32 .b8 q[64]; " : "");
}

unsigned register_bytes(const Type &t) { return t.bytes < 2 ? 2 : t.bytes; }

// {e0, e1, ...}, or e0 alone
std::string list(unsigned count) {
  if (count == 1) return "e0";
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i) text += (i ? ", e" : "e") + std::to_string(i);
  return text + "}";
}
std::string declare(unsigned bytes, unsigned count) {
  return ".reg .b" + std::to_string(8 * bytes) + " e<" + std::to_string(count) + ">; ";
}
// y = y * 31 + e, for each element
std::string fold_elements(unsigned bytes, unsigned count) {
  if (bytes == 16) return "mov.b128 {w, x}, e0; mad.lo.u64 y, y, 31, w; mad.lo.u64 y, y, 31, x; ";
  std::string text;
  for (unsigned i = 0; i < count; ++i) {
    std::string e = "e" + std::to_string(i);
    text += bytes == 8 ? "mad.lo.u64 y, y, 31, " + e + "; "
                       : "cvt.u64.u" + std::to_string(8 * bytes) + " w, " + e +
                             "; mad.lo.u64 y, y, 31, w; ";
  }
  return text;
}

uint64_t bytes_at(const uint8_t *memory, unsigned count) {
  uint64_t v = 0;
  for (unsigned i = 0; i < count; ++i) v |= static_cast<uint64_t>(memory[i]) << (8 * i);
  return v;
}
// Of `bytes` in memory, extended to a register of `wide`.
uint64_t extended(const Type &t, uint64_t v, unsigned wide) {
  if (t.is_signed && t.bytes < wide && (v >> (8 * t.bytes - 1)) & 1)
    v |= ~uint64_t{0} << (8 * t.bytes);
  return wide >= 8 ? v : v & ((uint64_t{1} << (8 * wide)) - 1);
}
uint64_t folded_memory(const uint8_t *memory, const Type &t, unsigned count, unsigned wide) {
  uint64_t sum = 0;
  if (t.bytes == 16) return fold(fold(sum, bytes_at(memory, 8)), bytes_at(memory + 8, 8));
  for (unsigned i = 0; i < count; ++i)
    sum = fold(sum, extended(t, bytes_at(memory + i * t.bytes, t.bytes), wide));
  return sum;
}

void load(const Place &at, const std::string &options, unsigned vector, const Type &t,
          unsigned wide) {
  std::string form =
      "ld" + options + (vector > 1 ? ".v" + std::to_string(vector) : "") + "." + t.name;
  bool policy = options.find("cache_hint") != std::string::npos;
  add({prologue(at) + declare(wide, vector) + fill(at) + "mov.u64 y, 0; " + form + " " +
           list(vector) + ", [" + at.address + "]" + (policy ? ", y" : "") + "; " +
           fold_elements(wide, vector) + "mov.b64 $d, y; }",
       Kind::B64,
       {Kind::B64, Kind::B64},
       [=](uint64_t a, uint64_t b, uint64_t) {
         uint8_t memory[32];
         for (unsigned i = 0; i < 32; ++i)
           memory[i] = static_cast<uint8_t>(word(a, b, i / 8) >> (i % 8 * 8));
         return folded_memory(memory, t, vector, wide);
       },
       nullptr,
       {},
       0,
       0,
       form,
       {},
       true});
}

void store(const Place &at, const std::string &options, unsigned vector, const Type &t,
           unsigned wide) {
  std::string form =
      "st" + options + (vector > 1 ? ".v" + std::to_string(vector) : "") + "." + t.name;
  bool policy = options.find("cache_hint") != std::string::npos;
  // Element i is a * (2 i + 1) + b, as wide as its register.
  std::string text = prologue(at) + declare(wide, vector) + "mov.u64 y, 0; ";
  for (unsigned i = 0; i < 4; ++i)
    text += std::string("st") + at.access + ".b64 [" + at.address + "+" + std::to_string(8 * i) +
            "], y; ";
  for (unsigned i = 0; i < vector; ++i) {
    std::string e = "e" + std::to_string(i);
    text += "mul.lo.u64 w, $a, " + std::to_string(2 * i + 1) + "; add.u64 w, w, $b; ";
    text += wide == 16  ? "mov.b128 e0, {w, $a}; "
            : wide == 8 ? "mov.b64 " + e + ", w; "
                        : "cvt.u" + std::to_string(8 * wide) + ".u64 " + e + ", w; ";
  }
  text +=
      form + " [" + at.address + "], " + list(vector) + (policy ? ", y" : "") + "; mov.u64 y, 0; ";
  for (unsigned i = 0; i < 4; ++i)
    text += std::string("ld") + at.access + ".b64 w, [" + at.address + "+" + std::to_string(8 * i) +
            "]; mad.lo.u64 y, y, 31, w; ";
  add({text + "mov.b64 $d, y; }",
       Kind::B64,
       {Kind::B64, Kind::B64},
       [=](uint64_t a, uint64_t b, uint64_t) {
         uint8_t memory[32] = {};
         for (unsigned k = 0; k < vector * t.bytes; ++k) {
           unsigned element = k / t.bytes, byte = k % t.bytes;
           uint64_t v = byte < 8 ? a * (2 * element + 1) + b : a;
           memory[k] = static_cast<uint8_t>(v >> (byte % 8 * 8));
         }
         uint64_t sum = 0;
         for (unsigned i = 0; i < 4; ++i) sum = fold(sum, bytes_at(memory + 8 * i, 8));
         return sum;
       },
       nullptr,
       {},
       0,
       0,
       form,
       {},
       true});
}

// Vectors of up to 128 bits; of 256 bits in global memory, of words and longer.
bool exists(const Place &at, const Type &t, unsigned vector) {
  unsigned bytes = t.bytes * vector;
  if (vector > 1 && t.bytes == 16) return false;
  if (vector == 8) return t.bytes == 4 && at.access == std::string(".global");
  if (bytes == 32) return t.bytes == 8 && at.access == std::string(".global");
  return bytes <= 16;
}

void each_load(const Place &at, const std::string &options) {
  for (const Type &t : kTypes)
    for (unsigned vector : {1u, 2u, 4u, 8u})
      if (exists(at, t, vector)) load(at, options, vector, t, register_bytes(t));
}
void each_store(const Place &at, const std::string &options) {
  for (const Type &t : kTypes)
    for (unsigned vector : {1u, 2u, 4u, 8u})
      if (exists(at, t, vector)) store(at, options, vector, t, register_bytes(t));
}
void both(const Place &at, const std::string &load_options, const std::string &store_options) {
  each_load(at, load_options);
  each_store(at, store_options);
}

void constants() {
  for (const Type &t : kTypes)
    for (unsigned vector : {1u, 2u, 4u}) {
      if (t.bytes * vector > 16 || (vector > 1 && t.bytes == 16)) continue;
      unsigned wide = register_bytes(t);
      std::string form = std::string("ld.const") +
                         (vector > 1 ? ".v" + std::to_string(vector) : "") + "." + t.name;
      // The offset is one of four, by a.
      add({"{ .reg .b64 w, x, y; " + declare(wide, vector) +
               "and.b64 w, $a, 3; mov.u64 y, constants; mad.lo.u64 x, w, 16, y; mov.u64 y, 0; " +
               form + " " + list(vector) + ", [x]; " + fold_elements(wide, vector) +
               "mov.b64 $d, y; }",
           Kind::B64,
           {Kind::B64},
           [=](uint64_t a, uint64_t, uint64_t) {
             uint8_t memory[16];
             for (unsigned i = 0; i < 16; ++i)
               memory[i] =
                   static_cast<uint8_t>(constant_byte(static_cast<unsigned>(a & 3) * 16 + i));
             return folded_memory(memory, t, vector, wide);
           },
           nullptr,
           {},
           0,
           0,
           form,
           {},
           true});
    }
}

// cvta there and back, and to a generic address that is loaded from.
void addresses() {
  struct Space {
    const char *name, *address;
  };
  for (const Space &space : {Space{"global", "$m"}, {"shared", "$s"}, {"local", "$l"}}) {
    std::string s = space.name;
    bool shared = s == "shared";
    std::string store = std::string("st.") + s + ".b64 [" + space.address + "+8], $a; ";
    std::string from =
        shared ? "cvt.u64.u32 x, $s; " : std::string("mov.u64 x, ") + space.address + "; ";
    std::string form = "cvta." + s + ".u64", back = "cvta.to." + s + ".u64";
    add({"{ .reg .b64 x, y, z; .reg .b32 w; .reg .pred p; " + store + from + form +
             " y, x; ld.b64 z, [y+8]; " + back +
             " y, y; setp.eq.u64 p, x, y; selp.b64 $d, z, 0, p; }",
         Kind::B64,
         {Kind::B64},
         [](uint64_t a, uint64_t, uint64_t) { return a; },
         nullptr,
         {},
         0,
         0,
         form + " " + back,
         {},
         true});
    // Only the space that it lies in.
    for (const Space &other : {Space{"global", ""}, {"shared", ""}, {"local", ""}}) {
      bool same = std::string(other.name) == s;
      std::string test = std::string("isspacep.") + other.name;
      add({"{ .reg .b64 x, y; .reg .pred p; " + from + form + " y, x; add.u64 y, y, 8; " + test +
               " p, y; selp.b64 $d, $a, 1, p; }",
           Kind::B64,
           {Kind::B64},
           [=](uint64_t a, uint64_t, uint64_t) { return same ? a : 1; },
           nullptr,
           {},
           0,
           0,
           test,
           {},
           true});
    }
  }
}

}  // namespace

void memory_cases() {
  for (const Place &at : kPlaces) {
    std::string s = at.space;
    both(at, s, s);
    if (s == ".param") continue;
    both(at, ".weak" + s, ".weak" + s);
    both(at, ".volatile" + s, ".volatile" + s);
    if (s == ".local") continue;
    for (const char *scope : {".cta", ".cluster", ".gpu", ".sys"}) {
      both(at, std::string(".relaxed") + scope + s, std::string(".relaxed") + scope + s);
      both(at, std::string(".acquire") + scope + s, std::string(".release") + scope + s);
    }
    // The order written behind the state space, as some compilers do.
    if (s == ".global") both(at, s + ".acquire.gpu", s + ".release.gpu");
  }
  const Place &global = kPlaces[0], &generic = kPlaces[1], &local = kPlaces[4];
  for (const Place *at : {&global, &generic, &local}) {
    std::string s = at->space;
    for (const char *hint :
         {".ca", ".cg", ".cs", ".lu", ".cv", ".L1::evict_first", ".L1::evict_last"})
      each_load(*at, s + hint);
    for (const char *hint : {".wb", ".cg", ".cs", ".wt", ".L1::evict_first", ".L1::evict_last"})
      each_store(*at, s + hint);
  }
  for (const char *hint : {".nc", ".ca.nc", ".cg.nc", ".cs.nc"})
    each_load(global, std::string(".global") + hint);
  for (const Place *at : {&global, &generic}) {
    std::string s = at->space;
    for (const char *hint : {".nc.L1::no_allocate", ".nc.L1::evict_last.L2::256B",
                             ".nc.L1::evict_last.L2::cache_hint.L2::256B"})
      if (at == &global) each_load(*at, s + hint);
    for (const char *hint :
         {".L1::evict_normal", ".L1::evict_unchanged", ".L1::no_allocate", ".L2::64B", ".L2::128B",
          ".L2::256B", ".L2::cache_hint", ".L1::evict_first.L2::evict_last",
          ".L1::no_allocate.L2::cache_hint.L2::128B"})
      each_load(*at, s + hint);
    for (const char *hint : {".L1::evict_normal", ".L1::evict_unchanged", ".L1::no_allocate",
                             ".L2::cache_hint", ".L1::evict_first.L2::evict_last"})
      each_store(*at, s + hint);
  }
  both(global, ".mmio.relaxed.sys.global", ".mmio.relaxed.sys.global");
  addresses();
  // Registers wider than the type: loads extend, stores take the low bits.
  for (const Place &at : kPlaces)
    for (const Type &t : kTypes)
      for (unsigned wide : {4u, 8u})
        for (unsigned vector : {1u, 2u, 4u}) {
          if (t.name[0] == 'f' || t.bytes >= wide || t.bytes * vector > 16) continue;
          load(at, at.space, vector, t, wide);
          store(at, at.space, vector, t, wide);
        }
  for (const Type &t : kTypes)
    for (unsigned vector : {1u, 2u, 4u})
      if (t.bytes * vector <= 16 && (vector == 1 || t.bytes < 16)) {
        std::string form = std::string("ldu.global") +
                           (vector > 1 ? ".v" + std::to_string(vector) : "") + "." + t.name;
        add({prologue(global) + declare(register_bytes(t), vector) + fill(global) +
                 "mov.u64 y, 0; " + form + " " + list(vector) + ", [$m]; " +
                 fold_elements(register_bytes(t), vector) + "mov.b64 $d, y; }",
             Kind::B64,
             {Kind::B64, Kind::B64},
             [=](uint64_t a, uint64_t b, uint64_t) {
               uint8_t memory[32];
               for (unsigned i = 0; i < 32; ++i)
                 memory[i] = static_cast<uint8_t>(word(a, b, i / 8) >> (i % 8 * 8));
               return folded_memory(memory, t, vector, register_bytes(t));
             },
             nullptr,
             {},
             0,
             0,
             form,
             {},
             true});
      }
  constants();
}

}  // namespace harness
