// Texture fetches, gathers, and questions about images.
#include "execute/ops/families.h"
#include "execute/ops/images/sampler.h"
#include "translate/texture_request.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// The operands of one fetch. All are copied: results may go where operands are.
struct Fetch {
  TextureRequest request;
  Coordinates where;
  alignas(64) float level[kLanes];  // of detail
  bool linear = false;
};

// Inputs stand behind the results in the list.
const uint32_t *input(Warp &w, const Ins *i, unsigned which) {
  uint32_t offset = i->list[i->count - kTextureInputs + which];
  return offset == kNone ? nullptr : slot<uint32_t>(w, offset);
}

void copy_input(const uint32_t *from, void *to) {
  if (from)
    std::memcpy(to, from, kLanes * 4);
  else
    std::memset(to, 0, kLanes * 4);
}

// Directions to faces; what remains is a layered 2d image with coordinates from 0 to 1.
void unfold_cube(Coordinates *where) {
  for (unsigned l = 0; l < kLanes; ++l) {
    OnFace on = face_of(where->at[0][l], where->at[1][l], where->at[2][l]);
    where->at[0][l] = (on.s + 1) * 0.5f;
    where->at[1][l] = (on.t + 1) * 0.5f;
    where->slice[l] = where->slice[l] * 6 + on.face;
  }
}

// The level of detail at which one step in either direction is one element.
void levels_of_gradients(Warp &w, const Ins *i, const ImageView &image, unsigned dimensions,
                         float *level) {
  const ImageLevel &base = image.levels[0];
  const float extents[3] = {static_cast<float>(base.width), static_cast<float>(base.height),
                            static_cast<float>(base.depth)};
  for (unsigned l = 0; l < kLanes; ++l) {
    float longest = 0;
    for (unsigned from : {kInputGradientX, kInputGradientY}) {
      float sum = 0;
      for (unsigned d = 0; d < dimensions; ++d) {
        const uint32_t *given = input(w, i, from + d);
        // A cube's faces are two units wide.
        float scale = !image.normalized ? 1 : image.cube ? extents[0] * 0.5f : extents[d];
        float step = given ? bit_cast<float>(given[l]) * scale : 0;
        sum += step * step;
      }
      longest = sum > longest ? sum : longest;
    }
    level[l] = longest > 0 ? 0.5f * std::log2(longest) : -128.0f;
  }
}

void find_levels(Warp &w, const Ins *i, const ImageView &image, Fetch *fetch) {
  const TextureRequest &request = fetch->request;
  float bias = 0;
  if (request.lod == TextureLod::Level) {
    const uint32_t *given = input(w, i, kInputLevel);
    for (unsigned l = 0; l < kLanes; ++l)
      fetch->level[l] = request.integer_coordinates
                            ? static_cast<float>(static_cast<int32_t>(given[l]))
                            : bit_cast<float>(given[l]);
    bias = image.level_bias;
  } else if (request.lod == TextureLod::Gradient) {
    levels_of_gradients(w, i, image, request.dimensions, fetch->level);
    bias = image.level_bias;
  } else {
    std::memset(fetch->level, 0, sizeof fetch->level);
  }
  const auto last = static_cast<float>(image.levels.size() - 1);
  for (float &level : fetch->level) {
    level += bias;
    level = level < image.level_least ? image.level_least : level;
    level = level > image.level_most ? image.level_most : level;
    level = level > 0 ? level < last ? level : last : 0;  // NaN too
  }
}

bool sample_level(Warp &w, const Ins *i, const ImageView &image, unsigned level, const Fetch &fetch,
                  uint32_t lanes, Texels *out) {
  Footprint footprint;
  const unsigned dimensions = image.cube ? 2 : image.linear_memory ? 1 : fetch.request.dimensions;
  find_footprint(image, image.levels[level], fetch.where, dimensions,
                 fetch.request.integer_coordinates || image.linear_memory, fetch.linear, lanes,
                 &footprint);
  if (image.cube && image.seamless && fetch.linear)
    cross_edges(image, image.levels[level], fetch.where, &footprint);
  if (fetch.request.lod != TextureLod::Gather) return sample(w, i, image, footprint, out);
  // Counterclockwise from the lower left.
  static constexpr unsigned kOrder[4] = {2, 3, 1, 0};
  if (!check(w, i, image, footprint)) return false;
  for (unsigned k = 0; k < 4; ++k) {
    Texels texels;
    read_tap(image, footprint, kOrder[k], &texels);
    fill_missing(image, &texels);
    std::memcpy(out->component[k], texels.component[fetch.request.component], kLanes * 4);
  }
  return true;
}

// All levels that the lanes need, one after the other.
bool sample_levels(Warp &w, const Ins *i, const ImageView &image, const Fetch &fetch,
                   uint32_t lanes, Texels *out) {
  if (image.levels.size() == 1) return sample_level(w, i, image, 0, fetch, lanes, out);
  alignas(64) uint32_t first[kLanes];
  alignas(64) float fraction[kLanes];
  for (unsigned l = 0; l < kLanes; ++l) {
    float level = fetch.level[l];
    float floor = __builtin_floorf(image.mipmap_linear ? level : level + 0.5f);
    first[l] = static_cast<uint32_t>(floor);
    fraction[l] = image.mipmap_linear ? __builtin_rintf((level - floor) * 256.0f) / 256.0f : 0;
  }
  const auto last = static_cast<uint32_t>(image.levels.size() - 1);
  for (uint32_t left = lanes; left;) {
    const uint32_t level = first[__builtin_ctz(left)];
    const uint32_t same = lanes_where([&](unsigned l) { return first[l] == level; }) & left;
    left &= ~same;
    Texels here;
    if (!sample_level(w, i, image, level < last ? level : last, fetch, same, &here)) return false;
    for (unsigned c = 0; c < 4; ++c) blend(out->component[c], here.component[c], same);
    const uint32_t between = lanes_where([&](unsigned l) { return fraction[l] > 0; }) & same;
    if (!between || level >= last) continue;
    if (!sample_level(w, i, image, level + 1, fetch, between, &here)) return false;
    for (unsigned c = 0; c < 4; ++c) {
      alignas(64) uint32_t mixed[kLanes];
      SOFTDEV_LANES {
        float a = bit_cast<float>(out->component[c][l]), b = bit_cast<float>(here.component[c][l]);
        mixed[l] = bit_cast<uint32_t>(a * (1 - fraction[l]) + b * fraction[l]);
      }
      blend(out->component[c], mixed, between);
    }
  }
  return true;
}

// The lanes of one image.
bool fetch_image(Warp &w, const Ins *i, const ImageView &image, uint32_t lanes, Texels *out) {
  Fetch fetch;
  fetch.request = from_immediate<TextureRequest>(i->imm);
  TextureRequest &request = fetch.request;
  // A cube has three coordinates, whatever the instruction thinks.
  const unsigned coordinates = image.cube ? 3 : request.dimensions;
  for (unsigned d = 0; d < coordinates; ++d) {
    const uint32_t *given = input(w, i, kInputX + d);
    if (request.integer_coordinates)
      copy_input(given, fetch.where.texel[d]);
    else
      copy_input(given, fetch.where.at[d]);
    copy_input(request.offsets ? input(w, i, kInputOffset + d) : nullptr, fetch.where.offset[d]);
    if (request.offsets)
      for (int32_t &offset : fetch.where.offset[d])
        offset = offset < -8 ? -8 : offset > 7 ? 7 : offset;
  }
  copy_input(input(w, i, kInputLayer), fetch.where.slice);
  const uint32_t layers = image.layers ? image.layers : 1;
  for (uint32_t &slice : fetch.where.slice) slice = slice < layers ? slice : layers - 1;
  if (image.linear_memory && !request.integer_coordinates) {
    for (unsigned l = 0; l < kLanes; ++l) {
      float x = __builtin_floorf(fetch.where.at[0][l]);
      fetch.where.texel[0][l] = x >= 0 && x < 0x1p31f ? static_cast<int32_t>(x) : -1;
    }
  }
  const bool gather = request.lod == TextureLod::Gather;
  if (gather && image.linear_memory) {
    fault(w, i, 719, "four neighbours are asked for in linear memory, which has no rows");
    return false;
  }
  if (image.cube) {
    if (request.integer_coordinates) std::memset(fetch.where.at, 0, sizeof fetch.where.at);
    request.integer_coordinates = false;
    unfold_cube(&fetch.where);
  }
  fetch.linear = !request.integer_coordinates && !image.linear_memory && (image.linear || gather);
  if (image.levels.size() > 1) find_levels(w, i, image, &fetch);
  return sample_levels(w, i, image, fetch, lanes, out);
}

void write_results(Warp &w, const Ins *i, TextureResult form, const Texels &texels) {
  auto half = [&](unsigned c, unsigned l) {
    return nearest<F16Format>(bit_cast<float>(texels.component[c][l]));
  };
  for (unsigned k = 0; k + kTextureInputs < i->count; ++k) {
    if (i->list[k] == kNone) continue;
    if (form == TextureResult::Half) {
      uint16_t *d = slot<uint16_t>(w, i->list[k]);
      running(w.mask, [&](unsigned l) { d[l] = half(k, l); });
    } else if (form == TextureResult::HalfPair) {
      uint32_t *d = slot<uint32_t>(w, i->list[k]);
      running(w.mask, [&](unsigned l) {
        d[l] = half(2 * k, l) | static_cast<uint32_t>(half(2 * k + 1, l)) << 16;
      });
    } else {
      blend(slot<uint32_t>(w, i->list[k]), texels.component[k], w.mask);
    }
  }
}

const Ins *texture(Warp &w, const Ins *i) {
  Texels texels = {};
  bool good =
      for_each_image(w, i, ImageView::Kind::Texture, [&](const ImageView &image, uint32_t lanes) {
        if (lanes == w.mask) return fetch_image(w, i, image, lanes, &texels);
        Texels part;
        if (!fetch_image(w, i, image, lanes, &part)) return false;
        for (unsigned c = 0; c < 4; ++c) blend(texels.component[c], part.component[c], lanes);
        return true;
      });
  if (!good) return nullptr;
  write_results(w, i, from_immediate<TextureRequest>(i->imm).result, texels);
  // All of an image is resident, always.
  if (i->flags & kHasSecond) set_predicate(w, i->e, kFullMask);
  return i + 1;
}

// ---- questions. Types and orders have the numbers that OpenCL gives them.

uint32_t data_type(const ImageView &image) {
  const bool as_float = image.kind == ImageView::Kind::Texture && image.read_as_float;
  switch (image.channel) {
    case Channel::Signed8:
      return as_float ? 0x10d0 : 0x10d7;
    case Channel::Signed16:
      return as_float ? 0x10d1 : 0x10d8;
    case Channel::Unsigned8:
      return as_float ? 0x10d2 : 0x10da;
    case Channel::Unsigned16:
      return as_float ? 0x10d3 : 0x10db;
    case Channel::Unsigned1010102:
      return 0x10d6;
    case Channel::Signed32:
      return 0x10d9;
    case Channel::Unsigned32:
      return 0x10dc;
    case Channel::Half:
      return 0x10dd;
    default:
      return 0x10de;
  }
}

uint32_t answer(const ImageView &image, TextureQuery query, uint32_t level) {
  static constexpr uint32_t kModes[] = {0, 3, 1, 4};  // wrap, clamp_to_edge, mirror, border
  const ImageLevel none = {0, 0, 0, 0, 0, 0};
  const ImageLevel &of = level < image.levels.size() ? image.levels[level] : none;
  switch (query) {
    case TextureQuery::Width:
      return of.width;
    case TextureQuery::Height:
      return image.dimensions >= 2 ? of.height : 0;
    case TextureQuery::Depth:
      return image.dimensions >= 3 && !image.cube ? of.depth : 0;
    case TextureQuery::ArraySize:
      return image.layers;
    case TextureQuery::Levels:
      return static_cast<uint32_t>(image.levels.size());
    case TextureQuery::Samples:
      return 1;
    case TextureQuery::DataType:
      return data_type(image);
    case TextureQuery::Order:
      return image.channels == 1 ? 0x10b0 : image.channels == 2 ? 0x10b2 : 0x10b5;
    case TextureQuery::NormalizedCoordinates:
      return image.normalized;
    case TextureQuery::UnnormalizedForced:
      return 0;
    case TextureQuery::Filter:
      return image.linear;
    case TextureQuery::AddressMode0:
    case TextureQuery::AddressMode1:
    case TextureQuery::AddressMode2:
      return kModes[static_cast<unsigned>(
          image.address[static_cast<unsigned>(query) -
                        static_cast<unsigned>(TextureQuery::AddressMode0)])];
    default:  // MemoryLayout
      return 0;
  }
}

const Ins *texture_query(Warp &w, const Ins *i) {
  const uint64_t *handles = slot<uint64_t>(w, i->a);
  const uint32_t *levels = i->b == kNone ? nullptr : slot<uint32_t>(w, i->b);
  alignas(64) uint32_t answers[kLanes] = {};
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    const uint64_t handle = handles[l];
    const ImageView *image = image_of(w, handle);
    if (!image) return image_fault(w, i, handle, l);
    answers[l] = answer(*image, static_cast<TextureQuery>(i->mode), levels ? levels[l] : 0);
  }
  blend(slot<uint32_t>(w, i->d), answers, w.mask);
  return i + 1;
}

const Ins *is_opaque(Warp &w, const Ins *i) {
  const uint64_t *handles = slot<uint64_t>(w, i->a);
  const auto wanted = i->mode == static_cast<uint8_t>(Opaque::Surface) ? ImageView::Kind::Surface
                                                                       : ImageView::Kind::Texture;
  uint32_t result = 0;
  running(w.mask, [&](unsigned l) {
    const ImageView *image = image_of(w, handles[l]);
    if (image && image->kind == wanted && i->mode != static_cast<uint8_t>(Opaque::Sampler))
      result |= kBit[l];
  });
  set_predicate(w, i->d, result);
  return i + 1;
}

}  // namespace

Handler select_texture(const Ir &ir) {
  switch (ir.op) {
    case Op::Texture:
      return texture;
    case Op::TextureQuery:
      return texture_query;
    case Op::IsOpaque:
      return is_opaque;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
