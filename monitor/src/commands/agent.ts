import path from 'node:path';
import { Agent } from '../agent/agent.js';
import { OutboardError } from '../base/errors.js';
import { type Log, openLog } from '../base/log.js';
import { type Command, exitCodes } from '../cli/command.js';
import { formatListen, type Listen, parseListen } from '../network/listeners.js';
import {
  logLevelOption,
  readyFileOption,
  requireReadyFile,
  writeReadyFile,
} from '../options/daemon.js';
import { BadValue, type Option, optionsHelp, readOptions, UsageError } from '../options/options.js';
import { type Address, parseAddress, parseCount, usualPorts } from '../options/values.js';

const file = (text: string) => path.resolve(text);

const options = {
  listen: {
    env: 'OUTBOARD_AGENT_LISTEN',
    value: 'ADDRESS',
    help: 'where guests of this machine connect: unix:PATH, or a loopback HOST:PORT',
    parse: parseOwn,
    fallback: { kind: 'tcp', host: '127.0.0.1', port: 4460 },
    shown: '127.0.0.1:4460',
  } satisfies Option<Exclude<Listen, { kind: 'fd' }>>,
  server: {
    env: 'OUTBOARD_AGENT_SERVER',
    value: 'HOST:PORT',
    help: 'the TLS address of the server (--tls-listen), port 4462 without one; several separated by commas are tried in turn',
    parse: parseUpstreams,
    fallback: null,
    shown: 'none: it must be named',
  } satisfies Option<Address[] | null>,
  ca: {
    env: 'OUTBOARD_AGENT_CA',
    value: 'FILE',
    help: "authorities that sign servers' certificates (PEM)",
    parse: file,
    fallback: null,
    shown: "the system's",
  } satisfies Option<string | null>,
  cert: {
    env: 'OUTBOARD_AGENT_CERT',
    value: 'FILE',
    help: 'client certificate, where the server asks for one (PEM)',
    parse: file,
    fallback: null,
  } satisfies Option<string | null>,
  key: {
    env: 'OUTBOARD_AGENT_KEY',
    value: 'FILE',
    help: 'its key (PEM)',
    parse: file,
    fallback: null,
  } satisfies Option<string | null>,
  'server-name': {
    env: 'OUTBOARD_AGENT_SERVER_NAME',
    value: 'NAME',
    help: "what the server's certificate must be for",
    parse: (text) => text,
    fallback: null,
    shown: 'the host of --server',
  } satisfies Option<string | null>,
  'token-file': {
    env: 'OUTBOARD_TOKEN_FILE',
    value: 'FILE',
    help: 'the access token for guests that bring none',
    parse: file,
    fallback: null,
  } satisfies Option<string | null>,
  'connect-timeout': {
    env: 'OUTBOARD_AGENT_CONNECT_TIMEOUT',
    value: 'SECONDS',
    help: 'to connect to a server, all of them together',
    parse: parseCount(1, 3600, 'seconds'),
    fallback: 8,
    // Less than the guest library waits for an answer, so that it hears why there is none.
    shown: '8',
  } satisfies Option<number>,
  'hello-timeout': {
    env: 'OUTBOARD_AGENT_HELLO_TIMEOUT',
    value: 'SECONDS',
    help: 'what a guest gets to say who it is in',
    parse: parseCount(1, 3600, 'seconds'),
    fallback: 10,
    shown: '10',
  } satisfies Option<number>,
  grace: {
    env: 'OUTBOARD_AGENT_GRACE',
    value: 'SECONDS',
    help: 'what guests get to end by themselves when the agent is told to stop',
    parse: parseCount(0, 7 * 24 * 3600, 'seconds'),
    fallback: 25,
    shown: '25',
  } satisfies Option<number>,
  'ready-file': readyFileOption('OUTBOARD_AGENT_READY_FILE'),
  'log-level': logLevelOption,
};

export const agent: Command = {
  name: 'agent',
  summary: 'speak TLS to a server for the programs of this machine',
  help: `Usage: outboard agent --server HOST:PORT [OPTIONS]

Takes connections of programs beside it, without TLS, and passes them on to an \`outboard serve\`
by TLS 1.3, with a client certificate and an access token if it has them. Point OUTBOARD_SERVER of the
programs at --listen. Whoever can connect there acts with the credentials of the agent: a Unix
socket (mode 0600) is its owner's alone. Certificates and access token are read again when their files
change. SIGTERM: nobody new, and the end when the last program has gone, or after --grace; a second
signal ends it at once.

${optionsHelp(options)}
`,
  options,
  async run(args) {
    const values = readOptions(options, args, process.env);
    const { server, cert, key, ca } = values;
    if (server === null) {
      throw new UsageError('no server: name it with --server or OUTBOARD_AGENT_SERVER');
    }
    if ((cert === null) !== (key === null)) {
      throw new UsageError('--cert and --key go together: one of them is missing');
    }
    const log = await openLog(values['log-level']);
    try {
      requireReadyFile(values['ready-file']);
      const agent = new Agent(
        {
          listen: values.listen,
          servers: server,
          files: { cert, key, ca },
          accessTokenFile: values['token-file'],
          serverName: values['server-name'],
          connectSeconds: values['connect-timeout'],
          helloSeconds: values['hello-timeout'],
        },
        log,
      );
      const stopped = untilStopped(agent, values.grace, log);
      tellReady(formatListen(await agent.start()), values['ready-file']);
      await stopped;
      log.info('stopped');
      return exitCodes.ok;
    } catch (error) {
      if (!(error instanceof OutboardError)) throw error;
      log.fatal({ code: error.code, remedy: error.remedy }, error.message);
      return exitCodes.unable;
    }
  },
};

function untilStopped(agent: Agent, graceSeconds: number, log: Log): Promise<void> {
  let asked = false;
  return new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.on(signal, () => {
        if (asked) return agent.kill();
        asked = true;
        log.info({ guests: agent.connections }, 'stopping');
        const timer = setTimeout(() => agent.kill(), graceSeconds * 1000);
        agent.stop().then(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  });
}

function tellReady(address: string, readyFile: string | null) {
  writeReadyFile(readyFile, [address]);
  // Whoever does not listen any more, or has no room, is no reason not to serve.
  process.stdout.on('error', () => {});
  process.stdout.write(`listening on ${address}\n`);
}

function parseOwn(text: string): Exclude<Listen, { kind: 'fd' }> {
  const listen = parseListen(text);
  if (listen.kind === 'fd') throw new BadValue('expected unix:PATH or HOST:PORT');
  return listen;
}

function parseUpstreams(text: string): Address[] {
  const servers = text.split(',').map((server) => parseAddress(server.trim(), 1, usualPorts.tls));
  if (servers.length > 8) throw new BadValue('at most 8 servers can be named');
  return servers;
}
