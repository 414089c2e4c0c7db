// Modal dialogs, by the browser's own: it keeps the focus inside and gives it back.
import { el, setText } from './dom.js';
import type { ApiError } from './messages.js';

let counted = 0;

export interface Dialog {
  element: HTMLDialogElement;
  close(): void;
}

export function openDialog(
  title: string,
  content: (Node | string)[],
  { closed, wide = false }: { closed?: () => void; wide?: boolean } = {},
): Dialog {
  const id = `dialog-${++counted}`;
  const close = () => element.close();
  const element = el(
    'dialog',
    { 'aria-labelledby': id, class: wide ? 'wide' : null },
    el(
      'div',
      { class: 'dialog-head' },
      el('h2', { id }, title),
      el('button', { type: 'button', class: 'plain', 'aria-label': 'Close', onclick: close }, '✕'),
    ),
    ...content,
  );
  element.addEventListener('click', (event) => {
    // The backdrop belongs to the dialog's element; what is inside has elements of its own.
    if (event.target === element && outside(element, event)) element.close();
  });
  element.addEventListener('close', () => {
    element.remove();
    closed?.();
  });
  document.body.append(element);
  element.showModal();
  return { element, close };
}

function outside(element: Element, { clientX, clientY }: MouseEvent): boolean {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  return clientX < left || clientX > right || clientY < top || clientY > bottom;
}

export function anyDialog(): boolean {
  return document.querySelector('dialog[open]') !== null;
}

/** An error in words: what was wrong, what to do, and the code to look up. */
export function errorText(error: ApiError): (Node | string)[] {
  const sentence = error.message.charAt(0).toUpperCase() + error.message.slice(1);
  return [
    el('strong', {}, `${sentence.replace(/\.$/, '')}. `),
    ...withCode(error.remedy),
    ' ',
    el('code', {}, error.code),
  ];
}

/** Commands stand between backquotes in the server's sentences. */
function withCode(text: string): (Node | string)[] {
  return text.split('`').map((part, index) => (index % 2 === 1 ? el('code', {}, part) : part));
}

interface Act {
  /** Of the button. */
  label: string;
  danger?: boolean;
  run(): Promise<unknown>;
  /** After it went well, before the dialog closes. */
  done?(): void;
}

/** A form in a dialog: stays open and says why when the act fails. */
export function actForm({ label, danger = false, run, done }: Act, fields: (Node | string)[]) {
  const problem = el('p', { class: 'banner bad', role: 'alert', hidden: true });
  const submit = el('button', { type: 'submit', class: danger ? 'danger solid' : 'solid' }, label);
  const cancel = el('button', { type: 'button' }, 'Cancel');
  const form = el(
    'form',
    { novalidate: true },
    ...fields,
    problem,
    el('div', { class: 'dialog-acts' }, cancel, submit),
  );
  cancel.addEventListener('click', () => form.closest('dialog')?.close());
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (submit.getAttribute('aria-disabled') === 'true') return;
    submit.setAttribute('aria-disabled', 'true');
    problem.hidden = true;
    try {
      await run();
      done?.();
      form.closest('dialog')?.close();
    } catch (error) {
      problem.replaceChildren(...errorText(error as ApiError));
      problem.hidden = false;
    } finally {
      submit.removeAttribute('aria-disabled');
    }
  });
  return { form, submit, cancel };
}

/** Asks before something that cannot be taken back. */
export function confirmAct(title: string, text: string, act: Act, fields: Node[] = []) {
  const { form, cancel } = actForm({ danger: true, ...act }, [el('p', {}, text), ...fields]);
  const dialog = openDialog(title, [form]);
  // Enter on an unread question does nothing.
  cancel.focus();
  return dialog;
}

export function field(label: string, input: HTMLElement, help = ''): HTMLElement {
  const id = input.id || `field-${++counted}`;
  input.id = id;
  const hint = el('span', { class: 'hint', id: `${id}-hint` });
  setText(hint, help);
  if (help) input.setAttribute('aria-describedby', hint.id);
  return el(
    'div',
    { class: 'field' },
    el('label', { for: id }, label),
    input,
    ...(help ? [hint] : []),
  );
}
