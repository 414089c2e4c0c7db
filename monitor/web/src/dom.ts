// The little that is needed to make and change elements. Changes write only what differs, so that
// a View each second costs the browser next to nothing where nothing changes.

type Value = string | number | boolean | null | undefined | ((event: never) => void);

/** Attributes as in HTML; a function is a listener (`onclick`), false and null leave it out. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Record<string, Value> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') {
      element.addEventListener(name.slice(2), value as EventListener);
    } else {
      setAttribute(element, name, value);
    }
  }
  element.append(...children);
  return element;
}

export function setText(node: Node, text: string) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(element: Element, name: string, value: Exclude<Value, () => void>) {
  if (value === false || value === null || value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? '' : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** A custom property; style attributes are refused by the content security policy, this is not. */
export function setVariable(element: HTMLElement, name: string, value: string) {
  if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
}

/** Something that shows a T and can be told of a newer one. */
export interface Shown<T> {
  readonly element: HTMLElement;
  update(item: T): void;
  /** Gives back what it holds besides its element. */
  remove?(): void;
}

/** Keeps the children of `parent` as one Shown per item, in the items' order, found by key. */
export class KeyedList<T> {
  readonly shown = new Map<string | number, Shown<T>>();
  readonly #parent: HTMLElement;
  readonly #key: (item: T) => string | number;
  readonly #make: (item: T) => Shown<T>;

  constructor(parent: HTMLElement, key: (item: T) => string | number, make: (item: T) => Shown<T>) {
    this.#parent = parent;
    this.#key = key;
    this.#make = make;
  }

  update(items: readonly T[]) {
    const gone = new Set(this.shown.keys());
    for (const item of items) gone.delete(this.#key(item));
    for (const key of gone) {
      const shown = this.shown.get(key);
      if (shown?.element.contains(document.activeElement)) focusNeighbour(shown.element);
      shown?.element.remove();
      shown?.remove?.();
      this.shown.delete(key);
    }
    const focused = document.activeElement;
    let next = this.#parent.firstElementChild;
    for (const item of items) {
      const key = this.#key(item);
      let shown = this.shown.get(key);
      if (!shown) {
        shown = this.#make(item);
        this.shown.set(key, shown);
      }
      shown.update(item);
      if (shown.element === next) next = next.nextElementSibling;
      else this.#parent.insertBefore(shown.element, next);
    }
    // An element that is moved loses the focus.
    if (focused instanceof HTMLElement && focused !== document.activeElement) {
      if (this.#parent.contains(focused)) focused.focus({ preventScroll: true });
    }
  }
}

/** Whoever works with the keyboard should not be thrown back to the top when a row goes. */
function focusNeighbour(row: HTMLElement) {
  const neighbour = row.nextElementSibling ?? row.previousElementSibling;
  neighbour?.querySelector<HTMLElement>('button')?.focus({ preventScroll: true });
}
