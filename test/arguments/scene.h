// What one call is made with: objects, made when they are first asked for, and the memory that its
// pointers point to.
#pragma once
#include <deque>
#include <map>

#include "call.h"

namespace arguments {

/** The function of the library under test. */
void *symbol(const char *name);
#define CALL(name) (reinterpret_cast<decltype(&::name)>(symbol(#name)))

constexpr size_t kBytes = size_t{1} << 16;
constexpr size_t kPiece = size_t{2} << 20;
constexpr size_t kBuffer = 4096;

/** What a pointer points to, and what it held before the call. */
struct Buffer {
  std::string name, type;
  unsigned char *bytes;
  unsigned char before[kBuffer];
};

class Scene {
 public:
  explicit Scene(const Call &given) : call(given) {}
  Scene(const Scene &) = delete;

  const Call &call;
  /** Those whose contents the program is told. */
  std::deque<Buffer> told;

  /** The one object of its kind that arguments name; a second under another `which`. */
  uint64_t object(const std::string &type, const std::string &which = "");
  /** A new object of a kind in the current context; 0 if there is none such. */
  uint64_t make(const std::string &type);
  /** Ends an object, and says whether there is a way to. */
  bool end(const std::string &type, uint64_t object);
  /** Memory that lasts as long as the process: what is registered or recorded must not end. */
  static unsigned char *memory(size_t size = kBuffer);

  CUdeviceptr device_memory();
  CUgraphNode node(CUgraphNodeType type);

 private:
  std::map<std::string, uint64_t> objects_;
  std::map<int, CUgraphNode> nodes_;
  CUgraph graph();
};

/** As handles and addresses are passed. */
template <class T>
uint64_t bits(T *of) {
  return reinterpret_cast<uint64_t>(of);
}
template <class T>
T handle(uint64_t of) {
  return reinterpret_cast<T>(of);
}

/** The size of a structure that calls are given; 0 for a type that is only told. */
size_t size_of(const std::string &type);
/** Fills in what it says in a legal call. */
void fill(Scene &scene, const std::string &type, unsigned char *bytes);
/** The addresses of the parameters of the kernel. */
void put_parameters(Scene &scene, unsigned char *bytes);

void host_function(void *);

/** Kernels, a variable and references, as PTX. */
extern const char kImage[];
/** A file with the same. */
const char *image_file();

}  // namespace arguments
