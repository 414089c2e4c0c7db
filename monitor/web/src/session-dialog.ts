// One session in full, with its share under two sliders.
import type { SessionView } from '../../src/base/view.js';
import { askEnd } from './acts.js';
import { api } from './api.js';
import { actForm, openDialog } from './dialog.js';
import { el, setAttribute, setText } from './dom.js';
import { bytes, count, dateTime, deviceTime, duration, percent, wait, words } from './format.js';
import type { Model } from './model.js';
import { tell } from './notices.js';
import { awayText, promiseText, sessionName, shareText } from './sessions.js';

let open: SessionDialog | null = null;

export function openSession(session: SessionView, model: Model, focus: 'details' | 'share') {
  open = new SessionDialog(session, model, focus);
}

/** With each View. */
export function updateSessionDialog() {
  open?.update();
}

class SessionDialog {
  readonly #id: number;
  readonly #model: Model;
  readonly #facts = el('dl', { class: 'facts' });
  readonly #counters = el('dl', { class: 'facts' });
  readonly #gone = el('p', { class: 'banner', role: 'status', hidden: true });
  readonly #form: ShareForm;
  readonly #end: HTMLButtonElement;

  constructor(session: SessionView, model: Model, focus: 'details' | 'share') {
    this.#id = session.id;
    this.#model = model;
    this.#form = new ShareForm(session, model);
    this.#end = el('button', { type: 'button', class: 'danger' }, 'End session…');
    const dialog = openDialog(
      `${sessionName(session)}, session ${session.id}`,
      [
        this.#gone,
        el('h3', {}, 'Share of GPU time'),
        this.#form.element,
        el('h3', {}, 'Details'),
        this.#facts,
        el('h3', {}, 'Counters'),
        this.#counters,
        el('div', { class: 'dialog-acts' }, this.#end),
      ],
      {
        wide: true,
        closed: () => {
          if (open === this) open = null;
        },
      },
    );
    this.#end.addEventListener('click', () => {
      const now = this.#model.session(this.#id);
      dialog.close();
      if (now) askEnd(now);
    });
    if (focus === 'share') this.#form.focus();
    this.update();
  }

  update() {
    const session = this.#model.session(this.#id);
    this.#gone.hidden = session !== undefined;
    this.#end.hidden = session === undefined;
    setText(this.#gone, `Session ${this.#id} has ended.`);
    this.#form.update(session);
    if (!session) return;
    fill(this.#facts, factsOf(session));
    fill(
      this.#counters,
      Object.entries(session.counters).map(([name, value]) => [
        words(name),
        /bytes|memory/i.test(name) ? bytes(value) : count(value),
      ]),
    );
  }
}

function factsOf(session: SessionView): [string, string][] {
  const { group, memory, share } = session;
  return [
    ['program', session.program || '–'],
    ['tenant', session.tenant || '–'],
    ['class', session.class],
    ['from', `${session.host || 'unknown host'}, process ${session.pid}, ${session.peer}`],
    ['guest', awayText(session) || (session.state === 'ending' ? '–' : 'connected')],
    ['on', `GPU ${session.gpu}, slot ${session.slot}, process ${session.slotPid ?? '–'}`],
    ...(group.gpus.length > 1 ? [groupFact(session)] : []),
    ['since', `${dateTime(session.started)}, ${duration(session.seconds)}`],
    ['waited', wait(session.waitedSeconds)],
    ['memory', `${bytes(memory.used)} of ${bytes(memory.limit)}, at most ${bytes(memory.peak)}`],
    ['GPU time', `${percent(share.received)} now, owed ${percent(share.owed)}`],
    ['in all', deviceTime(share.deviceNs)],
    ['hindered from moving', session.hindrances.join(', ') || 'by nothing'],
    ['held back', `${count(share.gateWaits)} times, ${wait(share.gateSeconds)} in all`],
  ];
}

function groupFact({ group: { session, ordinal, gpus } }: SessionView): [string, string] {
  return [
    'of a program',
    `${ordinal + 1} of ${gpus.length} GPUs, its first session is #${session}`,
  ];
}

/** Keeps the elements, so that a selection survives the next second. */
function fill(list: HTMLElement, pairs: [string, string][]) {
  while (list.childElementCount > pairs.length) list.lastElementChild?.remove();
  pairs.forEach(([name, value], index) => {
    let pair = list.children[index];
    if (!pair) {
      pair = el('div', {}, el('dt'), el('dd'));
      list.append(pair);
    }
    setText(pair.firstElementChild as Node, name);
    setText(pair.lastElementChild as Node, value);
  });
}

/** Request and limit: a slider and a number each, which show the same. */
class ShareForm {
  readonly element: HTMLElement;
  readonly #model: Model;
  readonly #request: Percent;
  readonly #limit: Percent;
  readonly #submit: HTMLButtonElement;
  readonly #effect = el('p', { class: 'hint' });
  readonly #beyond = el('input', { type: 'checkbox', id: 'share-beyond' });
  readonly #beyondText = el('label', { for: 'share-beyond' });
  readonly #ask = el('p', { class: 'hint', hidden: true }, this.#beyond, ' ', this.#beyondText);
  #session: SessionView;

  constructor(session: SessionView, model: Model) {
    this.#session = session;
    this.#model = model;
    const { request, limit } = session.share;
    this.#request = new Percent('Promised', 'share-request', 0, request, () =>
      this.#changed('request'),
    );
    this.#limit = new Percent('At most', 'share-limit', 1, limit, () => this.#changed('limit'));
    const { form, submit, cancel } = actForm(
      {
        label: 'Apply',
        run: () => {
          const beyond = !this.#ask.hidden && this.#beyond.checked;
          const share = {
            request: this.#request.value,
            limit: this.#limit.value,
            ...(beyond && { beyondLimit: true }),
          };
          return api.setShare(this.#session.id, share).then(() => {
            tell(`Session ${this.#session.id} now gets ${shareText(share)}.`);
          });
        },
      },
      [this.#request.element, this.#limit.element, this.#effect, this.#ask],
    );
    cancel.remove();
    this.#submit = submit;
    this.element = form;
    this.#say();
  }

  focus() {
    this.#request.focus();
  }

  update(session: SessionView | undefined) {
    setAttribute(this.#submit, 'disabled', session === undefined);
    if (session) this.#session = session;
    this.#say();
  }

  /** What is moved pushes the other along: the limit is never below the promise. */
  #changed(moved: 'request' | 'limit') {
    if (this.#limit.value < this.#request.value) {
      if (moved === 'request') this.#limit.value = this.#request.value;
      else this.#request.value = this.#limit.value;
    }
    this.#say();
  }

  #say() {
    const { gpu, share } = this.#session;
    const others = this.#model.promisedToOthers(this.#session);
    const sum = others + this.#request.value;
    setText(
      this.#effect,
      sum > 100
        ? `GPU ${gpu} cannot keep that: its other sessions are promised ${others} %, which leaves ${Math.max(0, 100 - others)} %.`
        : `Now ${promiseText(share)}. GPU ${gpu} would have promised ${sum} % of its time.`,
    );
    setAttribute(this.#effect, 'class', sum > 100 ? 'hint bad' : 'hint');
    const { value } = this.#request;
    const whose = this.#model.promisedToTenant(this.#session, value);
    this.#ask.hidden = whose === null || whose.sum <= whose.most || value <= share.request;
    if (whose) {
      const { tenant } = this.#session;
      const all = `${tenant} would have ${whose.sum} % of the ${whose.most} % it may`;
      setText(this.#beyondText, `beyond the limit of its tenant: ${all}`);
    }
  }
}

class Percent {
  readonly element: HTMLElement;
  readonly #slider: HTMLInputElement;
  readonly #number: HTMLInputElement;

  constructor(label: string, id: string, min: number, value: number, changed: () => void) {
    const common = { min, max: 100, step: 1, value };
    this.#slider = el('input', { type: 'range', id, ...common });
    this.#number = el('input', {
      type: 'number',
      id: `${id}-number`,
      'aria-label': `${label}, in percent`,
      ...common,
    });
    this.#slider.addEventListener('input', () => {
      this.#number.value = this.#slider.value;
      this.#valueText();
      changed();
    });
    this.#number.addEventListener('input', () => {
      if (this.#number.value === '' || !this.#number.checkValidity()) return;
      this.#slider.value = this.#number.value;
      this.#valueText();
      changed();
    });
    // What cannot be meant is put right when it is left.
    this.#number.addEventListener('change', () => {
      this.#number.value = this.#slider.value;
    });
    this.element = el(
      'div',
      { class: 'percent' },
      el('label', { for: id }, label),
      this.#slider,
      this.#number,
      el('span', { 'aria-hidden': 'true' }, '%'),
    );
    this.#valueText();
  }

  get value(): number {
    return Number(this.#slider.value);
  }

  set value(value: number) {
    this.#slider.value = this.#number.value = String(value);
    this.#valueText();
  }

  focus() {
    this.#slider.focus();
  }

  #valueText() {
    setAttribute(this.#slider, 'aria-valuetext', `${this.#slider.value} percent`);
  }
}
