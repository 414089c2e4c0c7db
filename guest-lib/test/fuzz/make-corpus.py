#!/usr/bin/env python3
"""Writes the stored inputs of the fuzz targets beside it. Run again when frames change."""
import os
import struct

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'corpus')


def write(kind, name, data):
    with open(os.path.join(here, kind, name), 'wb') as file:
        file.write(data)


# ---- frames -----------------------------------------------------------------------------------


def frame(op, body=b'', flags=0, size=None):
    body += bytes(-len(body) % 8)
    return struct.pack('<HHI', op, flags, 8 + len(body) if size is None else size) + body


def reply(request, result=0, results=b''):
    return frame(0x8000, struct.pack('<Qii', request, result, 0) + results)


def data(request, offset, payload):
    return frame(0x8001, struct.pack('<QQQ', request, offset, len(payload)) + payload)


idle = frame(0x8002)
output = frame(0x8003, struct.pack('<Q', 6) + b'hello\n')
done = frame(0x8004, struct.pack('<QQ', 3 << 48 | 1 << 24 | 1, 4))
fault = frame(0x8005, struct.pack('<iHHQ', 1, 1020, 0, 7))
end = frame(0x8006, struct.pack('<iI', 46, 4) + b'over')
placed = frame(0x8009, struct.pack('<QQQII', 2, 0, 4096, 3, 0))
every = idle + reply(1) + data(2, 0, b'x' * 13) + reply(2) + output + done + fault + end

write('decode', 'every-kind', b'\x00' + every)
write('decode', 'every-kind-in-pieces', b'\x01' + every)
write('decode', 'placed', b'\x03' + placed + reply(2) + placed + placed)
write('decode', 'placed-too-short', b'\x00' + frame(0x8009, bytes(24)))
write('decode', 'large-reply', b'\x05' + reply(1, 0, bytes(300)) * 3)
write('decode', 'download', b'\x02' + data(1, 0, bytes(range(256)) * 4) + data(1, 1024, b'z') + reply(1))
write('decode', 'unknown-kind', b'\x00' + frame(0x8007))
write('decode', 'size-0', b'\x00' + frame(0x8002, size=0))
write('decode', 'flags', b'\x00' + frame(0x8002, flags=1))
write('decode', 'output-too-long', b'\x00' + frame(0x8003, struct.pack('<Q', 99)))
write('decode', 'data-disagrees', b'\x00' + frame(0x8001, struct.pack('<QQQ', 1, 0, 99)))

# ---- answers: a protobuf writer of three lines ----------------------------------------------------


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def number(field, n):
    return varint(field << 3) + varint(n)


def text(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def answer(body, version=1, length=None):
    return b'OUTBOARD' + struct.pack('<II', version, len(body) if length is None else length) + body


device = (text(1, b'Test device') + text(2, bytes(range(16))) + number(3, 1 << 34) +
          text(4, b''.join(varint(n << 1) for n in range(143))) + text(5, varint(1024) * 3) +
          number(6, 0) + number(7, 9) + text(8, b'0000:01:00.0'))
welcome = (number(1, 7) + number(2, 13000) + text(3, device) * 2 + number(4, 1 << 46) +
           number(5, 1 << 40) + number(6, 1 << 33) + text(7, b'0.1.0'))
refusal = text(1, b'OB_NO') + text(2, b'No.') + text(3, b'Ask.') + number(4, 801)
write('answer', 'welcome', answer(text(2, welcome)))
write('answer', 'refusal', answer(text(3, refusal)))
write('answer', 'refusal-of-another-version', answer(text(3, refusal), 2))
write('answer', 'welcome-of-another-version', answer(text(2, welcome), 2))
write('answer', 'queued', answer(text(1, number(1, 3))))
write('answer', 'nothing', answer(b''))
write('answer', 'cut', answer(text(2, welcome))[:-9])
write('answer', 'nine-devices', answer(text(2, text(3, device) * 9 + welcome)))
write('answer', 'long-name', answer(text(2, text(3, text(1, b'n' * 256)) + welcome)))
write('answer', 'http', b'HTTP/1.1 400 Bad Request\r\n\r\n')
