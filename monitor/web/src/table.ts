// A table that is updated in place, sorted by a click on a column's name. On a phone each row
// becomes a card (styles/table.css); the roles are written out because browsers forget them when
// `display` changes.
import { el, KeyedList, type Shown, setAttribute } from './dom.js';

export interface Column<T> {
  title: string;
  /** Only for assistive technology: the column's content speaks for itself. */
  quiet?: boolean;
  class?: string;
  sort?: (item: T) => string | number;
}

interface Options<T> {
  caption: string;
  columns: Column<T>[];
  key: (item: T) => string | number;
  row: (item: T) => Shown<T>;
  /** Whether its rows become cards on a phone. */
  cards?: boolean;
}

export class Table<T> {
  readonly element: HTMLElement;
  readonly #columns: Column<T>[];
  readonly #headers: HTMLElement[];
  readonly #rows: KeyedList<T>;
  #items: readonly T[] = [];
  #sorted: { column: Column<T>; descending: boolean } | null = null;

  constructor({ caption, columns, key, row, cards = true }: Options<T>) {
    this.#columns = columns;
    this.#headers = columns.map((column) => this.#header(column));
    const body = el('tbody', { role: 'rowgroup' });
    this.#rows = new KeyedList(body, key, row);
    const head = el('tr', { role: 'row' }, ...this.#headers);
    this.element = el(
      'table',
      { role: 'table', class: cards ? 'cards' : null },
      el('caption', { class: 'quiet' }, caption),
      el('thead', { role: 'rowgroup' }, head),
      body,
    );
  }

  update(items: readonly T[]) {
    this.#items = items;
    this.element.hidden = items.length === 0;
    this.#rows.update(this.#inOrder());
  }

  shown(key: string | number): Shown<T> | undefined {
    return this.#rows.shown.get(key);
  }

  #header(column: Column<T>): HTMLElement {
    const { title, quiet, sort } = column;
    const attributes = { scope: 'col', role: 'columnheader', class: column.class };
    if (!sort) return el('th', attributes, el('span', { class: quiet && 'quiet' }, title));
    const order = el('button', { type: 'button', onclick: () => this.#sortBy(column) }, title);
    return el('th', attributes, order);
  }

  /** Upwards, downwards, as it came. */
  #sortBy(column: Column<T>) {
    if (this.#sorted?.column !== column) this.#sorted = { column, descending: false };
    else this.#sorted = this.#sorted.descending ? null : { column, descending: true };
    this.#columns.forEach((one, index) => {
      const mine = this.#sorted?.column === one;
      const order = this.#sorted?.descending ? 'descending' : 'ascending';
      const header = this.#headers[index];
      if (header) setAttribute(header, 'aria-sort', mine ? order : null);
    });
    this.update(this.#items);
  }

  #inOrder(): readonly T[] {
    const { column, descending } = this.#sorted ?? {};
    const sort = column?.sort;
    if (!sort) return this.#items;
    const sign = descending ? -1 : 1;
    return [...this.#items].sort((a, b) => {
      const [x, y] = [sort(a), sort(b)];
      if (typeof x === 'string') return sign * x.localeCompare(String(y), 'en', { numeric: true });
      return sign * (x - Number(y));
    });
  }
}

/** A cell that knows the name of its column, for phones. */
export function cell(title: string, className: string, ...children: (Node | string)[]) {
  const attributes = { role: 'cell', class: className, 'data-label': title };
  return el('td', attributes, ...children);
}

export function rowHeader(className: string, ...children: (Node | string)[]) {
  return el('th', { scope: 'row', role: 'rowheader', class: className }, ...children);
}

/** A row of plain texts: the first is the row's header. */
export class TextRow<T> implements Shown<T> {
  readonly element: HTMLElement;
  readonly #cells: HTMLElement[];
  readonly #texts: (item: T) => string[];

  constructor(titles: string[], classes: string[], texts: (item: T) => string[]) {
    this.#texts = texts;
    this.#cells = titles.map((title, index) =>
      index === 0 ? rowHeader(classes[0] ?? '') : cell(title, classes[index] ?? ''),
    );
    this.element = el('tr', { role: 'row' }, ...this.#cells);
  }

  update(item: T) {
    this.#texts(item).forEach((text, index) => {
      const target = this.#cells[index];
      if (target && target.textContent !== text) target.textContent = text;
    });
  }
}
