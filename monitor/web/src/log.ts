// The server's log: the newest lines, as they come.
import type { LogLine } from '../../src/base/view.js';
import { el, setText } from './dom.js';
import { clock, plural } from './format.js';
import { factsOf, sentenceOf } from './log-text.js';

const most = 500;
const ranks = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];

export class Log {
  readonly element: HTMLElement;
  readonly #lines: LogLine[] = [];
  readonly #list = el('ol', { class: 'log-lines' });
  readonly #scroll: HTMLElement;
  readonly #level: HTMLSelectElement;
  readonly #filter: HTMLInputElement;
  readonly #follow: HTMLInputElement;
  readonly #empty = el('p', { class: 'empty' });

  constructor() {
    const again = () => this.#drawAll();
    this.#level = el('select', {
      'aria-label': 'Least level of the log lines shown',
      onchange: again,
    });
    for (const [value, text] of [
      ['debug', 'All'],
      ['info', 'Info and above'],
      ['warn', 'Warnings and errors'],
      ['error', 'Errors'],
    ] as const) {
      this.#level.append(el('option', { value }, text));
    }
    this.#level.value = 'info';
    this.#filter = el('input', {
      type: 'search',
      placeholder: 'Filter',
      'aria-label': 'Filter the log',
      autocomplete: 'off',
      spellcheck: 'false',
      oninput: again,
    });
    this.#follow = el('input', { type: 'checkbox', checked: true, onchange: () => this.#toEnd() });
    this.#scroll = el(
      'div',
      // Read when wanted, not as it comes: a busy server writes more than anybody listens to.
      { class: 'log-scroll', role: 'log', 'aria-live': 'off', 'aria-label': 'Log', tabindex: 0 },
      this.#list,
      this.#empty,
    );
    const tools = el(
      'div',
      { class: 'tools' },
      this.#level,
      this.#filter,
      el('label', { class: 'check' }, this.#follow, 'Follow'),
    );
    this.element = el('div', {}, tools, this.#scroll);
    this.#say();
  }

  /** In place of all that is shown. */
  replace(lines: LogLine[]) {
    this.#lines.splice(0, this.#lines.length, ...lines.slice(-most));
    this.#drawAll();
  }

  /** `missed`: lines before these that were left out. */
  add(lines: LogLine[], missed = 0) {
    if (missed > 0) this.#add(gap(missed, lines[0]?.time ?? Date.now()));
    for (const line of lines) this.#add(line);
    this.#say();
    this.#toEnd();
  }

  #add(line: LogLine) {
    this.#lines.push(line);
    if (this.#lines.length > most) {
      const [oldest] = this.#lines.splice(0, 1);
      if (oldest && this.#wanted(oldest)) this.#list.firstElementChild?.remove();
    }
    if (!this.#wanted(line)) return;
    this.#list.append(lineElement(line));
  }

  focusFilter() {
    this.#filter.focus();
  }

  #drawAll() {
    const wanted = this.#lines.filter((line) => this.#wanted(line));
    this.#list.replaceChildren(...wanted.map(lineElement));
    this.#say();
    this.#toEnd();
  }

  #wanted(line: LogLine): boolean {
    if (ranks.indexOf(line.level) < ranks.indexOf(this.#level.value)) return false;
    const text = this.#filter.value.trim().toLowerCase();
    return text === '' || textOf(line).toLowerCase().includes(text);
  }

  #say() {
    this.#empty.hidden = this.#list.childElementCount > 0;
    const filtered = this.#lines.length > 0;
    setText(
      this.#empty,
      filtered
        ? 'No line fits. Choose a lower level or another filter.'
        : 'Nothing was logged yet.',
    );
  }

  #toEnd() {
    if (this.#follow.checked) this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }
}

function gap(missed: number, time: number): LogLine {
  const msg = `${plural(missed, 'line')} left out: more came than could be sent`;
  return { time, level: 'warn', msg };
}

function textOf(line: LogLine): string {
  return `${sentenceOf(line)} ${factsOf(line)}`;
}

function lineElement(line: LogLine): HTMLElement {
  return el(
    'li',
    { class: line.level },
    el('time', { datetime: new Date(line.time).toISOString() }, clock(line.time)),
    el('span', { class: 'level' }, line.level),
    el(
      'span',
      { class: 'message' },
      sentenceOf(line),
      ' ',
      el('span', { class: 'fields' }, factsOf(line)),
    ),
  );
}
