// The state of a server as lines of text: what `status` prints and `top` shows again and again.

import { guestAddress } from '../base/guest-address.js';
import type { GpuView, QueueView, SessionView, View } from '../base/view.js';
import {
  bar,
  bytes,
  type Column,
  clean,
  duration,
  lined,
  type Paint,
  percent,
  sgr,
  short,
  table,
} from './table.js';

export function headLines(
  { server, gpus, sessions, queue }: View,
  paint: Paint,
  columns = Number.POSITIVE_INFINITY,
): string[] {
  const slots = gpus.flatMap((gpu) => gpu.slots);
  const count = (state: string) => slots.filter((slot) => slot.state === state).length;
  const up = (Date.parse(server.now) - Date.parse(server.started)) / 1000;
  const reserved = count('reserved');
  const kept = reserved > 0 ? `, ${reserved} reserved` : '';
  const draining = server.draining ? [paint(sgr.yellow, 'being emptied')] : [];
  const addresses = server.listen.map((one) => guestAddress(one, clean(server.host)));
  const facts = [`${server.device} device`, `up ${duration(up)}`, ...draining];
  return [
    `${paint(sgr.bold, `Outboard ${clean(server.version)}`)} on ${clean(server.host)}: ${facts.join(', ')}`,
    ...lined(
      [
        `placement ${server.placement}`,
        ...(server.queuePolicy === 'first-come' ? [] : [`queue ${server.queuePolicy}`]),
        ...(server.admission === 'none' ? [] : [`admission ${server.admission}`]),
        ...(server.migration === 'none' ? [] : [`migration ${server.migration}`]),
        `quota ${server.quota}`,
        `session memory ${server.sessionMemory}`,
        `guests connect to ${addresses.join(', ') || 'nothing'}`,
      ],
      columns,
    ),
    `${sessions.length} sessions, ${queue.length} waiting; slots: ${count('busy')} busy, ${count('free')} free${kept}, ${count('starting')} starting`,
  ];
}

// In a narrow terminal those columns are left out first that do not say who takes what, which is what people
// open `top` for.
const gpuColumns: Column<GpuView>[] = [
  { title: 'GPU', right: true, text: ({ index }) => String(index) },
  { title: 'NAME', least: 8, text: ({ name }) => name },
  {
    title: 'MEMORY',
    spare: 5,
    text: ({ memory }) => `[${bar(memory.reserved / memory.sessions, 10)}]`,
  },
  {
    title: 'RESERVED',
    right: true,
    text: ({ memory }) => `${bytes(memory.reserved)} / ${bytes(memory.sessions)}`,
  },
  { title: 'USED', right: true, text: ({ memory }) => bytes(memory.used) },
  { title: 'DEFAULT', right: true, spare: 2, text: ({ memory }) => bytes(memory.usual) },
  { title: 'TIME', spare: 4, text: ({ share }) => `[${bar((share.busy ?? 0) / 100, 10)}]` },
  { title: 'BUSY', right: true, text: ({ share }) => percent(share.busy) },
  { title: 'PROMISED', right: true, spare: 3, text: ({ share }) => percent(share.requested) },
  {
    title: 'SLOTS',
    right: true,
    text: ({ slots }) => `${slots.filter(({ state }) => state === 'busy').length}/${slots.length}`,
  },
];

export function gpuLines(gpus: readonly GpuView[], paint: Paint, columns?: number): string[] {
  const [titles = '', ...rows] = table(gpuColumns, gpus, columns);
  const ill = gpus
    .filter(({ healthy }) => !healthy)
    .map(({ index, problem }) =>
      paint(sgr.red, `GPU ${index} takes no sessions: ${clean(problem ?? 'unknown reason')}`),
    );
  const emptied = gpus
    .filter(({ healthy, draining }) => healthy && draining !== null)
    .map(({ index }) =>
      paint(sgr.yellow, `GPU ${index} takes no sessions: it is being emptied (${undo(index)})`),
    );
  return [paint(sgr.dim, titles), ...rows, ...ill, ...emptied];
}

const undo = (gpu: number) => `outboard drain --gpu ${gpu} --undo`;

/** The orders of sessions, by the name that `--sort` and the keys of `top` use: largest first, names from a to z. */
export const sessionOrders: Record<string, (a: SessionView, b: SessionView) => number> = {
  id: (a, b) => a.id - b.id,
  memory: (a, b) => b.memory.used - a.memory.used,
  share: (a, b) => (b.share.received ?? 0) - (a.share.received ?? 0),
  time: (a, b) => b.seconds - a.seconds,
  gpu: (a, b) => a.gpu - b.gpu,
  tenant: (a, b) => compare(a.tenant, b.tenant),
  name: (a, b) => compare(a.name, b.name),
};

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function sorted(sessions: readonly SessionView[], order: string): SessionView[] {
  const by = sessionOrders[order] ?? (() => 0);
  return [...sessions].sort((a, b) => by(a, b) || a.id - b.id);
}

const sessionColumns: Column<SessionView>[] = [
  { title: 'SESSION', right: true, text: ({ id }) => String(id) },
  { title: 'GPU', right: true, spare: 2, text: ({ gpu, slot }) => `${gpu}.${slot}` },
  {
    title: 'OF',
    right: true,
    spare: 7,
    text: ({ group: { session, gpus } }) => (gpus.length > 1 ? String(session) : '-'),
  },
  { title: 'TENANT', least: 6, text: ({ tenant }) => short(tenant || '-', 16) },
  { title: 'NAME', least: 8, text: ({ name, program }) => short(name || program, 20) },
  { title: 'HOST', spare: 5, text: ({ host, pid }) => `${short(host, 16)}:${pid}` },
  {
    title: 'MEMORY',
    right: true,
    text: ({ memory }) => `${bytes(memory.used)} / ${bytes(memory.limit)}`,
  },
  {
    title: 'SHARE',
    right: true,
    spare: 3,
    text: ({ share }) => `${share.request}:${share.limit}${share.beyondLimit ? '!' : ''}`,
  },
  {
    title: 'HAS/OWED',
    right: true,
    text: ({ share }) => `${percent(share.received)}/${percent(share.owed)}`,
  },
  {
    title: 'HELD',
    right: true,
    spare: 4,
    text: ({ share }) => `${duration(share.gateSeconds)}${share.held ? '*' : ''}`,
  },
  {
    title: 'CALLS',
    right: true,
    spare: 6,
    text: ({ counters }) => String(counters['commands'] ?? 0),
  },
  { title: 'TIME', right: true, text: ({ seconds }) => duration(seconds) },
  {
    title: 'STATE',
    spare: 1,
    text: ({ state, away }) => (away && state === 'running' ? 'away' : state),
  },
];

/** Behind the others where all of a session is asked for: what hinders it from being moved. */
const hindered: (typeof sessionColumns)[number] = {
  title: 'HINDERED',
  text: ({ hindrances }) => hindrances.join(',') || '-',
};

export function sessionLines(
  sessions: readonly SessionView[],
  paint: Paint,
  { columns, whole = false }: { columns?: number; whole?: boolean } = {},
): string[] {
  if (sessions.length === 0) return ['no sessions'];
  const shown = whole ? [...sessionColumns, hindered] : sessionColumns;
  const [titles = '', ...rows] = table(shown, sessions, columns);
  return [paint(sgr.dim, titles), ...rows];
}

/** For each session whose guest is away: since when, and until when it is kept, by the server's clock. */
export function awayLines({
  server: { now },
  sessions,
}: Pick<View, 'server' | 'sessions'>): string[] {
  const seconds = (from: string, to: string) =>
    duration(Math.max(0, (Date.parse(to) - Date.parse(from)) / 1000));
  return sessions.flatMap(({ id, away }) => {
    if (!away) return [];
    const { since, until } = away;
    const passed = `since ${clean(since)} (for ${seconds(since, now)})`;
    const left = `until ${clean(until)} (for ${seconds(now, until)})`;
    return [`session ${id}: its guest is away ${passed}; kept ${left}`];
  });
}

/**
 * For each GPU with sessions: how much of its memory they have reserved, which others lack, how much of that they use,
 * and who has most of the rest.
 */
export function reservedLines({ gpus, sessions }: Pick<View, 'gpus' | 'sessions'>): string[] {
  return gpus.flatMap(({ index, memory }) => {
    const idle = sessions
      .filter(({ gpu }) => gpu === index)
      .map(({ id, memory: { limit, used } }) => ({ id, unused: limit - used }))
      .sort((a, b) => b.unused - a.unused);
    if (idle.length === 0) return [];
    const most = idle
      .slice(0, 3)
      .map(({ id, unused }) => `${bytes(unused)} by session ${id}`)
      .join(', ');
    const reserved = `reserved ${bytes(memory.reserved)} of ${bytes(memory.sessions)}`;
    return [`GPU ${index}: ${reserved}, used ${bytes(memory.used)}; not used: ${most}`];
  });
}

const queueColumns: Column<QueueView>[] = [
  { title: 'WAITING', right: true, text: ({ position }) => String(position) },
  { title: 'SESSION', right: true, text: ({ id }) => String(id) },
  { title: 'TENANT', least: 6, text: ({ tenant }) => short(tenant || '-', 16) },
  { title: 'NAME', least: 8, text: ({ name, program }) => short(name || program, 20) },
  { title: 'CLASS', spare: 3, text: (queued) => queued.class },
  { title: 'GPUS', right: true, spare: 1, text: ({ gpus }) => String(gpus) },
  {
    title: 'MEMORY',
    right: true,
    text: ({ memory }) => (memory === null ? 'usual' : bytes(memory)),
  },
  {
    title: 'SHARE',
    right: true,
    spare: 2,
    text: ({ shareRequest, shareLimit }) => `${shareRequest}:${shareLimit}`,
  },
  { title: 'SINCE', right: true, text: ({ waitedSeconds }) => duration(waitedSeconds) },
];

export function queueLines(
  queue: readonly QueueView[],
  most: number,
  total: number,
  paint: Paint,
  columns?: number,
): string[] {
  if (total === 0) return [];
  const shown = queue.slice(0, most);
  const [titles = '', ...rows] = table(queueColumns, shown, columns);
  const more = total - shown.length;
  return [paint(sgr.dim, titles), ...rows, ...(more > 0 ? [`and ${more} more`] : [])];
}
