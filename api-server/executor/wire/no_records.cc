// Where there was no cargo to build tls/ with: the TLS front relays, and nobody has records.
#include "base/error.h"
#include "wire/records.h"

namespace outboard {

const size_t Records::kMostUnopened = 0;

void Records::Ends::operator()(outboard_tls *) const {}

Records::Records(std::span<const uint8_t>, std::span<const uint8_t>) {
  throw Error("OB_INTERNAL", "a connection by TLS has come, and this build has no TLS");
}
Records::~Records() = default;
std::span<const uint8_t> Records::unopened() const { return {}; }
bool Records::waiting() const { return false; }
ssize_t Records::receive(int, const iovec *, int, int) { return 0; }
std::span<iovec> Records::seal(iovec *&, int &, const iovec *) { return {}; }
bool Records::save(std::vector<uint8_t> *) const { return false; }

}  // namespace outboard
