#!/usr/bin/env python3
"""Writes the stored inputs of library_arguments.fuzz.cc: arguments of calls of libraries.

Run it again when the table changes: make-library-corpus.py proto/api-cublas/ids.json OUTPUT-FOLDER
"""
import json
import struct
import sys

ids, folder = json.load(open(sys.argv[1], encoding="utf-8")), sys.argv[2]
MEMORY = 0x400000000000
HOST, DEVICE = 0, 1


def call(name, mode, *words, tail=b""):
    head = struct.pack("<HB5x", ids[name], mode)
    return head + struct.pack(f"<{len(words)}q", *words) + tail


ONE = struct.pack("<f4x", 1)
corpus = {
    "gemm": call("cublasSgemm_v2", HOST, 0, 1, 4, 4, 4, 0, MEMORY, 4, MEMORY, 4, 0, MEMORY, 4,
                 tail=2 * ONE),
    "gemm-device": call("cublasDgemm_v2", DEVICE, 1, 1, 4, 4, 4, MEMORY, MEMORY, 4, MEMORY, 4,
                        MEMORY, MEMORY, 4),
    "gemm-ex": call("cublasGemmEx", HOST, 0, 0, 4, 4, 4, 0, MEMORY, 2, 4, MEMORY, 2, 4, 0, MEMORY,
                    0, 4, 68, -1, tail=2 * ONE),
    "none": call("cublasSgeam", HOST, 0, 0, 4, 4, 0, MEMORY, 4, 1, 0, 4, MEMORY, 4, tail=ONE),
    "batch": call("cublasSgemmStridedBatched", HOST, 0, 0, 4, 4, 4, 0, MEMORY, 4, -16, MEMORY, 4,
                  16, 0, MEMORY, 4, 16, 3, tail=2 * ONE),
    "dot": call("cublasZdotc_v2", HOST, 8, MEMORY, 1, MEMORY, -1, 0),
    "rotmg": call("cublasDrotmg_v2", HOST, 0, 0, 0, 0, 0, tail=bytes(72)),
    "packed": call("cublasStpmv_v2", HOST, 0, 0, 0, 8, MEMORY, MEMORY, 1),
    "band": call("cublasSgbmv_v2", HOST, 1, 8, 8, 1, 2, 0, MEMORY, 4, MEMORY, 1, 0, MEMORY, 1,
                 tail=2 * ONE),
    "batched": call("cublasSgetrsBatched", DEVICE, 0, 4, 1, MEMORY, 4, MEMORY, MEMORY, 4, 0, 2),
    "endless": call("cublasScopy_v2", HOST, 2**63 - 1, MEMORY, -2**63, MEMORY, 2**62),
    "workspace": call("cublasSetWorkspace_v2", HOST, MEMORY, 1 << 20),
    "unknown-type": call("cublasScalEx", HOST, 4, 0, 99, MEMORY, 98, 1, 0),
    "short": call("cublasSaxpy_v2", HOST, 4, 0),
}
for name, data in corpus.items():
    with open(f"{folder}/{name}", "wb") as file:
        file.write(data)
