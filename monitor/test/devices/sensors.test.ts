// When the machine's NVML is asked, and what is told while it takes its time.
import t from 'tap';
import type { NvmlFacts } from '../../../api-server/src/native.js';
import { Sensors } from '../../src/devices/sensors.js';

const said = (temperature: number): NvmlFacts => ({
  nvidiaDriver: '580.65.06',
  nvmlVersion: '13.580.65.06',
  sensors: { temperature },
});

/** A slot whose answers the test gives. */
function slot() {
  const asked: ((facts: NvmlFacts | null) => void)[] = [];
  return {
    asked,
    nvml: () => new Promise<NvmlFacts | null>((resolve) => asked.push(resolve)),
  };
}

t.test('without NVML, or without a process, nobody is asked', async (t) => {
  const one = slot();
  t.equal(await new Sensors(null).of('GPU-0', one), null);
  t.equal(await new Sensors('nvml').of('GPU-0', undefined), null);
  t.equal(one.asked.length, 0);
});

t.test('those who ask at the same time share one answer', async (t) => {
  const one = slot();
  const sensors = new Sensors('nvml');
  const both = [sensors.of('GPU-0', one), sensors.of('GPU-0', one)];
  t.equal(one.asked.length, 1);
  one.asked[0]?.(said(50));
  t.same(await Promise.all(both), [said(50), said(50)]);
  const other = sensors.of('GPU-1', one);
  t.equal(one.asked.length, 2, 'another device is asked about by itself');
  one.asked[1]?.(null);
  t.equal(await other, null);
});

t.test('one that takes its time leaves what it said before', async (t) => {
  const one = slot();
  const sensors = new Sensors('nvml');
  t.equal(await sensors.of('GPU-0', one), null, 'nothing is known yet');
  const late = sensors.of('GPU-0', one);
  t.equal(one.asked.length, 1, 'and it is not asked twice');
  one.asked[0]?.(said(50));
  t.same(await late, said(50));
});
