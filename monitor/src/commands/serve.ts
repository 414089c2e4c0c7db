import { renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build as defaultBuild } from '../../../scripts/setup/paths.mjs';
import { type Command, exitCodes } from '../command.js';
import { chooseDriver } from '../devices.js';
import { OutboardError } from '../errors.js';
import { type Log, logLevels, openLog } from '../log.js';
import { type Option, optionsHelp, readOptions } from '../options.js';
import { Server } from '../server.js';
import { type Address, formatAddress, parseAddress, parseChoice, parseCount } from '../values.js';

const options = {
  listen: {
    env: 'OUTBOARD_LISTEN',
    value: 'HOST:PORT',
    help: 'where guests connect; port 0: any free one',
    parse: (text) => parseAddress(text, 0),
    fallback: { host: '127.0.0.1', port: 4460 },
    shown: '127.0.0.1:4460',
  } satisfies Option<Address>,
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
    help: 'how many GPUs to serve, the first N; software GPUs are made to order',
    parse: parseCount(1, 64, 'how many GPUs,'),
    fallback: null,
    shown: 'all; 1 with software',
  } satisfies Option<number | null>,
  'servers-per-gpu': {
    env: 'OUTBOARD_SERVERS_PER_GPU',
    value: 'N',
    help: 'warm API server processes on each GPU, which is how many sessions it serves at a time',
    parse: parseCount(1, 64, 'how many processes,'),
    fallback: 2,
    shown: '2',
  } satisfies Option<number>,
  'hello-timeout': {
    env: 'OUTBOARD_HELLO_TIMEOUT',
    value: 'SECONDS',
    help: 'what a guest gets to say who it is in',
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
  'ready-file': {
    env: 'OUTBOARD_READY_FILE',
    value: 'FILE',
    help: 'written with the address once guests can connect',
    parse: (text) => path.resolve(text),
    fallback: null,
  } satisfies Option<string | null>,
  'log-level': {
    env: 'OUTBOARD_LOG_LEVEL',
    value: 'LEVEL',
    help: `of the log on stderr: ${logLevels.join(', ')}`,
    parse: parseChoice(...logLevels),
    fallback: 'info',
    shown: 'info',
  } satisfies Option<string>,
  build: {
    env: 'OUTBOARD_BUILD',
    value: 'DIR',
    help: 'where the native parts were built',
    parse: (text) => path.resolve(text),
    fallback: defaultBuild,
    hidden: true,
  } satisfies Option<string>,
};

/** What sessions get to end in when the server is told to stop. */
const stopSeconds = 5;

export const serve: Command = {
  name: 'serve',
  summary: 'serve the GPUs of this machine to programs elsewhere',
  help: `Usage: outboard serve [OPTIONS]

Opens the GPUs, keeps a warm process ready for each session to come, and prints
\`listening on HOST:PORT\` on stdout once guests can connect. The log goes to stderr.
Ends with SIGTERM or SIGINT: sessions are told, a second signal ends them at once.

${optionsHelp(options)}
`,
  async run(args) {
    const values = readOptions(options, args, process.env);
    const log = await openLog(values['log-level']);
    const driver = await chooseDriver(values.device, values.gpus, values.build).catch(told(log));
    if (!driver) return exitCodes.unable;
    const server = new Server(
      {
        listen: values.listen,
        build: values.build,
        driver,
        serversPerGpu: values['servers-per-gpu'],
        helloSeconds: values['hello-timeout'],
        queueMax: values['queue-limit'],
        stopSeconds,
      },
      log,
    );
    const stopped = stopOnSignal(server);
    try {
      tellReady(await server.start(), values['ready-file']);
    } catch (error) {
      // A signal that came too early to have anything to end is no failure.
      if (!stopped.asked) return told(log)(error) ?? exitCodes.unable;
    }
    await stopped.done;
    return exitCodes.ok;
  },
};

/** Logs what an operator can act on; anything else is our own error, and thrown on. */
function told(log: Log) {
  return (error: unknown) => {
    if (!(error instanceof OutboardError)) throw error;
    log.fatal({ code: error.code, remedy: error.remedy }, error.message);
    return undefined;
  };
}

function tellReady(address: Address, readyFile: string | null) {
  const text = formatAddress(address);
  if (readyFile !== null) {
    // Renamed into place, so that whoever waits for the file never reads half of it.
    writeFileSync(`${readyFile}.${process.pid}`, `${text}\n`);
    renameSync(`${readyFile}.${process.pid}`, readyFile);
  }
  process.stdout.write(`listening on ${text}\n`);
}

/** `asked`: a signal has come; `done` resolves when it has ended the server. */
function stopOnSignal(server: Server) {
  const state = { asked: false, done: Promise.resolve() };
  state.done = new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => {
        if (state.asked) return server.kill();
        state.asked = true;
        server.stop().then(resolve);
      });
    }
  });
  return state;
}
