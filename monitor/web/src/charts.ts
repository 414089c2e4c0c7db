// Charts and sparklines, by uPlot. They are pictures: what they say is also said in words, in the
// label that assistive technology reads.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { el, setAttribute, setText } from './dom.js';
import { clock } from './format.js';
import type { Columns } from './history.js';
import { colour, onTheme } from './theme.js';

export interface ChartSeries {
  label: string;
  /** Custom properties of the style sheet. */
  stroke: string;
  fill?: string;
  dashed?: boolean;
  show(value: number): string;
}

interface Look {
  height: number;
  bars: boolean;
  /** Says what is under the pointer. */
  pointer: boolean;
  series: ChartSeries[];
}

/** Of 64 sparklines a screen shows ten; only those are drawn. */
const onScreen = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      pictures.get(target)?.seen(isIntersecting);
    }
  },
  { rootMargin: '200px' },
);
const pictures = new WeakMap<Element, Picture>();

abstract class Picture {
  readonly element: HTMLElement;
  readonly #label: string;
  readonly #plot: uPlot;
  readonly #forget: () => void;
  readonly #resize: ResizeObserver;
  #most = 100;
  #range: [number, number] = [0, 1];
  #visible = false;
  /** What is to be drawn when it comes on the screen. */
  #waiting: Columns | null = null;

  constructor(label: string, { height, bars, pointer, series }: Look) {
    this.#label = label;
    const look = bars ? 'bars' : 'line';
    const attributes = { class: 'picture', role: 'img', 'aria-label': label, 'data-look': look };
    this.element = el('div', attributes);
    const caption = el('div', { class: 'picture-caption', hidden: true, 'aria-hidden': 'true' });
    const options: uPlot.Options = {
      width: 100,
      height,
      padding: [1, 0, 1, 0],
      pxAlign: bars ? 1 : 0,
      legend: { show: false },
      axes: [{ show: false }, { show: false }],
      cursor: { show: pointer, y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: {
        x: { time: false, range: () => this.#range },
        y: { range: () => [0, this.#most] },
      },
      series: [{}, ...series.map((one) => seriesOf(one, bars))],
      hooks: { setCursor: [(plot) => describe(plot, series, caption)] },
    };
    this.#plot = new uPlot(options, [[], ...series.map(() => [])], this.element);
    this.element.append(caption);
    this.#resize = new ResizeObserver(() => {
      const width = Math.floor(this.element.clientWidth);
      if (width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height });
    });
    this.#resize.observe(this.element);
    pictures.set(this.element, this);
    onScreen.observe(this.element);
    this.#forget = onTheme(() => this.#plot.redraw(false));
  }

  /** `most` is the top of the picture. */
  draw(columns: Columns, range: [number, number], most: number, words: string) {
    setAttribute(this.element, 'aria-label', `${this.#label}: ${words}`);
    this.#most = most;
    this.#range = range;
    this.#waiting = columns;
    this.#drawWaiting();
  }

  seen(visible: boolean) {
    this.#visible = visible;
    this.#drawWaiting();
  }

  #drawWaiting() {
    if (!this.#visible || !this.#waiting) return;
    this.#plot.setData(this.#waiting as uPlot.AlignedData);
    this.#waiting = null;
  }

  remove() {
    this.#forget();
    onScreen.unobserve(this.element);
    this.#resize.disconnect();
    this.#plot.destroy();
  }
}

export class BarChart extends Picture {
  constructor(label: string, series: ChartSeries[], height = 56) {
    super(label, { height, bars: true, pointer: true, series });
  }
}

/** For what goes on from one moment to the next, as memory does. */
export class LineChart extends Picture {
  constructor(label: string, series: ChartSeries[], height = 56) {
    super(label, { height, bars: false, pointer: true, series });
  }
}

export class Sparkline extends Picture {
  constructor(label: string, series: ChartSeries[], height = 26) {
    super(label, { height, bars: false, pointer: false, series });
  }
}

function seriesOf({ stroke, fill, dashed }: ChartSeries, bars: boolean): uPlot.Series {
  return {
    stroke: () => colour(stroke),
    ...(fill ? { fill: () => colour(fill) } : {}),
    ...(dashed ? { dash: [3, 3] } : {}),
    width: bars ? 0 : 1.5,
    points: { show: false },
    ...(bars && !dashed ? { paths: uPlot.paths.bars?.({ size: [0.7, 64] }) ?? null } : {}),
    ...(bars && dashed ? { paths: uPlot.paths.stepped?.({ align: 1 }) ?? null, width: 1.5 } : {}),
  } as uPlot.Series;
}

function describe(plot: uPlot, series: ChartSeries[], caption: HTMLElement) {
  const { idx } = plot.cursor;
  const time = idx == null ? undefined : plot.data[0][idx];
  const parts = series.flatMap(({ label, show }, index) => {
    const value = idx == null ? null : plot.data[index + 1]?.[idx];
    return value == null ? [] : [`${label} ${show(value)}`];
  });
  caption.hidden = time === undefined || parts.length === 0;
  if (time !== undefined) setText(caption, `${clock(time * 1000)}  ${parts.join(' · ')}`);
}
