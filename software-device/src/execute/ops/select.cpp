#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {

Handler select(const Ir &ir) {
  static constexpr Selector kFamilies[] = {
      select_memory,         // the most used first
      select_memory_shared,  //
      select_memory_local,   //
      select_single,         //
      select_integer,        //
      select_multiply,       //
      select_compare,        //
      select_move,           //
      select_bits,           //
      select_convert,        //
      select_convert_half,   //
      select_double,         //
      select_half,           //
      select_approximate,    //
      select_atomic,         //
      select_atomic_vector,  //
      select_exchange,       //
      select_async,          //
      select_bulk,           //
      select_tensor,         //
      select_mma_single,     //
      select_mma,            //
      select_wgmma,          //
      select_matrix_memory,  //
      select_video,          //
      select_pair,           //
      select_convert_small,  //
      select_texture,        //
      select_surface,        //
  };
  if (ir.shaped) {
    for (Selector family : {select_memory, select_compare, select_shaped})
      if (Handler handler = family(ir)) return handler;
    return nullptr;
  }
  for (Selector family : kFamilies)
    if (Handler handler = family(ir)) return handler;
  return nullptr;
}

}  // namespace softdev::SOFTDEV_ISA
