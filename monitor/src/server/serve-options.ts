// What `outboard serve` can be told.

import path from 'node:path';
import type { Warm } from '../../../api-server/src/ipc.js';
import { build as defaultBuild } from '../../../bin/paths.mjs';
import {
  admissionPolicies,
  migrationPolicies,
  placementPolicies,
  queuePolicies,
  quotaPolicies,
} from '../../policies/index.js';
import { drain } from '../../policies/migration/drain.js';
import { usualQuotaParameters, windowBounds } from '../../policies/quota.js';
import { type MemoryRule, parseMemoryRule } from '../devices/memory-rule.js';
import { type Listen, parseListen } from '../network/listeners.js';
import { logLevelOption, readyFileOption } from '../options/daemon.js';
import { BadValue, type Option, type Values, yesNo } from '../options/options.js';
import {
  type Address,
  parseAddress,
  parseBytes,
  parseChoice,
  parseCount,
} from '../options/values.js';
import type { Clients } from '../tls/front.js';

const seconds = (least: number) => parseCount(least, 7 * 24 * 3600, 'seconds');

export interface Slots {
  /** From the start on. */
  warm: number;
  /** As many as there can be. */
  most: number;
}

const autoSlots: Slots = { warm: 2, most: 16 };

function parseSlots(text: string): Slots {
  if (text === 'auto') return autoSlots;
  const count = parseCount(1, 64, 'auto, or how many processes,')(text);
  return { warm: count, most: count };
}

function parseListens(text: string): Listen[] {
  return text.split(',').map((one) => parseListen(one.trim()));
}

const parseMaxBlocks = parseCount(1, 1e12, 'how many blocks, or one number for each GPU,');

function parseFactor(text: string): number {
  const factor = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text) || factor < 1 || factor > 100) {
    throw new BadValue('expected a number from 1 to 100, as in 1.5');
  }
  return factor;
}

function parseGate(text: string) {
  const kinds = text.split(',').map((kind) => kind.trim());
  const wrong = kinds.find((kind) => !['kernels', 'copies', 'sets'].includes(kind));
  if (wrong !== undefined) throw new BadValue(`expected kernels, copies or sets, not ${wrong}`);
  return { copies: kinds.includes('copies'), sets: kinds.includes('sets') };
}

function parseClients(text: string): Clients {
  if (text === 'none' || text === 'ask' || text === 'require') return text;
  throw new BadValue('expected none, ask or require');
}

const migrationChoices = [
  'none',
  ...[...migrationPolicies.keys()].filter((name) => name !== drain.name),
];

export const serveOptions = {
  config: {
    env: 'OUTBOARD_CONFIG',
    value: 'FILE',
    help: 'a file with these options by their names (YAML); flags and the environment come first',
    parse: (text) => path.resolve(text),
    fallback: null,
    path: true,
  } satisfies Option<string | null>,
  listen: {
    env: 'OUTBOARD_LISTEN',
    value: 'ADDRESS,...',
    help: 'where guests connect: HOST:PORT, [IPV6]:PORT or unix:PATH; port 0: any free one',
    parse: parseListens,
    fallback: [{ kind: 'tcp', host: '127.0.0.1', port: 4460 }],
    shown: '127.0.0.1:4460',
  } satisfies Option<Listen[]>,
  'tls-listen': {
    env: 'OUTBOARD_TLS_LISTEN',
    value: 'HOST:PORT',
    help: 'where guests connect by TLS 1.3, by themselves (`tls://`) or through an `outboard agent`',
    parse: (text) => parseAddress(text, 0),
    fallback: null,
  } satisfies Option<Address | null>,
  'tls-cert': {
    env: 'OUTBOARD_TLS_CERT',
    value: 'FILE',
    help: 'the certificate of this server, with its chain (PEM); read again when it changes',
    parse: (text) => path.resolve(text),
    fallback: null,
    path: true,
  } satisfies Option<string | null>,
  'tls-key': {
    env: 'OUTBOARD_TLS_KEY',
    value: 'FILE',
    help: 'its private key (PEM)',
    parse: (text) => path.resolve(text),
    fallback: null,
    path: true,
  } satisfies Option<string | null>,
  'tls-client-ca': {
    env: 'OUTBOARD_TLS_CLIENT_CA',
    value: 'FILE',
    help: "authorities of guests' certificates (PEM), which then may stand for access tokens",
    parse: (text) => path.resolve(text),
    fallback: null,
    path: true,
  } satisfies Option<string | null>,
  'tls-clients': {
    env: 'OUTBOARD_TLS_CLIENTS',
    value: 'none|ask|require',
    help: 'whether guests are asked for a certificate, and refused without one',
    parse: parseClients,
    fallback: null,
    shown: 'ask with --tls-client-ca, else none',
  } satisfies Option<Clients | null>,
  http: {
    env: 'OUTBOARD_HTTP',
    value: 'ADDRESS,...|none',
    help: 'where operators find the web page, the HTTP API and the metrics',
    parse: (text) => (text === 'none' ? [] : parseListens(text)),
    fallback: [{ kind: 'tcp', host: '127.0.0.1', port: 4461 }],
    shown: '127.0.0.1:4461',
  } satisfies Option<Listen[]>,
  tenants: {
    env: 'OUTBOARD_TENANTS',
    value: 'FILE',
    help: 'who may come in and how much they may have; none: only this machine is served',
    parse: (text) => path.resolve(text),
    fallback: null,
    path: true,
  } satisfies Option<string | null>,
  device: {
    env: 'OUTBOARD_DEVICE',
    value: 'auto|software|nvidia|PATH',
    help: 'the driver library to serve; auto: NVIDIA where there is a GPU, else software',
    parse: (text) => text,
    fallback: 'auto',
    shown: 'auto',
  } satisfies Option<string>,
  gpus: {
    env: 'OUTBOARD_SERVE_GPUS',
    value: 'N',
    help: 'how many GPUs to serve, the first N, with all their instances (MIG); software GPUs are made to order',
    parse: parseCount(1, 64, 'how many GPUs,'),
    fallback: null,
    shown: 'all; 1 with software',
  } satisfies Option<number | null>,
  'servers-per-gpu': {
    env: 'OUTBOARD_SERVERS_PER_GPU',
    value: 'N|auto',
    help: 'warm API server processes on each GPU, which is how many sessions it serves at a time; auto: two, and more while all are taken and memory is left. A GPU in exclusive-process mode has one',
    parse: parseSlots,
    fallback: autoSlots,
    shown: 'auto',
  } satisfies Option<Slots>,
  'slot-idle': {
    env: 'OUTBOARD_SLOT_IDLE',
    value: 'SECONDS',
    help: 'how long a process beyond the first two of `auto` stays with nothing to do',
    parse: seconds(1),
    fallback: 60,
    shown: '60',
  } satisfies Option<number>,
  'session-memory': {
    env: 'OUTBOARD_SESSION_MEMORY',
    value: 'auto|PERCENT%|BYTES',
    help: 'device memory of a program that does not ask for some, as in 25% of what all sessions may have, or 4G; auto: an equal part for each of N servers per GPU, half of what is left where there are more as they are wanted',
    parse: parseMemoryRule,
    fallback: { kind: 'auto' },
    shown: 'auto',
  } satisfies Option<MemoryRule>,
  'pinned-memory': {
    env: 'OUTBOARD_PINNED_MEMORY',
    value: 'BYTES|none',
    help: "of each GPU's memory, for each session: pinned host memory that kernels reach; what is more counts towards the session's memory",
    parse: (text) => (text === 'none' ? 0n : parseBytes(text)),
    fallback: null,
    shown: '256M, or less: a 32nd of the GPU',
  } satisfies Option<bigint | null>,
  'module-memory': {
    env: 'OUTBOARD_MODULE_MEMORY',
    value: 'BYTES',
    help: "of each GPU's memory, for each session: code and variables of modules, which are refused beyond",
    parse: parseBytes,
    fallback: null,
    shown: '512M, or less: a 64th of the GPU',
  } satisfies Option<bigint | null>,
  'image-memory': {
    env: 'OUTBOARD_IMAGE_MEMORY',
    value: 'BYTES',
    help: "of this machine's memory, for each process: images of the modules of its session, which are refused beyond, as much for those loaded ahead of it, and as much for those kept for later sessions",
    parse: parseBytes,
    fallback: null,
    shown: '1G, or less: an 8th of the memory over all processes there can be, but 512M at least',
  } satisfies Option<bigint | null>,
  libraries: {
    env: 'OUTBOARD_SERVE_LIBRARIES',
    value: 'WHERE',
    help: 'the folder of cuBLAS and cuBLASLt for programs that call those whole (outboard run --libraries=remote); auto looks for it, none serves none',
    parse: (text) => (text === 'auto' || text === 'none' ? text : path.resolve(text)),
    fallback: 'none',
  } satisfies Option<string>,
  warm: {
    env: 'OUTBOARD_WARM',
    value: 'none|context|handles',
    help: 'what processes that wait for a session have ready on their GPU: nothing, the context, or handles of --libraries, too. What is not ready costs a session its time, and what is costs memory',
    parse: parseChoice('none', 'context', 'handles'),
    fallback: 'handles',
    shown: 'handles',
  } satisfies Option<Warm>,
  'hello-timeout': {
    env: 'OUTBOARD_HELLO_TIMEOUT',
    value: 'SECONDS',
    help: 'what a guest gets to say who it is in',
    parse: parseCount(1, 3600, 'seconds'),
    fallback: 10,
    shown: '10',
  } satisfies Option<number>,
  'hello-limit': {
    env: 'OUTBOARD_HELLO_LIMIT',
    value: 'N',
    help: 'connections that may be there and have not said yet who they are',
    parse: parseCount(1, 100_000, 'how many connections,'),
    fallback: 4096,
    shown: '4096',
  } satisfies Option<number>,
  'hello-limit-per-address': {
    env: 'OUTBOARD_HELLO_LIMIT_PER_ADDRESS',
    value: 'N',
    help: 'of them, those from one address',
    parse: parseCount(1, 100_000, 'how many connections,'),
    fallback: 1024,
    shown: '1024',
  } satisfies Option<number>,
  'claim-timeout': {
    env: 'OUTBOARD_CLAIM_TIMEOUT',
    value: 'SECONDS',
    help: 'how long the other GPUs of a program with several are kept until it connects for each',
    parse: parseCount(1, 3600, 'seconds'),
    fallback: 10,
    shown: '10',
  } satisfies Option<number>,
  'queue-limit': {
    env: 'OUTBOARD_QUEUE_LIMIT',
    value: 'N',
    help: 'programs that may wait for a slot',
    parse: parseCount(0, 100_000, 'how many programs,'),
    fallback: 1000,
    shown: '1000',
  } satisfies Option<number>,
  'queue-limit-per-tenant': {
    env: 'OUTBOARD_QUEUE_LIMIT_PER_TENANT',
    value: 'N',
    help: 'of them, those of one tenant',
    parse: parseCount(0, 100_000, 'how many programs,'),
    fallback: 250,
    shown: '250',
  } satisfies Option<number>,
  'queue-timeout': {
    env: 'OUTBOARD_QUEUE_TIMEOUT',
    value: 'SECONDS',
    help: 'how long a program may wait for a slot; 0: for ever',
    parse: seconds(0),
    fallback: 0,
    shown: '0',
  } satisfies Option<number>,
  'queue-skip': yesNo(
    'OUTBOARD_QUEUE_SKIP',
    'let a program that fits pass those before it that do not',
  ),
  'queue-policy': {
    env: 'OUTBOARD_QUEUE_POLICY',
    value: 'POLICY',
    help: `who of those that wait has the turn: ${[...queuePolicies.keys()].join(', ')}`,
    parse: parseChoice(...queuePolicies.keys()),
    fallback: 'first-come',
    shown: 'first-come',
  } satisfies Option<string>,
  placement: {
    env: 'OUTBOARD_PLACEMENT',
    value: 'POLICY',
    help: `which GPU a session gets: ${[...placementPolicies.keys()].join(', ')}`,
    parse: parseChoice(...placementPolicies.keys()),
    fallback: 'worst-fit',
    shown: 'worst-fit',
  } satisfies Option<string>,
  functions: {
    env: 'OUTBOARD_FUNCTIONS',
    value: 'FILE',
    help: 'what is known of functions, by the names of their sessions (YAML): what they bear, beside whom they are slower, how many SMs they run on',
    parse: (text) => path.resolve(text),
    fallback: null,
    path: true,
  } satisfies Option<string | null>,
  admission: {
    env: 'OUTBOARD_ADMISSION',
    value: 'POLICY',
    help: `who may join whom on a GPU: ${[...admissionPolicies.keys()].join(', ')}; smore goes by --functions`,
    parse: parseChoice(...admissionPolicies.keys()),
    fallback: 'none',
    shown: 'none',
  } satisfies Option<string>,
  migration: {
    env: 'OUTBOARD_MIGRATION',
    value: 'POLICY',
    help: `which sessions are moved to other GPUs while they run: ${migrationChoices.join(', ')}`,
    parse: parseChoice(...migrationChoices),
    fallback: 'none',
    shown: 'none',
  } satisfies Option<string>,
  quota: {
    env: 'OUTBOARD_QUOTA',
    value: 'POLICY',
    help: `how GPU time is shared: ${[...quotaPolicies.keys()].join(', ')}`,
    parse: parseChoice(...quotaPolicies.keys()),
    fallback: 'device-time',
    shown: 'device-time',
  } satisfies Option<string>,
  'quota-window': {
    env: 'OUTBOARD_QUOTA_WINDOW',
    value: 'MS',
    help: "milliseconds of which a session's limit of GPU time is a part, for the policies that count time: short ones make for even work, in long ones a session may use its part in one go",
    parse: parseCount(windowBounds.least, windowBounds.most, 'milliseconds'),
    fallback: usualQuotaParameters.windowMs,
    shown: String(usualQuotaParameters.windowMs),
  } satisfies Option<number>,
  gate: {
    env: 'OUTBOARD_GATE',
    value: 'kernels|copies|sets,...',
    help: 'what counts as GPU time, and is held back when a share is used up, beside kernels',
    parse: parseGate,
    fallback: { copies: false, sets: false },
    shown: 'kernels',
  } satisfies Option<{ copies: boolean; sets: boolean }>,
  measure: {
    env: 'OUTBOARD_MEASURE',
    value: 'always|needed',
    help: "whether all kernels are measured; needed: not where a GPU serves one session at a time, if no limit of its share, of kernels or of idle time, no policy that counts blocks, and no --trace-dir needs it. A launch is cheaper then and may overlap the one before it; what sessions use of the GPU's time is not known",
    parse: parseChoice('always', 'needed'),
    fallback: 'always',
    shown: 'always',
  } satisfies Option<'always' | 'needed'>,
  'max-blocks': {
    env: 'OUTBOARD_MAX_BLOCKS',
    value: 'N,...',
    help: 'thread blocks that a full GPU runs in 5 ms, for the policies that count blocks: one number for all, or one for each GPU, in order',
    parse: (text) => text.split(',').map((one) => parseMaxBlocks(one.trim())),
    fallback: [usualQuotaParameters.maxBlocks],
    shown: String(usualQuotaParameters.maxBlocks),
  } satisfies Option<number[]>,
  'max-kernel-seconds': {
    env: 'OUTBOARD_MAX_KERNEL_SECONDS',
    value: 'SECONDS',
    help: 'a session with a kernel that runs for longer, by the wall and beside others of its GPU, is ended; 0: none is; a tenant may have its own',
    parse: seconds(0),
    fallback: 0,
    shown: '0',
  } satisfies Option<number>,
  'idle-timeout': {
    env: 'OUTBOARD_IDLE_TIMEOUT',
    value: 'SECONDS',
    help: 'a session that does nothing for so long is ended; 0: none is; a tenant may have its own',
    parse: seconds(0),
    fallback: 0,
    shown: '0',
  } satisfies Option<number>,
  'grace-disconnected': {
    env: 'OUTBOARD_GRACE_DISCONNECTED',
    value: 'SECONDS',
    help: 'a session whose network fell silent is kept for so long, with its memory, for its program to come back, and one whose connection was ended or reset for 5 seconds of that; 0: it ends with its connection',
    parse: seconds(0),
    fallback: 0,
    shown: '0',
  } satisfies Option<number>,
  'new-process': {
    env: 'OUTBOARD_NEW_PROCESS',
    value: 'auto|tenant|never',
    help: 'tenant: no API server process serves two tenants; auto: so where there are tenants and a new one is warm within a second',
    parse: parseChoice('auto', 'tenant', 'never'),
    fallback: 'auto',
    shown: 'auto',
  } satisfies Option<'auto' | 'tenant' | 'never'>,
  sandbox: {
    env: 'OUTBOARD_SANDBOX',
    value: 'auto|required|off',
    help: 'keep API server processes from files, networks and other processes (Landlock, seccomp); auto: where there are tenants and the kernel can',
    parse: parseChoice('auto', 'required', 'off'),
    fallback: 'auto',
    shown: 'auto',
  } satisfies Option<'auto' | 'required' | 'off'>,
  'pageable-access': {
    env: 'OUTBOARD_PAGEABLE_ACCESS',
    value: 'refuse|allow',
    help: 'whether tenants are served by GPUs whose kernels reach all memory of their process (HMM, ATS)',
    parse: parseChoice('refuse', 'allow'),
    fallback: 'refuse',
    shown: 'refuse',
  } satisfies Option<'refuse' | 'allow'>,
  grace: {
    env: 'OUTBOARD_GRACE',
    value: 'SECONDS',
    help: 'what sessions get to end by themselves when the server is told to stop',
    parse: seconds(0),
    fallback: 20,
    shown: '20',
  } satisfies Option<number>,
  'hang-timeout': {
    env: 'OUTBOARD_HANG_TIMEOUT',
    value: 'SECONDS',
    help: 'an API server process that gives no sign of life for so long is killed and replaced',
    parse: seconds(1),
    fallback: 30,
    shown: '30',
  } satisfies Option<number>,
  'network-timeout': {
    env: 'OUTBOARD_NETWORK_TIMEOUT',
    value: 'SECONDS',
    help: "a session is ended when the network has not answered for so long; guests' own limit has the same name",
    parse: parseCount(1, 3600, 'seconds'),
    fallback: 60,
    shown: '60',
  } satisfies Option<number>,
  gamma: {
    env: 'OUTBOARD_GAMMA',
    value: 'FACTOR',
    help: 'what the limits of GPU time on one GPU may add up to, for the policy dilu',
    parse: parseFactor,
    fallback: 1.5,
    shown: '1.5',
  } satisfies Option<number>,
  'trace-dir': {
    env: 'OUTBOARD_TRACE_DIR',
    value: 'DIR',
    help: 'record sessions there, the youngest 32, for `outboard trace`',
    parse: (text) => path.resolve(text),
    fallback: null,
    path: true,
  } satisfies Option<string | null>,
  'module-cache': {
    env: 'OUTBOARD_MODULE_CACHE',
    value: 'DIR|none',
    help: "keep programs' modules there, so that they need not be sent again after a restart",
    parse: (text) => (text === 'none' ? 'none' : path.resolve(text)),
    fallback: null,
    shown: '$CACHE_DIRECTORY/modules, else ~/.cache/outboard/modules',
    path: true,
  } satisfies Option<string | null>,
  'module-cache-size': {
    env: 'OUTBOARD_MODULE_CACHE_SIZE',
    value: 'BYTES',
    help: 'how much of them; what was not used for longest goes first',
    parse: parseBytes,
    fallback: 4n << 30n,
    shown: '4G',
  } satisfies Option<bigint>,
  'upload-cache': {
    env: 'OUTBOARD_UPLOAD_CACHE',
    value: 'DIR|none',
    help: 'keep uploads of tenants with `uploadCache: true` there, so that they need not be sent again; without tenants, those of everybody',
    parse: (text) => (text === 'none' ? 'none' : path.resolve(text)),
    fallback: null,
    shown: '$CACHE_DIRECTORY/uploads, else ~/.cache/outboard/uploads; none without tenants',
    path: true,
  } satisfies Option<string | null>,
  'upload-cache-size': {
    env: 'OUTBOARD_UPLOAD_CACHE_SIZE',
    value: 'BYTES',
    help: 'how much of them, of each tenant; what was not used for longest goes first',
    parse: parseBytes,
    fallback: 4n << 30n,
    shown: '4G',
  } satisfies Option<bigint>,
  'ready-file': readyFileOption('OUTBOARD_READY_FILE'),
  'log-level': logLevelOption,
  build: {
    env: 'OUTBOARD_BUILD',
    value: 'DIR',
    help: 'where the native parts were built',
    parse: (text) => path.resolve(text),
    fallback: defaultBuild,
    hidden: true,
    path: true,
  } satisfies Option<string>,
  'check-config': yesNo(
    'OUTBOARD_CHECK_CONFIG',
    'say whether all this is right, and which driver would be served, and serve nothing',
  ),
};

export type ServeValues = Values<typeof serveOptions>;
