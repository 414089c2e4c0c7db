// Shortcuts of one key, and the dialog that lists them. They can be switched off, for those whose
// assistive technology sends keys of its own.
import { anyDialog, openDialog } from './dialog.js';
import { el } from './dom.js';

export interface Shortcut {
  keys: string[];
  does: string;
  run(): void;
}

const key = 'outboard.shortcuts';
const on = () => localStorage.getItem(key) !== 'off';

export function listen(shortcuts: Shortcut[]) {
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    if (!on() || anyDialog() || isTyping(event.target)) return;
    const shortcut = shortcuts.find(({ keys }) => keys.includes(event.key));
    if (!shortcut) return;
    event.preventDefault();
    shortcut.run();
  });
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return target.type !== 'checkbox';
  return target instanceof HTMLSelectElement || target.isContentEditable;
}

export function openHelp(shortcuts: Shortcut[]) {
  const rows = shortcuts.map(({ keys, does }) =>
    el(
      'div',
      {},
      el(
        'dt',
        {},
        ...keys.flatMap((name, index) => [index > 0 ? ' or ' : '', el('kbd', {}, name)]),
      ),
      el('dd', {}, does),
    ),
  );
  const box = el('input', { type: 'checkbox', checked: on() });
  box.addEventListener('change', () => localStorage.setItem(key, box.checked ? 'on' : 'off'));
  openDialog('Keyboard', [
    el('dl', { class: 'shortcuts' }, ...rows),
    el('label', { class: 'check' }, box, 'Shortcuts of one key are on'),
    el(
      'p',
      { class: 'hint' },
      'Figures are of the last second; bars of a GPU cover five minutes, lines of a session two. ',
      'What the errors mean is in docs/errors.md.',
    ),
  ]);
}
