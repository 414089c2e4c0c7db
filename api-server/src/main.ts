// One API server process: it holds one device open, its context warm, and serves one session at a
// time. The monitor starts it and talks to it over a channel (ipc.ts); when that channel closes, the
// monitor is gone and the process ends. It logs to stderr, which the monitor reads: file descriptor
// 1 belongs to the executor, which catches there what kernels print.
import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import { pino } from 'pino';
import { Channel } from './channel.js';
import { emptyOffer, type FromSlot, type Open, slotFds, type ToSlot } from './ipc.js';
import { type DeviceHandle, type DeviceOptions, loadNative, type Native } from './native.js';
import { type Connection, SlotSession } from './session.js';

const log = pino({ base: null }, pino.destination({ dest: 2, sync: true }));

let native: Native | undefined;
let device: DeviceHandle | undefined;
let deviceOptions: DeviceOptions | undefined;
let session: SlotSession | undefined;
let leaving = false;
/** Whether what comes of a move is still to be told. */
let departing = false;
/** Tells of the session's end, which has come before that. */
let overAfter: (() => void) | undefined;

let warmContext = true;

// How long the executor gets to end a session after the monitor has vanished.
const leaveSeconds = 5;

const channel = new Channel(new Socket({ fd: slotFds.channel }), {
  onMessage: (message) => hear(message as ToSlot),
  onOver: leaveAlone,
});

function hear(message: ToSlot) {
  switch (message.type) {
    case 'open':
      return open(message);
    case 'measure':
      return measure();
    case 'end':
      session?.stop(message.message);
      return;
    case 'ping':
      return send({ type: 'pong', counters: session?.counters() ?? null });
    case 'kernels':
      return send({ type: 'kernels', kernels: session?.kernelTimes() ?? [] });
    case 'nvml': {
      const facts = native?.nvmlFacts(message.library, message.uuid) ?? null;
      return send({ type: 'nvml', facts });
    }
    case 'offer': {
      const connection = native && arrived(native);
      warmUp();
      if (!native || !device || session || !connection) {
        connection?.close();
        return decline(new Error('no connection arrived, or this process is not free'));
      }
      const next = new SlotSession(native, device, message, connection);
      try {
        next.prepare();
      } catch (error) {
        next.cancel();
        if (isLost(error)) return leaveLost(error);
        return decline(error);
      }
      session = next;
      const { base: windowBase, size: windowSize } = next.window;
      return send({ type: 'prepared', windowBase, windowSize });
    }
    case 'begin': {
      const begun = session;
      begun?.begin({
        onUsed: (session, module) => send({ type: 'used', session, module }),
        onAway: (away) => session === begun && send({ type: 'away', away }),
        // It may come after the end, which is said by another way.
        onClosing: () => session === begun && send({ type: 'closing' }),
        onArrived: () => session === begun && send({ type: 'arrived' }),
        onEnd: (end, counters) => {
          const tell = () => {
            session = undefined;
            const keep = end.reusable && !leaving;
            if (keep) coolDown();
            send({ type: 'ended', end, counters }, end.reusable && !keep ? leave : undefined);
            // The monitor ends the process when it has read that. What is still to be read from a process that has
            // gone is lost where something is being written to it.
            if (!end.reusable) setTimeout(die, leaveSeconds * 1000);
          };
          // With the end the monitor may send another session, of which the move would be taken to be.
          if (departing) overAfter = tell;
          else tell();
        },
      });
      return;
    }
    case 'move': {
      const link = native && arrived(native);
      if (!link) return send({ type: 'stays', why: 'no link to the other process has come' });
      if (!session) {
        link.close();
        return send({ type: 'stays', why: 'the session is over' });
      }
      departing = true;
      return session.move(link, (moved, why, stoppedNs) => {
        departing = false;
        send(moved ? { type: 'moved', stoppedNs } : { type: 'stays', why });
        overAfter?.();
        overAfter = undefined;
      });
    }
    case 'resume': {
      const connection = native && arrived(native);
      // Where it is not taken, the guest sees it end, and comes again or gives up.
      if (connection && !session?.resume(message, connection.fd)) connection.close();
      return;
    }
    case 'stop':
      leaving = true;
      if (!session?.stop(message.message)) leave();
  }
}

function measure() {
  try {
    warmUp();
    if (!native || !device) return;
    send({ type: 'measured', freeMemory: native.snapshot(device).freeMemory });
    if (!session) coolDown();
  } catch (error) {
    leaveLost(error);
  }
}

const isLost = (error: unknown) => (error as { code?: unknown }).code === 'OB_GPU_LOST';

/** The device answers no more. Who was to be served gets another process, which says whether it is there again. */
function leaveLost(error: unknown) {
  log.error({ code: told(error).code }, told(error).message);
  die();
}

/** The monitor has gone. */
function leaveAlone(wrong: Error | null) {
  if (wrong) log.error({ err: wrong }, 'what the monitor wants cannot be done');
  leaving = true;
  if (!session?.stop('the server has ended')) leave();
  setTimeout(() => process.kill(process.pid, 'SIGKILL'), leaveSeconds * 1000);
}

/** The connection of the session that is told of now. */
function arrived(native: Native): Connection | null {
  let fd = native.receiveDescriptor(slotFds.connections);
  if (fd === null) return null;
  const close = () => {
    if (fd !== null) closeSync(fd);
    fd = null;
  };
  return { fd, close };
}

// Ctrl-C in a terminal reaches every process of the group; the monitor decides what it means.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

function open({ type: _, build, warm, ...options }: Open) {
  try {
    native = loadNative(build);
    warmContext = warm !== 'none';
    const warmHandles = warm === 'handles';
    deviceOptions = { windowBase: null, windowSize: null, warmHandles, ...options };
    device = native.openDevice(deviceOptions);
    rehearse(native, device);
    // It stays open until it is measured, with all others of its GPU.
    send({ type: 'ready', snapshot: native.snapshot(device) });
  } catch (error) {
    send({ type: 'failed', ...told(error) }, () => process.exit(1));
  }
}

/** Where the context is not kept warm it is made here. */
function warmUp() {
  if (device || !native || !deviceOptions) return;
  device = native.openDevice(deviceOptions);
  log.info('the device was not kept open (--warm none), and is opened');
}

function coolDown() {
  if (warmContext || !device) return;
  native?.closeDevice(device);
  device = undefined;
}

/** Everything but the connection, so that the first session finds compiled code. */
function rehearse(native: Native, device: DeviceHandle) {
  new SlotSession(native, device, emptyOffer, { fd: -1, close: () => {} }).prepare();
}

function decline(error: unknown) {
  send({ type: 'declined', ...told(error) });
}

function told(error: unknown) {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return {
    code: typeof code === 'string' ? code : null,
    message: typeof message === 'string' ? message : String(error),
  };
}

function send(message: FromSlot, sent?: () => void) {
  channel.send(message, (error) => {
    if (error) log.warn({ err: error }, 'the monitor cannot be told');
    sent?.();
  });
}

/** Work that does not end is on the device still: a driver would wait for it, at exit, too. */
function die() {
  process.kill(process.pid, 'SIGKILL');
}

function leave() {
  try {
    if (native && device) native.closeDevice(device);
  } catch (error) {
    log.warn({ err: error }, 'the device was not closed cleanly');
  }
  process.exit(0);
}
