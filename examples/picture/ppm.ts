// Binary PPM (P6), the one picture format that a CUDA program can read without a library.

export interface Ppm {
  width: number;
  height: number;
  /** Red, green, blue of each pixel, row by row from the top. */
  pixels: Uint8Array;
}

/** `name` is what error messages call the picture. */
export function decodePpm(bytes: Uint8Array, name: string): Ppm {
  const header = Buffer.from(bytes.subarray(0, 1024)).toString('latin1');
  const gap = '(?:\\s|#[^\\n]*\\n)+';
  const match = new RegExp(`^P6${gap}(\\d+)${gap}(\\d+)${gap}(\\d+)\\s`).exec(header);
  if (!match) throw new Error(`${name} is not a binary PPM picture (P6)`);
  const [width, height, most] = match.slice(1).map(Number) as [number, number, number];
  if (width < 1 || height < 1 || most !== 255) {
    throw new Error(`${name} must have at least one pixel and 255 as its brightest value`);
  }
  const pixels = bytes.subarray(match[0].length, match[0].length + width * height * 3);
  if (pixels.length < width * height * 3) {
    throw new Error(
      `${name} ends early: ${width} x ${height} pixels need ${width * height * 3} bytes, ` +
        `there are ${pixels.length}`,
    );
  }
  return { width, height, pixels };
}

export function encodePpm({ width, height, pixels }: Ppm): Buffer {
  return Buffer.concat([Buffer.from(`P6\n${width} ${height}\n255\n`, 'latin1'), pixels]);
}
