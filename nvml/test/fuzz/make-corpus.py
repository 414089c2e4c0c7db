#!/usr/bin/env python3
"""Writes the stored inputs of the fuzz target beside it. Run again when control.proto changes."""
import os
import struct

here = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'corpus', 'report')


def write(name, message, version=1, length=None):
    size = len(message) if length is None else length
    with open(os.path.join(here, name), 'wb') as file:
        file.write(b'OUTBOARD' + struct.pack('<II', version, size) + message)


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def number(field, n):
    return varint(field << 3) + varint(n)


def text(field, value):
    return varint(field << 3 | 2) + varint(len(value)) + value


def device(uuid, *more, field=5):
    return text(field, text(1, b'GPU') + text(2, uuid) + text(3, b'0000:01:00.0') + number(4, 9)
                + number(6, 1 << 33) + number(7, 1 << 20) + number(8, 40) + b''.join(more))


def process(index, pid):
    return text(6, number(1, 7) + number(2, index) + number(3, pid) + text(4, b'host')
                + text(5, b'train') + number(6, 1 << 20) + number(7, 40))


one, two = bytes(range(16)), bytes(range(1, 17))
head = text(1, b'0.1.0') + number(2, 13000)
sensors = (number(20, 61), number(23, 300000), text(27, varint(1980) + varint(1755)))

write('nothing', b'')
write('report', text(4, head + device(one) + process(0, 1)))
write('two-devices', text(4, head + device(one, *sensors) + device(two) + process(1, 4242)))
write('another', text(4, head + device(one) + device(two, field=8) + process(1, 7)))
write('another-again', text(4, head + device(one) + device(one, field=8)))
write('nothing-but-another', text(4, head + device(one, field=8)))
write('no-device', text(4, head))
write('nine-devices', text(4, head + b''.join(device(bytes([i] * 16)) for i in range(9))))
write('same-uuid', text(4, head + device(one) + device(one)))
write('short-uuid', text(4, head + device(one[:15])))
write('process-of-no-device', text(4, head + device(one) + process(3, 1)))
write('many-processes', text(4, head + device(one) + process(0, 1) * 129))
write('used-above-total', text(4, head + device(one, number(7, 1 << 40))))
write('two-reports', text(4, head + device(one)) + text(4, device(two)))
write('report-and-refusal', text(4, head + device(one)) + text(3, text(1, b'OB_SHUTDOWN')))
write('refusal', text(3, text(1, b'OB_TOKEN_UNKNOWN') + number(4, 800)))
write('refusal-of-another-version', text(3, text(1, b'OB_VERSION')), version=2)
write('report-of-another-version', text(4, head + device(one)), version=2)
write('queued', text(1, number(1, 3)))
write('cut', text(4, head + device(one))[:-3])
write('too-long', b'', length=70000)
