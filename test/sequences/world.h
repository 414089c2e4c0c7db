// What a sequence of calls knows: the choices it is made of, and the objects that its calls have
// made.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cuda_driver.h"

namespace sequences {

/** The choices of one sequence, from a seed or from given bytes. */
class Choices {
 public:
  explicit Choices(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  Choices(const uint8_t *bytes, size_t size) : bytes_(bytes), size_(size) {}

  /** From 0 to `count` - 1; 0 behind the end of given bytes. */
  uint32_t below(uint32_t count);
  /** True once in `times`. */
  bool once_in(uint32_t times) { return below(times) == times - 1; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<uint32_t>(values.size()))];
  }
  bool over() const { return bytes_ && size_ == 0; }

 private:
  uint64_t state_ = 0;
  const uint8_t *bytes_ = nullptr;
  size_t size_ = 0;
};

/** Objects of one kind, by the number under which the transcript names them. */
template <class T>
struct Pool {
  std::map<unsigned, T> live;
  unsigned made = 0;

  unsigned add(T object) {
    live.emplace(made, object);
    return made++;
  }
  /** One of those wanted; null if there is none. */
  template <class Wanted>
  std::pair<const unsigned, T> *pick(Choices &choices, Wanted wanted) {
    std::vector<std::pair<const unsigned, T> *> fits;
    for (auto &one : live)
      if (wanted(one.second)) fits.push_back(&one);
    return fits.empty() ? nullptr : fits[choices.below(static_cast<uint32_t>(fits.size()))];
  }
  std::pair<const unsigned, T> *pick(Choices &choices) {
    return pick(choices, [](const T &) { return true; });
  }
};

/**
 * A stream and what only its work may use: the work of two streams on the same bytes has no one
 * result. The first are the legacy streams of the devices.
 */
struct Strand {
  CUstream stream;
  unsigned device;
  bool live = true;
  /** Never written by any call. */
  std::vector<uint8_t> source;
  /** Where copies to the host go: ordinary memory, and pinned memory (null if there is none). */
  std::vector<uint8_t> target;
  uint8_t *pinned = nullptr;
  /** How often host functions have run. */
  uint64_t host_calls = 0;
};

struct Memory {
  CUdeviceptr address;
  size_t size;
  unsigned strand;
  /** `kCapture`: of a graph, and only to be named by what is captured with it. */
  enum Kind { kPlain, kOrdered, kVariable, kManaged, kCapture } kind;
  /** A graph names it. */
  bool kept = false;
};

struct Array {
  CUarray handle;
  size_t width, height, depth, element;
  unsigned strand;
  bool kept = false;
};

struct Graph {
  CUgraph handle;
  unsigned strand;
  /** Uses memory of more than one strand. */
  bool wide;
  bool captured;
  std::vector<CUgraphNode> nodes;
  /** The last node that touches memory: the next one waits for it. */
  CUgraphNode last = nullptr;
};

struct Exec {
  CUgraphExec handle;
  unsigned strand;
  bool wide;
};

struct Module {
  CUmodule handle;
  unsigned device;
};

struct MemoryPool {
  CUmemoryPool handle;
  unsigned device;
  /** Devices that may use its memory, beside its own. */
  std::set<unsigned> borrowers = {};
};

struct Function {
  CUfunction handle;
  /** 0: bump(pointer, count), 1: mix(pointer, count, factor). */
  int which;
  unsigned device;
};

constexpr size_t kHostBytes = size_t{1} << 18;

struct World {
  explicit World(Choices given) : choices(given) {}

  Choices choices;
  void *(*symbol)(const char *name) = nullptr;

  /** Never moves one. */
  std::deque<Strand> strands;
  unsigned strand = 0;
  Strand &here() { return strands[strand]; }
  /** Of the devices, primary. */
  std::vector<CUcontext> contexts;

  Pool<CUevent> events;
  Pool<Memory> memory;
  Pool<Array> arrays;
  Pool<Graph> graphs;
  Pool<Exec> execs;
  Pool<Module> modules;
  Pool<Function> functions;
  Pool<MemoryPool> pools;

  /** Which device's primary context has access to the memory of which. */
  std::set<std::pair<unsigned, unsigned>> open;

  void add_strand(CUstream stream, unsigned device);
  /** Waits for all work of a device. The strand's context stays the current one. */
  void wait_for(unsigned device);
  /** Whether kernels of a device may use all plain memory of another. */
  bool reaches(unsigned borrower, unsigned owner) const;
  bool capturing();
  /** Whether any stream is: then not everything can be waited for. */
  bool any_capturing();
  /** "m3+16" for an address in memory that is known. */
  std::string name(CUdeviceptr address) const;
};

/** Part of a piece of memory of the strand. */
struct Range {
  CUdeviceptr address = 0;
  /** Number of the piece, and where in it. */
  int piece = -1;
  size_t offset = 0;
  /** To the end of the piece. */
  size_t room = 0;
  std::string text = "0";
};

/** One call: what it is given, its result, what it tells. */
class Line {
 public:
  explicit Line(const char *name) : text_(name) { text_ += '('; }
  Line &arg(const std::string &text);
  Line &arg(uint64_t value) { return arg(std::to_string(value)); }
  CUresult result(CUresult result);
  /** For a result that depends on the time: either is the same. */
  CUresult result(CUresult result, CUresult same);
  Line &out(const std::string &text);
  Line &out(uint64_t value) { return out(std::to_string(value)); }
  const std::string &text() const { return text_; }

 private:
  std::string text_;
  bool first_ = true;
};

struct Entry {
  const char *name;
  /** How often it comes, compared with the others. */
  unsigned weight;
  void (*run)(World &, Line &);
};

const std::vector<Entry> &memory_steps();
const std::vector<Entry> &copy_steps();
const std::vector<Entry> &stream_steps();
const std::vector<Entry> &graph_steps();
const std::vector<Entry> &module_steps();
const std::vector<Entry> &peer_steps();

/**
 * A part of some memory of the strand; usually one that begins where any access may. Memory that a
 * capture allocates is for what is captured with it.
 */
Range range(World &world, bool of_capture = true);
/** Of ranges that overlap nobody knows the result of a copy: as much as does not. */
size_t apart(const Range &one, const Range &other, size_t size);
/** A count of elements for `room` bytes: nearly always one that fits. */
size_t count(World &world, size_t room, size_t element = 1);
/** What the transcript shows of contents. */
uint64_t digest(const void *bytes, size_t size);

/** The call of this name, in whichever library is loaded. */
#define CALL(world, name) (reinterpret_cast<decltype(&::name)>((world).symbol(#name)))

}  // namespace sequences
