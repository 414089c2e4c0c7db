// A horizontal bar of parts of a whole, with an optional mark.
import { el, setAttribute, setVariable } from './dom.js';

export class Meter {
  readonly element: HTMLElement;
  readonly #parts: HTMLElement[];
  readonly #mark: HTMLElement | null;

  constructor(label: string, classes: string[], { mark = false, small = false } = {}) {
    this.#parts = classes.map((name) => el('span', { class: `part ${name}` }));
    this.#mark = mark ? el('span', { class: 'mark' }) : null;
    this.element = el(
      'div',
      {
        class: small ? 'meter small' : 'meter',
        role: 'meter',
        'aria-label': label,
        'aria-valuemin': 0,
        'aria-valuemax': 100,
        'aria-valuenow': 0,
      },
      ...this.#parts,
      ...(this.#mark ? [this.#mark] : []),
    );
  }

  /** `now`: the value as percent; `words`: the value as a person reads it. Sizes are of 1. */
  update(sizes: number[], now: number, words: string, mark?: number) {
    sizes.forEach((size, index) => {
      const part = this.#parts[index];
      if (part) setVariable(part, '--size', String(clamp(size)));
    });
    if (this.#mark && mark !== undefined) setVariable(this.#mark, '--at', String(clamp(mark)));
    setAttribute(this.element, 'aria-valuenow', Math.round(Math.max(0, Math.min(100, now))));
    setAttribute(this.element, 'aria-valuetext', words);
  }
}

function clamp(value: number): number {
  return Number.isFinite(value) ? Math.round(Math.max(0, Math.min(1, value)) * 1e4) / 1e4 : 0;
}
