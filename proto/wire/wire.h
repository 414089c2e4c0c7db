// The frames that travel after the Welcome, shared by guest and server. Little endian; every frame
// is a multiple of 8 bytes and starts 8-byte aligned in the stream, so that both sides decode in
// place. Request bodies are generated from proto/api: see proto/generated/wire_calls.h.
#ifndef OUTBOARD_WIRE_H
#define OUTBOARD_WIRE_H

#include <stdint.h>

// Raised when a change would let two versions misread each other. Append-only additions do not.
#define WIRE_PROTOCOL 2

#define WIRE_PREFACE_MAGIC "OUTBOARD"
#define WIRE_PREFACE_BYTES 16
#define WIRE_CONTROL_MAX 65536

// Where both sides prefer the device window: far from heaps, stacks, libraries and shadows of the
// address sanitizer on x86-64. The thread sanitizer has few places for memory: in this
// one, below where programs are loaded, neither the kernel nor V8 puts anything by itself.
#ifdef __SANITIZE_THREAD__
#define WIRE_WINDOW_BASE 0x550000000000ull
#define WIRE_WINDOW_SIZE (1ull << 38)
#else
#define WIRE_WINDOW_BASE 0x400000000000ull
#define WIRE_WINDOW_SIZE (1ull << 40)
#endif

// What sizes and addresses of memory are multiples of, unless the Welcome says otherwise: what the
// device's driver gives memory in, which is not less than WIRE_GRANULE_LEAST.
#define WIRE_GRANULE (2ull << 20)
#define WIRE_GRANULE_LEAST (64ull << 10)
#define WIRE_GRANULE_MOST (1ull << 30)
static inline int wire_is_granule(uint64_t bytes) {
  return !(bytes & (bytes - 1)) && bytes >= WIRE_GRANULE_LEAST && bytes <= WIRE_GRANULE_MOST;
}

// A frame that is not bulk fits in the server's receive buffer with room to spare.
#define WIRE_FRAME_MAX (64u << 10)
// The payload of one bulk frame (memory, module images).
#define WIRE_BULK_MAX (1u << 20)
// Most bytes of a LateUpload.
#define WIRE_LATE_MAX (16u << 20)

// Parts of WIRE_BULK_MAX that one UploadAsk may name: as many as the bits of its answer.
#define WIRE_UPLOAD_PARTS 64u

// What one more of a limit of the context (by CUlimit) takes of the device's memory, where
// `threads` are on it at once: both sides count it towards the session's limit. A level of grids
// that wait for their children keeps registers and local memory of all threads (the vendor says 150
// MB where there are 30000), a launch that is pending its parameters and what the driver knows of
// it.
static inline uint64_t wire_limit_bytes(unsigned limit, uint64_t threads) {
  switch (limit) {
    case 0:  // CU_LIMIT_STACK_SIZE
      return threads;
    case 1:  // CU_LIMIT_PRINTF_FIFO_SIZE
    case 2:  // CU_LIMIT_MALLOC_HEAP_SIZE
      return 1;
    case 3:  // CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH
      return 5120 * threads;
    case 4:  // CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT
      return 5120;
    default:
      return 0;
  }
}

// From here on, in bytes, memory that a session takes is near its limit: the guest asks before it
// takes more (MemoryRoom). Below it memory is taken without asking, so nothing that the guest does
// not count, as the stacks of its kernels, may take what is below.
static inline uint64_t wire_near_limit(uint64_t limit) { return limit - limit / 4; }

// How many pieces of a download the server has on the program's stream at once, where its streams
// take so many operations (0: any number). What is more goes by a stream aside.
#define WIRE_DOWNLOAD_PIECES 64u
static inline unsigned wire_download_pieces(unsigned stream_operations) {
  const unsigned part = stream_operations / 8;
  if (!stream_operations || part > WIRE_DOWNLOAD_PIECES) return WIRE_DOWNLOAD_PIECES;
  return part ? part : 1;
}

// Slots of the region that guest and server share, of either kind at most: bits of a mask.
#define WIRE_REGION_SLOTS 64u

// Pages that host and device share, and how many may be asked about at once.
#define WIRE_PAGE 4096u
#define WIRE_PAGES_MAX 256u

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire is little endian and decoded in place"
#endif

// Both sides see the same layout, whatever compiles them.
#ifdef __cplusplus
#define WIRE_CHECK(condition, what) static_assert(condition, what)
#else
#define WIRE_CHECK(condition, what) _Static_assert(condition, what)
#endif

struct wire_header {
  uint16_t op;
  uint16_t flags;  // none yet: 0
  uint32_t size;   // of the whole frame, header and padding included
};

// Begins every request that wants an answer. `request` is chosen by the guest and is unique among
// the requests it waits for.
struct wire_request {
  struct wire_header header;
  uint64_t request;
};

// Added to a module's index in Welcome.expected: the request that its answer names, although nobody
// asked. The guest's own requests stay below.
#define WIRE_EXPECTED ((uint64_t)1 << 63)
#define WIRE_EXPECTED_MAX 32
// The request that the answer with what was learnt of libraries names (Welcome.learnt).
#define WIRE_LEARNT (WIRE_EXPECTED + WIRE_EXPECTED_MAX)

// What a MoveState brings of a session that comes from another process, in parts where it is long.
enum wire_move {
  WIRE_MOVE_UNREAD,    // bytes of the guest that were received and not carried out
  WIRE_MOVE_EVENTS,    // struct wire_moved_event for each event that has a time
  WIRE_MOVE_RETURNED,  // numbers of calls whose return was heard of before its command, as uint64_t
  WIRE_MOVE_COUNTERS,  // the session's counters, as uint64_t
  WIRE_MOVE_TLS,       // of a connection by TLS: its state (OUTBOARD_TLS_STATE bytes), and records
                       // behind
  WIRE_MOVE_PRINTED,   // one byte, where kernels have printed: their buffer keeps its size
  WIRE_MOVE_KEPT,    // of a connection that is kept over cuts: struct wire_moved_kept, and what was
                     // sent from there on, up to WIRE_BULK_MAX together
  WIRE_MOVE_STREAM,  // of the same, behind all that: struct wire_moved_stream; as a descriptor the
                     // connection comes along, as the guest may have come back on another one
  WIRE_MOVE_REGION,  // memory that it shares with its guest: which of its slots for downloads the
                     // guest has, a bit each, as uint64_t; it comes along as a descriptor
  WIRE_MOVE_KINDS,
};

struct wire_moved_kept {
  uint64_t from;  // bytes of the stream before these
};

// Bytes are counted from behind Hello and Welcome, each way.
struct wire_moved_stream {
  uint64_t received;  // from the guest, those with which nothing was done yet included
  uint64_t sent;
  uint64_t cut_at;   // with WIRE_STREAM_CUT: since so many were sent, all is kept only
  uint64_t away_ms;  // for how long the guest has been away; 0: it is not known to be
  uint32_t epoch;    // of its last connection (Resume); 0: it has had one
  uint32_t flags;    // of wire_stream_flag
};

enum wire_stream_flag {
  WIRE_STREAM_CUT = 1,
  WIRE_STREAM_SILENT = 2,  // it is away because nothing came any more
};

struct wire_moved_event {
  uint64_t event;
  int64_t ns;  // when it was recorded, before the session moved
};

// ---- server to guest -----------------------------------------------------------------------

enum wire_push {
  WIRE_REPLY = 0x8000,   // struct wire_reply and what the call's reply struct adds
  WIRE_DATA = 0x8001,    // struct wire_data: part of a download
  WIRE_IDLE = 0x8002,    // header only: all that was sent has been taken up
  WIRE_OUTPUT = 0x8003,  // struct wire_output: text the program's kernels printed
  WIRE_DONE = 0x8004,    // struct wire_done: an event or stream that was asked about is done
  WIRE_FAULT = 0x8005,   // struct wire_fault: a posted call failed
  WIRE_END = 0x8006,     // struct wire_end: the server ends the session
  WIRE_CALL = 0x8007,    // struct wire_call: a stream has come to a function of the program
  WIRE_ERRORS = 0x8008,  // struct wire_output: text for standard error
  WIRE_PLACED = 0x8009,  // struct wire_placed: part of a download that lies in shared memory
  WIRE_PASSED = 0x800a,  // struct wire_passed: a stream has come beyond a StreamMark
};

// The results that the call's reply struct adds are there when `result` is 0.
struct wire_reply {
  struct wire_header header;
  uint64_t request;
  int32_t result;  // CUresult of this call
  int32_t async;   // first error of posted calls not yet reported, or 0
};

// Payload follows. All parts of a download come before its reply.
struct wire_data {
  struct wire_header header;
  uint64_t request;
  uint64_t offset;
  uint64_t length;  // bytes of payload, without padding
};

// As WIRE_DATA, without payload: that is in the region, at the start of a slot for downloads.
struct wire_placed {
  struct wire_header header;
  uint64_t request;
  uint64_t offset;
  uint64_t length;
  uint32_t slot;
  uint32_t pad;
};

// Text follows.
struct wire_output {
  struct wire_header header;
  uint64_t length;
};

struct wire_done {
  struct wire_header header;
  uint64_t handle;
  uint64_t request;  // the query that asked for it
};

// What the guest has counted for the stream up to that mark.
struct wire_passed {
  struct wire_header header;
  uint64_t stream;
  uint64_t place;
};

struct wire_fault {
  struct wire_header header;
  int32_t result;
  uint16_t op;
  uint16_t pad;
  uint64_t posted_number;  // of the posted commands of the session alone, counted from 1
};

// The stream waits until HostFunctionDone names the call.
struct wire_call {
  struct wire_header header;
  uint64_t function;  // the guest's number for it
  uint64_t call;      // the server's for this call
  int32_t status;     // CUresult that a callback is told
  uint32_t pad;
};

// How long a number stands for a function of the program, and when that is called.
enum wire_function {
  WIRE_FUNCTION_ONCE,      // called once, unless the context has failed
  WIRE_FUNCTION_CALLBACK,  // called once, and told if the context has failed
  WIRE_FUNCTION_KEPT,      // a node of a graph: may be called again and again
  WIRE_FUNCTION_STEP,      // as a callback, and at once where the stream takes none
};

// A sentence follows.
struct wire_end {
  struct wire_header header;
  int32_t result;  // CUresult every later call gets
  uint32_t length;
};

WIRE_CHECK(sizeof(struct wire_header) == 8, "wire_header");
WIRE_CHECK(sizeof(struct wire_request) == 16, "wire_request");
WIRE_CHECK(sizeof(struct wire_reply) == 24, "wire_reply");
WIRE_CHECK(sizeof(struct wire_data) == 32, "wire_data");
WIRE_CHECK(sizeof(struct wire_placed) == 40, "wire_placed");
WIRE_CHECK(sizeof(struct wire_output) == 16, "wire_output");
WIRE_CHECK(sizeof(struct wire_done) == 24, "wire_done");
WIRE_CHECK(sizeof(struct wire_passed) == 24, "wire_passed");
WIRE_CHECK(sizeof(struct wire_fault) == 24, "wire_fault");
WIRE_CHECK(sizeof(struct wire_end) == 16, "wire_end");
WIRE_CHECK(sizeof(struct wire_call) == 32, "wire_call");

static inline uint32_t wire_round_up(uint32_t size) { return (size + 7u) & ~7u; }

// ---- handles -------------------------------------------------------------------------------

// The guest mints every handle: kind, generation and index in one number. An index is used again
// only with another generation, so a stale handle is told from a live one. Stream handles 0 (legacy
// default) and 1 (the same, named) are the driver's own and travel as they are.
enum wire_kind {
  WIRE_KIND_NONE,
  WIRE_KIND_CONTEXT,
  WIRE_KIND_STREAM,
  WIRE_KIND_EVENT,
  WIRE_KIND_MODULE,     // CUmodule and CUlibrary alike: one thing on the wire
  WIRE_KIND_FUNCTION,   // CUfunction and CUkernel alike
  WIRE_KIND_MEMORY,     // CUmemGenericAllocationHandle
  WIRE_KIND_POOL,       // CUmemoryPool: the guest's alone, never sent
  WIRE_KIND_ARRAY,      // CUarray and CUmipmappedArray alike
  WIRE_KIND_REFERENCE,  // of a texture or surface, in a module
  WIRE_KIND_GRAPH,
  WIRE_KIND_GRAPH_EXEC,
  WIRE_KIND_GRAPH_NODE,  // the guest's own, as user objects are
  WIRE_KIND_USER_OBJECT,
  WIRE_KIND_LINK,     // CUlinkState
  WIRE_KIND_LIBRARY,  // cublasHandle_t
  WIRE_KIND_COUNT,
};

#define WIRE_HANDLE_INDEX_BITS 24
#define WIRE_HANDLE_GENERATION_BITS 24
// The server refuses indexes past this, so that a guest cannot make it allocate at will.
#define WIRE_HANDLE_INDEX_MAX (1u << 20)

static inline uint64_t wire_handle(unsigned kind, uint32_t generation, uint32_t index) {
  return (uint64_t)kind << 48 | (uint64_t)(generation & 0xffffff) << 24 | (index & 0xffffff);
}
static inline unsigned wire_handle_kind(uint64_t handle) { return (unsigned)(handle >> 48); }
static inline uint32_t wire_handle_generation(uint64_t handle) {
  return (uint32_t)(handle >> 24) & 0xffffff;
}
static inline uint32_t wire_handle_index(uint64_t handle) { return (uint32_t)handle & 0xffffff; }

// ---- what a module's answer carries --------------------------------------------------------

// ModuleLoad's reply lists kernels: for each, struct wire_kernel, its parameters as
// struct wire_parameter, then the name, padded to 8.
struct wire_kernel {
  uint32_t name_length;
  uint32_t parameter_count;
  uint32_t parameter_bytes;
  uint32_t index;  // the server's number for it in the module, for FunctionGet
};

struct wire_parameter {
  uint32_t offset;
  uint32_t size;
};

// Behind the kernels, up to the end of the list, ModuleOpen's reply tells of variables that
// programs have asked for before: for each this, then the name, padded to 8.
struct wire_variable {
  uint64_t address;
  uint64_t size;
  uint32_t managed;
  uint32_t name_length;
};

// What a kernel's attributes are, as far as the driver told. In ModuleOpen's reply one of these
// stands behind every struct wire_kernel if `described` is not 0.
#define WIRE_FUNCTION_ATTRIBUTES 16
#define WIRE_OCCUPANCY_SIZES 32
#define WIRE_WARP 32
#define WIRE_OCCUPANCY_UNKNOWN 255
struct wire_description {
  uint32_t known;  // bit per CUfunction_attribute
  int32_t attributes[WIRE_FUNCTION_ATTRIBUTES];
  // Blocks that a multiprocessor holds at once without dynamic shared memory, for blocks of one
  // warp, of two, ... as far as the kernel allows.
  uint8_t blocks[WIRE_OCCUPANCY_SIZES];
  uint32_t pad;
};

// A question of Occupancies.
struct wire_block_shape {
  uint32_t threads;
  uint32_t pad;
  uint64_t shared;
};

// A tensor that a map is wanted of, but for its address. What has no meaning for its kind or its
// rank is 0, so that one tensor has one description.
enum { WIRE_TENSOR_TILED, WIRE_TENSOR_IM2COL, WIRE_TENSOR_IM2COL_WIDE, WIRE_TENSOR_KINDS };
struct wire_tensor {
  uint32_t kind;
  uint32_t type, rank, interleave, swizzle, promotion, fill;
  uint32_t mode;  // of WIRE_TENSOR_IM2COL_WIDE
  int32_t lower[3], upper[3];
  uint32_t channels, pixels;
  uint32_t box[5], steps[5];
  uint64_t sizes[5], strides[4];
};
// With a map come two for other addresses, which have these bits of the first one's changed: from
// them the guest learns where in a map the address is.
#define WIRE_TENSOR_MAP_BYTES 128
#define WIRE_TENSOR_MAPS 3
#define WIRE_TENSOR_LOWEST_BIT 5
#define WIRE_TENSOR_BITS 42
#define WIRE_TENSOR_CHANGE1 0x00007fffffffffe0ull
#define WIRE_TENSOR_CHANGE2 0x00002d15e3a4c620ull

// An attribute of a launch: CUlaunchAttributeID, and its value in words (launch_attributes of the
// guest and the server agree on them). Events are the guest's handles.
#define WIRE_LAUNCH_ATTRIBUTES 16
struct wire_launch_attribute {
  uint32_t id;
  uint32_t pad;
  uint64_t value[3];
};

// An image travels as parts: a fatbin of -rdc programs has several. Each part is this header and
// its bytes, padded to 8.
enum wire_image_kind {
  WIRE_IMAGE_FATBIN = 1,
  WIRE_IMAGE_ELF = 2,
  WIRE_IMAGE_PTX = 3,
  WIRE_IMAGE_INPUT = 4,  // of a link, whatever it is: the only part, and never loaded
};
// A server takes none that has more bytes than this, and at a time no more, of so many images, that
// no command has used yet.
#define WIRE_IMAGE_MAX (512ull << 20)
#define WIRE_IMAGES_COMING 16
struct wire_image_part {
  uint32_t kind;
  uint32_t pad;
  uint64_t size;
};

// What PagesUpload carries pieces for.
struct wire_page_run {
  uint64_t address;
  uint64_t size;
};

WIRE_CHECK(sizeof(struct wire_page_run) == 16, "wire_page_run");
WIRE_CHECK(sizeof(struct wire_kernel) == 16, "wire_kernel");
WIRE_CHECK(sizeof(struct wire_parameter) == 8, "wire_parameter");
WIRE_CHECK(sizeof(struct wire_variable) == 24, "wire_variable");
WIRE_CHECK(sizeof(struct wire_description) == 104, "wire_description");
WIRE_CHECK(sizeof(struct wire_block_shape) == 16, "wire_block_shape");
WIRE_CHECK(sizeof(struct wire_tensor) == 176, "wire_tensor");
WIRE_CHECK(sizeof(struct wire_launch_attribute) == 32, "wire_launch_attribute");
WIRE_CHECK(sizeof(struct wire_image_part) == 16, "wire_image_part");

// What the driver calls a result, as ErrorTexts answers it. Behind it lie the bytes of its name and
// of its sentence, together padded to 8; no NUL ends them. Results that the driver does not know
// are left out.
struct wire_error_text {
  int32_t result;
  uint16_t name_size;
  uint16_t sentence_size;
};
#define WIRE_ERROR_TEXTS_MAX 1000  // results, which are below that number
#define WIRE_ERROR_TEXT_MAX 255    // bytes of a name, and of a sentence
WIRE_CHECK(sizeof(struct wire_error_text) == 8, "wire_error_text");

// What StreamValues carries: a value that a stream waits for or writes.
struct wire_value {
  uint32_t operation;  // CU_STREAM_MEM_OP_WAIT_VALUE_32, ..._64, WRITE_VALUE_32 or ..._64
  uint32_t flags;      // as the driver's
  uint64_t address;
  uint64_t value;
};
#define WIRE_VALUES_MAX 256

WIRE_CHECK(sizeof(struct wire_value) == 24, "wire_value");

enum wire_module_state {
  WIRE_MODULE_LOADED = 1,
  WIRE_MODULE_WANTED = 2,
  WIRE_MODULE_REFUSED = 3,  // by the driver, and `refused` says why
};

// An option of the compiler: CUjit_option and its value. Of the buffers for messages only the sizes
// travel.
#define WIRE_JIT_OPTIONS 64
#define WIRE_JIT_LOG_MAX (16u << 10)
struct wire_jit_option {
  uint32_t option;
  uint32_t pad;
  uint64_t value;
};
// Links that a session has at a time.
#define WIRE_LINKS_MAX 1024
WIRE_CHECK(sizeof(struct wire_jit_option) == 16, "wire_jit_option");

#endif
