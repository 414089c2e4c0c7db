#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {

Handler select(const Ir &ir) {
  for (Selector family :
       {select_memory, select_single, select_integer, select_multiply, select_compare, select_move,
        select_bits, select_convert, select_convert_half, select_double, select_half,
        select_approximate, select_atomic, select_exchange, select_async, select_mma_single,
        select_mma, select_matrix_memory})
    if (Handler handler = family(ir)) return handler;
  return nullptr;
}

}  // namespace softdev::SOFTDEV_ISA
