#!/usr/bin/env python3
"""Writes the stored inputs of lt_arguments.fuzz.cc: arguments of calls of cuBLASLt.

Run it again when proto/wire/cublaslt_call.h changes: make-lt-corpus.py OUTPUT-FOLDER
"""
import struct
import sys

MEMORY = 0x400000000000
MATMUL, TRANSFORM, HEURISTIC, CHECK, IDS, INIT, CAP, CONFIG_GET, CONFIG_SET = range(9)
ALGO = [1, 2, 3, 4, 5, 6, 7, 8]


def call(function, *words):
    flat = []
    for word in words:
        flat += word if isinstance(word, list) else [word]
    return struct.pack("<B7x", function) + struct.pack(f"<{len(flat)}q", *flat)


def told(**attributes):
    """A descriptor: attributes by their places in the table, as _PLACE=VALUE."""
    at = sorted((int(name[1:]), value) for name, value in attributes.items())
    return [sum(1 << place for place, _ in at)] + [value for _, value in at]


def layout(rows, columns, ld, **more):
    return told(_2=rows, _3=columns, _4=ld, **more)


DESC = told(_0=68)
SQUARE = layout(16, 16, 16)
FOUR = [MEMORY, MEMORY, MEMORY, MEMORY]
ONE, ZERO = [0x3F800000, 0], [0, 0]
corpus = {
    "matmul": call(MATMUL, 2, FOUR, MEMORY, 4096, ONE, ZERO, DESC, SQUARE, SQUARE, SQUARE),
    "matmul-algo": call(MATMUL, 1, FOUR, 0, 0, ONE, ZERO, ALGO, DESC, SQUARE, SQUARE, SQUARE,
                        SQUARE),
    "matmul-device": call(MATMUL, 2, FOUR, 0, 0, [MEMORY, 0], [MEMORY, 0], told(_0=68, _2=2),
                          SQUARE, SQUARE, SQUARE),
    "matmul-batch": call(MATMUL, 2, FOUR, 0, 0, ONE, ZERO, DESC, layout(16, 16, 16, _5=3, _6=256),
                         layout(16, 16, 16, _5=3, _6=-256), layout(16, 16, 16, _1=1, _5=3)),
    "matmul-pointers": call(MATMUL, 2, FOUR, 0, 0, ONE, ZERO, DESC, layout(16, 16, 16, _5=3, _8=1),
                            SQUARE, SQUARE),
    "matmul-epilogue": call(MATMUL, 2, FOUR, 0, 0, ONE, ZERO,
                            told(_0=68, _7=134, _8=MEMORY, _10=MEMORY, _11=128), SQUARE, SQUARE,
                            SQUARE),
    "matmul-sums": call(MATMUL, 2, FOUR, 0, 0, ONE, ZERO, told(_0=68, _7=512, _8=MEMORY), SQUARE,
                        SQUARE, SQUARE),
    "matmul-scales": call(MATMUL, 2, FOUR, 0, 0, ONE, ZERO,
                          told(_0=68, _16=MEMORY, _17=MEMORY, _20=MEMORY, _26=1, _27=3),
                          layout(16, 16, 16, _0=28), layout(16, 16, 16, _0=28), SQUARE),
    "matmul-endless": call(MATMUL, 2, FOUR, 0, 0, ONE, ZERO, DESC,
                           layout(2**62, 2**62, 2**62, _5=2**31 - 1, _6=-2**63),
                           layout(-1, 5, -2**63), SQUARE),
    "matmul-tiles": call(MATMUL, 2, FOUR, 0, 0, ONE, ZERO, DESC, layout(32, 64, 1024, _0=3, _1=2),
                         SQUARE, SQUARE),
    "matmul-plane": call(MATMUL, 2, FOUR, 0, 0, ONE, ZERO, DESC, layout(16, 16, 16, _0=4, _7=4096),
                         SQUARE, SQUARE),
    "matmul-mode": call(MATMUL, 2, FOUR, 0, 0, ONE, ZERO, told(_0=68, _2=99), SQUARE, SQUARE,
                        SQUARE),
    "matmul-flags": call(MATMUL, 64, FOUR, 0, 0, ONE, ZERO, DESC, SQUARE, SQUARE, SQUARE),
    "transform": call(TRANSFORM, MEMORY, 0, MEMORY, ONE, ZERO, told(), SQUARE, [0], SQUARE),
    "heuristic": call(HEURISTIC, 4, DESC, SQUARE, SQUARE, SQUARE, SQUARE, told(_1=4096)),
    "heuristic-many": call(HEURISTIC, 10000, DESC, SQUARE, SQUARE, SQUARE, SQUARE, told()),
    "check": call(CHECK, ALGO, DESC, SQUARE, SQUARE, SQUARE, SQUARE),
    "ids": call(IDS, 68, 0, 0, 0, 0, 0, 10),
    "init": call(INIT, 68, 0, 0, 0, 0, 0, 1),
    "cap": call(CAP, ALGO, 6, 64),
    "config-get": call(CONFIG_GET, ALGO, 1, 4),
    "config-set": call(CONFIG_SET, ALGO, 1, 4, 2),
    "unknown-attribute": call(HEURISTIC, 1, [1 << 60, 5]),
    "unknown-function": call(9, 1, 2, 3),
    "short": call(MATMUL, 2, FOUR),
}
for name, data in corpus.items():
    with open(f"{sys.argv[1]}/{name}", "wb") as file:
        file.write(data)
