#!/usr/bin/env python3
"""Writes the stored inputs of layouts.fuzz.cc: images of kernels.

make-layouts-corpus.py OUTPUT-FOLDER
"""
import struct
import subprocess
import sys

FATBIN, ELF, PTX = b"\0", b"\1", b"\2"


def parameter(place, offset, size):
    return struct.pack("<HHIHHI", 0x1704, 12, 0, place, offset, size << 18 | 0x1F000)


def large_parameter(place, offset, size):
    return struct.pack("<HHIHHI", 0x4504, 12, 0, place, offset, size)


def all_bytes(count):
    return struct.pack("<HH", 0x1903, count)


def machine_code(abi=8, many=False, **kernels):
    sections = [(f".nv.info.{name}", 0x70000000, 0, records) for name, records in kernels.items()]
    symbol = struct.pack("<IBBHQQ", 1, 1, 0, 1, 0, 8)
    sections += [(".symtab", 2, 2 + len(kernels), symbol), (".strtab", 3, 0, b"\0variable\0")]
    names, contents, headers = b"\0", b"", [bytes(64)]
    sections.append((".shstrtab", 3, 0, b""))
    for name, kind, link, data in sections:
        at = len(names)
        names += name.encode() + b"\0"
        data = data if name != ".shstrtab" else names
        headers.append(struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, 64 + len(contents), len(data),
                                   link, 0, 1, 24 if kind == 2 else 0))
        contents += data
    count, last = len(headers), len(headers) - 1
    if many:
        headers[0] = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, count, last, 0, 0, 0)
        count, last = 0, 0xFFFF
    ident = b"\x7fELF\2\1\1\x41" + bytes([abi]) + bytes(7)
    head = ident + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64 + len(contents), 0x5A04, 64,
                               0, 0, 64, count, last)
    return head + contents + b"".join(headers)


def entry(kind, arch, payload, flags=0):
    size = len(payload) if flags else 0
    if flags == 0x8000:
        payload = subprocess.run(["zstd", "-q", "-c"], input=payload, stdout=subprocess.PIPE,
                                 check=True).stdout
    if flags == 0x2000:  # literals alone
        assert 15 <= len(payload) < 15 + 255
        payload = bytes([0xF0, len(payload) - 15]) + payload
    packed = len(payload) if flags else 0
    payload += bytes(-len(payload) % 8)
    return struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(payload), packed, 0, 0, 9, arch, 0,
                       0, flags | 1, 0, size) + payload


def fatbin(*entries):
    contents = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(contents)) + contents


CODE = machine_code(k=all_bytes(20) + parameter(1, 8, 8) + parameter(0, 0, 4) +
                    parameter(2, 16, 4), m=b"\1\4\0\0", other=parameter(0, 0, 4))
LARGE = machine_code(abi=7, many=True, k=parameter(0, 0, 4000) + large_parameter(1, 4000, 20000))
TEXT = b""".version 8.0
.target sm_52 // .entry no()
.address_size 64
.file 1 "a.cu"
.visible .global .align 4 .b8 variable[8] = {1, 2};
.visible .entry k(.param .u32 a, .param .align 16 .b8 b[24], .param .u64 .ptr .global .align 4 c)
.maxntid 32, 1, 1
{ .reg .b32 %r<2>; /* } */ ld.param.u32 %r1, [a]; ret; }
.entry m() { ret; }
"""
SHORT = b".entry k(.param .u64 a, .param .v2 .f32 b) { ret; }"
corpus = {
    "code": ELF + CODE,
    "code-large": ELF + LARGE,
    "text": PTX + TEXT,
    "text-unknown": PTX + SHORT,
    "container": FATBIN + fatbin(entry(2, 90, CODE), entry(1, 75, TEXT), entry(64, 90, b"?")),
    "container-lz4": FATBIN + fatbin(entry(1, 75, SHORT, 0x2000), entry(2, 80, LARGE)),
    "container-zstd": FATBIN + fatbin(entry(1, 75, TEXT, 0x8000), entry(2, 90, CODE, 0x8000)),
}
for name, data in corpus.items():
    with open(f"{sys.argv[1]}/{name}", "wb") as file:
        file.write(data)
