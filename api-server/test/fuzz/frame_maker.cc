#include "frame_maker.h"

#include <algorithm>
#include <cstring>

#include "cuda_driver.h"
#include "fuzz_session.h"
#include "images/image_bytes.h"
#include "wire_graph.h"
#include "world.h"

namespace {

template <class T>
std::string bytes_of(const T &value) {
  return {reinterpret_cast<const char *>(&value), sizeof value};
}

template <class T>
void put(std::string &frame, size_t at, T value) {
  memcpy(frame.data() + at, &value, sizeof value);
}

bool named(const wire_field &field, std::initializer_list<const char *> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char *name) { return strcmp(field.name, name) == 0; });
}

constexpr const char *kNames[] = {"add", "gate", "nothing", "table", "linked", "x", ""};

// The fake driver's; the second is the input of links.
constexpr const char *kTexts[] = {
    "kernel add 8 8 4\nkernel gate 4\nglobal table 64\nkernel nothing\n",
    "kernel linked 8\n",
    "kernel many 1 2 4 8 8 8 8\nglobal a 4\nglobal b 1000\n",
    "no kernel at all",
};
constexpr size_t kImages = 2 + sizeof kTexts / sizeof *kTexts;

}  // namespace

const wire_command *find_command(const std::string &frame) {
  wire_header header;
  if (frame.size() < sizeof header) return nullptr;
  memcpy(&header, frame.data(), sizeof header);
  for (const wire_command &command : wire_commands) {
    if (command.op == header.op) return &command;
  }
  return nullptr;
}

void seal(std::string &frame, uint32_t first) {
  const wire_command *command = find_command(frame);
  if (!command || frame.size() < command->size) return;
  uint32_t left = static_cast<uint32_t>(frame.size() - command->size);
  if (!command->blobs && !command->bulk) left = 0;
  const uint32_t all = left;
  unsigned blob = 0;
  for (unsigned i = 0; i < command->count; i++) {
    const wire_field &field = wire_fields[command->first + i];
    if (field.role == WIRE_ROLE_BULK) put(frame, field.offset, uint64_t{left});
    if (field.role != WIRE_ROLE_BLOB) continue;
    const uint32_t size = ++blob == command->blobs ? left : std::min(left, first);
    put(frame, field.offset, size);
    left -= std::min(left, wire_round_up(size));
  }
  frame.resize(command->size + wire_round_up(all));
  wire_header header;
  memcpy(&header, frame.data(), sizeof header);
  header.size = static_cast<uint32_t>(frame.size());
  memcpy(frame.data(), &header, sizeof header);
}

std::string FrameMaker::image(size_t which) {
  if (which == 0) return Guest::image(kExpectedText);
  if (which == 1) return Guest::image(kTexts[1], WIRE_IMAGE_INPUT);
  return Guest::image(kTexts[which - 2]);
}

uint64_t FrameMaker::value(const wire_command &command, const wire_field &field) {
  const auto handle = [&](unsigned kind) {
    return wire_handle(kind, random_.below(8) ? 1 : 2, static_cast<uint32_t>(random_.below(4)));
  };
  if (random_.below(40) == 0) return random_.next();
  if (field.role == WIRE_ROLE_HANDLE || field.role == WIRE_ROLE_MINT) {
    if (field.kind == WIRE_KIND_STREAM && random_.below(3) == 0) return random_.below(3);
    return handle(field.kind);
  }
  const bool is_peer = strncmp(command.name, "Peer", 4) == 0;
  const bool is_memory = strncmp(command.name, "Memory", 6) == 0 || command.op == WIRE_PinnedMap;
  if (field.role == WIRE_ROLE_ADDRESS ||
      named(field, {"address", "destination", "source", "to_x", "from_x", "x"})) {
    const bool granules = is_peer || is_memory;
    const uint64_t granule = is_peer && random_.below(4) ? kLentGranule + random_.one_of({0, 1, 3})
                                                         : random_.one_of({0, 0, 0, 1, 2, 8, 9});
    const uint64_t inside =
        granules ? 0 : random_.one_of({0, 0, 8, 64, 4096, 8192, WIRE_GRANULE - 16, 3});
    // An array takes the place of an address: then these are offsets in it.
    if (named(field, {"to_x", "from_x", "x"}) && random_.below(2)) return random_.below(6);
    return World::base() + granule * WIRE_GRANULE + inside;
  }
  if (named(field, {"link"})) return handle(WIRE_KIND_LINK);
  if (named(field, {"exec"})) return handle(WIRE_KIND_GRAPH_EXEC);
  if (named(field, {"graph", "base"})) {
    return random_.below(2) ? 0 : handle(WIRE_KIND_GRAPH);
  }
  if (named(field, {"memory"})) return random_.below(4) ? handle(WIRE_KIND_MEMORY) : 0;
  if (named(field, {"array", "mipmapped", "to_array", "from_array"})) {
    return random_.below(3) ? handle(WIRE_KIND_ARRAY) : 0;
  }
  if (named(field, {"reference"})) return handle(WIRE_KIND_REFERENCE);
  if (named(field, {"object", "handle"})) return random_.below(5);
  if (named(field, {"function", "call"})) return random_.below(6);
  if (named(field, {"loan"})) return 1 + random_.below(kLoans + 1);
  if (named(field, {"peer", "device", "level", "levels", "slot", "index"})) {
    return random_.one_of({0, 0, 0, 1, 2, 7});
  }
  if (named(field, {"size", "length"}) && (is_peer || is_memory)) {
    return random_.one_of({1, 1, 1, 2, 3}) * WIRE_GRANULE;
  }
  if (named(field, {"offset"})) return random_.below(3) * (random_.below(2) ? WIRE_GRANULE : 8);
  if (named(field, {"format", "own_format"})) return random_.one_of({1, 2, 3, 8, 9, 10, 16, 32});
  if (named(field, {"channels", "own_channels"})) return random_.one_of({1, 2, 4});
  if (named(field, {"name0"})) {
    return strcmp(command.name, "MemoryImport") == 0  ? kStandInMemory
           : strcmp(command.name, "ShareCheck") == 0  ? kStandInMemory
           : strcmp(command.name, "EventImport") == 0 ? kStandInEvent
                                                      : kStandInPeer;
  }
  if (strncmp(field.name, "hash", 4) == 0 || strcmp(field.name, "total") == 0) {
    const std::string whole = image(image_);
    if (field.name[0] == 't') return whole.size();
    const outboard::Hash hash =
        outboard::blake2b({reinterpret_cast<const uint8_t *>(whole.data()), whole.size()});
    return hash[static_cast<size_t>(field.name[4] - '0') & 3];
  }
  if (named(field, {"last", "wait", "own", "shareable", "named", "bound"})) {
    return random_.below(3) > 0;
  }
  if (field.size == 8 && random_.below(3) == 0) {
    return random_.one_of({16, 64, 100, 512, 4096, 65536, WIRE_GRANULE, 1ull << 32});
  }
  return random_.one_of({0, 0, 1, 1, 1, 2, 3, 4, 5, 8, 16, 32, 0x10, 0xffffffff});
}

std::string FrameMaker::graph_nodes(bool change) {
  std::string records;
  const size_t count = 1 + random_.below(4);
  for (size_t n = 0; n < count; n++) {
    wire_graph_node head{};
    head.type = static_cast<uint32_t>(random_.below(14));
    head.graph = static_cast<uint32_t>(change ? random_.below(4) : random_.below(8) == 0);
    head.edges = !change && n > 0 && random_.below(2) ? 1 : 0;
    std::string body;
    if (head.edges) {
      wire_graph_edge edge{};
      edge.from = static_cast<uint32_t>(random_.below(n));
      body += bytes_of(edge);
    }
    const auto address = [&] {
      return World::base() + random_.one_of({0, 0, 64, 4096, WIRE_GRANULE});
    };
    const auto handle = [&](unsigned kind) {
      return wire_handle(kind, 1, static_cast<uint32_t>(random_.below(4)));
    };
    switch (head.type) {
      case CU_GRAPH_NODE_TYPE_KERNEL: {
        wire_graph_kernel kernel{};
        kernel.function = handle(WIRE_KIND_FUNCTION);
        for (uint32_t &n : kernel.grid) n = 1;
        for (uint32_t &n : kernel.block) n = 1;
        if (random_.below(8) == 0) kernel.cluster[0] = kernel.cluster[1] = kernel.cluster[2] = 1;
        kernel.cooperative = random_.below(8) == 0;
        kernel.parameter_bytes = static_cast<uint32_t>(random_.one_of({0, 4, 8, 20}));
        body += bytes_of(kernel);
        std::string parameters = bytes_of(address()) + bytes_of(uint64_t{4}) + bytes_of(7);
        parameters.resize(wire_round_up(kernel.parameter_bytes));
        body += parameters;
        break;
      }
      case CU_GRAPH_NODE_TYPE_MEMCPY: {
        const bool arrays = random_.below(2) == 0;
        const bool to = arrays && random_.below(2) == 0;
        wire_graph_copy copy{to ? random_.below(4) : address(),
                             8,
                             2,
                             arrays && !to ? random_.below(4) : address(),
                             8,
                             2,
                             8,
                             2,
                             1};
        body += bytes_of(copy);
        if (arrays) {
          const uint64_t array = handle(WIRE_KIND_ARRAY);
          body += bytes_of(wire_graph_arrays{to ? array : 0, to ? 0 : array});
        }
        break;
      }
      case CU_GRAPH_NODE_TYPE_MEMSET: {
        const uint32_t unit = static_cast<uint32_t>(random_.one_of({1, 2, 4}));
        body += bytes_of(wire_graph_fill{address(), random_.one_of({0, 64}), 16,
                                         random_.one_of({1, 2}), 7, unit});
        break;
      }
      case CU_GRAPH_NODE_TYPE_HOST:
        body += bytes_of(wire_graph_host{random_.below(6)});
        break;
      case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        body += bytes_of(wire_graph_event{handle(WIRE_KIND_EVENT)});
        break;
      case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        body += bytes_of(wire_graph_values{1, 0});
        body += bytes_of(wire_graph_value{static_cast<uint32_t>(random_.one_of({1, 2, 4, 5})), 0,
                                          address(), random_.below(3)});
        break;
      case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        body += bytes_of(
            wire_graph_condition{random_.below(4), static_cast<uint32_t>(random_.below(3)), 1});
        break;
      default:
        break;
    }
    body.resize(wire_round_up(static_cast<uint32_t>(body.size())));
    head.size = static_cast<uint32_t>(sizeof head + body.size());
    records += bytes_of(head) + body;
  }
  return records;
}

// What stands behind the fixed part; of several blobs the first has `*first` bytes.
std::string FrameMaker::tail(const wire_command &command, uint32_t *first) {
  *first = 0;
  const std::string name = kNames[random_.below(std::size(kNames))];
  switch (command.op) {
    case WIRE_ModulePiece:
      return image(image_);
    case WIRE_GraphBuild:
      return graph_nodes(false);
    case WIRE_GraphSet:
      return graph_nodes(true);
    case WIRE_Upload:
    case WIRE_UploadKeep:
    case WIRE_BoxUpload:
    case WIRE_PagesUpload:
      return std::string(random_.one_of({1, 8, 64, 100, 4096}), 'u');
    case WIRE_UploadAsk:
      return std::string(32 * (1 + random_.below(3)), 'h');
    case WIRE_PagesChanged:
      return std::string(8 * random_.below(4), 'p');
    case WIRE_ModuleGlobal:
    case WIRE_FunctionGet:
    case WIRE_FunctionFind:
    case WIRE_ReferenceGet:
      return name;
    case WIRE_Launch: {
      std::string packed = bytes_of(World::base()) + bytes_of(uint64_t{4}) + bytes_of(9);
      packed.resize(random_.one_of({0, 4, 8, 20}));
      return packed;
    }
    case WIRE_LaunchWith:
    case WIRE_OccupancyClusters: {
      std::string attributes;
      for (size_t n = random_.below(3); n > 0; n--) {
        wire_launch_attribute attribute{};
        attribute.id = static_cast<uint32_t>(random_.below(18));
        for (uint64_t &word : attribute.value) word = random_.one_of({0, 1, 1ull << 32 | 1, 2});
        attributes += bytes_of(attribute);
      }
      *first = static_cast<uint32_t>(attributes.size());
      if (command.op == WIRE_LaunchWith) {
        std::string packed = bytes_of(World::base()) + bytes_of(uint64_t{4}) + bytes_of(9);
        packed.resize(random_.one_of({0, 4, 8, 20}));
        attributes += packed;
      }
      return attributes;
    }
    case WIRE_Occupancies:
      return bytes_of(wire_block_shape{32, 0, random_.one_of({0, 1024})});
    case WIRE_StreamValues:
      return bytes_of(wire_value{static_cast<uint32_t>(random_.one_of({1, 2, 4, 5})),
                                 static_cast<uint32_t>(random_.below(5)), World::base() + 8,
                                 random_.below(2)});
    case WIRE_ModuleOpen:
    case WIRE_LinkCreate: {
      std::string options;
      for (size_t n = random_.below(3); n > 0; n--) {
        options += bytes_of(wire_jit_option{static_cast<uint32_t>(random_.below(34)), 0,
                                            random_.one_of({0, 1, 32, 256, 100000})});
      }
      return options;
    }
    case WIRE_LinkAdd:
      return name;
    case WIRE_StreamAttribute:
      return std::string(sizeof(CUstreamAttrValue), '\0');
    case WIRE_TextureCreate: {
      CUDA_TEXTURE_DESC texture{};
      texture.addressMode[0] = static_cast<CUaddress_mode>(random_.below(4));
      texture.filterMode = static_cast<CUfilter_mode>(random_.below(2));
      *first = sizeof texture;
      std::string both = bytes_of(texture);
      if (random_.below(3) == 0) {
        CUDA_RESOURCE_VIEW_DESC view{};
        view.width = 4;
        view.height = 4;
        both += bytes_of(view);
      }
      return both;
    }
    case WIRE_TensorMapEncode: {
      wire_tensor tensor{};
      tensor.kind = static_cast<uint32_t>(random_.below(4));
      tensor.rank = static_cast<uint32_t>(random_.below(7));
      tensor.swizzle = static_cast<uint32_t>(random_.below(8));
      return bytes_of(tensor);
    }
    case WIRE_TensorMapReplace:
      return std::string(WIRE_TENSOR_MAP_BYTES, '\0');
    case WIRE_TextureReferenceSet: {
      CUDA_TEXTURE_DESC texture{};
      *first = sizeof texture;
      return bytes_of(texture);
    }
    default:
      return {};
  }
}

std::string FrameMaker::fill(const wire_command &command) {
  std::string frame(command.size, '\0');
  put(frame, 0, command.op);
  if (command.asks) put(frame, sizeof(wire_header), 1 + random_.below(1 << 20));
  for (unsigned i = 0; i < command.count; i++) {
    const wire_field &field = wire_fields[command.first + i];
    const uint64_t v = value(command, field);
    if (field.size == 8)
      put(frame, field.offset, v);
    else
      put(frame, field.offset, static_cast<uint32_t>(v));
  }
  uint32_t first;
  frame += tail(command, &first);
  seal(frame, first);
  return frame;
}

std::vector<std::string> FrameMaker::make(const wire_command &command) {
  image_ = random_.below(kImages);
  std::vector<std::string> frames;
  const auto before = [&](uint16_t op) {
    for (const wire_command &one : wire_commands) {
      if (one.op == op) frames.push_back(fill(one));
    }
  };
  if (random_.below(2)) {
    switch (command.op) {
      case WIRE_ModuleLoad:
      case WIRE_ModuleOpen:
      case WIRE_LinkAdd:
        before(WIRE_ModulePiece);
        break;
      case WIRE_Upload:
      case WIRE_Download:
      case WIRE_Launch:
      case WIRE_PeerLend:
      case WIRE_MemoryExport:
        before(WIRE_MemoryMap);
        break;
      case WIRE_ShareEnd:
        before(WIRE_MemoryExport);
        break;
      case WIRE_PeerMap:
        before(WIRE_PeerJoin);
        break;
      case WIRE_MemoryPlace:
        before(WIRE_MemoryCreate);
        break;
      case WIRE_GraphLaunch:
        before(WIRE_GraphBuild);
        break;
      case WIRE_RegionUpload:
      case WIRE_RegionDownload:
        before(WIRE_RegionOpen);
        break;
      default:
        break;
    }
  }
  frames.push_back(fill(command));
  return frames;
}

void FrameMaker::change(std::string &frame) {
  const wire_command *command = find_command(frame);
  if (!command || command->count == 0 || frame.size() < command->size) return;
  const wire_field &field = wire_fields[command->first + random_.below(command->count)];
  // Sizes of what follows are for change_tail().
  if (field.role == WIRE_ROLE_BLOB || field.role == WIRE_ROLE_BULK) return;
  image_ = random_.below(kImages);
  uint64_t v = value(*command, field);
  if (random_.below(4) == 0) {
    uint64_t now = 0;
    memcpy(&now, frame.data() + field.offset, field.size);
    v = random_.below(2) ? now + random_.one_of({1, 8, uint64_t{0} - 1, uint64_t{0} - 8})
                         : now ^ uint64_t { 1 } << random_.below(field.size * 8);
  }
  if (field.size == 8)
    put(frame, field.offset, v);
  else
    put(frame, field.offset, static_cast<uint32_t>(v));
}
