#!/usr/bin/env python3
"""Facts of the CUDA driver API, taken by machine from an installed toolkit's headers.

    pip install libclang
    pip download --no-deps nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-profiler-api
    python3 proto/extract/extract.py TOOLKIT_INCLUDE_DIR > proto/facts/cuda-13.5.json

The headers of a toolkit are in those three packages of PyPI, unpacked into one folder.

A maintainer runs this once per toolkit version; everybody else uses the committed result. It
records names, types, values, sizes and offsets. It copies no comment and no text.
"""

import json
import re
import sys
from pathlib import Path

from clang.cindex import CursorKind

import header

# The internal view declares every ABI ever published, each under its own symbol name.
SOURCE = (
    "#define __CUDA_API_VERSION_INTERNAL\n#define __CUDA_API_VERSION_INTERNAL_ODR\n"
    "#include <cuda.h>\n#include <cudaTypedefs.h>\n#include <cudaProfiler.h>\n"
)


def abi_sort_key(symbol: str) -> int:
    match = re.search(r"_v(\d+)", symbol)
    return int(match.group(1)) if match else 1


def main() -> None:
    include = Path(sys.argv[1]).resolve()
    unit = header.parse(SOURCE, [include])
    macros_text = (include / "cuda.h").read_text()
    version = int(re.search(r"#define CUDA_VERSION (\d+)", macros_text).group(1))

    declarations = header.Declarations()
    functions = {}
    prototypes = {}  # PFN name -> parameters
    for cursor in unit.cursor.get_children():
        location = cursor.location.file
        if not location or Path(location.name).resolve().parent != include:
            continue
        if cursor.kind == CursorKind.FUNCTION_DECL and cursor.spelling.startswith("cu"):
            functions[cursor.spelling] = header.function(cursor)
        elif cursor.kind == CursorKind.TYPEDEF_DECL and cursor.spelling.startswith("PFN_"):
            prototypes[cursor.spelling] = True
        else:
            declarations.add(cursor)

    # Interop families whose headers need GL, EGL or VDPAU: their names and versions only.
    for extra in ("cudaGL", "cudaEGL", "cudaVDPAU", "cudaProfiler"):
        path = include / f"{extra}Typedefs.h"
        if path.exists():
            for name in re.findall(r"\(CUDAAPI \*(PFN_cu\w+)\)", path.read_text()):
                if "WGL" not in name:  # Windows only
                    prototypes.setdefault(name, True)
        interop = include / f"{extra}.h"
        if interop.exists():
            for name in re.findall(r"^\s*CUresult CUDAAPI (cu\w+)\(", interop.read_text(), re.M):
                if "WGL" not in name:  # Windows only
                    functions.setdefault(name, {"returns": "CUresult", "parameters": None})
            for new in re.findall(r"^\s*#\s*define\s+cu\w+\s+(?:__CUDA_API_PT[SD][SZ]\()?(cu\w+_v\d+)",
                                  interop.read_text(), re.M):
                functions.setdefault(new, {"returns": "CUresult", "parameters": None})

    # cuGetProcAddress: a (name, version, suffix) names one ABI symbol. Versions and ABI symbols of
    # a name are both ordered; aligned from the newest they pair up.
    rows = {}
    for pfn in prototypes:
        match = re.fullmatch(r"PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?", pfn)
        if match:
            name, number, suffix = match.group(1), int(match.group(2)), match.group(3) or ""
            rows.setdefault((name, suffix), set()).add(number)
    lookups = []
    for (name, suffix), versions in sorted(rows.items()):
        pattern = re.compile(re.escape(name) + r"(_v\d+)?" + (suffix or "") + r"$")
        symbols = sorted((s for s in functions if pattern.fullmatch(s)), key=abi_sort_key)
        ordered = sorted(versions)
        if not symbols:
            # Declared only as a typedef (interop headers): the plain symbol exists in the driver.
            symbols = [name + suffix]
        while len(symbols) < len(ordered):
            symbols.insert(0, None)
        for number, symbol in zip(ordered, symbols[-len(ordered):]):
            if symbol:
                functions.setdefault(symbol, {"returns": "CUresult", "parameters": None})
                lookups.append([name, number, suffix, symbol])

    # CUDA 12 gave one name to another function: cuda.h defines it so, without a version.
    lookups.append(["cuGraphInstantiate", 12000, "", "cuGraphInstantiateWithFlags"])
    lookups.sort(key=lambda row: (row[0], row[2]))

    facts = {
        "source": "cuda.h, cudaTypedefs.h and the interop headers of the CUDA toolkit",
        "version": version,
        "declarations": declarations.facts(),
        "functions": dict(sorted(functions.items())),
        "lookups": lookups,
    }
    json.dump(facts, sys.stdout, indent=1)
    print()


main()
