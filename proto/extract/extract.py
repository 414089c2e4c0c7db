#!/usr/bin/env python3
"""Facts of the CUDA driver API, taken by machine from an installed toolkit's headers.

    pip install libclang
    python3 proto/extract/extract.py TOOLKIT_INCLUDE_DIR > proto/facts/cuda-13.0.json

A maintainer runs this once per toolkit version; everybody else uses the committed result. It
records names, types, values, sizes and offsets. It copies no comment and no text.
"""

import json
import re
import sys
from pathlib import Path

from clang import cindex
from clang.cindex import CursorKind, TypeKind


def parse(include: Path) -> cindex.TranslationUnit:
    # The internal view declares every ABI ever published, each under its own symbol name.
    source = (
        "#define __CUDA_API_VERSION_INTERNAL\n#define __CUDA_API_VERSION_INTERNAL_ODR\n"
        "#include <cuda.h>\n#include <cudaTypedefs.h>\n"
    )
    index = cindex.Index.create()
    builtin = Path(cindex.__file__).parent / "native"
    gcc_include = sorted(Path("/usr/lib/gcc/x86_64-linux-gnu").glob("*/include"))[-1]
    unit = index.parse(
        "facts.c",
        args=["-x", "c", f"-I{include}", f"-isystem{gcc_include}", f"-isystem{builtin}"],
        unsaved_files=[("facts.c", source)],
    )
    errors = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
    if errors:
        sys.exit("\n".join(str(e) for e in errors))
    return unit


def spell(ctype) -> str:
    return re.sub(r"\s+", " ", ctype.spelling.replace("struct ", "struct ")).strip()


def is_anonymous(cursor) -> bool:
    return cursor.is_anonymous() or "(" in cursor.spelling or not cursor.spelling


def record(cursor) -> dict:
    """A struct or union: its fields in order, anonymous members nested."""
    ctype = cursor.type
    fields = []
    for field in ctype.get_fields():
        entry = {"name": "" if "(" in field.spelling else field.spelling}
        ftype = field.type
        dims = []
        base = ftype
        while base.kind == TypeKind.CONSTANTARRAY:
            dims.append(base.element_count)
            base = base.element_type
        declaration = base.get_declaration()
        is_record = declaration.kind in (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL)
        if is_record and is_anonymous(declaration):
            entry["record"] = record(declaration)
        elif is_record and declaration.lexical_parent == cursor:
            # Defined inside this record but visible outside of it, as C has it.
            entry["record"] = record(declaration)
            entry["tag"] = declaration.spelling
        else:
            entry["type"] = spell(base)
        if dims:
            entry["dims"] = dims
        if field.is_bitfield():
            entry["bits"] = field.get_bitfield_width()
        offset = field.get_field_offsetof()
        entry["offset"] = offset // 8 if offset >= 0 else None
        fields.append(entry)
    kind = "union" if cursor.kind == CursorKind.UNION_DECL else "struct"
    return {"kind": kind, "size": ctype.get_size(), "align": ctype.get_align(), "fields": fields}


def abi_sort_key(symbol: str) -> int:
    match = re.search(r"_v(\d+)", symbol)
    return int(match.group(1)) if match else 1


def main() -> None:
    include = Path(sys.argv[1]).resolve()
    unit = parse(include)
    macros_text = (include / "cuda.h").read_text()
    version = int(re.search(r"#define CUDA_VERSION (\d+)", macros_text).group(1))

    declarations = []  # typedefs, enums and records in order of the header
    functions = {}
    prototypes = {}  # PFN name -> parameters
    seen = set()
    for cursor in unit.cursor.get_children():
        location = cursor.location.file
        if not location or Path(location.name).resolve().parent != include:
            continue
        if cursor.kind == CursorKind.FUNCTION_DECL and cursor.spelling.startswith("cu"):
            functions[cursor.spelling] = {
                "returns": spell(cursor.result_type),
                "parameters": [[spell(p.type), p.spelling] for p in cursor.get_arguments()],
            }
        elif cursor.kind == CursorKind.ENUM_DECL:
            name = "" if is_anonymous(cursor) else cursor.spelling
            key = ("enum", name or cursor.hash)
            if key in seen or not cursor.is_definition():
                continue
            seen.add(key)
            declarations.append(
                {
                    "enum": name,
                    "usr": cursor.get_usr(),
                    "values": [[c.spelling, c.enum_value] for c in cursor.get_children()
                               if c.kind == CursorKind.ENUM_CONSTANT_DECL],
                }
            )
        elif cursor.kind in (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL):
            if not cursor.is_definition() or is_anonymous(cursor):
                if not is_anonymous(cursor) and ("fwd", cursor.spelling) not in seen:
                    seen.add(("fwd", cursor.spelling))
                    declarations.append({"forward": cursor.spelling,
                                         "kind": "union" if cursor.kind == CursorKind.UNION_DECL
                                         else "struct"})
                continue
            declarations.append({"record": cursor.spelling, **record(cursor)})
        elif cursor.kind == CursorKind.TYPEDEF_DECL:
            name = cursor.spelling
            if name.startswith("PFN_"):
                prototypes[name] = True
                continue
            if ("typedef", name) in seen:
                continue
            seen.add(("typedef", name))
            underlying = cursor.underlying_typedef_type
            entry = {"typedef": name}
            pointee = underlying.get_pointee() if underlying.kind == TypeKind.POINTER else None
            declaration = underlying.get_declaration()
            if pointee and pointee.kind in (TypeKind.FUNCTIONPROTO,):
                entry["function"] = {
                    "returns": spell(pointee.get_result()),
                    "parameters": [spell(t) for t in pointee.argument_types()],
                }
            elif declaration.kind in (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL) and (
                is_anonymous(declaration)
            ):
                entry.update(record(declaration))
            elif declaration.kind == CursorKind.ENUM_DECL and is_anonymous(declaration):
                entry["values"] = [[c.spelling, c.enum_value] for c in declaration.get_children()
                                   if c.kind == CursorKind.ENUM_CONSTANT_DECL]
                usr = declaration.get_usr()
                declarations[:] = [d for d in declarations if d.get("usr") != usr]
            else:
                entry["type"] = spell(underlying)
            declarations.append(entry)
    for d in declarations:
        d.pop("usr", None)

    # Interop families whose headers need GL, EGL or VDPAU: their names and versions only.
    for extra in ("cudaGL", "cudaEGL", "cudaVDPAU", "cudaProfiler"):
        path = include / f"{extra}Typedefs.h"
        if path.exists():
            for name in re.findall(r"\(CUDAAPI \*(PFN_cu\w+)\)", path.read_text()):
                if "WGL" not in name:  # Windows only
                    prototypes.setdefault(name, True)
        header = include / f"{extra}.h"
        if header.exists():
            for name in re.findall(r"^\s*CUresult CUDAAPI (cu\w+)\(", header.read_text(), re.M):
                if "WGL" not in name:  # Windows only
                    functions.setdefault(name, {"returns": "CUresult", "parameters": None})
            for new in re.findall(r"^\s*#\s*define\s+cu\w+\s+(?:__CUDA_API_PT[SD][SZ]\()?(cu\w+_v\d+)",
                                  header.read_text(), re.M):
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
        "declarations": declarations,
        "functions": dict(sorted(functions.items())),
        "lookups": lookups,
    }
    json.dump(facts, sys.stdout, indent=1)
    print()


main()
