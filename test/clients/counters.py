# What this process has cost so far, from the file that OUTBOARD_STATS names, in which the guest
# library counts (guest-lib/src/base/stats.h).
import os
import struct

WORDS = ("calls", "unsupported", "commands", "roundTrips", "bytesSent", "bytesReceived")
IMAGE_BYTES = 11  # of what was sent: as many as the compiler made them
PLACES = 1024
HEAD = 14  # words before the marks of phases
BY_CALL = HEAD + 3 * 6
TIMED = BY_CALL + PLACES


class Counters:
    def __init__(self, path):
        self.path = path

    @classmethod
    def of_this_process(cls):
        """None where nobody counts: natively."""
        path = os.environ.get("OUTBOARD_STATS")
        return cls(path) if path else None

    def read(self):
        with open(self.path, "rb") as file:
            data = file.read()
        words = struct.unpack_from(f"<{TIMED + 4 * PLACES}Q", data)
        assert words[1] == 3, f"counters of version {words[1]}"
        names = data[(TIMED + 4 * PLACES) * 8 :].decode().split("\n")
        totals = dict(zip(WORDS, words[3 : 3 + len(WORDS)]))
        totals["bytesSent"] -= words[IMAGE_BYTES]
        waits = {names[i]: words[TIMED + 4 * i + 1] for i in range(words[2])}
        return totals, {name: count for name, count in waits.items() if count}

    def since(self, before):
        """Totals since then, and round trips by the calls that made them."""
        totals, waits = self.read()
        cost = {name: totals[name] - before[0][name] for name in WORDS if name != "unsupported"}
        made = {name: count - before[1].get(name, 0) for name, count in sorted(waits.items())}
        return {**cost, "waiting": {name: count for name, count in made.items() if count}}
