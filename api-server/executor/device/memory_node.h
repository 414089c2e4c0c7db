// Where memory of this machine lies for a device: pages that are pinned for copies come from the
// node (NUMA) that the device is attached to, so that copies do not go from one processor's socket
// to the other's.
#pragma once

#include <string>

namespace outboard {

// Has the calling thread, and threads that it starts from now on, get memory of the node that the
// device with that PCI bus number (0000:3b:00.0) is attached to, as long as that has any. `devices`
// is the folder of the system's PCI devices. Nothing changes where the system names no such node,
// or where whoever started this process has chosen nodes (numactl). Returns the node; -1: nothing
// has changed.
int prefer_node_of(const std::string &pci_bus_id,
                   const std::string &devices = "/sys/bus/pci/devices");

}  // namespace outboard
