// Whose sessions: what each tenant takes of what it may.
import type { TenantView, View } from '../../src/base/view.js';
import { el, setText } from './dom.js';
import { bytes, bytesOf, count, date } from './format.js';
import { Table, TextRow } from './table.js';

const titles = ['Tenant', 'Sessions', 'Waiting', 'Memory', 'Share', 'GPUs', 'Expires', 'Class'];
const classes = ['name', 'num', 'num', 'num', 'num', 'line', 'line', 'line'];

export class Tenants {
  readonly element: HTMLElement;
  readonly #table: Table<TenantView>;
  readonly #empty = el('div', { class: 'empty' });
  readonly #why = el('p');
  readonly #how = el('code');

  constructor() {
    const sorts: ((tenant: TenantView) => string | number)[] = [
      ({ name }) => name,
      ({ sessions }) => sessions,
      ({ queued }) => queued,
      ({ memory }) => memory,
      ({ share }) => share,
    ];
    this.#table = new Table<TenantView>({
      caption: 'Tenants: what their sessions take now, of what they may',
      key: ({ name }) => name,
      row: () => new TextRow<TenantView>(titles, classes, texts),
      columns: titles.map((title, index) => {
        const sort = sorts[index];
        return { title, class: classes[index] ?? '', ...(sort ? { sort } : {}) };
      }),
    });
    this.#empty.append(this.#why, el('pre', {}, this.#how));
    this.element = el('div', {}, this.#table.element, this.#empty);
  }

  update({ server, tenants }: View) {
    this.#table.update(tenants);
    this.#empty.hidden = tenants.length > 0;
    const add = 'outboard tenant add NAME --tenants FILE';
    if (server.tenants) {
      setText(this.#why, 'The tenants file names nobody, so nobody may come in. Add a tenant:');
      setText(this.#how, add);
    } else {
      const now = 'programs on this machine come in without a token, others not at all';
      setText(this.#why, `No tenants file is in force: ${now}. To let others in:`);
      setText(this.#how, `${add}\noutboard serve --tenants FILE`);
    }
  }
}

function texts({ name, priority, limits, expires, sessions, queued, memory, share }: TenantView) {
  return [
    name,
    limits.sessions === null ? count(sessions) : `${sessions} of ${limits.sessions}`,
    count(queued),
    limits.memory === null ? bytes(memory) : bytesOf(memory, limits.memory),
    promised(share, limits.share),
    limits.gpus === null ? 'all' : limits.gpus.join(', ') || 'none',
    expires === null ? 'never' : date(expires),
    priority,
  ];
}

/** An operator may have promised its sessions more than it may have, or its limit is a new one. */
function promised(share: number, limit: number | null): string {
  if (limit === null) return `${share} %`;
  return `${share} of ${limit} %${share > limit ? ', beyond its limit' : ''}`;
}
