"""What the extractors share: parsing a C header with libclang, and its declarations as facts."""

import re
import sys
from pathlib import Path

from clang import cindex
from clang.cindex import CursorKind, TypeKind


def parse(source: str, includes: list[Path], language: str = "c") -> cindex.TranslationUnit:
    index = cindex.Index.create()
    builtin = Path(cindex.__file__).parent / "native"
    gcc_include = sorted(Path("/usr/lib/gcc/x86_64-linux-gnu").glob("*/include"))[-1]
    unit = index.parse(
        "facts.c",
        args=["-x", language, *(f"-I{include}" for include in includes),
              f"-isystem{gcc_include}", f"-isystem{builtin}"],
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


def function(cursor) -> dict:
    return {
        "returns": spell(cursor.result_type),
        "parameters": [[spell(p.type), p.spelling] for p in cursor.get_arguments()],
    }


class Declarations:
    """Typedefs, enumerations and records of a header, in its order; each once."""

    def __init__(self) -> None:
        self.list = []
        self._seen = set()

    def add(self, cursor) -> None:
        if cursor.kind == CursorKind.ENUM_DECL:
            self._enum(cursor)
        elif cursor.kind in (CursorKind.STRUCT_DECL, CursorKind.UNION_DECL):
            self._record(cursor)
        elif cursor.kind == CursorKind.TYPEDEF_DECL:
            self._typedef(cursor)

    def facts(self) -> list:
        return [{k: v for k, v in d.items() if k != "usr"} for d in self.list]

    def _enum(self, cursor) -> None:
        name = "" if is_anonymous(cursor) else cursor.spelling
        key = ("enum", name or cursor.hash)
        if key in self._seen or not cursor.is_definition():
            return
        self._seen.add(key)
        self.list.append({"enum": name, "usr": cursor.get_usr(), "values": enum_values(cursor)})

    def _record(self, cursor) -> None:
        if not cursor.is_definition() or is_anonymous(cursor):
            if not is_anonymous(cursor) and ("fwd", cursor.spelling) not in self._seen:
                self._seen.add(("fwd", cursor.spelling))
                kind = "union" if cursor.kind == CursorKind.UNION_DECL else "struct"
                self.list.append({"forward": cursor.spelling, "kind": kind})
            return
        self.list.append({"record": cursor.spelling, **record(cursor)})

    def _typedef(self, cursor) -> None:
        name = cursor.spelling
        if ("typedef", name) in self._seen:
            return
        self._seen.add(("typedef", name))
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
            entry["values"] = enum_values(declaration)
            usr = declaration.get_usr()
            self.list[:] = [d for d in self.list if d.get("usr") != usr]
        else:
            entry["type"] = spell(underlying)
        self.list.append(entry)


def enum_values(cursor) -> list:
    return [[c.spelling, c.enum_value] for c in cursor.get_children()
            if c.kind == CursorKind.ENUM_CONSTANT_DECL]
