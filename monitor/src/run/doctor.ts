// What `outboard doctor` finds out, one step after another, as a tenant would: whether the server can be
// reached, who answers, what could be had now, and whether a first kernel runs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { hostname } from 'node:os';
import path from 'node:path';
import { connect as connectTls, TLSSocket } from 'node:tls';
import {
  type Answer,
  type DeviceReport,
  decodeAnswer,
  encodeHello,
  type Refusal,
  wire,
} from '../../../api-server/src/control.js';
import { version } from '../../../api-server/src/version.js';
import { formatBytes, parseAddress, tlsScheme } from '../options/values.js';
import { isAboutCertificate, readTls, tlsReason } from '../tls/tls.js';

export interface Step {
  name: 'connection' | 'server' | 'tenant' | 'gpus' | 'queue' | 'attach' | 'module' | 'kernel';
  ok: boolean;
  /** What was found, or what is wrong. */
  text: string;
  /** What to do about it; null: nothing has to be done. */
  remedy: string | null;
  /** Null: it took none. */
  seconds: number | null;
  /** The same in a form for programs. */
  facts: Record<string, unknown>;
}

export interface Asked {
  /** Tried in turn. */
  servers: readonly string[];
  accessToken: string;
  gpus: number;
  /** Part of their names; empty: any. */
  gpuModel: string;
  /** Bytes; 0: what a slot gives. */
  memory: bigint;
  shareRequest: number;
  shareLimit: number;
  sessionClass: string;
  /** Of the function; absent: none. */
  name?: string;
  connectSeconds: number;
  /** How long the first session may wait for a GPU. */
  waitSeconds: number;
  /** Of the guest: with the library before everything else. */
  env: NodeJS.ProcessEnv;
  probe: string;
}

type Tell = (step: Step) => void;

/** Ends at the first step that fails, and returns that; null: all is well. */
export async function examine(asked: Asked, tell: Tell): Promise<Step | null> {
  let failed: Step | null = null;
  const told: Tell = (step) => {
    tell(step);
    if (!step.ok) failed ??= step;
  };
  const reached = await reach(asked, told);
  if (!reached) return failed;
  const report = await ask(reached, asked, told);
  if (report) rooms(report, asked, told);
  if (report && failed === null) await firstKernel({ ...asked, servers: [reached.server] }, told);
  return failed;
}

/** What a server says of the devices that a session like this has or would get, and which; or the step that failed. */
export async function reportOf(
  asked: Asked,
): Promise<{ answer: DeviceReport | Step; server: string }> {
  let failed: Step | null = null;
  const tell: Tell = (one) => {
    if (!one.ok) failed ??= one;
  };
  const reached = await reach(asked, tell);
  const report = reached && (await ask(reached, asked, tell));
  const answer = report ?? failed;
  if (!answer) throw new Error('no step has failed, and there is no report');
  return { answer, server: reached?.server ?? '' };
}

/** What a server says, if anything. */
async function answerOf(asked: Asked): Promise<DeviceReport | null> {
  const nobody = () => {};
  const reached = await reach(asked, nobody);
  return reached && (await ask(reached, asked, nobody));
}

/**
 * What a session's GPU is: `kind` is software, nvidia or library, null where the server has not said it; `major` of its
 * compute capability.
 */
export async function deviceOf(asked: Asked): Promise<{ kind: string | null; major: number }> {
  const { room, devices: [first] = [] } = (await answerOf(asked)) ?? {};
  return { kind: room?.device || null, major: first?.computeMajor ?? 0 };
}

/** Whose cuBLAS the function has cost less with: guest or remote; guest, too, where the server does not say. */
export async function cheaperLibraries(asked: Asked): Promise<'guest' | 'remote'> {
  const { room } = (await answerOf(asked)) ?? {};
  return room?.libraries === 'remote' ? 'remote' : 'guest';
}

function step(name: Step['name'], ok: boolean, text: string, rest: Partial<Step> = {}): Step {
  return { name, ok, text, remedy: null, seconds: null, facts: {}, ...rest };
}

interface Reached {
  socket: Socket;
  server: string;
}

async function reach(asked: Asked, tell: Tell): Promise<Reached | null> {
  for (const [index, server] of asked.servers.entries()) {
    const begun = performance.now();
    const { socket, ready } = connectTo(server, asked.env);
    const limit = (asked.connectSeconds * 1000) / asked.servers.length;
    const timer = setTimeout(() => socket.destroy(new Error('no answer')), limit);
    const failed = await once(socket, ready).then(
      () => null,
      (error: NodeJS.ErrnoException) => error,
    );
    const problem = failed ?? unnamed(socket);
    if (problem) socket.destroy();
    clearTimeout(timer);
    const seconds = (performance.now() - begun) / 1000;
    const facts = { server };
    if (problem === null) {
      tell(step('connection', true, `${server} takes connections`, { seconds, facts }));
      return { socket, server };
    }
    const last = index + 1 === asked.servers.length;
    const remedy = last ? remedyOf(problem, asked.env['OUTBOARD_CA']) : null;
    // Something else may be listening there in its place.
    const text = `no connection to ${server}: ${reasonOf(problem)}`;
    tell(step('connection', !last, text, { remedy, seconds, facts }));
  }
  return null;
}

/** As the guest library does it; with the event that says that it is done. */
function connectTo(server: string, env: NodeJS.ProcessEnv): { socket: Socket; ready: string } {
  if (server.startsWith('unix:'))
    return { socket: connect({ path: server.slice('unix:'.length) }), ready: 'connect' };
  if (!server.startsWith(tlsScheme))
    return { socket: connect(parseAddress(server)), ready: 'connect' };
  const address = parseAddress(server.slice(tlsScheme.length));
  const file = (name: string) => env[name] || null;
  const [ca, cert, key] = [file('OUTBOARD_CA'), file('OUTBOARD_CERT'), file('OUTBOARD_KEY')];
  const files = readTls({ ca, cert, key });
  // The library believes any certificate that it is named, whoever has signed it.
  const socket = connectTls({ ...address, ...files, allowPartialTrustChain: true });
  return { socket, ready: 'secureConnect' };
}

/** The library wants a name where Node takes the common name, too; null: there is one, or no certificate. */
function unnamed(socket: Socket): NodeJS.ErrnoException | null {
  const certificate = socket instanceof TLSSocket && socket.getPeerX509Certificate();
  if (!certificate || certificate.subjectAltName) return null;
  const error = new Error('its certificate has no name that counts (subjectAltName)');
  return Object.assign(error, { code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
}

function reasonOf(error: NodeJS.ErrnoException): string {
  const words: Record<string, string> = {
    ECONNREFUSED: 'nobody listens there',
    ENOENT: 'there is no such socket',
    ENOTFOUND: 'there is no such name',
    EACCES: 'it may not be opened by this user',
  };
  return words[error.code ?? ''] ?? tlsReason(error);
}

function remedyOf({ code = '', syscall }: NodeJS.ErrnoException, ca?: string): string {
  const words: Record<string, string> = {
    ERR_TLS_CERT_ALTNAME_INVALID:
      'Name the server as its certificate does, or give it one with that name (subjectAltName).',
    CERT_HAS_EXPIRED: "Give the server a new certificate, or set this machine's clock.",
    CERT_NOT_YET_VALID: "Set this machine's clock, or the one where the certificate was made.",
    ERR_SSL_WRONG_VERSION_NUMBER:
      "That port speaks no TLS: name the server's --tls-listen, or leave tls:// away.",
  };
  const known = words[code];
  if (known) return known;
  if (code === 'INVALID_PURPOSE')
    return 'Give the server a certificate that is made for servers (extendedKeyUsage).';
  if (isAboutCertificate(code)) {
    const which = ca ? `${ca} holds neither: name` : 'Name';
    return `${which} the authority's file, or the server's own certificate, with --ca.`;
  }
  if (code.startsWith('ERR_SSL_') && syscall !== 'connect')
    return "See the server's log, and --cert and --key where it wants a certificate of yours.";
  return 'See whether `outboard serve` runs there, --server, and firewalls in between.';
}

async function ask({ socket, server }: Reached, asked: Asked, tell: Tell) {
  const begun = performance.now();
  socket.write(
    encodeHello({
      program: 'outboard doctor',
      pid: process.pid,
      host: hostname(),
      guestVersion: version,
      devices: asked.gpus,
      gpuModel: asked.gpuModel,
      memory: asked.memory,
      shareRequest: asked.shareRequest,
      shareLimit: asked.shareLimit,
      sessionClass: asked.sessionClass,
      name: asked.name ?? '',
      token: asked.accessToken,
      windowSize: 1n,
      query: { session: 0n, shown: [], room: true },
    }),
  );
  const answer = await readAnswer(socket, asked.connectSeconds);
  socket.destroy();
  const seconds = (performance.now() - begun) / 1000;
  if (typeof answer === 'string') {
    const remedy =
      answer === speaksTls
        ? `Say tls://${server}.`
        : `See whether ${server} is the address of an \`outboard serve\`, and its log.`;
    tell(step('server', false, answer, { remedy, seconds }));
    return null;
  }
  if (answer.protocol !== wire.protocol && !('refusal' in answer.answer)) {
    const text = `the server speaks protocol ${answer.protocol}, this is ${wire.protocol}`;
    const remedy = 'Install the same release of Outboard on both machines.';
    tell(step('server', false, text, { remedy, seconds }));
    return null;
  }
  if ('refusal' in answer.answer) {
    const { refusal } = answer.answer;
    // Only a server of Outboard refuses a tenant for its credentials, so it was reached.
    const knows = /^OB_(TOKEN|TENANT|CERTIFICATE)/.test(refusal.code);
    if (knows) tell(step('server', true, 'an Outboard server answers', { seconds }));
    tell(refused(knows ? 'tenant' : 'server', refusal, knows ? null : seconds));
    return null;
  }
  if (!('report' in answer.answer)) {
    tell(step('server', false, 'the server does not answer what was asked', { seconds }));
    return null;
  }
  const { report } = answer.answer;
  const { serverVersion, driverVersion } = report;
  const differs = serverVersion === version ? '' : `; this is ${version}`;
  const driver = `${Math.floor(driverVersion / 1000)}.${(driverVersion % 1000) / 10}`;
  tell(
    step('server', true, `Outboard ${serverVersion}, CUDA ${driver}${differs}`, {
      seconds,
      facts: { version: serverVersion, ours: version, protocol: wire.protocol, driverVersion },
    }),
  );
  return report;
}

function refused(name: Step['name'], refusal: Refusal, seconds: number | null): Step {
  const { code, sentence, remedy } = refusal;
  return step(name, false, `${sentence} (${code})`, { remedy, seconds, facts: { code } });
}

/** The beginning of a record that refuses what is no TLS (RFC 8446, 5.1). */
const tlsAlert = Buffer.from([21, 3]);
const speaksTls = 'what answers speaks TLS';

async function readAnswer(
  socket: Socket,
  seconds: number,
): Promise<{ protocol: number; answer: Answer } | string> {
  let bytes = Buffer.alloc(0);
  const timer = setTimeout(() => socket.destroy(new Error('no answer in time')), seconds * 1000);
  try {
    for await (const chunk of socket) {
      bytes = Buffer.concat([bytes, chunk as Buffer]);
      const { length } = wire.magic;
      if (!bytes.subarray(0, length).equals(wire.magic.subarray(0, bytes.length))) {
        if (tlsAlert.equals(bytes.subarray(0, 2))) return speaksTls;
        return 'what answers is not an Outboard server';
      }
      if (bytes.length < wire.prefaceBytes) continue;
      const whole = wire.prefaceBytes + bytes.readUInt32LE(12);
      if (bytes.length < whole) continue;
      const answer = decodeAnswer(bytes.subarray(wire.prefaceBytes, whole));
      return { protocol: bytes.readUInt32LE(8), answer };
    }
    return 'the connection was closed without an answer';
  } catch (error) {
    return `no answer: ${(error as Error).message}`;
  } finally {
    clearTimeout(timer);
  }
}

/** What could be had now. */
function rooms(report: DeviceReport, asked: Asked, tell: Tell) {
  const { room } = report;
  if (!room) {
    tell(step('tenant', true, 'let in (the server is of an older release and tells no more)'));
    return;
  }
  const { tenant, position, refusal, memoryRule } = room;
  const who =
    tenant === '' ? 'the server has no tenants: everybody who reaches it may come' : tenant;
  tell(step('tenant', true, who, { facts: { tenant: tenant === '' ? null : tenant } }));
  for (const [
    index,
    { name, computeMajor, computeMinor, memoryTotal },
  ] of report.devices.entries()) {
    const now = room.devices[index] ?? { memory: 0n, share: 0, slots: 0, session: 0n };
    const could =
      now.slots === 0
        ? 'all its slots are taken'
        : `${formatBytes(now.memory)} and ${now.share} % of its time could be had now`;
    const capability = `${computeMajor}.${computeMinor}`;
    // A server of an older release says it only in this way, which is wrong where the tenant has sessions there.
    const session = now.session || memoryTotal;
    const rule = memoryRule && asked.memory === 0n ? ` (--session-memory ${memoryRule})` : '';
    const gets = `a session gets ${formatBytes(session)}${rule}`;
    tell(
      step('gpus', true, `${name} (${capability}): ${gets}; ${could}`, {
        facts: {
          name,
          computeCapability: capability,
          usualMemory: Number(session),
          memoryRule: memoryRule === '' ? null : memoryRule,
          memory: Number(now.memory),
          share: now.share,
          slots: now.slots,
        },
      }),
    );
  }
  if (refusal) return tell(refused('queue', refusal, null));
  const text = position === 0 ? 'nobody waits: a session begins at once' : `place ${position}`;
  tell(step('queue', true, text, { facts: { position } }));
}

interface Probed {
  step: 'library' | 'attach' | 'module' | 'kernel' | 'again';
  ok: boolean;
  seconds: number;
  why?: string;
  device?: string;
  memory?: number;
}

const wellDone = {
  attach: 'a session has begun',
  module: 'a module was loaded',
  kernel: 'a kernel has run, and its result is right',
} as const;

const beyond =
  "The way there is good: see the server's log, and whether this GPU computes for programs beside it.";

/** Runs a real program with a real session: nothing else proves that one would run. */
async function firstKernel(asked: Asked, tell: Tell) {
  if (!existsSync(asked.probe)) {
    tell(
      step('attach', false, `${asked.probe} does not exist`, { remedy: 'Run `npm run build`.' }),
    );
    return;
  }
  const env = {
    ...asked.env,
    OUTBOARD_SERVER: asked.servers.join(','),
    OUTBOARD_NOTICES: '/dev/null',
  };
  const child = spawn(asked.probe, [], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const limit = asked.connectSeconds + asked.waitSeconds;
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    child.kill('SIGKILL');
  }, limit * 1000);
  const [code, signal] = await once(child, 'close').finally(() => clearTimeout(timer));
  const steps = out
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Probed);
  const warm = steps.find((one) => one.step === 'again' && one.ok)?.seconds;
  for (const { step: name, ok, seconds, why, device, memory } of steps) {
    const known = name === 'library' ? 'attach' : name === 'again' ? 'kernel' : name;
    const facts = { ...(device !== undefined && { device, memory }) };
    if (!ok) {
      const remedy = known === 'attach' ? null : beyond;
      return tell(step(known, false, whyNot(why ?? '', said), { remedy, seconds, facts }));
    }
    if (name === 'again' || (known === 'attach' && name === 'library')) continue;
    const again = name === 'kernel' && warm !== undefined ? `; again in ${milliseconds(warm)}` : '';
    const more = name === 'kernel' ? { again: warm ?? null } : {};
    tell(step(known, true, wellDone[known] + again, { seconds, facts: { ...facts, ...more } }));
  }
  if (code === 0) return;
  const begun = steps.length > 0;
  const name =
    (['attach', 'module', 'kernel', 'kernel'] as const)[Math.min(steps.length, 3)] ?? 'kernel';
  const text = late
    ? `not done within ${limit} seconds`
    : whyNot(`the program ended with ${signal ?? code}`, said);
  const waited = late && !begun ? 'Others have the GPUs: allow more with --wait.' : null;
  const remedy = name === 'attach' ? waited : beyond;
  tell(step(name, false, text, { remedy }));
}

/** What the guest library has said, if anything. */
function whyNot(why: string, said: string): string {
  const words = [...said.matchAll(/^outboard: (.*)$/gm)].map(([, line]) => line).join('; ');
  return words === '' ? why : `${words} (${why})`;
}

export function milliseconds(seconds: number): string {
  return `${(seconds * 1000).toFixed(1)} ms`;
}

export function probeOf(build: string): string {
  return path.join(build, 'guest-lib', 'outboard-probe');
}
