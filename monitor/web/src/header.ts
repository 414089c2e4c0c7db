// The head of the page: which server, how the connection is, what can be done with the whole.
import { guestAddress } from '../../src/base/guest-address.js';
import type { View } from '../../src/base/view.js';
import type { ConnectionState } from './connection.js';
import { el, setAttribute, setText } from './dom.js';
import { bytes, clock, count, duration, percent } from './format.js';
import { nextTheme, theme } from './theme.js';

interface Acts {
  retry(): void;
  drain(): void;
  resume(): void;
  help(): void;
}

export class Header {
  readonly element: HTMLElement;
  readonly #server = el('span', { class: 'server' });
  readonly #dot = el('span', { class: 'dot', 'aria-hidden': 'true' });
  readonly #state = el('span', { id: 'connection', role: 'status' });
  /** Ticks, so it is not read out. */
  readonly #countdown = el('span', { 'aria-hidden': 'true' });
  readonly #retry: HTMLButtonElement;
  readonly #drain: HTMLButtonElement;
  readonly #theme: HTMLButtonElement;
  #draining = false;
  #timer = 0;

  constructor(acts: Acts) {
    const button = (text: string, act: () => void) =>
      el('button', { type: 'button', onclick: act }, text);
    this.#retry = button('Try now', acts.retry);
    this.#retry.hidden = true;
    this.#drain = button('Drain', () => (this.#draining ? acts.resume() : acts.drain()));
    this.#drain.disabled = true;
    this.#theme = button('', () => this.turnTheme());
    this.#nameTheme();
    this.element = el(
      'header',
      { class: 'top' },
      el('h1', {}, el('span', { class: 'logo', 'aria-hidden': 'true' }), 'Outboard'),
      this.#server,
      el('div', { class: 'connection' }, this.#dot, this.#state, this.#countdown, this.#retry),
      el(
        'div',
        { class: 'top-acts' },
        this.#drain,
        this.#theme,
        el(
          'button',
          { type: 'button', onclick: acts.help, 'aria-label': 'Keyboard and help' },
          '?',
        ),
      ),
    );
  }

  turnTheme() {
    nextTheme();
    this.#nameTheme();
  }

  connection(state: ConnectionState) {
    clearInterval(this.#timer);
    setText(this.#countdown, '');
    setAttribute(this.#dot, 'class', `dot ${state.kind}`);
    this.#retry.hidden = state.kind !== 'lost' && state.kind !== 'token';
    setText(this.#retry, state.kind === 'token' ? 'Enter token' : 'Try now');
    if (state.kind === 'lost') {
      setText(this.#state, 'Not connected');
      const tick = () => {
        const left = Math.max(0, Math.ceil((state.at - performance.now()) / 1000));
        setText(this.#countdown, left > 0 ? `next try in ${left} s` : 'trying');
      };
      tick();
      this.#timer = window.setInterval(tick, 250);
      return;
    }
    const texts = { connecting: 'Connecting', live: 'Live', token: 'A token is needed' };
    setText(this.#state, texts[state.kind]);
  }

  update({ server }: View) {
    setText(this.#server, `${server.host} · ${server.version}`);
    this.#draining = server.draining;
    this.#drain.disabled = false;
    setText(this.#drain, server.draining ? 'Resume' : 'Drain');
  }

  #nameTheme() {
    const names = { system: 'Auto', light: 'Light', dark: 'Dark' };
    const name = names[theme()];
    setText(this.#theme, name);
    setAttribute(this.#theme, 'aria-label', `Colours: ${name}. Change`);
  }
}

/** The whole server in a line of figures. */
export class Summary {
  readonly element = el('dl', { class: 'summary' });
  readonly #values = new Map<string, HTMLElement>();

  constructor() {
    for (const name of ['GPUs', 'Sessions', 'Waiting', 'Memory reserved', 'Time busy', 'Up']) {
      this.#add(name);
    }
    for (const name of [
      'Placement',
      'Turns',
      'Admission',
      'Quota',
      'Session memory',
      'Guests connect to',
    ])
      this.#add(name, 'words');
  }

  update({ server, gpus, sessions }: View, queued: number) {
    const healthy = gpus.filter((gpu) => gpu.healthy).length;
    const sum = (of: (gpu: View['gpus'][number]) => number) =>
      gpus.reduce((total, gpu) => total + of(gpu), 0);
    const reserved = sum(({ memory }) => memory.reserved);
    const most = sum(({ memory }) => memory.sessions);
    const busy = meanBusy(gpus);
    const up = (Date.parse(server.now) - Date.parse(server.started)) / 1000;
    this.#set('GPUs', healthy === gpus.length ? count(healthy) : `${healthy} of ${gpus.length}`);
    this.#set('Sessions', count(sessions.length));
    this.#set('Waiting', count(queued));
    this.#set('Memory reserved', most > 0 ? percent((reserved / most) * 100) : '–');
    this.#values
      .get('Memory reserved')
      ?.setAttribute('title', `${bytes(reserved)} of ${bytes(most)}`);
    this.#set('Time busy', percent(busy));
    this.#set('Up', duration(up));
    this.#values.get('Up')?.setAttribute('title', `as of ${clock(server.now)}`);
    this.#set('Placement', server.placement);
    this.#set('Turns', server.queuePolicy);
    this.#set('Admission', server.admission);
    this.#set('Quota', server.quota);
    const usual = [...new Set(gpus.map(({ memory }) => bytes(memory.usual)))].join(', ');
    this.#set('Session memory', `${server.sessionMemory}: ${usual || '–'} now`);
    const addresses = server.listen.map((one) => guestAddress(one, server.host));
    this.#set('Guests connect to', addresses.join(', ') || '–');
  }

  #add(name: string, className = '') {
    const value = el('dd', {}, '–');
    this.#values.set(name, value);
    this.element.append(el('div', { class: className }, el('dt', {}, name), value));
  }

  #set(name: string, text: string) {
    const value = this.#values.get(name);
    if (value) setText(value, text);
  }
}

/** Percent; null: that of one of them is not measured. */
function meanBusy(gpus: View['gpus']): number | null {
  let sum = 0;
  for (const { share } of gpus) {
    if (share.busy === null) return null;
    sum += share.busy;
  }
  return gpus.length === 0 ? 0 : sum / gpus.length;
}
