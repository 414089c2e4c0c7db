"""What the scripts of this folder share: a line of JSON for each thing done, with its result and its seconds."""

import importlib
import json
import sys
import time

NOT_THERE = 77


def need(*names):
    """The modules of these names; without one of them the script has nothing to try."""
    modules = []
    for name in names:
        try:
            modules.append(importlib.import_module(name))
        except ImportError as error:
            print(f"not installed: {name} ({error})" if importable(name) else f"not installed: {name}")
            sys.exit(NOT_THERE)
    return modules


def importable(name):
    import importlib.util

    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


class Done:
    """`with done("what") as it: it.result = ...`"""

    def __init__(self, name):
        self.name = name
        self.result = ""

    def __enter__(self):
        self.begun = time.monotonic()
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            seconds = time.monotonic() - self.begun
            print(json.dumps({"name": self.name, "result": self.result, "seconds": seconds}), flush=True)
