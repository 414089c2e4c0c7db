#!/usr/bin/env python3
"""Writes the stored inputs of session.fuzz.cc: streams of frames as guests send them.

Run it again when the wire changes: make-corpus.py proto/generated/wire_calls.h OUTPUT-FOLDER
"""
import hashlib
import re
import struct
import sys

header, folder = sys.argv[1:]
text = open(header, encoding="utf-8").read()
ops = {name: int(value) for name, value in re.findall(r"WIRE_(\w+) = (\d+),", text)}

WINDOW = 0x400000000000
GRANULE = 2 << 20

# What fuzz_session.h puts in their place, and where what another process lends begins.
MEMORY_TOKEN, EVENT_TOKEN, PEER_TOKEN = 0x6D656D6F72790000, 0x6576656E740000, 0x70656572000000
LENT = WINDOW + 64 * GRANULE


def frame(name, layout, *values, tail=b""):
    body = struct.pack("<" + layout, *values) + tail
    body += bytes(-len(body) % 8)
    return struct.pack("<HHI", ops[name], 0, 8 + len(body)) + body


def handle(kind, index, generation=1):
    return kind << 48 | generation << 24 | index


def map_(address=WINDOW, size=GRANULE):
    return frame("MemoryMap", "QQII", address, size, 0, 0)


def unmap(address=WINDOW, size=GRANULE):
    return frame("MemoryUnmap", "QQ", address, size)


def upload(to, data, on=0):
    return frame("Upload", "QQQ", to, on, len(data), tail=data)


def keep(to, data, on=0):
    return frame("UploadKeep", "QQQ", to, on, len(data), tail=data)


def ask_upload(request, to, length, hashes, on=0):
    return frame("UploadAsk", "QQQQII", request, to, length, on, len(hashes), 0, tail=hashes)


def move_state(kind, data):
    return frame("MoveState", "IIQ", kind, 0, len(data), tail=data)


def kept(begin, data):
    return move_state(6, struct.pack("<Q", begin) + data)


def moved_stream(received, sent, cut_at, away_ms, epoch, flags):
    return move_state(7, struct.pack("<QQQQII", received, sent, cut_at, away_ms, epoch, flags))


def region_open(request):
    return frame("RegionOpen", "Q", request)


def region_upload(to, length, slot, on=0):
    return frame("RegionUpload", "QQQII", to, on, length, slot, 0)


def region_settle(request):
    return frame("RegionSettle", "Q", request)


def region_download(request, source, length, on=0):
    return frame("RegionDownload", "QQQQ", request, source, length, on)


def region_taken(slots):
    return frame("RegionTaken", "Q", slots)


def hash_of(data):
    return hashlib.blake2b(data, digest_size=32).digest()


def download(request, source, length, on=0):
    return frame("Download", "QQQQ", request, source, length, on)


def synchronize(request):
    return frame("cuCtxSynchronize", "Q", request)


def image(source, kind=3):
    return struct.pack("<IIQ", kind, 0, len(source)) + source + bytes(-len(source) % 8)


def pieces(whole, size):
    words = struct.unpack("<4Q", hash_of(whole))
    return b"".join(
        frame("ModulePiece", "7Q", *words, len(whole), at, len(whole[at : at + size]),
              tail=whole[at : at + size])
        for at in range(0, len(whole), size))


def load(request, module, whole):
    words = struct.unpack("<4Q", hash_of(whole))
    return frame("ModuleLoad", "QQ4QQII", request, module, *words, len(whole), 0, 0)


def open_module(request, module, whole, options=b""):
    words = struct.unpack("<4Q", hash_of(whole))
    return frame("ModuleOpen", "QQ4QQII", request, module, *words, len(whole), 0, len(options),
                 tail=options)


def link_add(request, link, whole, kind=1, name=b"text"):
    words = struct.unpack("<4Q", hash_of(whole))
    return frame("LinkAdd", "QQ4QQIIII", request, link, *words, len(whole), kind, 1, 0, len(name),
                 tail=name)


def function(module, target, name, index=0):
    return frame("FunctionGet", "QQII", module, target, index, len(name), tail=name)


def launch(target, parameters=b"", on=0, grid=1, cooperative=0):
    return frame("Launch", "QQ8III", target, on, grid, 1, 1, 1, 1, 1, 0, cooperative,
                 len(parameters), 0, tail=parameters)


def node(kind, body, graph=0, before=()):
    tail = b"".join(struct.pack("<IBBBB", one, 0, 0, 0, 0) for one in before) + body
    tail += bytes(-len(tail) % 8)
    return struct.pack("<IIII", 16 + len(tail), kind, graph, len(before)) + tail


def build(exec_, records, base=0, last=1):
    return frame("GraphBuild", "QQIIQ", exec_, base, last, 0, len(records), tail=records)


def change(exec_, records):
    return frame("GraphSet", "QQ", exec_, len(records), tail=records)


STREAM, EVENT, MODULE, FUNCTION = handle(2, 1), handle(3, 1), handle(4, 1), handle(5, 1)
CODE = image(b"kernel add 8 8 4\nkernel gate 4\nglobal table 64\nkernel nothing\n")
LINK = handle(14, 1)
GRAPH, ARRAY = handle(11, 1), handle(8, 1)
FILL = node(2, struct.pack("<QQQQII", WINDOW, 0, 16, 1, 7, 4))
TO_ARRAY = struct.pack("<11Q", 2, 1, 0, WINDOW, 8, 2, 4, 2, 1, ARRAY, 0)
FROM_ARRAY = struct.pack("<11Q", WINDOW + 64, 4, 2, 2, 1, 0, 4, 2, 1, 0, ARRAY)
PLAIN_COPY = struct.pack("<9Q", WINDOW + 128, 8, 1, WINDOW, 8, 1, 8, 1, 1)
INPUT = image(b"kernel linked 8\n", 4)
stream = frame("cuStreamCreateWithPriority", "QIi", STREAM, 1, 0)
event = frame("cuEventCreate", "QII", EVENT, 0, 0)
module = pieces(CODE, 40) + load(2, MODULE, CODE)
functions = (function(MODULE, FUNCTION, b"add") + function(MODULE, FUNCTION + 1, b"gate", 1) +
             function(MODULE, FUNCTION + 2, b"nothing", 2))

corpus = {
    "empty": b"",
    "synchronize": synchronize(1) + frame("cuStreamSynchronize", "QQ", 2, 0),
    "copies": map_() + upload(WINDOW + 64, b"0123456789" * 20) + download(1, WINDOW + 64, 200) +
              frame("cuMemcpyDtoDAsync_v2", "QQQQ", WINDOW + 4096, WINDOW, 512, 0) +
              frame("Copy2D", "7Q", WINDOW, 64, WINDOW + 4096, 32, 16, 4, 0) +
              frame("cuMemsetD32Async", "QIIQQ", WINDOW, 7, 0, 100, 0) +
              frame("cuMemsetD2D8Async", "QQIIQQQ", WINDOW, 64, 1, 0, 10, 10, 0) +
              download(2, WINDOW, 70000),
    "uploads-kept": map_() + ask_upload(1, WINDOW, 1000, hash_of(b"k" * 1000)) +
                    keep(WINDOW, b"k" * 1000) + keep(WINDOW, b"") + keep(WINDOW, b"x", 99) +
                    ask_upload(2, WINDOW, 1000, hash_of(b"k" * 1000)) +
                    ask_upload(3, WINDOW, (1 << 20) + 1, hash_of(b"a") + hash_of(b"b")) +
                    ask_upload(4, WINDOW + GRANULE, 8, hash_of(b"a")) +
                    ask_upload(5, WINDOW, 8, hash_of(b"a"), 99) + download(6, WINDOW, 1000),
    "uploads-of-no-parts": map_() + ask_upload(1, WINDOW, 0, b""),
    "uploads-of-wrong-parts": map_() + ask_upload(1, WINDOW, 1 << 63, hash_of(b"a") * 64),
    "memory": map_() + map_(WINDOW + 2 * GRANULE, 2 * GRANULE) + map_(WINDOW + 64 * GRANULE) +
              unmap() + map_() + upload(WINDOW, b"abc") + unmap() + synchronize(1),
    "streams": stream + event + frame("cuEventRecord", "QQ", EVENT, STREAM) +
               frame("cuStreamWaitEvent", "QQII", 0, EVENT, 0, 0) +
               frame("cuEventQuery", "QQ", 1, EVENT) + frame("cuStreamQuery", "QQ", 2, STREAM) +
               frame("cuEventSynchronize", "QQ", 3, EVENT) +
               frame("cuEventElapsedTime_v2", "QQQ", 4, EVENT, EVENT) +
               frame("cuStreamDestroy_v2", "Q", STREAM) + frame("cuEventDestroy_v2", "Q", EVENT) +
               frame("cuStreamSynchronize", "QQ", 5, STREAM),
    "arriving": frame("ModuleExpect", "QIIQQQQQII", 1, 0, 0, 1, 2, 3, 4, 100, 0, 0) + map_() +
                upload(WINDOW, b"abc") + stream + event + frame("cuEventRecord", "QQ", EVENT, 0) +
                frame("MoveState", "IIQ", 0, 0, 32, tail=synchronize(9) + frame("Echo", "Q", 10)) +
                frame("MoveState", "IIQ", 1, 0, 16, tail=struct.pack("<Qq", EVENT, -1000)) +
                frame("MoveState", "IIQ", 2, 0, 8, tail=struct.pack("<Q", 3)) +
                frame("MoveState", "IIQ", 3, 0, 17 * 8, tail=bytes(17 * 8)) +
                frame("MoveCommit", "QQQQiI", 2, 5, 4, 3, 0, 1),
    "arriving-region": map_() + move_state(8, struct.pack("<Q", 5)) +
                       move_state(0, region_taken(5) + region_upload(WINDOW, 512, 0) + region_settle(1)) +
                       frame("MoveCommit", "QQQQiI", 2, 5, 4, 3, 0, 1),
    "arriving-kept": map_() + kept(0, b"k" * 40) + kept(40, b"l" * 20) +
                     move_state(0, synchronize(9)[:7]) + move_state(5, b"1") +
                     moved_stream(107, 60, 30, 0, 4, 0) +
                     frame("MoveCommit", "QQQQiI", 2, 5, 4, 3, 0, 1),
    "arriving-cut": kept(0, b"k" * 40) + move_state(0, frame("Echo", "Q", 10)) +
                    moved_stream(1 << 40, 40, 25, 1000, 1 << 20, 3) +
                    frame("MoveCommit", "QQQQiI", 2, 5, 4, 3, 0, 1),
    "arriving-late-part": kept(7, b"k" * 40) + kept(1 << 40, b"l" * 40) +
                          moved_stream(0, (1 << 40) + 40, 0, 0, 0, 0) +
                          frame("MoveCommit", "QQQQiI", 2, 5, 4, 3, 0, 1),
    "arriving-beyond": kept(0, b"k" * 40) + moved_stream(0, 40, 41, 0, (1 << 32) - 1, 0) +
                       frame("MoveCommit", "QQQQiI", 2, 5, 4, 3, 0, 1),
    "arriving-nonsense": frame("MoveState", "IIQ", 9, 0, 8, tail=bytes(8)),
    "stream-marks": stream + frame("StreamMark", "QQ", STREAM, 4) + frame("StreamMark", "QQ", 0, 1 << 63) +
                    frame("cuStreamDestroy_v2", "Q", STREAM) + frame("StreamMark", "QQ", STREAM, 8) +
                    synchronize(1),
    "module": module + functions + map_() +
              launch(FUNCTION, struct.pack("<QQI", WINDOW, 10, 3)) +
              launch(FUNCTION + 1, struct.pack("<I", 1)) + launch(FUNCTION + 2, cooperative=1) +
              frame("cuFuncGetAttribute", "QiIQ", 3, 4, 0, FUNCTION) +
              frame("cuFuncSetAttribute", "QQii", 4, FUNCTION, 8, 100) +
              frame("cuFuncSetCacheConfig", "QiI", FUNCTION, 1, 0) +
              frame("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "QQiIQII", 5, FUNCTION,
                    32, 0, 0, 0, 0) +
              frame("cuOccupancyAvailableDynamicSMemPerBlock", "QQii", 6, FUNCTION, 1, 32) +
              synchronize(7),
    "described": module + functions + map_() +
              frame("FunctionDescribe", "QQ", 3, FUNCTION) +
              frame("FunctionSet", "QIi", FUNCTION, 9, 50) +
              frame("Occupancies", "QQII", 4, FUNCTION, 0, 32,
                    tail=struct.pack("<IIQIIQ", 32, 0, 0, 1024, 0, 4096)) +
              frame("OccupancyClusters", "Q" * 2 + "I" * 9 + "I", 5, FUNCTION, 0, 4, 1, 1, 32, 1, 1,
                    0, 32, 0, tail=struct.pack("<IIQQQ", 4, 0, 2 | 1 << 32, 1, 0)) +
              frame("LaunchWith", "QQ" + "I" * 9 + "I", FUNCTION + 1, 0, 1, 1, 1, 1, 1, 1, 0, 64, 4, 0,
                    tail=struct.pack("<IIQQQ", 8, 0, 1, 0, 0) +
                    struct.pack("<IIQQQ", 1, 0, WINDOW, 64, 0) + struct.pack("<II", 1, 0)) +
              frame("LimitSet", "QIIQ", 6, 0, 0, 2048) + frame("ContextRecord", "Q", 77) +
              frame("ContextWait", "Q", 77) + synchronize(7),
    "global": module + frame("ModuleGlobal", "QQII", 3, MODULE, 5, 0, tail=b"table") +
              frame("FunctionFind", "QQII", 4, MODULE, 3, 0, tail=b"add") +
              frame("ModuleUnload", "Q", MODULE) + launch(FUNCTION),
    "link": frame("LinkCreate", "QII", LINK, 32, 0, tail=struct.pack("<IIQIIQ", 6, 0, 256, 4, 0, 99)) +
            pieces(INPUT, 16) + link_add(2, LINK, INPUT) +
            link_add(3, LINK, CODE) + frame("LinkComplete", "QQ", 4, LINK) +
            frame("LinkFetch", "QQ", 5, LINK) + frame("LinkDestroy", "Q", LINK) +
            frame("LinkFetch", "QQ", 6, LINK),
    "link-wrong-input": frame("LinkCreate", "QII", LINK, 0, 0) + pieces(CODE, 4096) +
                        link_add(1, LINK, CODE) + frame("LinkComplete", "QQ", 2, LINK),
    # The second load tells where the variable is that was asked for after the first.
    "opened": pieces(CODE, 4096) + open_module(1, MODULE, CODE, struct.pack("<IIQ", 6, 0, 64)) +
              frame("ModuleGlobal", "QQII", 2, MODULE, 5, 0, tail=b"table") +
              frame("ModuleUnload", "Q", MODULE) + open_module(3, MODULE + 1, CODE) +
              open_module(4, MODULE + 1, CODE) + open_module(5, MODULE + 2, CODE, b"12345678") +
              synchronize(6),
    "graphs": map_() + event + upload(WINDOW, b"graph" * 100) +
              frame("ArrayCreate", "4QIIII", ARRAY, 16, 4, 0, 1, 1, 0, 0) +
              build(GRAPH, FILL + node(1, TO_ARRAY, 0, [0]) + node(1, FROM_ARRAY, 0, [1]) +
                    node(1, PLAIN_COPY, 0, [2]) + node(7, struct.pack("<Q", EVENT), 0, [3]) +
                    node(5, b"") + node(12, struct.pack("<IIIIQQ", 1, 0, 2, 0, WINDOW + 8, 5)) +
                    node(4, b"") + node(5, b"", 1)) +
              frame("GraphLaunch", "QQ", GRAPH, 0) + change(GRAPH, node(1, FROM_ARRAY, 2)) +
              frame("GraphEnable", "QII", GRAPH, 0, 0) + frame("GraphLaunch", "QQ", GRAPH, 0) +
              frame("ArrayDestroy", "Q", ARRAY) + frame("GraphLaunch", "QQ", GRAPH, 0) +
              frame("GraphDestroy", "Q", GRAPH) + synchronize(1),
    "reset": map_() + stream + event + module + functions +
             frame("LimitSet", "QIIQ", 8, 0, 0, 4096) + frame("ContextReset", "Q", 9) +
             map_() + synchronize(10),
    "reset-behind-a-wait": map_() + stream +
                           frame("StreamValues", "QII", STREAM, 24, 0,
                                 tail=struct.pack("<IIQQ", 1, 1, WINDOW, 1)) +
                           frame("ContextReset", "Q", 1) + synchronize(2),
    "large": map_(WINDOW, 2 * GRANULE) + upload(WINDOW, b"large" * 20000) +
             download(1, WINDOW, 100000) + download(2, WINDOW, 2 * GRANULE) + synchronize(3),
    "region": map_() + region_open(1) + region_upload(WINDOW, 1000, 0) +
              region_upload(WINDOW, 1 << 18, 15) + region_settle(2) +
              region_download(3, WINDOW, 1 << 20) + region_taken(3) + synchronize(4),
    "region-taken-twice": map_() + region_open(1) + region_download(2, WINDOW, 100000) +
                          synchronize(3) + region_taken(1) + region_taken(1),
    "region-wrong-slot": map_() + region_open(1) + region_upload(WINDOW, 1, 16),
    "region-too-long": map_() + region_open(1) + region_upload(WINDOW, (1 << 18) + 1, 0),
    "region-missing": region_settle(1),
    "region-twice": region_open(1) + region_open(2),
    "limits": frame("cuCtxSetLimit", "QiIQ", 1, 0, 0, 2048) + frame("Echo", "Q", 2),
    "room": frame("MemoryRoom", "QQ", 1, GRANULE) + map_() +
            frame("MemoryRoom", "QQ", 2, 1 << 50) + synchronize(3),
    "tensor-maps": frame("TensorMapEncode", "QQII", 1, WINDOW, 176, 0,
                         tail=struct.pack("<8I6i2I10I9Q", 0, 7, 2, 0, 0, 0, 0, 0, *[0] * 6, 0, 0,
                                          8, 8, 0, 0, 0, 1, 1, 0, 0, 0,
                                          64, 64, 0, 0, 0, 256, 0, 0, 0)) +
                   frame("TensorMapEncode", "QQII", 2, WINDOW, 176, 0, tail=b"\xff" * 176) +
                   frame("TensorMapReplace", "QQII", 3, WINDOW + 32, 128, 0, tail=bytes(128)) +
                   synchronize(4),
    "tensor-map-too-short": frame("TensorMapReplace", "QQII", 4, WINDOW + 32, 8, 0, tail=bytes(8)),
    "error-texts": frame("ErrorTexts", "Q", 1) + synchronize(2),
    "pinned": frame("PinnedMap", "QQII", WINDOW + GRANULE, GRANULE, 0, 0) + map_() +
              upload(WINDOW + GRANULE, b"pinned") + download(1, WINDOW + GRANULE, 64) +
              unmap(WINDOW + GRANULE) + synchronize(2),
    "taken": frame("ModuleTake", "QII", MODULE, 0, 0) + function(MODULE, FUNCTION, b"expected") +
             map_() + launch(FUNCTION, struct.pack("<Q", WINDOW)) + synchronize(1),
    "stream-attribute": stream + map_() +
                        frame("StreamAttribute", "QII", STREAM, 1, 64,
                              tail=struct.pack("<QQfII", WINDOW, 4096, 0.5, 1, 1) + bytes(36)),
    "shared": frame("MemoryImport", "QQII8Q", 1, handle(6, 1), 0, 0, MEMORY_TOKEN, *[0] * 7) +
              frame("MemoryPlace", "QQQQ", WINDOW, GRANULE, 0, handle(6, 1)) +
              frame("MemoryAccess", "QQII", WINDOW, GRANULE, 3, 0) + download(2, WINDOW, 64) +
              frame("EventImport", "QQ8Q", 3, EVENT, EVENT_TOKEN, *[0] * 7) +
              frame("cuEventRecord", "QQ", EVENT, 0) + synchronize(4),
    "goodbye": map_() + frame("Goodbye", "") + frame("Echo", "Q", 1) + frame("Goodbye", ""),
    "share-ends": map_() + frame("MemoryExport", "QQQQQQ", 1, 0, WINDOW, GRANULE, 512, 512) +
                  frame("ShareEnd", "QQQ", WINDOW, 512, 512) +
                  frame("ShareEnd", "QQQ", WINDOW, (1 << 64) - 1, (1 << 64) - 1) +
                  frame("ShareCheck", "Q8Q", 2, MEMORY_TOKEN, *[0] * 7) +
                  frame("ShareCheck", "Q8Q", 3, *[0] * 8) + unmap() + synchronize(4),
    "peers": map_() + frame("PeerOffer", "Q", 1) + frame("PeerLend", "QQQ", WINDOW, GRANULE, 1) +
             frame("PeerJoin", "QII8Q", 2, 0, 0, PEER_TOKEN, *[0] * 7) +
             frame("PeerMap", "QQQII", LENT, GRANULE, 1, 0, 3) +
             frame("PeerMap", "QQQII", LENT + GRANULE, 2 * GRANULE, 2, 0, 3) +
             upload(LENT, b"lent") + download(3, LENT, 64) +
             frame("PeerUnmap", "QQ", LENT, GRANULE) + synchronize(4),
    "wrong-image": load(1, MODULE, b"x" * 64) + pieces(b"x" * 64, 64) + load(2, MODULE, b"x" * 64),
    "library": map_() + stream +
               frame("LibraryAsk", "QIIQQQII", 1, 0, 78, handle(15, 1), STREAM, 0, 0, 0) +
               frame("LibraryAsk", "QIIQQQIIQ", 2, 0, 278, handle(15, 1), STREAM, 7, 0, 8, 0) +
               frame("LibraryCall", "IIQQII", 0, 138, handle(15, 1), STREAM, 0, 0) + synchronize(3),
    "library-lt": map_() + stream +
                  frame("LibraryAsk", "QIIQQQII7Q", 1, 1, 4, 0, STREAM, 7, 0, 56, 68, 0, 0, 0, 0, 0, 4) +
                  frame("LibraryCall", "IIQQII", 1, 0, 0, STREAM, 0, 0) + synchronize(3),
    "library-unserved": frame("LibraryUnserved", "") + synchronize(1),
    "library-unknown": frame("LibraryCall", "IIQQII", 2, 0, handle(15, 1), 0, 0, 0),
    "library-function": frame("LibraryCall", "IIQQII", 0, 1 << 20, handle(15, 1), 0, 0, 0),
    "late": map_() + stream +
            frame("LateUpload", "QQQQQQQQQQ", 0, WINDOW, 64, 8, 64, 4, 1, STREAM, 256, 7) +
            frame("LatePayload", "QQQ", 1, 0, 256, tail=b"z" * 256) +
            frame("HostFunctionDone", "Q", 1) + synchronize(1),
    "late-begun": map_() + stream +
                  frame("LateUpload", "QQQQQQQQQQ", 0, WINDOW, 64, 8, 64, 4, 1, STREAM, 256, 7),
    "late-nowhere": map_() + stream +
                    frame("LateUpload", "QQQQQQQQQQ", 0, WINDOW, 64, 8, 64, 4, 1, STREAM, 255, 7) +
                    frame("LatePayload", "QQQ", 99, 1 << 40, 8, tail=b"z" * 8),
    "truncated-upload": map_() + upload(WINDOW, b"y" * 5000)[:3000],
    "truncated-frame": synchronize(1)[:9],
    "wrong-handles": launch(99) + frame("cuStreamSynchronize", "QQ", 1, handle(3, 1)) +
                     frame("cuStreamDestroy_v2", "Q", 0),
}
for name, data in corpus.items():
    with open(f"{folder}/{name}", "wb") as file:
        file.write(data)
