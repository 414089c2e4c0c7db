# What the scripts share: each part of one is a check, whose failure is told and does not end it.
import sys
import traceback

import numpy as np

failures = 0


def check(function):
    """Runs the function at once and says how it went."""
    global failures
    name = function.__name__.replace("_", " ")
    try:
        function()
        print(f"ok {name}", flush=True)
    except Exception:  # noqa: BLE001: whatever it is, the check failed
        failures += 1
        print(f"FAILED {name}", flush=True)
        traceback.print_exc()


def done():
    sys.exit(1 if failures else 0)


def same(got, expected):
    np.testing.assert_array_equal(got, expected)


def close(got, expected, rtol=1e-6, atol=0.0):
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)
