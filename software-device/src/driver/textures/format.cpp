#include "textures/format.h"

#include "core/log.h"

namespace softdev::driver {
namespace {

struct Row {
  CUarray_format format;
  Channel channel;
  uint8_t bytes;     // of a channel
  uint8_t channels;  // 0: 1, 2 or 4, as the program says
  bool normalized;
};

constexpr Row kRows[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, Channel::Unsigned8, 1, 0, false},
    {CU_AD_FORMAT_UNSIGNED_INT16, Channel::Unsigned16, 2, 0, false},
    {CU_AD_FORMAT_UNSIGNED_INT32, Channel::Unsigned32, 4, 0, false},
    {CU_AD_FORMAT_SIGNED_INT8, Channel::Signed8, 1, 0, false},
    {CU_AD_FORMAT_SIGNED_INT16, Channel::Signed16, 2, 0, false},
    {CU_AD_FORMAT_SIGNED_INT32, Channel::Signed32, 4, 0, false},
    {CU_AD_FORMAT_HALF, Channel::Half, 2, 0, false},
    {CU_AD_FORMAT_FLOAT, Channel::Float, 4, 0, false},
    {CU_AD_FORMAT_UNORM_INT8X1, Channel::Unsigned8, 1, 1, true},
    {CU_AD_FORMAT_UNORM_INT8X2, Channel::Unsigned8, 1, 2, true},
    {CU_AD_FORMAT_UNORM_INT8X4, Channel::Unsigned8, 1, 4, true},
    {CU_AD_FORMAT_UNORM_INT16X1, Channel::Unsigned16, 2, 1, true},
    {CU_AD_FORMAT_UNORM_INT16X2, Channel::Unsigned16, 2, 2, true},
    {CU_AD_FORMAT_UNORM_INT16X4, Channel::Unsigned16, 2, 4, true},
    {CU_AD_FORMAT_SNORM_INT8X1, Channel::Signed8, 1, 1, true},
    {CU_AD_FORMAT_SNORM_INT8X2, Channel::Signed8, 1, 2, true},
    {CU_AD_FORMAT_SNORM_INT8X4, Channel::Signed8, 1, 4, true},
    {CU_AD_FORMAT_SNORM_INT16X1, Channel::Signed16, 2, 1, true},
    {CU_AD_FORMAT_SNORM_INT16X2, Channel::Signed16, 2, 2, true},
    {CU_AD_FORMAT_SNORM_INT16X4, Channel::Signed16, 2, 4, true},
    {CU_AD_FORMAT_UNORM_INT_101010_2, Channel::Unsigned1010102, 1, 4, true},
};

// Block-compressed formats, and those of video with several planes.
bool exists_elsewhere(CUarray_format format) {
  return (format >= CU_AD_FORMAT_BC1_UNORM && format <= CU_AD_FORMAT_Y410) ||
         format == CU_AD_FORMAT_NV12 || (format >= CU_AD_FORMAT_Y416 && format <= 181);
}

}  // namespace

CUresult read_format(CUarray_format format, unsigned channels, Format *out) {
  for (const Row &row : kRows) {
    if (row.format != format) continue;
    if (row.channels ? channels != row.channels : channels != 1 && channels != 2 && channels != 4)
      return refuse(CUDA_ERROR_INVALID_VALUE, "format 0x%x does not come with %u channels", format,
                    channels);
    *out = {row.channel, static_cast<uint8_t>(channels), static_cast<uint8_t>(row.bytes * channels),
            row.normalized};
    return CUDA_SUCCESS;
  }
  if (exists_elsewhere(format))
    return refuse(CUDA_ERROR_NOT_SUPPORTED,
                  "format 0x%x, compressed or of several planes, is not supported", format);
  return refuse(CUDA_ERROR_INVALID_VALUE, "0x%x is no format", format);
}

CUresult read_view_format(CUresourceViewFormat format, Format *out) {
  if (format >= CU_RES_VIEW_FORMAT_UNSIGNED_BC1 && format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7)
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "block-compressed views are not supported");
  if (format < CU_RES_VIEW_FORMAT_UINT_1X8 || format > CU_RES_VIEW_FORMAT_FLOAT_4X32)
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%x is no format of a view", format);
  // 1, 2 and 4 channels of each in a row.
  static constexpr CUarray_format kFormats[] = {
      CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_SIGNED_INT8,    CU_AD_FORMAT_UNSIGNED_INT16,
      CU_AD_FORMAT_SIGNED_INT16,  CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
      CU_AD_FORMAT_HALF,          CU_AD_FORMAT_FLOAT,
  };
  const auto index = static_cast<unsigned>(format - CU_RES_VIEW_FORMAT_UINT_1X8);
  return read_format(kFormats[index / 3], 1u << (index % 3), out);
}

}  // namespace softdev::driver
