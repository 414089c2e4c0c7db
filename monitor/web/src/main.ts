// The page: one View after another, shown. See README.md.
import './styles/base.css';
import './styles/parts.css';
import './styles/table.css';
import type { LogLine, View } from '../../src/base/view.js';
import { askDrain, askEnd, askRemove, askToken, resume } from './acts.js';
import { api } from './api.js';
import { Connection, type ConnectionState } from './connection.js';
import { type Dialog, errorText } from './dialog.js';
import { el, setText } from './dom.js';
import { clock, count } from './format.js';
import { Gpus } from './gpus.js';
import { Header, Summary } from './header.js';
import { listen, openHelp, type Shortcut } from './keyboard.js';
import { Log } from './log.js';
import { Model } from './model.js';
import { notices, tell } from './notices.js';
import { Queue } from './queue.js';
import { openSession, updateSessionDialog } from './session-dialog.js';
import { Sessions } from './sessions.js';
import { Tenants } from './tenants.js';
import { startTheme } from './theme.js';

const model = new Model();
const summary = new Summary();
const gpus = new Gpus(model);
const sessions = new Sessions(model, {
  details: (session) => openSession(session, model, 'details'),
  share: (session) => openSession(session, model, 'share'),
  end: askEnd,
});
const queue = new Queue(askRemove);
const tenants = new Tenants();
const log = new Log();
const draining = el('p', { class: 'banner warn', role: 'status', hidden: true });
const stale = el('p', { class: 'banner warn', hidden: true });

/** Sections by name: the heading, its figure, and what is in it. */
const sections = {
  gpus: section('gpus', 'GPUs', gpus.element),
  sessions: section('sessions', 'Sessions', sessions.element, sessions.filter),
  queue: section('queue', 'Queue', queue.element),
  tenants: section('tenants', 'Tenants', tenants.element),
  log: section('log', 'Log', log.element),
};

const shortcuts: Shortcut[] = [
  { keys: ['1'], does: 'GPUs', run: () => goTo('gpus') },
  { keys: ['2'], does: 'Sessions', run: () => goTo('sessions') },
  { keys: ['3'], does: 'Queue', run: () => goTo('queue') },
  { keys: ['4'], does: 'Tenants', run: () => goTo('tenants') },
  { keys: ['5'], does: 'Log', run: () => goTo('log') },
  { keys: ['/'], does: 'Filter sessions', run: () => sessions.filter.focus() },
  { keys: ['j', 'ArrowDown'], does: 'Next session', run: () => sessions.step(1) },
  { keys: ['k', 'ArrowUp'], does: 'Session before', run: () => sessions.step(-1) },
  { keys: ['s'], does: 'Change the share of the session', run: () => onFocused('share') },
  { keys: ['e'], does: 'End the session', run: () => onFocused('end') },
  { keys: ['d'], does: 'Drain, or resume', run: drainOrResume },
  { keys: ['c'], does: 'Colours: auto, light, dark', run: () => header.turnTheme() },
  { keys: ['?'], does: 'This help', run: () => openHelp(shortcuts) },
];

const header = new Header({
  retry: () => connection.connect(),
  drain: drainOrResume,
  resume: drainOrResume,
  help: () => openHelp(shortcuts),
});

document.body.replaceChildren(
  el('a', { class: 'skip', href: '#main' }, 'To the content'),
  header.element,
  el('nav', { 'aria-label': 'Sections' }, ...Object.values(sections).map(({ link }) => link)),
  el(
    'main',
    { id: 'main', tabindex: -1 },
    draining,
    stale,
    summary.element,
    sections.gpus.element,
    sections.sessions.element,
    el('div', { class: 'columns' }, sections.queue.element, sections.tenants.element),
    sections.log.element,
  ),
  notices,
);
startTheme();
listen(shortcuts);

let tokenDialog: Dialog | null = null;
/** Log lines that come while those before are fetched; null: none are fetched. */
let early: LogLine[] | null = null;
let redraw = 0;

const connection = new Connection({
  state: showConnection,
  connected: catchUp,
  view(view, queued) {
    if (model.take(view, queued)) tell('The server was started again.');
    show();
  },
  logs(lines, missed) {
    if (early) early.push(...lines);
    else log.add(lines, missed);
  },
});
connection.connect();
document.addEventListener('visibilitychange', show);

/** Once per picture of the screen, and not at all where nobody looks. */
function show() {
  if (redraw !== 0 || document.hidden) return;
  redraw = requestAnimationFrame(() => {
    redraw = 0;
    if (model.view) draw(model.view);
  });
}

function draw(view: View) {
  const { server } = view;
  document.body.classList.add('filled');
  header.update(view);
  summary.update(view, model.queued);
  gpus.update(view.gpus);
  sessions.advise(server);
  sessions.update(view.sessions);
  queue.update(view.queue, model.queued);
  tenants.update(view);
  updateSessionDialog();
  sections.gpus.count(view.gpus.length);
  sections.sessions.count(view.sessions.length);
  sections.queue.count(model.queued);
  sections.tenants.count(view.tenants.length);
  draining.hidden = !server.draining;
  const left = view.sessions.length;
  const rest = left === 0 ? 'No session is left.' : `Sessions that still run: ${left}.`;
  setText(draining, `Draining: nobody new is taken. ${rest}`);
  setText(title(), `Outboard on ${server.host}`);
}

function title(): Node {
  return document.querySelector('title') ?? document.head.appendChild(el('title'));
}

/** What was before this connection: the last minutes, and the last lines of the log. */
async function catchUp() {
  early = [];
  const [history, lines] = await Promise.allSettled([api.history(), api.logs(300)]);
  if (history.status === 'fulfilled') {
    model.remember(history.value);
    if (model.view) model.take(model.view, model.queued);
  }
  if (lines.status === 'fulfilled') {
    const known = new Set(lines.value.map((line) => JSON.stringify(line)));
    const later = (early ?? []).filter((line) => !known.has(JSON.stringify(line)));
    log.replace([...lines.value, ...later]);
  } else {
    log.add(early ?? []);
  }
  early = null;
  show();
}

function showConnection(state: ConnectionState) {
  header.connection(state);
  const lost = state.kind === 'lost';
  document.body.classList.toggle('stale', lost);
  stale.hidden = !lost;
  if (lost) {
    const age = model.view ? ` What is shown is from ${clock(model.view.server.now)}.` : '';
    stale.replaceChildren(...errorText(state.error), age);
  }
  if (state.kind === 'token' && !tokenDialog?.element.open) {
    tokenDialog = askToken(state.error, () => connection.connect());
  }
}

function drainOrResume() {
  const { view } = model;
  if (!view) return;
  if (view.server.draining) resume();
  else askDrain(view, model.queued);
}

function onFocused(act: 'share' | 'end') {
  const session = sessions.focused();
  if (!session) return tell('Choose a session first, with j and k.');
  if (act === 'share') openSession(session, model, 'share');
  else askEnd(session);
}

function goTo(name: keyof typeof sections) {
  const { element, heading } = sections[name];
  element.scrollIntoView();
  heading.focus({ preventScroll: true });
}

function section(id: string, name: string, content: HTMLElement, tool?: HTMLElement) {
  const figure = el('span', { class: 'count' });
  const linkFigure = el('span', { class: 'count' });
  const heading = el('h2', { id: `${id}-heading`, tabindex: -1 }, name);
  const head = el('div', { class: 'section-head' }, heading, figure, ...(tool ? [tool] : []));
  const element = el('section', { id, 'aria-labelledby': heading.id }, head, content);
  const link = el('a', { href: `#${id}` }, name, ' ', linkFigure);
  return {
    element,
    heading,
    link,
    count(value: number) {
      setText(figure, count(value));
      setText(linkFigure, count(value));
    },
  };
}
