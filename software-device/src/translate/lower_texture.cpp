// Texture fetches, surface accesses, and what can be asked about both.
#include "translate/lower.h"
#include "translate/texture_request.h"

namespace softdev {

// [a, c]: the handle or the name of a reference, and the coordinates.
bool Lowering::image_operand(const OperandSyntax &operand, uint32_t elements, Value *handle) {
  if (operand.kind != OperandSyntax::Address) return refuse("expected [image, coordinates]");
  if (operand.count == elements + 1)
    return refuse("samplers apart from textures are not supported");
  if (operand.count != elements) return refuse("wrong number of elements in the address");
  if (operand.offset) return refuse("an image has no offset");
  if (operand.reg != kNone) {
    *handle = reg_value(operand.reg);
    if (register_size(*handle) != 8) return refuse("the handle needs a 64-bit register");
    return true;
  }
  if (operand.name.empty()) {
    *handle = bits(static_cast<uint64_t>(operand.offset), 8);
    return true;
  }
  OperandSyntax symbol = operand;
  symbol.kind = OperandSyntax::Symbol;
  const VariableSyntax *variable = find_variable(operand.name, operand.scope);
  if (!variable || variable->opaque == Opaque::None)
    return refuse("'" + std::string(operand.name) + "' is no texture and no surface");
  return symbol_value(symbol, 8, handle);
}

bool Lowering::take_geometry(uint8_t *dimensions, bool *layered, bool *cube) {
  struct Row {
    std::string_view name;
    uint8_t dimensions;
    bool layered, cube;
  };
  static constexpr Row kRows[] = {
      {"1d", 1, false, false},  {"2d", 2, false, false}, {"3d", 3, false, false},
      {"a1d", 1, true, false},  {"a2d", 2, true, false}, {"cube", 3, false, true},
      {"acube", 3, true, true},
  };
  for (const Row &row : kRows) {
    if (!take(row.name)) continue;
    *dimensions = row.dimensions;
    *layered = row.layered;
    *cube = row.cube;
    return true;
  }
  return refuse("unknown or unsupported geometry");
}

// Up to `count` elements of a vector operand, or a scalar, to `out`. PTX pads vectors of three
// with a fourth element that means nothing.
bool Lowering::elements(const OperandSyntax &operand, Type type, unsigned count, Value *out) {
  if (operand.kind != OperandSyntax::List) {
    if (count != 1) return refuse("expected a vector");
    return source(operand, type, out);
  }
  if (operand.count < count || operand.count > 4) return refuse("wrong vector length");
  for (unsigned i = 0; i < count; ++i)
    if (!source(body_.operands[operand.first + i], type, &out[i])) return false;
  return true;
}

// The layer, if there is one, comes first.
bool Lowering::coordinates(const OperandSyntax &operand, Type type, unsigned dimensions,
                           bool layered, std::vector<Value> *inputs) {
  const OperandSyntax &vector = body_.operands[operand.first];
  Value parts[4];
  if (!layered) {
    if (!elements(vector, type, dimensions, parts)) return false;
  } else {
    if (vector.kind != OperandSyntax::List || vector.count < dimensions + 1 || vector.count > 4)
      return refuse("wrong number of coordinates");
    if (!source(body_.operands[vector.first], Type::U32, &(*inputs)[kInputLayer])) return false;
    for (unsigned i = 0; i < dimensions; ++i)
      if (!source(body_.operands[vector.first + 1 + i], type, &parts[i])) return false;
  }
  for (unsigned i = 0; i < dimensions; ++i) (*inputs)[kInputX + i] = parts[i];
  return true;
}

void Lowering::add_results_and_inputs(const std::vector<Value> &results,
                                      const std::vector<Value> &inputs, Ir *ir) {
  ir->list = add_list(results);
  add_list(inputs);
  ir->list_written = static_cast<uint32_t>(results.size());
  ir->list_count = static_cast<uint32_t>(results.size() + inputs.size());
}

// tex{.base,.level,.grad}.geom.v4.type.ctype  d{|p}, [a, c] {, lod} {, dx, dy} {, e}
// tld4.comp.geom.v4.type.f32                  d{|p}, [a, c] {, e}
bool Lowering::texture() {
  TextureRequest request;
  Ir ir = make(Op::Texture);
  if (statement_->opcode == "tld4") {
    static constexpr std::string_view kComponents[] = {"r", "g", "b", "a"};
    request.lod = TextureLod::Gather;
    uint8_t component = 0;
    while (component < 4 && !take(kComponents[component])) ++component;
    if (component == 4) return refuse("needs a component");
    request.component = component;
  } else if (take("level")) {
    request.lod = TextureLod::Level;
  } else if (take("grad")) {
    request.lod = TextureLod::Gradient;
  } else {
    take("base");
  }
  if (!take_geometry(&request.dimensions, &request.layered, &request.cube)) return false;
  bool gather = request.lod == TextureLod::Gather;
  if (gather && request.dimensions != 2 && !request.cube) return refuse("gathers are of 2d images");
  unsigned vector = take_vector();
  ir.type = take_type();
  Type coordinate = take_type();
  unsigned size = 4, count = 4;
  switch (ir.type) {
    case Type::U32:
    case Type::S32:
    case Type::F32:
      break;
    case Type::F16:
      request.result = TextureResult::Half;
      size = 2;
      break;
    case Type::F16x2:
      request.result = TextureResult::HalfPair;
      count = 2;
      break;
    default:
      return refuse("unknown type of result");
  }
  if (coordinate != Type::F32 && coordinate != Type::S32)
    return refuse("coordinates: .f32 or .s32");
  request.integer_coordinates = coordinate == Type::S32;
  if (request.integer_coordinates && (request.cube || gather))
    return refuse("needs .f32 coordinates");
  if (!modifiers_done()) return false;
  if (vector != count) return refuse("wrong vector length");
  uint32_t at = 2;
  if (!expect_operands(2, 6)) return false;

  const OperandSyntax &to = operand(0);
  if (to.kind != OperandSyntax::List || to.count != count) return refuse("wrong vector length");
  std::vector<Value> results(count);
  for (unsigned i = 0; i < count; ++i) {
    const OperandSyntax &part = body_.operands[to.first + i];
    if (part.kind != OperandSyntax::Sink && !destination(part, size, &results[i])) return false;
  }
  if (to.pair != kNone && !predicate_destination(to.pair, &ir.d2)) return false;

  std::vector<Value> inputs(kTextureInputs);
  if (!image_operand(operand(1), 1, &ir.a)) return false;
  if (!coordinates(operand(1), coordinate, request.dimensions, request.layered, &inputs))
    return false;
  if (request.lod == TextureLod::Level) {
    if (at >= operand_count() || !source(operand(at++), coordinate, &inputs[kInputLevel]))
      return refuse("needs a level");
  } else if (request.lod == TextureLod::Gradient) {
    if (at + 2 > operand_count()) return refuse("needs two gradients");
    if (!elements(operand(at++), Type::F32, request.dimensions, &inputs[kInputGradientX]) ||
        !elements(operand(at++), Type::F32, request.dimensions, &inputs[kInputGradientY]))
      return false;
  }
  if (at < operand_count()) {
    if (request.cube) return refuse("cubes take no offsets, and depth comparison is not supported");
    if (!elements(operand(at++), Type::S32, request.dimensions, &inputs[kInputOffset]))
      return refuse("expected the offsets of the coordinates; depth comparison is not supported");
    request.offsets = true;
  }
  if (at != operand_count()) return refuse("depth comparison is not supported");
  add_results_and_inputs(results, inputs, &ir);
  ir.offset = to_immediate(request);
  emit(ir);
  return true;
}

// txq.query.b32 d, [a]     txq.level.query.b32 d, [a], level     suq.query.b32 d, [a]
bool Lowering::texture_query() {
  struct Row {
    std::string_view name;
    TextureQuery query;
  };
  static constexpr Row kRows[] = {
      {"width", TextureQuery::Width},
      {"height", TextureQuery::Height},
      {"depth", TextureQuery::Depth},
      {"array_size", TextureQuery::ArraySize},
      {"num_mipmap_levels", TextureQuery::Levels},
      {"num_samples", TextureQuery::Samples},
      {"channel_data_type", TextureQuery::DataType},
      {"channel_order", TextureQuery::Order},
      {"normalized_coords", TextureQuery::NormalizedCoordinates},
      {"force_unnormalized_coords", TextureQuery::UnnormalizedForced},
      {"filter_mode", TextureQuery::Filter},
      {"addr_mode_0", TextureQuery::AddressMode0},
      {"addr_mode_1", TextureQuery::AddressMode1},
      {"addr_mode_2", TextureQuery::AddressMode2},
      {"memory_layout", TextureQuery::MemoryLayout},
  };
  Ir ir = make(Op::TextureQuery);
  bool level = take("level");
  const Row *found = nullptr;
  for (const Row &row : kRows)
    if (take(row.name)) {
      found = &row;
      break;
    }
  ir.type = take_type();
  if (!found || ir.type != Type::B32) return refuse("needs a query and .b32");
  if (!modifiers_done() || !expect_operands(level ? 3 : 2)) return false;
  if (!destination(operand(0), 4, &ir.d) || !image_operand(operand(1), 0, &ir.a)) return false;
  if (level && !source(operand(2), Type::U32, &ir.b)) return false;
  ir.mode = static_cast<uint8_t>(found->query);
  emit(ir);
  return true;
}

bool Lowering::take_surface(SurfaceRequest *request) {
  request->formatted = take("p");
  if (!request->formatted && !take("b")) return refuse("needs .b or .p");
  bool cube = false;
  if (!take_geometry(&request->dimensions, &request->layered, &cube)) return false;
  if (cube) return refuse("the surface of a cube is .a2d");
  take_cache_hints();
  if (take("trap"))
    request->bounds = SurfaceBounds::Trap;
  else if (take("clamp"))
    request->bounds = SurfaceBounds::Clamp;
  else if (take("zero"))
    request->bounds = SurfaceBounds::Zero;
  else
    return refuse("needs .trap, .clamp or .zero");
  return true;
}

// suld.b.geom.vec.type.bounds d, [a, b]      sust.{b,p}.geom.vec.type.bounds [a, b], c
bool Lowering::surface() {
  bool load = statement_->opcode == "suld";
  Ir ir = make(load ? Op::SurfaceLoad : Op::SurfaceStore);
  SurfaceRequest request;
  if (!take_surface(&request)) return false;
  unsigned vector = take_vector();
  ir.type = take_type();
  if (ir.type == Type::None || ir.type == Type::Pred || type_size(ir.type) > 8)
    return refuse("needs .b8 to .b64");
  unsigned size = type_size(ir.type);
  request.bytes = static_cast<uint8_t>(size);
  if (!modifiers_done() || !expect_operands(2)) return false;
  if (request.formatted && (load || size != 4)) return refuse("only stores of .b32 are formatted");
  if (vector > 4 || size * vector > 16) return refuse("more than 16 bytes");

  const OperandSyntax &data = operand(load ? 0 : 1);
  unsigned count = data.kind == OperandSyntax::List ? data.count : 1;
  if (count != vector) return refuse("wrong vector length");
  std::vector<Value> inputs(kSurfaceInputs), results;
  unsigned register_bytes = 0;
  for (unsigned i = 0; i < count; ++i) {
    const OperandSyntax &part =
        data.kind == OperandSyntax::List ? body_.operands[data.first + i] : data;
    Value value;
    unsigned bytes = slot_size(ir.type);
    if (load && part.kind == OperandSyntax::Sink) {
      results.push_back(value);
      continue;
    }
    if (load ? !destination_any(part, &value, &bytes) : !source_wide(part, ir.type, &value, &bytes))
      return false;
    if (bytes < size || (register_bytes && bytes != register_bytes))
      return refuse("a data register has the wrong size");
    register_bytes = bytes;
    if (load)
      results.push_back(value);
    else
      inputs[kInputData + i] = value;
  }
  ir.register_size = static_cast<uint8_t>(register_bytes ? register_bytes : slot_size(ir.type));
  const OperandSyntax &at = operand(load ? 1 : 0);
  if (!image_operand(at, 1, &ir.a)) return false;
  if (!coordinates(at, Type::S32, request.dimensions, request.layered, &inputs)) return false;
  ir.mode = static_cast<uint8_t>(count);
  add_results_and_inputs(results, inputs, &ir);
  ir.offset = to_immediate(request);
  emit(ir);
  return true;
}

// sured.{b,p}.op.geom.type.bounds [a, b], c
bool Lowering::surface_reduce() {
  Ir ir = make(Op::SurfaceReduce);
  SurfaceRequest request;
  if (!take_surface(&request)) return false;
  auto op =
      take_atomic_op({AtomicOp::Add, AtomicOp::Min, AtomicOp::Max, AtomicOp::And, AtomicOp::Or});
  if (op) ir.mode = static_cast<uint8_t>(*op);
  ir.type = take_type();
  unsigned size = type_size(ir.type);
  if (!op || (size != 4 && size != 8)) return refuse("needs an operation and a type");
  request.bytes = static_cast<uint8_t>(size);
  if (!modifiers_done() || !expect_operands(2)) return false;
  std::vector<Value> inputs(kSurfaceInputs);
  if (!image_operand(operand(0), 1, &ir.a)) return false;
  if (!coordinates(operand(0), Type::S32, request.dimensions, request.layered, &inputs))
    return false;
  if (!elements(operand(1), ir.type, 1, &inputs[kInputData])) return false;
  add_results_and_inputs({}, inputs, &ir);
  ir.offset = to_immediate(request);
  emit(ir);
  return true;
}

// istypep.texref p, a
bool Lowering::istypep() {
  Ir ir = make(Op::IsOpaque);
  if (take("texref"))
    ir.mode = static_cast<uint8_t>(Opaque::Texture);
  else if (take("surfref"))
    ir.mode = static_cast<uint8_t>(Opaque::Surface);
  else if (take("samplerref"))
    ir.mode = static_cast<uint8_t>(Opaque::Sampler);
  else
    return refuse("needs .texref, .surfref or .samplerref");
  if (!modifiers_done() || !expect_operands(2)) return false;
  if (!destination(operand(0), 0, &ir.d) || !source(operand(1), Type::U64, &ir.a)) return false;
  emit(ir);
  return true;
}

}  // namespace softdev
