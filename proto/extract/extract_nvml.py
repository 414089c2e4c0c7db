#!/usr/bin/env python3
"""Facts of NVML, taken by machine from nvml.h: of one release, and the names of older ones.

    pip install libclang
    pip download --no-deps nvidia-nvml-dev==13.5.37     (and unpack it)
    python3 proto/extract/extract_nvml.py INCLUDE_DIR OLDER_INCLUDE_DIR... > proto/facts/nvml-13.5.json

A maintainer runs this once per release; everybody else uses the committed result. It records names,
types, values, sizes and offsets. It copies no comment and no text.
"""

import json
import re
import sys
from pathlib import Path

from clang.cindex import CursorKind

import header

# Every ABI that was ever published has a name of its own then.
VIEW = "#define NVML_NO_UNVERSIONED_FUNC_DEFS\n#include <nvml.h>\n"
# Macros that are numbers: literals, other numbers' names, versions of structures.
NUMBER = re.compile(r"^\s*#\s*define\s+((?:NVML_|nvml)\w+)[ \t]+([^\n]+?)\s*(?://.*|/\*.*)?$", re.M)
VALUE = re.compile(r"^\(*(?:-?\d+|0[xX][0-9a-fA-F]+)[uUlL]*\)*$|^NVML_STRUCT_VERSION\(")


def nvml_functions(unit) -> dict:
    found = {}
    for cursor in unit.cursor.get_children():
        if cursor.kind == CursorKind.FUNCTION_DECL and cursor.spelling.startswith("nvml"):
            found[cursor.spelling] = header.function(cursor)
    return found


def constants(include: Path) -> list:
    """Values of the macros, as the compiler works them out."""
    text = (include / "nvml.h").read_text()
    names = [name for name, value in NUMBER.findall(text) if VALUE.match(value.strip())]
    asked = "".join(f"enum {{ fact_{name} = ({name}) }};\n" for name in dict.fromkeys(names))
    unit = header.parse(VIEW + asked, [include])
    rows = []
    for cursor in unit.cursor.get_children():
        if cursor.kind == CursorKind.ENUM_DECL:
            for constant in cursor.get_children():
                if constant.spelling.startswith("fact_"):
                    value = constant.enum_value
                    # As text where JSON's numbers end.
                    rows.append([constant.spelling.removeprefix("fact_"),
                                 value if abs(value) < 2**53 else hex(value)])
    return rows


def main() -> None:
    newest, *older = (Path(argument).resolve() for argument in sys.argv[1:])
    unit = header.parse(VIEW, [newest])
    declarations = header.Declarations()
    for cursor in unit.cursor.get_children():
        location = cursor.location.file
        if location and Path(location.name).resolve().parent == newest:
            declarations.add(cursor)

    functions = nvml_functions(unit)
    for include in older:
        for name in nvml_functions(header.parse(VIEW, [include])):
            # Its types may be gone.
            functions.setdefault(name, {"returns": "nvmlReturn_t", "parameters": None})

    facts = {
        "source": "nvml.h of the CUDA toolkit",
        "version": int(re.search(r"NVML_API_VERSION\s+(\d+)", (newest / "nvml.h").read_text()).group(1)),
        "declarations": declarations.facts(),
        "constants": constants(newest),
        "functions": dict(sorted(functions.items())),
    }
    json.dump(facts, sys.stdout, indent=1)
    print()


main()
