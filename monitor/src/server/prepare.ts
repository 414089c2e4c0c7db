// All that can be known to be wrong before a server starts: `outboard serve` begins with it, and with --check-config
// it is everything that is done.
import {
  type AdmissionPolicy,
  type FunctionsTable,
  nothingProfiled,
} from '../../policies/admission.js';
import {
  admissionPolicies,
  migrationPolicies,
  placementPolicies,
  queuePolicies,
} from '../../policies/index.js';
import type { MigrationPolicy } from '../../policies/migration.js';
import type { PlacementPolicy } from '../../policies/placement.js';
import type { QueuePolicy } from '../../policies/queue.js';
import { OutboardError } from '../base/errors.js';
import type { Log } from '../base/log.js';
import { chooseDriver, type Driver } from '../devices/devices.js';
import { findLibraries, hasLibraries } from '../devices/libraries.js';
import { formatListen, type Listen, requireFree } from '../network/listeners.js';
import { requireReadyFile } from '../options/daemon.js';
import type { Address } from '../options/values.js';
import { readFunctionsFile } from '../queue/functions-file.js';
import {
  type CacheFolder,
  type CacheKind,
  moduleCache,
  openCacheFolder,
  uploadCache,
} from '../slots/cache-folder.js';
import { openSandbox, type Sandbox } from '../slots/sandbox.js';
import { isLocal, requireLocal, requireOperators, Tenants } from '../tenants/tenants.js';
import { type Clients, requireTlsFiles } from '../tls/front.js';
import type { TlsFiles } from '../tls/tls.js';
import { whyDisbelieved } from '../tls/tls.js';
import { TraceFolder } from '../trace/folder.js';
import type { ServeValues } from './serve-options.js';

export interface PrepareOptions {
  values: ServeValues;
  /** Sockets that systemd has passed, which are listened on instead of those of the options. */
  passed: readonly Listen[];
  /** Files that a slot's process must not find, beside the TLS key. */
  secrets: readonly string[];
  /** Whether folders are made that are not there. */
  make: boolean;
  log: Log;
}

export interface Prepared {
  driver: Driver;
  /** Null: there is no tenants file. Followed until it is closed. */
  tenants: Tenants | null;
  traces: TraceFolder | null;
  modules: CacheFolder | null;
  uploads: CacheFolder | null;
  /** The folder of the libraries that sessions may call whole; null: none. */
  libraries: string | null;
  sandbox: Sandbox | null;
  placement: PlacementPolicy;
  queuePolicy: QueuePolicy;
  admission: AdmissionPolicy;
  functions: FunctionsTable;
  /** Null: none. */
  migration: MigrationPolicy<unknown> | null;
}

export interface TlsOptions {
  listen: Address;
  files: TlsFiles;
  clients: Clients;
}

/** Null: guests cannot come by TLS here. */
export function tlsOptions(values: ServeValues): TlsOptions | null {
  const { 'tls-listen': listen, 'tls-client-ca': ca } = values;
  if (!listen) return null;
  const files = { cert: values['tls-cert'], key: values['tls-key'], ca };
  return { listen, files, clients: values['tls-clients'] ?? (ca === null ? 'none' : 'ask') };
}

/** Addresses beyond this machine where tokens, and all that programs send, go in clear. */
export function inClear(listens: readonly Listen[]): Listen[] {
  return listens.filter((listen) => listen.kind === 'tcp' && !isLocal(listen));
}

/** What is said of such an address. */
export function clearWarning(listen: Listen): string {
  return `${formatListen(listen)} is without TLS: whoever is on the way reads access tokens, programs and data, and can use the tokens; listen by --tls-listen, or only on a network that you trust with them`;
}

/** What is said of a certificate that programs will refuse. It can be read. */
export function certificateWarnings(values: ServeValues): string[] {
  const cert = tlsOptions(values)?.files.cert ?? null;
  const whys = cert === null ? [] : whyDisbelieved(cert);
  return whys.map((why) => `programs will refuse this server's certificate: ${cert} ${why}`);
}

/** Throws the OutboardError of the first thing that is wrong. */
export async function prepare(options: PrepareOptions): Promise<Prepared> {
  const { values, passed, make, log } = options;
  const tls = tlsOptions(values);
  const tlsListens: Listen[] = tls ? [{ kind: 'tcp', ...tls.listen }] : [];
  const { tenants: file, http } = values;
  // Who can reach passed sockets is seen when they are listened on.
  const listens = passed.length > 0 ? [] : values.listen;
  if (file === null) {
    log.info('there is no tenants file: only this machine is served, and everybody on it');
    requireLocal([...listens, ...tlsListens], formatListen);
  }
  const tenants = file === null ? null : new Tenants(file, log);
  try {
    if (tenants) requireOperators(http, tenants, formatListen);
    if (tls) requireTlsFiles(tls.files, tls.clients);
    requireReadyFile(values['ready-file']);
    const known = admissionOf(values);
    const driver = await chooseDriver(values.device, values.gpus, values.build);
    const kept = prepareFolders(options, driver);
    // Last: where the server runs already, everything else has been looked at.
    await requireFree([...listens, ...tlsListens], http);
    return {
      tenants,
      driver,
      ...kept,
      ...known,
      placement: placementOf(values),
      queuePolicy: queuePolicyOf(values),
      migration: migrationPolicies.get(values.migration) ?? null,
    };
  } catch (error) {
    tenants?.close();
    throw error;
  } finally {
    if (!make) tenants?.close();
  }
}

function prepareFolders({ values, secrets, make, log }: PrepareOptions, driver: Driver) {
  const { tenants, 'trace-dir': folder, 'tls-key': key } = values;
  const cache = (kind: CacheKind, named: string | null, bytes: bigint) =>
    named === 'none' ? null : openCacheFolder(kind, named, bytes, process.env, log, make);
  const kept = {
    traces: folder === null ? null : new TraceFolder(folder, undefined, make),
    modules: cache(moduleCache, values['module-cache'], values['module-cache-size']),
    // Without tenants uploads are kept only where a folder for them is named.
    uploads:
      tenants === null && values['upload-cache'] === null
        ? null
        : cache(uploadCache, values['upload-cache'], values['upload-cache-size']),
    libraries: librariesOf(values.libraries, driver, log),
  };
  const sandbox = openSandbox({
    // Among people of one machine there is nobody to keep apart, and it costs them something: what
    // processes of the software device share by way of /proc.
    wanted: values.sandbox === 'auto' && tenants === null ? 'off' : values.sandbox,
    build: values.build,
    driver,
    ...kept,
    traces: folder,
    secrets: key === null ? secrets : [...secrets, key],
    log,
  });
  return { ...kept, sandbox };
}

// Where the server was started from `outboard run` ours are no libraries to serve.
function librariesOf(wanted: string, { env }: Driver, log: Log): string | null {
  if (wanted === 'none') return null;
  const folder = wanted === 'auto' ? findLibraries(env) : wanted;
  if (folder === null) {
    log.warn(
      { code: 'OB_LIBRARIES' },
      'no cuBLAS for CUDA 13 was found here: programs are served with their own (--libraries FOLDER names one)',
    );
    return null;
  }
  if (!hasLibraries(folder))
    throw new OutboardError('OB_LIBRARIES', folder, 'has no libcublas.so.13 and libcublasLt.so.13');
  log.info({ folder }, 'programs may call the cuBLAS of this machine (--libraries=remote)');
  return folder;
}

/** Who may join whom, and what is known of functions. */
function admissionOf({ admission: name, functions: file }: ServeValues) {
  const admission = admissionPolicies.get(name);
  if (!admission) throw new Error(`no policy ${name}`);
  // A table of nothing would take all pairs for unknown ones.
  if (name !== 'none' && file === null)
    throw new OutboardError('OB_FUNCTIONS_FILE', `--admission ${name} goes by --functions FILE`);
  return { admission, functions: file === null ? nothingProfiled : readFunctionsFile(file) };
}

function queuePolicyOf({ 'queue-policy': name }: ServeValues): QueuePolicy {
  const policy = queuePolicies.get(name);
  if (!policy) throw new Error(`no policy ${name}`);
  return policy;
}

function placementOf({ placement: name }: ServeValues): PlacementPolicy {
  const placement = placementPolicies.get(name);
  if (!placement) throw new Error(`no policy ${name}`);
  return placement;
}
