#include "device/memory_node.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <fstream>
#include <vector>

namespace outboard {

namespace {

constexpr int kMostNodes = 1024;  // of the kernel's configurations
constexpr int kBitsOfWord = sizeof(unsigned long) * CHAR_BIT;

// Whether nobody has said where this thread's memory is to be.
bool is_undecided() {
  int policy = MPOL_DEFAULT;
  return syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, nullptr, 0UL) == 0 &&
         policy == MPOL_DEFAULT;
}

}  // namespace

int prefer_node_of(const std::string &pci_bus_id, const std::string &devices) {
  // It comes from the driver and becomes part of a path. Drivers write it in capitals, the system
  // does not.
  std::string name = pci_bus_id;
  for (char &c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.find_first_not_of("0123456789abcdef:.") != std::string::npos) return -1;
  std::ifstream file(devices + "/" + name + "/numa_node");
  int node = -1;
  if (!(file >> node) || node < 0 || node >= kMostNodes || !is_undecided()) return -1;
  std::vector<unsigned long> nodes(kMostNodes / kBitsOfWord);
  nodes[static_cast<size_t>(node / kBitsOfWord)] = 1UL << (node % kBitsOfWord);
  // The kernel looks at one bit less than it is told of.
  if (syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes.data(), kMostNodes + 1UL) != 0) return -1;
  return node;
}

}  // namespace outboard
