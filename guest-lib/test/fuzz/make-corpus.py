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

# ---- placement: questions of some shape, then the stream ------------------------------------------

PLAIN, DEFERRED, NOWHERE, UNASKED = 0, 1, 2, 4


def asked(*shapes):
    return bytes([len(shapes)]) + b''.join(bytes(shape[:6]) + bytes(2) for shape in shapes)


write('placement', 'none', asked() + idle + fault + end)
write('placement', 'rows', asked((9, 2, 1, 5, 7, PLAIN), (3, 0, 0, 0, 0, DEFERRED)) +
      data(1, 0, b'a' * 30) + data(1, 30, b'b' * 30) + reply(1) + data(2, 0, b'c' * 4) + reply(2))
write('placement', 'beyond', asked((9, 2, 1, 5, 7, PLAIN)) + data(1, 1, b'a' * 60) + reply(1))
write('placement', 'replies', asked(*[(0, 0, 0, 0, 0, NOWHERE)] * 3) + reply(2, 0, bytes(300)) +
      reply(1, 2) + reply(3, 0, bytes(8)) + reply(3))
write('placement', 'unasked', asked((0, 0, 0, 0, 0, NOWHERE | UNASKED), (0, 0, 0, 0, 0, NOWHERE)) +
      reply(1 << 63, 0, bytes(64)) + reply(1))
write('placement', 'placed', asked((99, 0, 0, 0, 0, PLAIN)) + frame(0x8009, struct.pack('<QQQII', 1, 0, 8, 0, 0)))

# ---- lists: bytes of answers ----------------------------------------------------------------------


def said(body):
    return struct.pack('<H', len(body)) + body


def padded(text):
    return text + bytes(-len(text) % 8)


def listed_kernel(name, index, parameters, description=b''):
    end_of_last = max([offset + size for offset, size in parameters], default=0)
    return (struct.pack('<IIII', len(name), len(parameters), end_of_last, index) + description +
            b''.join(struct.pack('<II', *one) for one in parameters) + padded(name))


def listed_variable(name, address, size):
    return struct.pack('<QQII', address, size, 0, len(name)) + padded(name)


def opened(entries, listed, kernels=None, described=0, errors=b'', info=b''):
    texts = padded(errors) + padded(info)
    return said(struct.pack('<IiIIIIII', 1, 0, listed if kernels is None else kernels, listed, described,
                            len(errors), len(info), len(entries)) + texts + entries)


DESCRIPTION = struct.pack('<I16i32sI', 0xffff, *[64] * 16, bytes([4] * 32), 0)
KERNEL = listed_kernel(b'kernel', 0, [(0, 8), (8, 4)])
write('lists', 'kernel', b'\0' + opened(KERNEL, 1) + said(struct.pack('<II', 104, 0) + DESCRIPTION) +
      said(struct.pack('<QQII', 0x400000000000, 64, 0, 0)))
write('lists', 'described', b'\0' + opened(listed_kernel(b'kernel', 0, [(0, 8)], DESCRIPTION) +
                                          listed_variable(b'variable', 0x400000000000, 64), 1, described=1))
write('lists', 'more-kernels', b'\0' + opened(KERNEL, 1, kernels=3) +
      said(struct.pack('<IIII', 2, 12, 16, 0) + struct.pack('<IIII', 0, 8, 8, 4)))
write('lists', 'refused', b'\0' + said(struct.pack('<IiIIIIII', 3, 218, 0, 0, 0, 5, 4, 0) + padded(b'wrong') +
                                      padded(b'info')))
write('lists', 'link', b'\1' + said(struct.pack('<IiII', 1, 0, 5, 4) + padded(b'error') + padded(b'info')) +
      said(struct.pack('<iIQII', 0, 0, 64, 0, 4) + padded(b'done')))

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

# ---- what answers a client's handshake ----------------------------------------------------------


def record(kind, body):
    return bytes([kind, 3, 3]) + struct.pack('>H', len(body)) + body


extensions = b'\x00\x2b\x00\x02\x03\x04' + b'\x00\x33\x00\x24\x00\x1d\x00\x20' + bytes(range(1, 33))
body = (b'\x03\x03' + bytes(range(32)) + b'\x20' + bytes(32) + b'\x13\x01' + b'\x00' +
        struct.pack('>H', len(extensions)) + extensions)
hello = b'\x02' + len(body).to_bytes(3, 'big') + body
old = b'\x02\x00\x00\x26\x03\x03' + bytes(32) + b'\x00\xc0\x2f\x00'
pieces, whole = bytes([3]), bytes([200])
write('tls', 'server-hello', whole + record(22, hello) + record(20, b'\x01') + record(23, bytes(64)))
write('tls', 'server-hello-in-pieces', pieces + record(22, hello[:40]) + record(22, hello[40:]))
write('tls', 'alert', whole + record(21, b'\x02\x28'))
write('tls', 'http', whole + b'HTTP/1.1 400 Bad Request\r\n\r\n')
write('tls', 'old', whole + record(22, old))
write('tls', 'too-long', pieces + b'\x16\x03\x03\xff\xff' + bytes(300))
