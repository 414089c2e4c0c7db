#!/usr/bin/env python3
"""Facts of cuBLAS and cuBLASLt: prototypes of the newest header, exports of all releases of a major.

    pip install libclang
    pip download --no-deps nvidia-cublas==13.8.2.12 nvidia-cublas==13.0.2.14    (one by one; unpack each)
    python3 proto/extract/extract_cublas.py CUDA_INCLUDE NEWEST/nvidia/cu13 OLDER/nvidia/cu13... \\
        > proto/facts/cublas-13.json

CUDA_INCLUDE has the runtime's headers. A maintainer runs this once per release; everybody else uses
the committed result. It records names, types and numbers. It copies no comment and no text.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from clang.cindex import CursorKind

import header

LIBRARIES = ("libcublas.so.13", "libcublasLt.so.13")
STATUS = re.compile(r"^\s*(CUBLAS_STATUS_\w+)\s*=\s*(\d+)", re.M)


def exports(library: Path) -> list:
    """Names of the functions that a library exports, and the version that each has."""
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)],
                            check=True, capture_output=True, text=True).stdout
    found = []
    for line in listed.splitlines():
        _, kind, symbol = line.split()
        if kind == "T":
            name, _, version = symbol.partition("@@")
            found.append((name, version))
    return found


def main() -> None:
    cuda, *releases = (Path(argument).resolve() for argument in sys.argv[1:])
    newest = releases[0]
    # As C++: programs of C are told of none of half precision.
    unit = header.parse("#include <cublas_api.h>\n", [newest / "include", cuda], "c++")
    blocks = [each for each in unit.cursor.get_children() if each.kind == CursorKind.LINKAGE_SPEC]
    text = (newest / "include" / "cublas_api.h").read_text()
    functions = {
        cursor.spelling: header.function(cursor)
        for block in blocks
        for cursor in block.get_children()
        if cursor.kind == CursorKind.FUNCTION_DECL and cursor.spelling.startswith("cublas")
        # Not those that the header itself defines for programs of C++.
        and not cursor.is_definition()
    }
    libraries = {}
    for name in LIBRARIES:
        symbols = sorted({each for release in releases for each in exports(release / "lib" / name)})
        versions = {version for _, version in symbols}
        if versions != {name}:
            sys.exit(f"{name}: its symbols have the versions {sorted(versions)}, not {name} alone")
        libraries[name] = [symbol for symbol, _ in symbols]

    # A line for each function: people read this file.
    print("{")
    print(' "source": "cublas_api.h of the CUDA toolkit, and what the libraries of a major export",')
    print(' "statuses": ' + json.dumps({name: int(value) for name, value in STATUS.findall(text)}) + ",")
    print(' "libraries": {')
    print(",\n".join(f'  "{name}": ' + json.dumps(symbols) for name, symbols in libraries.items()))
    print(" },")
    print(' "functions": {')
    print(",\n".join(f'  "{name}": ' + json.dumps(facts) for name, facts in sorted(functions.items())))
    print(" }")
    print("}")


main()
