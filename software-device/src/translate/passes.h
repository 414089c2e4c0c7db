// The passes between the intermediate form and the executable one.
#pragma once

#include <functional>

#include "translate/code.h"
#include "translate/ir.h"

namespace softdev {

// Blocks and liveness of registers.
struct Flow {
  struct Block {
    uint32_t first = 0, last = 0;  // instructions first..last-1
    std::vector<uint32_t> next;
  };
  std::vector<Block> blocks;
  // Registers that some path reads before it writes them.
  std::vector<bool> live_at_entry;
  // First and last position at which each register holds something; kNone when never.
  std::vector<uint32_t> begin, end;
};
Flow analyse(const FunctionIr &function);

// Constants and copies go to where they are used; what nobody reads disappears. Returns which
// registers have one definition that lies on every way to their uses.
std::vector<bool> fold(FunctionIr *function);
void remove_unread(FunctionIr *function);

// What only makes kernels faster, where `select` has handlers for it: accesses compute their
// addresses themselves; loads of neighbouring words of shared memory become one; branches compare;
// loads in loops remember where they were.
void fuse_addresses(FunctionIr *function, const std::vector<bool> &fixed,
                    Handler (*select)(const Ir &));
void merge_neighbours(FunctionIr *function, const std::vector<bool> &fixed,
                      Handler (*select)(const Ir &));
void fuse_branches(FunctionIr *function, Handler (*select)(const Ir &));
void look_ahead(FunctionIr *function, Handler (*select)(const Ir &));

// Indices that are the same for all lanes, or count up over them, are made for the first lane
// alone, where only that one is asked for.
void find_shapes(FunctionIr *function, const std::vector<bool> &fixed,
                 Handler (*select)(const Ir &));

// Slots of registers and constants.
struct Slots {
  std::vector<uint32_t> registers, constants;  // byte offsets
  uint32_t bytes = 0;
  uint32_t lasting_bytes = 0;  // at the end: of slots that only one register uses
};
Slots allocate(const FunctionIr &function);

// Makes the executable form. `guard` is the handler of Op::Guard.
void emit_code(const FunctionIr &ir, const Slots &slots, Handler guard,
               const std::function<const Function *(uint32_t)> &callee, Function *out);

}  // namespace softdev
