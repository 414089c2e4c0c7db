// Who waits, in order. A long queue is cut: what counts is its head and its length.
import type { QueueView } from '../../src/base/view.js';
import { el, type Shown, setAttribute, setText } from './dom.js';
import { bytes, count, wait } from './format.js';
import { sessionName, shareText } from './sessions.js';
import { cell, rowHeader, Table } from './table.js';

const few = 10;
const more = 100;

export class Queue {
  readonly element: HTMLElement;
  readonly #table: Table<QueueView>;
  readonly #more: HTMLButtonElement;
  readonly #fewer: HTMLButtonElement;
  readonly #rest = el('span');
  readonly #cut: HTMLElement;
  readonly #empty: HTMLElement;
  #shown = few;
  #queue: QueueView[] = [];
  #queued = 0;

  constructor(remove: (waiting: QueueView) => void) {
    this.#table = new Table<QueueView>({
      caption: 'Queue: programs that wait for a GPU, next first',
      key: ({ id }) => id,
      row: (waiting) => new QueueRow(waiting, remove),
      columns: [
        { title: 'Place', class: 'num' },
        { title: 'Program', class: 'name' },
        { title: 'Tenant' },
        { title: 'Memory', class: 'num' },
        { title: 'Share', class: 'num' },
        { title: 'Waiting', class: 'num' },
        { title: 'Acts', class: 'acts', quiet: true },
      ],
    });
    const show = (many: number) => () => {
      this.#shown = many;
      this.update(this.#queue, this.#queued);
    };
    this.#more = el('button', { type: 'button', onclick: () => show(this.#shown + more)() });
    this.#fewer = el('button', { type: 'button', onclick: show(few) }, 'Show fewer');
    this.#cut = el('p', { class: 'cut', hidden: true }, this.#rest, this.#more, this.#fewer);
    this.#empty = el(
      'p',
      { class: 'empty' },
      'Nobody waits. A program waits here when no slot is free, or not the memory it asks for.',
    );
    this.element = el('div', {}, this.#table.element, this.#cut, this.#empty);
  }

  /** `queued`: how many wait; `queue` may hold only the first of them. */
  update(queue: QueueView[], queued: number) {
    this.#queue = queue;
    this.#queued = queued;
    this.#table.update(queue.slice(0, this.#shown));
    const left = queued - Math.min(queue.length, this.#shown);
    const known = queue.length - this.#shown;
    this.#cut.hidden = queued <= few;
    setText(this.#rest, left > 0 ? `and ${count(left)} more behind them` : 'That is all.');
    this.#more.hidden = known <= 0;
    setText(this.#more, `Show ${count(Math.min(more, known))} more`);
    this.#fewer.hidden = this.#shown === few;
    this.#empty.hidden = queue.length > 0;
  }
}

class QueueRow implements Shown<QueueView> {
  readonly element: HTMLElement;
  readonly #place = cell('Place', 'num');
  readonly #name = el('span', { class: 'title' });
  readonly #about = el('span', { class: 'about line' });
  readonly #tenant = cell('Tenant', '');
  readonly #memory = cell('Memory', 'num');
  readonly #share = cell('Share', 'num');
  readonly #waiting = cell('Waiting', 'num');
  #item: QueueView;

  constructor(item: QueueView, remove: (waiting: QueueView) => void) {
    this.#item = item;
    const button = el('button', { type: 'button', class: 'danger' }, 'Remove');
    setAttribute(button, 'aria-label', `Remove ${sessionName(item)} (#${item.id}) from the queue`);
    button.addEventListener('click', () => remove(this.#item));
    this.element = el(
      'tr',
      { role: 'row' },
      this.#place,
      rowHeader('name', this.#name, this.#about),
      this.#tenant,
      this.#memory,
      this.#share,
      this.#waiting,
      cell('Acts', 'acts', button),
    );
  }

  update(item: QueueView) {
    this.#item = item;
    setText(this.#place, count(item.position));
    setText(this.#name, sessionName(item));
    const several = item.gpus > 1 ? ` · ${item.gpus} GPUs` : '';
    setText(this.#about, `#${item.id} · ${item.class}${several}`);
    setText(this.#tenant, item.tenant || '–');
    setText(this.#memory, item.memory === null ? 'usual' : bytes(item.memory));
    setText(this.#share, shareText({ request: item.shareRequest, limit: item.shareLimit }));
    setText(this.#waiting, wait(item.waitedSeconds));
  }
}
