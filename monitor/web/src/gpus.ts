// A card for each GPU: what its memory and its time are used for, now and over the last minutes.
import { busyMeaning } from '../../src/base/busy.js';
import type { GpuView, SlotView } from '../../src/base/view.js';
import { BarChart, LineChart } from './charts.js';
import { el, KeyedList, type Shown, setAttribute, setText } from './dom.js';
import { bytes, bytesOf, count, percent, plural, shortUuid, wait } from './format.js';
import { summary } from './history.js';
import { Meter } from './meter.js';
import type { Model } from './model.js';
import { Table, TextRow } from './table.js';

export class Gpus {
  readonly element = el('div', { class: 'gpus' });
  readonly #cards: KeyedList<GpuView>;

  constructor(model: Model) {
    this.#cards = new KeyedList(
      this.element,
      ({ uuid }) => uuid,
      (gpu) => new GpuCard(gpu, model),
    );
  }

  update(gpus: GpuView[]) {
    this.#cards.update(gpus);
  }
}

class GpuCard implements Shown<GpuView> {
  readonly element: HTMLElement;
  readonly #model: Model;
  readonly #problem = el('p', { class: 'banner bad', hidden: true });
  readonly #health = el('span', { class: 'tag' });
  readonly #memoryText = el('span', { class: 'figure' });
  readonly #timeText = el('span', { class: 'figure' });
  readonly #memory: Meter;
  readonly #time: Meter;
  readonly #memoryChart: LineChart;
  readonly #timeChart: BarChart;
  readonly #keys = {
    used: el('span'),
    reserved: el('span'),
    kept: el('span'),
    busy: el('span'),
    promised: el('span'),
  };
  readonly #counted = el('p', { class: 'hint' });
  readonly #slots = el('span', { class: 'slots', 'aria-hidden': 'true' });
  readonly #slotText = el('span', {});
  readonly #slotTable: Table<SlotView>;

  constructor({ index, name, uuid, pciBusId }: GpuView, model: Model) {
    this.#model = model;
    const title = `GPU ${index}`;
    this.#memory = new Meter(`memory of ${title}`, ['used', 'reserved', 'gap', 'kept']);
    this.#time = new Meter(`time of ${title}`, ['busy'], { mark: true });
    this.#memoryChart = new LineChart(`memory of ${title} over five minutes`, [
      { label: 'reserved', stroke: '--reserved', fill: '--reserved', show: bytes },
      { label: 'used', stroke: '--used', fill: '--used', show: bytes },
    ]);
    this.#timeChart = new BarChart(`time of ${title} over five minutes`, [
      { label: 'busy', stroke: '--busy', fill: '--busy', show: percent },
      { label: 'promised', stroke: '--mark', dashed: true, show: percent },
    ]);
    this.#slotTable = slotTable(title);
    const heading = el('h3', { id: `gpu-${index}` }, title);
    const details = el('details', { class: 'slot-details' });
    details.append(
      el('summary', {}, this.#slots, this.#slotText),
      el(
        'div',
        { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `slots of ${title}` },
        this.#slotTable.element,
      ),
    );
    this.element = el(
      'article',
      { class: 'card gpu', 'aria-labelledby': heading.id },
      el(
        'header',
        {},
        heading,
        el('span', { class: 'gpu-name' }, name),
        this.#health,
        el('span', { class: 'mono faint', title: `${uuid}, PCI ${pciBusId}` }, shortUuid(uuid)),
      ),
      this.#problem,
      el(
        'div',
        { class: 'gpu-meters' },
        block('Memory', this.#memoryText, this.#memory, this.#memoryChart, [
          key('used', this.#keys.used),
          key('reserved', this.#keys.reserved),
          key('kept', this.#keys.kept),
        ]),
        block('Time', this.#timeText, this.#time, this.#timeChart, [
          key('busy', this.#keys.busy),
          key('line', this.#keys.promised),
        ]),
      ),
      this.#counted,
      details,
    );
  }

  update(gpu: GpuView) {
    const { memory, share, slots, healthy, problem, draining } = gpu;
    const emptied = healthy && draining !== null;
    setAttribute(this.#health, 'class', healthy ? 'tag good' : 'tag bad');
    setText(this.#health, emptied ? 'being emptied' : healthy ? 'healthy' : 'not in use');
    this.#problem.hidden = healthy && !emptied;
    const why = emptied ? 'it is being emptied (outboard drain --undo)' : problem;
    setText(this.#problem, `No session is placed here: ${why ?? 'no reason given'}.`);

    const { total } = memory;
    const kept = Math.max(0, total - memory.sessions);
    const unused = Math.max(0, memory.reserved - memory.used);
    const free = Math.max(0, memory.sessions - memory.used - unused);
    setText(this.#memoryText, `${bytesOf(memory.used, memory.sessions)} used`);
    setText(this.#keys.used, `used ${bytes(memory.used)}`);
    setText(this.#keys.reserved, `reserved ${bytes(memory.reserved)}`);
    setText(this.#keys.kept, `kept back ${bytes(kept)}`);
    const { pinned, modules, stacks } = memory.beside;
    setAttribute(
      this.#keys.kept,
      'title',
      `contexts, and for each session ${bytes(pinned)} of pinned memory, ${bytes(modules)} of modules, ${bytes(stacks)} of stacks`,
    );
    this.#memory.update(
      [memory.used, unused, free, kept].map((part) => part / total),
      (memory.used / memory.sessions) * 100,
      `${bytesOf(memory.used, memory.sessions)} used, ${bytes(memory.reserved)} reserved`,
    );
    setText(this.#keys.busy, `busy ${percent(share.busy)}`);
    setText(this.#keys.promised, `promised ${percent(share.requested)}`);
    const busyText = share.busy === null ? 'not measured' : `${percent(share.busy)} busy`;
    setText(this.#timeText, busyText);
    setText(this.#counted, `Busy: ${busyMeaning(this.#model.view?.server.device ?? '')}.`);
    const time = `${busyText}, ${percent(share.requested)} promised`;
    const busyNow = share.busy ?? 0;
    this.#time.update([busyNow / 100], busyNow, time, share.requested / 100);

    const [x, reserved = [], usedRow = [], busy = [], requested = []] = this.#model
      .gpuHistory(gpu)
      .columns();
    const range = this.#model.gpuRange;
    this.#memoryChart.draw(
      [x, reserved, usedRow],
      range,
      memory.sessions,
      `used ${summary(usedRow, bytes)}; reserved ${summary(reserved, bytes)}`,
    );
    this.#timeChart.draw([x, busy, requested], range, 100, `busy ${summary(busy, percent)}`);
    this.#showSlots(slots);
  }

  remove() {
    this.#memoryChart.remove();
    this.#timeChart.remove();
  }

  #showSlots(slots: SlotView[]) {
    while (this.#slots.childElementCount > slots.length) this.#slots.lastElementChild?.remove();
    while (this.#slots.childElementCount < slots.length) this.#slots.append(el('i'));
    slots.forEach(({ state }, index) => {
      setAttribute(this.#slots.children[index] as Element, 'class', `slot ${state}`);
    });
    const states = (['busy', 'free', 'reserved', 'starting', 'ended'] as const)
      .map((state) => [state, slots.filter((slot) => slot.state === state).length] as const)
      .filter(([, many]) => many > 0)
      .map(([state, many]) => `${many} ${state}`);
    setText(this.#slotText, `${plural(slots.length, 'slot')}: ${states.join(', ')}`);
    this.#slotTable.update(slots);
  }
}

function block(
  title: string,
  text: HTMLElement,
  meter: Meter,
  chart: BarChart,
  keys: HTMLElement[],
) {
  const head = el('div', { class: 'meter-head' }, el('h4', {}, title), text);
  const axis = el('div', { class: 'axis' }, el('span', {}, '5 min ago'), el('span', {}, 'now'));
  const legend = el('div', { class: 'keys' }, ...keys);
  return el('div', { class: 'block' }, head, meter.element, chart.element, axis, legend);
}

function key(className: string, text: HTMLElement) {
  return el('span', { class: 'key' }, el('span', { class: `swatch ${className}` }), text);
}

function slotTable(title: string) {
  const titles = [
    'Slot',
    'State',
    'Process',
    'Start',
    'Host memory',
    'Idle CPU',
    'Context',
    'Served',
  ];
  const classes = ['num', '', 'num', 'num', 'num', 'num', 'num', 'num'];
  const or = <T>(value: T | null, show: (value: T) => string) =>
    value === null ? '–' : show(value);
  return new Table<SlotView>({
    cards: false,
    caption: `Slots of ${title}: the processes that serve its sessions`,
    columns: titles.map((name, index) => ({ title: name, class: classes[index] ?? '' })),
    key: ({ index }) => index,
    row: () =>
      new TextRow<SlotView>(titles, classes, (slot) => [
        String(slot.index),
        slot.state,
        or(slot.pid, String),
        or(slot.startSeconds, wait),
        or(slot.hostMemory, bytes),
        or(slot.idleCpu, (value) => `${(value * 100).toFixed(1)} %`),
        or(slot.contextMemory, bytes),
        count(slot.served),
      ]),
  });
}
