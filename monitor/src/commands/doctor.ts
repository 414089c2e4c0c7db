import { command, exitCodes } from '../cli/command.js';
import { clean, print, printJson } from '../cli/table.js';
import { yesNo } from '../options/options.js';
import { parseCount } from '../options/values.js';
import { accessTokenEnvironment, requireAccessToken } from '../run/access-token.js';
import { examine, milliseconds, type Step } from '../run/doctor.js';
import { askedBy, guestEnvironment, options as runOptions, tlsEnvironment } from './run.js';

const {
  server,
  'token-file': accessTokenFile,
  ca,
  cert,
  key,
  class: kind,
  gpus,
  'gpu-model': gpuModel,
  memory,
  share,
  build,
} = runOptions;

const options = {
  server,
  'token-file': accessTokenFile,
  ca,
  cert,
  key,
  class: kind,
  gpus,
  'gpu-model': gpuModel,
  memory,
  share,
  wait: {
    env: 'OUTBOARD_DOCTOR_WAIT',
    value: 'SECONDS',
    help: 'how long the first session may wait for a GPU',
    parse: parseCount(0, 86_400),
    fallback: 20,
    shown: '20',
  },
  timeout: {
    env: 'OUTBOARD_CONNECT_TIMEOUT',
    value: 'SECONDS',
    help: 'how long to connect and be answered may take',
    parse: parseCount(1, 3600),
    fallback: 10,
    shown: '10',
  },
  json: yesNo('OUTBOARD_JSON', 'write JSON, whose form is stable, for programs'),
  build,
};

/** By the step that fails. */
const codes: Record<Step['name'], number> = {
  connection: exitCodes.unable,
  server: exitCodes.unable,
  tenant: exitCodes.refused,
  gpus: exitCodes.refused,
  queue: exitCodes.refused,
  attach: exitCodes.noGpu,
  module: exitCodes.noKernel,
  kernel: exitCodes.noKernel,
};

export const doctor = command({
  name: 'doctor',
  summary: 'say, as a tenant, whether a server can be used, and run a first kernel',
  about: `
Looks at a server as a program of \`outboard run\` would, with the same options: the way there, who
answers, whether the access token is good, which GPUs there are and what of them could be had now, whether one
would have to wait. Then a small program of ours attaches, loads a module, runs its kernel and looks at
the result. Each step with its time.

Ends with 0 when all is well, 2 when an option is not understood, 3 when nobody of ours answers, 4 when the server refuses, 5 when no
session begins, 6 when a session begins and the kernel does not run or is wrong.`,
  options,
  async run(values) {
    requireAccessToken(values['token-file'], process.argv, process.env);
    const env = guestEnvironment(values.build, process.env, {
      OUTBOARD_TOKEN_FILE: values['token-file'] ?? undefined,
      ...accessTokenEnvironment(process.argv),
      ...tlsEnvironment(values),
      OUTBOARD_CLASS: values.class ?? undefined,
      OUTBOARD_GPUS: values.gpus?.toString(),
      OUTBOARD_GPU_MODEL: values['gpu-model'] ?? undefined,
      OUTBOARD_MEMORY: values.memory?.toString(),
      OUTBOARD_SHARE: values.share ?? undefined,
      OUTBOARD_LOG: '',
      OUTBOARD_CONNECT_TIMEOUT: String(values.timeout),
    });
    const steps: Step[] = [];
    const failed = await examine(
      askedBy(values, env, { connectSeconds: values.timeout, waitSeconds: values.wait }),
      (step) => {
        steps.push(step);
        if (!values.json) show(step);
      },
    );
    if (values.json) printJson({ ok: failed === null, failed: failed?.name ?? null, steps });
    return failed === null ? exitCodes.ok : codes[failed.name];
  },
});

function show({ name, ok, text, remedy, seconds }: Step) {
  const time = seconds === null ? '' : milliseconds(seconds);
  const line = `${ok ? 'ok  ' : 'BAD '}  ${name.padEnd(10)}  ${time.padStart(10)}  ${clean(text)}`;
  print(remedy === null ? [line] : [line, `      ${remedy}`]);
}
