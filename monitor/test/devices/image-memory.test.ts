// What images of modules may take of the machine's memory.
import os from 'node:os';
import t from 'tap';
import { imageMemory, machineMemory } from '../../src/devices/image-memory.js';

const GiB = 1n << 30n;

t.test('a quarter of the machine for all processes, within bounds', async (t) => {
  t.equal(imageMemory(64n * GiB, 16), GiB / 2n);
  t.equal(imageMemory(96n * GiB, 16), (GiB * 3n) / 4n);
  t.equal(imageMemory(128n * GiB, 16), GiB, 'and no more is of use');
  t.equal(imageMemory(2048n * GiB, 2), GiB);
  t.equal(imageMemory(8n * GiB, 16), GiB / 2n, 'an image of the largest size must fit');
  t.equal(imageMemory(GiB, 0), GiB / 2n);
});

t.test('the machine is what this process may have of it', async (t) => {
  t.ok(machineMemory() > 0n && machineMemory() <= BigInt(os.totalmem()));
});
