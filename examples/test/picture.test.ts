import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PNG } from 'pngjs';
import t from 'tap';
import { findPhotograph } from '../picture/photograph.js';
import { pictureAsPpm, pngToPpm, sideBySide } from '../picture/picture.js';
import { decodePpm, encodePpm } from '../picture/ppm.js';

const two = { width: 2, height: 1, pixels: new Uint8Array([255, 0, 0, 1, 2, 3]) };

t.test('a PPM is what it was after writing and reading', async (t) => {
  const bytes = encodePpm(two);
  t.equal(bytes.subarray(0, 11).toString('latin1'), 'P6\n2 1\n255\n');
  t.same(decodePpm(bytes, 'two'), { ...two, pixels: Buffer.from(two.pixels) });
});

t.test('comments in a PPM header', async (t) => {
  const bytes = Buffer.concat([Buffer.from('P6 # made by hand\n2\n# wide\n1 255\n'), two.pixels]);
  t.same([...decodePpm(bytes, 'two').pixels], [...two.pixels]);
});

t.test('a broken PPM is refused by name', async (t) => {
  t.throws(() => decodePpm(Buffer.from('P5\n2 1\n255\n'), 'grey'), /grey is not a binary PPM/);
  t.throws(() => decodePpm(Buffer.from('P6\n0 1\n255\n'), 'empty'), /empty must have at least/);
  t.throws(() => decodePpm(Buffer.from('P6\n2 1\n65535\n'), 'deep'), /deep must have .* 255/);
  t.throws(
    () => decodePpm(encodePpm(two).subarray(0, -1), 'short'),
    /short ends early.* 6 bytes.* 5/,
  );
});

t.test('PNG to PPM, with transparency on white', async (t) => {
  const folder = t.testdir();
  const png = new PNG({ width: 3, height: 1 });
  png.data.set([10, 20, 30, 255, 10, 20, 30, 0, 0, 0, 0, 51]);
  writeFileSync(join(folder, 'in.png'), PNG.sync.write(png));
  const ppm = pngToPpm(join(folder, 'in.png'));
  t.equal(ppm, join(folder, 'in.ppm'));
  const { width, height, pixels } = decodePpm(readFileSync(ppm), ppm);
  t.same([width, height], [3, 1]);
  t.same([...pixels], [10, 20, 30, 255, 255, 255, 204, 204, 204]);
  t.equal(pictureAsPpm(ppm, join(folder, 'other')), ppm, 'a PPM stays where it is');
  t.equal(
    pictureAsPpm(join(folder, 'in.png'), join(folder, 'other')),
    join(folder, 'other/in.ppm'),
  );
  t.throws(() => pngToPpm(ppm), /Cannot read .*in\.ppm as a PNG picture/);
});

t.test('side by side: both pictures whole, white between and below', async (t) => {
  const folder = t.testdir();
  const tall = { width: 1, height: 2, pixels: new Uint8Array([9, 8, 7, 6, 5, 4]) };
  writeFileSync(join(folder, 'two.ppm'), encodePpm(two));
  writeFileSync(join(folder, 'tall.ppm'), encodePpm(tall));
  const out = join(folder, 'new', 'out.png');
  t.equal(sideBySide(join(folder, 'two.ppm'), join(folder, 'tall.ppm'), out), out);
  const { width, height, data } = PNG.sync.read(readFileSync(out));
  t.same([width, height], [11, 2]);
  const pixel = (x: number, y: number) => [...data.subarray(4 * (y * width + x))].slice(0, 3);
  t.same(pixel(0, 0), [255, 0, 0]);
  t.same(pixel(1, 0), [1, 2, 3]);
  t.same(pixel(2, 0), [255, 255, 255]);
  t.same(pixel(9, 0), [255, 255, 255]);
  t.same(pixel(0, 1), [255, 255, 255]);
  t.same(pixel(10, 0), [9, 8, 7]);
  t.same(pixel(10, 1), [6, 5, 4]);
});

t.test('a photograph that is there is not fetched', async (t) => {
  const folder = t.testdir({ photograph: { 'coffee.png': 'anything' } });
  const said: string[] = [];
  t.equal(
    findPhotograph(folder, (line) => said.push(line)),
    join(folder, 'photograph/coffee.png'),
  );
  t.same(said, []);
});

t.test('a photograph that cannot be fetched: what to do, and nothing left behind', async (t) => {
  const folder = t.testdir({ toolchain: { bin: {} } });
  // A pip that succeeds and brings another picture.
  const pip = '#!/bin/sh\nwhile [ "$1" != --target ]; do shift; done\n';
  const python = join(folder, 'toolchain/bin/python');
  writeFileSync(
    python,
    `${pip}mkdir -p "$2/skimage/data"; echo no > "$2/skimage/data/coffee.png"\n`,
  );
  t.throws(() => findPhotograph(folder), /could not be fetched/, 'not executable');
  chmodSync(python, 0o755);
  t.throws(() => findPhotograph(folder), /not the picture .*Put any photograph at .*coffee\.png/s);
  t.same(readdirSync(join(folder, 'photograph')), []);
});
