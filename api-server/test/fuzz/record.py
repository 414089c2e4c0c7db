#!/usr/bin/env python3
"""What real programs send, made into stored inputs of session.fuzz.cc.

    record.py record SERVER FOLDER PROGRAM...    runs each program through a proxy to the server HOST:PORT, with
                                                 OUTBOARD_SERVER set to it, and keeps what its guest sends
    record.py convert FOLDER OUTPUT-FOLDER       makes inputs of that: kernels become the fake driver's, long
                                                 payloads short

Then libFuzzer keeps those that reach something new: build/fuzz/api-server/test/fuzz/executor.fuzz.session
-merge=1 corpus OUTPUT-FOLDER. make-corpus.py has the inputs that are written by hand.
"""
import hashlib
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAYLOAD_MOST = 256
INPUT_MOST = 6 << 10
PREFACE = 16


def layouts():
    """For each command its number, the size of its fixed part and where its fields are."""
    text = (ROOT / "proto/generated/wire_calls.h").read_text()
    numbers = {name: int(value) for name, value in re.findall(r"  WIRE_(\w+) = (\d+),", text)}
    commands = {}
    for name, number in numbers.items():
        body = re.search(r"struct wire_%s \{\n(.*?)\};" % name, text, re.S)[1]
        offset, fields = 0, {}
        for kind, field in re.findall(r"  (struct \w+|\w+) (\w+);", body):
            size = {"struct wire_header": 8, "struct wire_request": 16, "uint64_t": 8}.get(kind, 4)
            fields[field] = (offset, size)
            offset += size
        commands[number] = (name, offset, fields)
    return commands


class Recorder:
    """A proxy that keeps what comes from the guest behind its Hello."""

    def __init__(self, server):
        host, port = server.rsplit(":", 1)
        self.server = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.streams = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            guest, _ = self.listener.accept()
            server = socket.create_connection(self.server)
            kept = bytearray()
            self.streams.append(kept)
            threading.Thread(target=self.pump, args=(guest, server, kept), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, guest, None), daemon=True).start()

    @staticmethod
    def pump(source, target, kept):
        while data := source.recv(1 << 16):
            if kept is not None:
                kept += data
            target.sendall(data)
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def take(self):
        streams, self.streams = self.streams, []
        for stream in streams:
            hello = struct.unpack_from("<I", stream, PREFACE - 4)[0] if len(stream) >= PREFACE else 0
            yield bytes(stream[PREFACE + hello:])


def record(server, folder, programs):
    recorder = Recorder(server)
    for program in programs:
        environment = dict(os.environ, OUTBOARD_SERVER=recorder.address,
                           LD_LIBRARY_PATH=str(ROOT / "build/guest-lib"))
        name = pathlib.Path(program).name
        try:
            done = subprocess.run([program], env=environment, timeout=120, capture_output=True)
            print(name, done.returncode)
        except subprocess.TimeoutExpired:
            print(name, "took too long")
        for index, stream in enumerate(recorder.take()):
            pathlib.Path(folder, f"{name}-{index}").write_bytes(stream)


class Converter:
    def __init__(self, commands, stream):
        self.commands = commands
        self.frames = list(self.split(stream))
        self.texts = {}  # image's hash: text of the fake driver's

    @staticmethod
    def split(stream):
        at = 0
        while len(stream) - at >= 8:
            op, _, size = struct.unpack_from("<HHI", stream, at)
            if size < 8 or size > len(stream) - at:
                return
            yield op, bytearray(stream[at:at + size])
            at += size

    def get(self, op, frame, field):
        offset, size = self.commands[op][2][field]
        return int.from_bytes(frame[offset:offset + size], "little")

    def put(self, op, frame, field, value):
        offset, size = self.commands[op][2][field]
        frame[offset:offset + size] = value.to_bytes(size, "little")

    def hash_of(self, op, frame):
        offset = self.commands[op][2]["hash0"][0]
        return bytes(frame[offset:offset + 32])

    def collect(self):
        """Which kernels and variables a program uses of each image, and how long parameters are."""
        image_of, function_of, sizes, used = {}, {}, {}, {}
        for op, frame in self.frames:
            name, fixed, fields = self.commands[op]
            if name in ("ModuleLoad", "ModuleOpen", "LinkAdd"):
                image_of[self.get(op, frame, "link" if name == "LinkAdd" else "module")] = self.hash_of(op, frame)
                used.setdefault(self.hash_of(op, frame), [])
            if name in ("FunctionGet", "FunctionFind", "ModuleGlobal"):
                image = image_of.get(self.get(op, frame, "module"))
                text = bytes(frame[fixed:fixed + self.get(op, frame, "name_size")]).decode("latin1")
                kind = "global" if name == "ModuleGlobal" else "kernel"
                if image is not None and (kind, text) not in used[image]:
                    used[image].append((kind, text))
                if name == "FunctionGet":
                    function_of[self.get(op, frame, "function")] = (image, text)
            if name in ("Launch", "LaunchWith"):
                where = function_of.get(self.get(op, frame, "function"))
                if where:
                    sizes.setdefault(where, self.get(op, frame, "parameters_size"))
        for image, names in used.items():
            lines = []
            for kind, text in names:
                # The fake driver knows kernels by name: these do nothing.
                length = sizes.get((image, text), 0)
                words = " 8" * (length // 8) + (" %d" % (length % 8) if length % 8 else "")
                lines.append(f"global {text} 64\n" if kind == "global" else f"kernel {text}{words}\n")
            self.texts[image] = "".join(lines) or "kernel unused 8\n"

    def convert(self):
        self.collect()
        out, sent, held = [], set(), set()
        for op, frame in self.frames:
            name, fixed, fields = self.commands[op]
            if name == "ModulePiece":
                continue
            if name == "ModuleUnload":
                held.discard(self.get(op, frame, "module"))
            if name in ("ModuleLoad", "ModuleOpen"):
                # Asked again, as the server wanted the bytes: here they are there at once.
                if self.get(op, frame, "module") in held:
                    continue
                held.add(self.get(op, frame, "module"))
            if name in ("ModuleLoad", "ModuleOpen", "LinkAdd"):
                text = self.texts[self.hash_of(op, frame)].encode("latin1")
                image = struct.pack("<IIQ", 4 if name == "LinkAdd" else 3, 0, len(text)) + text
                image += bytes(-len(image) % 8)
                digest = hashlib.blake2b(image, digest_size=32).digest()
                if digest not in sent:
                    sent.add(digest)
                    piece = struct.pack("<HHI", self.number("ModulePiece"), 0, 64 + len(image))
                    out.append(piece + digest + struct.pack("<QQQ", len(image), 0, len(image)) + image)
                offset = fields["hash0"][0]
                frame[offset:offset + 32] = digest
                self.put(op, frame, "total", len(image))
            if name in ("Upload", "UploadKeep", "BoxUpload", "PagesUpload"):
                length = self.get(op, frame, "length")
                if length > PAYLOAD_MOST and not (name == "PagesUpload" and self.get(op, frame, "runs")):
                    if name == "BoxUpload":
                        for field in ("width", "height", "depth"):
                            self.put(op, frame, field, 1)
                        length = 1
                    else:
                        length = PAYLOAD_MOST
                    self.put(op, frame, "length", length)
                    frame = frame[:fixed + length + -length % 8]
                    struct.pack_into("<I", frame, 4, len(frame))
            out.append(bytes(frame))
        whole, size = [], 0
        for frame in out:
            if size + len(frame) > INPUT_MOST:
                break
            whole.append(frame)
            size += len(frame)
        return b"".join(whole)

    def number(self, wanted):
        return next(op for op, (name, _, _) in self.commands.items() if name == wanted)


def convert(folder, output):
    commands = layouts()
    for path in sorted(pathlib.Path(folder).iterdir()):
        data = Converter(commands, path.read_bytes()).convert()
        if data:
            pathlib.Path(output, path.name).write_bytes(data)


if __name__ == "__main__":
    {"record": lambda: record(sys.argv[2], sys.argv[3], sys.argv[4:]),
     "convert": lambda: convert(*sys.argv[2:4])}[sys.argv[1]]()
