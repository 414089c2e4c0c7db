// The examples, large enough that the device works for 100 ms or more, and which of the times that
// they print (--time) are the device's.

export interface Size {
  program: string;
  args: string[];
  /** Lines of `--time`; copies are in there where a program does not part them from its kernels. */
  device: string[];
}

/** `printf` is not among them: what it does is print. */
export const sizes: Size[] = [
  { program: 'vector-add', args: ['--size', '67108864'], device: ['device'] },
  {
    program: 'matrix-multiply',
    args: ['--size', '768'],
    device: ['naive', 'tiled', 'registers'],
  },
  {
    program: 'reduction',
    args: ['--size', '67108864'],
    device: ['integer shared', 'integer shuffle', 'float shared', 'float shuffle'],
  },
  { program: 'histogram', args: ['--size', '33554432'], device: ['global', 'shared'] },
  {
    program: 'mandelbrot',
    args: ['--width', '1536', '--height', '1024', '--iterations', '1200'],
    device: ['device'],
  },
  {
    program: 'stencil',
    args: ['--width', '1024', '--height', '1024', '--steps', '80'],
    device: ['device, by host'],
  },
  { program: 'driver-api', args: ['--blocks', '1048576'], device: ['kernels'] },
  { program: 'kmeans', args: ['--k', '8', '--generate', '800000'], device: ['device'] },
];

/** Milliseconds that a program says the device worked. */
export function deviceTime(stderr: string, lines: string[]): number {
  return lines.reduce((sum, line) => {
    const said = stderr
      .split('\n')
      .map((text) => /^time: (.*?)\s+(\d+\.\d+) ms$/.exec(text))
      .find((match) => match?.[1] === line)?.[2];
    if (said === undefined) throw new Error(`a program printed no time for "${line}":\n${stderr}`);
    return sum + Number(said);
  }, 0);
}
