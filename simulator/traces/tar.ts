// Files of a .tar.gz, as far as archives of tables need: plain files with short names (ustar).
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';

/** By name without a leading `./`. Throws where the file is missing or is no such archive. */
export function readTar(file: string): Map<string, Buffer> {
  return parseTar(gunzipSync(readFileSync(file)), file);
}

const block = 512;

export function parseTar(bytes: Buffer, file: string): Map<string, Buffer> {
  const files = new Map<string, Buffer>();
  for (let at = 0; at + block <= bytes.length; ) {
    const head = bytes.subarray(at, at + block);
    if (head.every((byte) => byte === 0)) break;
    const size = Number.parseInt(text(head, 124, 12), 8);
    const isSum = sumOf(head) === Number.parseInt(text(head, 148, 8), 8);
    if (!isSum || !(size >= 0) || at + block + size > bytes.length) {
      throw new Error(`${file}: not a whole tar archive at byte ${at}`);
    }
    const prefix = text(head, 345, 155);
    const name = (prefix ? `${prefix}/` : '') + text(head, 0, 100);
    const kind = text(head, 156, 1);
    at += block;
    if (kind === '0' || kind === '') {
      files.set(name.replace(/^\.\//, ''), bytes.subarray(at, at + size));
    }
    at += Math.ceil(size / block) * block;
  }
  return files;
}

function text(head: Buffer, from: number, length: number): string {
  const bytes = head.subarray(from, from + length);
  const end = bytes.indexOf(0);
  return bytes
    .subarray(0, end < 0 ? length : end)
    .toString('latin1')
    .trim();
}

/** Of the header's bytes, its own field counted as spaces. */
function sumOf(head: Buffer): number {
  return head.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 32 : byte), 0);
}
