// What an act came to, for a moment; what failed, until it is dismissed.
import { errorText } from './dialog.js';
import { el } from './dom.js';
import type { ApiError } from './messages.js';

const shownFor = 6_000;
const done = el('div', { role: 'status' });
const failed = el('div', { role: 'alert' });

export const notices = el('div', { class: 'notices' }, done, failed);

export function tell(text: string) {
  const notice = el('p', { class: 'notice' }, text);
  done.append(notice);
  setTimeout(() => notice.remove(), shownFor);
}

export function tellError(error: ApiError) {
  const dismiss = el('button', { type: 'button', class: 'plain', 'aria-label': 'Dismiss' }, '✕');
  const notice = el('p', { class: 'notice bad' }, el('span', {}, ...errorText(error)), dismiss);
  dismiss.addEventListener('click', () => notice.remove());
  failed.replaceChildren(notice);
}
