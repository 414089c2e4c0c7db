// The files of this folder and those in it, each a family of operations.
#pragma once

#include "execute/select.h"

namespace softdev::SOFTDEV_ISA {

Handler select_shaped(const Ir &);
Handler select_integer(const Ir &);
Handler select_multiply(const Ir &);
Handler select_bits(const Ir &);
Handler select_single(const Ir &);
Handler select_double(const Ir &);
Handler select_half(const Ir &);
Handler select_approximate(const Ir &);
Handler select_compare(const Ir &);
Handler select_convert(const Ir &);
Handler select_convert_half(const Ir &);
Handler select_move(const Ir &);
Handler select_memory(const Ir &);
Handler select_memory_shared(const Ir &);
Handler select_memory_local(const Ir &);
Handler select_atomic(const Ir &);
Handler select_async(const Ir &);
Handler select_atomic_vector(const Ir &);
Handler select_bulk(const Ir &);
Handler select_tensor(const Ir &);
Handler select_texture(const Ir &);
Handler select_surface(const Ir &);
Handler select_exchange(const Ir &);
Handler select_mma(const Ir &);
Handler select_mma_single(const Ir &);
Handler select_wgmma(const Ir &);
Handler select_matrix_memory(const Ir &);
Handler select_video(const Ir &);
Handler select_pair(const Ir &);
Handler select_convert_small(const Ir &);

}  // namespace softdev::SOFTDEV_ISA
