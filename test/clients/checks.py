# What the scripts share: each part of one is a check, whose failure is told and does not end it.
# A check that passed says a hash of all it computed, so that two runs can be compared to the bit.
import hashlib
import sys
import traceback

import numpy as np

failures = 0
computed = hashlib.sha256()


def check(function):
    """Runs the function at once and says how it went."""
    global computed, failures
    name = function.__name__.replace("_", " ")
    computed = hashlib.sha256()
    try:
        function()
        print(f"ok {name} {computed.hexdigest()[:12]}", flush=True)
    except Exception:  # noqa: BLE001: whatever it is, the check failed
        failures += 1
        print(f"FAILED {name}", flush=True)
        traceback.print_exc()


def done():
    sys.exit(1 if failures else 0)


def keep(got):
    computed.update(np.ascontiguousarray(got).tobytes())


def same(got, expected):
    keep(got)
    np.testing.assert_array_equal(got, expected)


def close(got, expected, rtol=1e-6, atol=0.0):
    keep(got)
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)
