// The way between the pictures that people have (PNG) and those that the k-means program reads and
// writes (PPM), and the picture of the result: before and after, side by side.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { PNG } from 'pngjs';
import { decodePpm, encodePpm, type Ppm } from './ppm.js';

/** White between the two halves of sideBySide, in pixels. */
const gap = 8;

/**
 * Writes a PNG picture as a PPM, by default beside it, and returns the PPM's path. What is
 * transparent appears on white.
 */
export function pngToPpm(
  png: string,
  ppm = join(dirname(png), `${basename(png, extname(png))}.ppm`),
) {
  let picture: PNG;
  try {
    picture = PNG.sync.read(readFileSync(png));
  } catch (error) {
    throw new Error(`Cannot read ${png} as a PNG picture: ${reason(error)}`, { cause: error });
  }
  const { width, height, data } = picture;
  const pixels = new Uint8Array(width * height * 3);
  for (let i = 0; i < width * height; i++) {
    const alpha = data.readUInt8(4 * i + 3);
    for (let channel = 0; channel < 3; channel++) {
      const value = data.readUInt8(4 * i + channel);
      pixels[3 * i + channel] = Math.round((value * alpha + 255 * (255 - alpha)) / 255);
    }
  }
  mkdirSync(dirname(ppm), { recursive: true });
  writeFileSync(ppm, encodePpm({ width, height, pixels }));
  return ppm;
}

/** The path of a PPM with this picture: the file itself, or its conversion put into `folder`. */
export function pictureAsPpm(file: string, folder: string): string {
  const start = readFileSync(file).subarray(0, 2).toString('latin1');
  return start === 'P6'
    ? file
    : pngToPpm(file, join(folder, `${basename(file, extname(file))}.ppm`));
}

/** Writes two PPM pictures as one PNG, the first on the left, and returns its path. */
export function sideBySide(left: string, right: string, png: string): string {
  const pictures = [left, right].map((file) => decodePpm(readFileSync(file), file));
  const width = pictures.reduce((sum, picture) => sum + picture.width, gap);
  const height = Math.max(...pictures.map((picture) => picture.height));
  const whole = new PNG({ width, height, colorType: 2 });
  whole.data.fill(255);
  let start = 0;
  for (const picture of pictures) {
    paint(whole, picture, start);
    start += picture.width + gap;
  }
  mkdirSync(dirname(png), { recursive: true });
  writeFileSync(png, PNG.sync.write(whole, { colorType: 2 }));
  return png;
}

function paint(whole: PNG, { width, height, pixels }: Ppm, start: number) {
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const from = 3 * (y * width + x);
      whole.data.set(pixels.subarray(from, from + 3), 4 * (y * whole.width + start + x));
    }
  }
}

function reason(error: unknown) {
  return error instanceof Error ? error.message : String(error);
}
