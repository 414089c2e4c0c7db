import { existsSync } from 'node:fs';
import path from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { loadNative } from '../../../api-server/src/native.js';
import {
  admissionPolicies,
  migrationPolicies,
  placementPolicies,
  queuePolicies,
  quotaPolicies,
} from '../../policies/index.js';
import { type Api, newMetrics, startApi } from '../api/api.js';
import { socketTokenFile } from '../api/socket-token.js';
import { Descriptors } from '../base/descriptors.js';
import { OutboardError } from '../base/errors.js';
import { type Log, openLog, RecentLog } from '../base/log.js';
import { observers } from '../base/observers.js';
import { type Command, exitCodes } from '../cli/command.js';
import { clean, print } from '../cli/table.js';
import { formatListen, type Listen, passedSockets } from '../network/listeners.js';
import type { StrangersMost } from '../network/strangers.js';
import { readConfigFile } from '../options/config-file.js';
import { writeReadyFile } from '../options/daemon.js';
import { optionsHelp, readOptions } from '../options/options.js';
import { formatAddress } from '../options/values.js';
import { LiveOperations } from '../server/operations.js';
import {
  certificateWarnings,
  clearWarning,
  inClear,
  prepare,
  tlsOptions,
} from '../server/prepare.js';
import { type ServeValues, serveOptions } from '../server/serve-options.js';
import { Server } from '../server/server.js';
import { Service } from '../server/service.js';
import { openTracing, wantsTracing } from '../server/tracing.js';
import { TlsFront } from '../tls/front.js';

/** How many seconds sessions may take after the grace, when they have been told to end. */
const stopSeconds = 5;

export const serve: Command = {
  name: 'serve',
  summary: 'serve the GPUs of this machine to programs elsewhere',
  help: `Usage: outboard serve [OPTIONS]

Opens the GPUs, keeps a warm process ready for each session to come, and prints
\`listening on ADDRESS\` on stdout, a line for each, once guests can connect. The log goes to stderr.
Ends with SIGTERM or SIGINT: nobody new is taken, sessions get the grace to end by themselves and are
then told; a second signal tells them at once, a third ends everything at once.

${optionsHelp(serveOptions)}
`,
  options: serveOptions,
  async run(args) {
    const values = readServeOptions(args, process.env);
    // The processes of the slots read it themselves (proto/wire/silence.h).
    process.env['OUTBOARD_NETWORK_TIMEOUT'] = `${values['network-timeout']}`;
    return values['check-config'] ? checkConfig(values) : serveWith(values);
  },
};

/** The same checks as before a start; nothing is made and nobody served. */
async function checkConfig(values: ServeValues): Promise<number> {
  const log = await openLog('error', new RecentLog());
  try {
    const passed = passedSockets(process.env);
    const { driver } = await prepare({ ...preparing(values, log), passed, make: false });
    const names = driver.offered.map(({ name }) => name).join(', ');
    const lines = [
      `driver: ${driver.kind}, ${driver.file ?? driver.library}; it opens, with ${driver.gpus} GPU${driver.gpus === 1 ? '' : 's'}: ${names}`,
      ...(driver.instead === null ? [] : [`not NVIDIA's: ${driver.instead}`]),
      ...driver.left.map(({ message, remedy }) => `not served: ${message}. ${remedy}`),
      ...inClear(values.listen).map((listen) => `mind: ${clearWarning(listen)}`),
      ...certificateWarnings(values).map((warning) => `mind: ${warning}`),
      'the configuration is right',
    ];
    print(lines.map(clean));
    return exitCodes.ok;
  } catch (error) {
    told(log)(error);
    return exitCodes.unable;
  }
}

/** Flags and environment are read twice: they name the configuration file, and come before it. */
function readServeOptions(args: string[], env: NodeJS.ProcessEnv): ServeValues {
  const { config } = readOptions(serveOptions, args, env);
  if (config === null) return readOptions(serveOptions, args, env);
  return readOptions(serveOptions, args, env, readConfigFile(config, serveOptions));
}

async function serveWith(values: ServeValues): Promise<number> {
  keepHeapSmall();
  const recent = new RecentLog();
  const log = await openLog(values['log-level'], recent);
  // Done first, so that no child inherits variables that are meant for this process.
  const passed = passedSockets(process.env);
  const service = Service.from(process.env, () => loadNative(values.build));
  const prepared = await prepare({ ...preparing(values, log), passed, make: true }).catch(
    told(log),
  );
  if (!prepared) return exitCodes.unable;
  const { driver, tenants } = prepared;
  if (driver.instead !== null) log.info({ why: driver.instead }, "NVIDIA's driver is not served");
  for (const { code, message, remedy } of driver.left) log.warn({ code, remedy }, message);
  const metrics = newMetrics();
  const tracing = wantsTracing(process.env) ? await openTracing(process.env, log) : null;
  const server = new Server(
    {
      listen: passed.length > 0 ? passed : values.listen,
      build: values.build,
      ...prepared,
      serversPerGpu: values['servers-per-gpu'].warm,
      serversMost: values['servers-per-gpu'].most,
      slotIdleSeconds: values['slot-idle'],
      memoryRule: values['session-memory'],
      beside: { pinned: values['pinned-memory'], modules: values['module-memory'] },
      imageMemory: values['image-memory'],
      warm: values.warm,
      helloSeconds: values['hello-timeout'],
      strangers: strangersMost(values),
      claimSeconds: values['claim-timeout'],
      queueMax: values['queue-limit'],
      queueMaxOfTenant: values['queue-limit-per-tenant'],
      queueSeconds: values['queue-timeout'],
      queueSkip: values['queue-skip'],
      quota: {
        policy: values.quota,
        build: values.build,
        parameters: values['max-blocks'].map((maxBlocks) => ({
          maxBlocks,
          windowMs: values['quota-window'],
        })),
      },
      gated: values.gate,
      measure: values.measure,
      kernelSeconds: values['max-kernel-seconds'],
      idleSeconds: values['idle-timeout'],
      graceDisconnectedSeconds: values['grace-disconnected'],
      newProcess: values['new-process'],
      allowPageable: values['pageable-access'] === 'allow',
      parameters: { omega: 1, gamma: values.gamma },
      graceSeconds: values.grace,
      stopSeconds,
      hangSeconds: values['hang-timeout'],
    },
    tracing ? observers([metrics, tracing.observer]) : metrics,
    log,
  );
  const measured = values.measure === 'needed' ? measuredAnyway(values) : null;
  if (measured) log.info(`--measure needed: kernels are measured nevertheless ${measured}`);
  const operations = new LiveOperations(server, recent);
  const front = tlsFront(values, server, log);
  const patience = values.grace + 2 * stopSeconds;
  const stopped = stopOnSignal(server, front, () => service?.stopping(patience));
  const descriptors = new Descriptors(log);
  let api: Api | undefined;
  try {
    await server.start();
    for (const listen of inClear(server.open)) log.warn(clearWarning(listen));
    for (const warning of certificateWarnings(values)) log.warn(warning);
    if (front) server.listening.push(`tls://${formatAddress(await front.start())}`);
    api = await startApi({
      operations,
      metrics,
      // With tenants, who is on this machine may do nothing for that alone, even if the file has no operator.
      authorise: tenants && ((token) => tenants.operator(token)),
      listen: values.http,
      log,
      webRoot: webRoot(values.build),
      policies,
    });
    tellReady(server.listening, api.addresses, values['ready-file']);
    service?.ready(`listening on ${server.listening.join(', ')}`);
  } catch (error) {
    // It is no failure if a signal came before there was anything to end.
    if (!stopped.asked) {
      front?.kill();
      await server.stop('the server cannot start');
      return told(log)(error) ?? exitCodes.unable;
    }
  }
  await stopped.done;
  await api?.close();
  descriptors.close();
  tenants?.close();
  await tracing?.close();
  return exitCodes.ok;
}

function preparing(values: ServeValues, log: Log) {
  // What a slot's process must not find: the access tokens of the API's sockets.
  const secrets = values.http.flatMap((one) =>
    one.kind === 'unix' ? [socketTokenFile(one.path)] : [],
  );
  return { values, secrets, log };
}

/** Logs what an operator can act on; anything else is our own error, and thrown on. */
function told(log: Log) {
  return (error: unknown) => {
    if (!(error instanceof OutboardError)) throw error;
    log.fatal({ code: error.code, remedy: error.remedy }, error.message);
    return undefined;
  };
}

/** Without this V8 would let garbage double the heap before it collects it, on a machine whose memory others need. */
function keepHeapSmall() {
  setFlagsFromString('--heap-growing-percent=20');
}

function policies() {
  const placement = [...placementPolicies.values()];
  const quota = [...quotaPolicies.values()];
  return {
    queue: [...queuePolicies.values()].map(({ name, summary }) => ({ name, summary })),
    admission: [...admissionPolicies.values()].map(({ name, summary }) => ({ name, summary })),
    placement: placement.map(({ name, summary }) => ({ name, summary })),
    migration: [...migrationPolicies.values()].map(({ name, summary }) => ({ name, summary })),
    quota: quota.map(({ name, summary, unit, periodMs }) => ({ name, summary, unit, periodMs })),
  };
}

/** The folder of the built web page; null: it is not built. */
function webRoot(build: string): string | null {
  const folder = path.join(build, 'web');
  return existsSync(path.join(folder, 'index.html')) ? folder : null;
}

function strangersMost(values: ServeValues): StrangersMost {
  return { all: values['hello-limit'], ofAddress: values['hello-limit-per-address'] };
}

/** Null: guests cannot come by TLS here. */
function tlsFront(values: ServeValues, server: Server, log: Log): TlsFront | null {
  const tls = tlsOptions(values);
  if (!tls) return null;
  const { build, 'hello-timeout': helloSeconds } = values;
  const strangers = strangersMost(values);
  return new TlsFront({ build, ...tls, helloSeconds, strangers }, log, (socket, from) =>
    server.arrivals.accept(socket, from),
  );
}

function tellReady(texts: string[], http: Listen[], readyFile: string | null) {
  writeReadyFile(readyFile, texts);
  const operators = http.map((listen) =>
    listen.kind === 'tcp' ? `http://${formatListen(listen)}/` : formatListen(listen),
  );
  const lines = [
    ...texts.map((text) => `listening on ${text}`),
    ...operators.map((text) => `operators: ${text}`),
  ];
  // Whoever does not listen any more, or has no room, is no reason not to serve.
  process.stdout.on('error', () => {});
  process.stdout.write(`${lines.join('\n')}\n`);
}

/** `asked`: a signal has come; `done` resolves when it has ended the server. */
function stopOnSignal(server: Server, front: TlsFront | null, tell: () => void) {
  const state = { asked: false, done: Promise.resolve() };
  let signals = 0;
  state.done = new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => {
        signals++;
        if (signals > 2) {
          front?.kill();
          return server.destroy();
        }
        state.asked = true;
        tell();
        // Sessions go through the front, so it is closed last.
        server.stop().then(async () => {
          const timer = setTimeout(() => front?.kill(), stopSeconds * 1000);
          await front?.close();
          clearTimeout(timer);
          resolve();
        });
      });
    }
  });
  return state;
}

/** Why a server measures all kernels that was told to measure what is needed; null: it does not. */
function measuredAnyway(values: ServeValues): string | null {
  if (values['servers-per-gpu'].most > 1)
    return 'where a GPU may serve several sessions; with --servers-per-gpu 1 it serves one at a time';
  if (values['trace-dir'] !== null) return 'for --trace-dir';
  if (values['max-kernel-seconds'] > 0) return 'for --max-kernel-seconds';
  if (values['idle-timeout'] > 0) return 'for --idle-timeout';
  return null;
}
