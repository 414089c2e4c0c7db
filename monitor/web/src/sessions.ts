// A row for each session: whose, where, what it has and what it gets.
import { guestAddress } from '../../src/base/guest-address.js';
import type { ServerView, SessionView } from '../../src/base/view.js';
import { Sparkline } from './charts.js';
import { el, type Shown, setAttribute, setText } from './dom.js';
import { bytes, bytesOf, clock, duration, percent, plural } from './format.js';
import { summary } from './history.js';
import { Meter } from './meter.js';
import type { Model } from './model.js';
import { cell, rowHeader, Table } from './table.js';

export interface SessionActs {
  details(session: SessionView): void;
  share(session: SessionView): void;
  end(session: SessionView): void;
}

export class Sessions {
  readonly element: HTMLElement;
  readonly filter: HTMLInputElement;
  readonly #table: Table<SessionView>;
  readonly #empty: HTMLElement;
  readonly #from = el('p');
  readonly #address = el('code');
  readonly #none = el('p', { class: 'empty', hidden: true });
  #sessions: SessionView[] = [];

  constructor(model: Model, acts: SessionActs) {
    this.filter = el('input', {
      type: 'search',
      id: 'session-filter',
      placeholder: 'Filter',
      'aria-label': 'Filter sessions by name, tenant, program, host or GPU',
      autocomplete: 'off',
      spellcheck: 'false',
      oninput: () => this.update(this.#sessions),
    });
    this.#table = new Table<SessionView>({
      caption: 'Sessions: programs that use a GPU now',
      key: ({ id }) => id,
      row: (session) => new SessionRow(session, model, acts),
      columns: [
        { title: 'Session', class: 'name', sort: ({ name, program }) => name || program },
        { title: 'Tenant', sort: ({ tenant }) => tenant },
        { title: 'GPU / slot', class: 'num', sort: ({ gpu, slot }) => gpu * 1000 + slot },
        { title: 'Running', class: 'num', sort: ({ seconds }) => seconds },
        { title: 'Memory', class: 'memory', sort: ({ memory }) => memory.used },
        { title: 'Share', class: 'num', sort: ({ share }) => share.request },
        { title: 'GPU time', class: 'spark', sort: ({ share }) => share.received ?? -1 },
        { title: 'Acts', class: 'acts', quiet: true },
      ],
    });
    this.#empty = el(
      'div',
      { class: 'empty', hidden: true },
      el('p', {}, el('strong', {}, 'No program uses a GPU here now.')),
      this.#from,
      el('pre', {}, this.#address),
    );
    this.element = el('div', {}, this.#table.element, this.#empty, this.#none);
  }

  /** Where guests connect, for the advice to those who have no session yet. */
  advise({ listen, host }: ServerView) {
    const [address = 'HOST:PORT'] = listen;
    const server = guestAddress(address, host);
    const here = /^(?:127\.|localhost:|\[::1\]|unix:)/.test(server);
    const from = here
      ? 'Point one at this server. It listens for programs on its own machine; --listen opens it to others:'
      : 'Point one at this server, from any machine that reaches it:';
    setText(this.#from, from);
    setText(this.#address, `outboard run --server ${server} -- python train.py`);
  }

  update(sessions: SessionView[]) {
    this.#sessions = sessions;
    const wanted = this.filter.value.trim().toLowerCase();
    const shown = wanted === '' ? sessions : sessions.filter((one) => text(one).includes(wanted));
    this.#table.update(shown);
    this.#empty.hidden = sessions.length > 0;
    this.#none.hidden = sessions.length === 0 || shown.length > 0;
    setText(this.#none, `None of ${plural(sessions.length, 'session')} fits the filter.`);
  }

  /** The session whose row has the focus. */
  focused(): SessionView | undefined {
    const row = document.activeElement?.closest<HTMLElement>('[data-session]');
    return this.#sessions.find(({ id }) => String(id) === row?.dataset['session']);
  }

  /** Moves the focus to the next row, or the one before. */
  step(by: 1 | -1) {
    const rows = [...this.element.querySelectorAll<HTMLElement>('[data-session]')];
    const now = rows.findIndex((row) => row.contains(document.activeElement));
    const next = now < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, now + by));
    rows[next]?.querySelector('button')?.focus();
  }
}

function text({ id, name, program, tenant, host, gpu }: SessionView): string {
  return [`#${id}`, name, program, tenant, host, `gpu ${gpu}`, `gpu${gpu}`]
    .join('\n')
    .toLowerCase();
}

export function sessionName({ name, program }: Pick<SessionView, 'name' | 'program'>): string {
  return name || program || 'unnamed';
}

class SessionRow implements Shown<SessionView> {
  readonly element: HTMLElement;
  readonly #model: Model;
  readonly #name = el('button', { type: 'button', class: 'link' });
  readonly #about = el('span', { class: 'about' });
  readonly #state = el('span', { class: 'tag' });
  readonly #tenant = cell('Tenant', '');
  readonly #gpu = cell('GPU / slot', 'num');
  readonly #memory: Meter;
  readonly #memoryText = el('span', { class: 'figure' });
  readonly #spark: Sparkline;
  readonly #received = el('span', { class: 'figure' });
  readonly #share = cell('Share', 'num');
  readonly #running = cell('Running', 'num');
  readonly #change = el('button', { type: 'button' }, 'Share');
  readonly #end = el('button', { type: 'button', class: 'danger' }, 'End');
  #session: SessionView;

  constructor(session: SessionView, model: Model, acts: SessionActs) {
    this.#model = model;
    this.#session = session;
    const { id } = session;
    const title = `session ${id}`;
    this.#memory = new Meter(`memory of ${title}`, ['used'], { small: true });
    this.#spark = new Sparkline(`GPU time of ${title} over two minutes`, [
      { label: 'received', stroke: '--busy', fill: '--busy-soft', show: percent },
      { label: 'owed', stroke: '--mark', dashed: true, show: percent },
    ]);
    this.#name.addEventListener('click', () => acts.details(this.#session));
    this.#change.addEventListener('click', () => acts.share(this.#session));
    this.#end.addEventListener('click', () => acts.end(this.#session));
    setAttribute(this.#change, 'aria-label', `Change the share of ${title}`);
    setAttribute(this.#end, 'aria-label', `End ${title}`);
    this.element = el(
      'tr',
      { role: 'row', 'data-session': id },
      rowHeader('name', el('div', { class: 'title' }, this.#name, this.#state), this.#about),
      this.#tenant,
      this.#gpu,
      this.#running,
      cell('Memory', 'memory', this.#memoryText, this.#memory.element),
      this.#share,
      cell('GPU time', 'spark', this.#spark.element, this.#received),
      cell('Acts', 'acts', this.#change, this.#end),
    );
  }

  update(session: SessionView) {
    this.#session = session;
    const { id, memory, share } = session;
    setText(this.#name, sessionName(session));
    const host = session.host && `on ${session.host}`;
    const about = [`#${id}`, session.class, host, awayText(session)];
    setText(this.#about, about.filter(Boolean).join(' · '));
    const [kind, state] = stateOf(session);
    setAttribute(this.#state, 'class', `tag ${kind}`);
    setText(this.#state, state);
    this.#state.hidden = state === '';
    setText(this.#tenant, session.tenant || '–');
    setText(this.#gpu, `${session.gpu} / ${session.slot}`);
    setAttribute(this.#gpu, 'title', `GPU ${session.gpu}, slot ${session.slot}`);

    const used = bytesOf(memory.used, memory.limit);
    setText(this.#memoryText, used);
    const part = memory.used / memory.limit;
    this.#memory.update([part], part * 100, `${used}, at most ${bytes(memory.peak)}`);

    const columns = this.#model.sessionHistory(session).columns();
    const words = summary(columns[1], percent);
    // Of what it may have at most: a small share is seen as well as a large one.
    const most = Math.max(share.limit, 1);
    this.#spark.draw(columns, this.#model.sessionRange, most, words);
    setText(this.#received, percent(share.received));
    setText(this.#share, promiseText(share));
    setText(this.#running, duration(session.seconds));
  }

  remove() {
    this.#spark.remove();
  }
}

function stateOf({ state, share, away }: SessionView): [string, string] {
  if (state !== 'running') return ['warn', state];
  if (away) return ['warn', 'away'];
  return share.held ? ['warn', 'held back'] : ['', ''];
}

/** "away since 14:03:07, kept until 14:04:07"; nothing where its guest is there. */
export function awayText({ away }: SessionView): string {
  return away ? `away since ${clock(away.since)}, kept until ${clock(away.until)}` : '';
}

/** With the mark of a promise that is more than its tenant may have. */
export function promiseText(share: SessionView['share']): string {
  return share.beyondLimit ? `${shareText(share)}, beyond its tenant's limit` : shareText(share);
}

/** "30 to 60 %"; "up to 60 %" where nothing is promised. */
export function shareText({ request, limit }: { request: number; limit: number }): string {
  if (request === limit) return `${request} %`;
  return request === 0 ? `up to ${limit} %` : `${request} to ${limit} %`;
}
