// The page docs/clients.md.
import { versionsOfClients } from '../../scripts/setup/clients.mjs';
import type { Recorded, StepCosts } from './costs.js';
import type { Script } from './scripts.js';

export interface ScriptRow {
  script: Script;
  /** Checks that were passed; undefined where it is not run natively. */
  natively?: number;
  remoted: number;
}

/** Lines of a table: what steps of PyTorch's host side cost. */
export function stepLines(steps: StepCosts): string[] {
  return Object.entries(steps).map(([name, cost]) => {
    const { calls, commands, roundTrips, bytesSent, bytesReceived } = cost;
    return `| ${name} | ${calls} | ${commands} | ${roundTrips} | ${bytesSent} | ${bytesReceived} |`;
  });
}

/** Lines of a table: what an inference costs, by whose cuBLAS it calls. */
export function inferenceLines(inferences: Record<string, StepCosts>): string[] {
  return Object.entries(inferences).flatMap(([whose, steps]) =>
    Object.values(steps).map(({ nodes, calls, commands, roundTrips, bytesSent, bytesReceived }) => {
      const figures = [nodes, calls, commands, roundTrips, bytesSent, bytesReceived];
      return `| ${whose} | ${figures.join(' | ')} |`;
    }),
  );
}

/** The page with these in place of its own. */
export function withRecorded(text: string, { steps, inferences }: Recorded): string {
  const replaced = (page: string, head: string, lines: string[]) => {
    const table = new RegExp(`(?<=\\| ${head} \\|.*\\n.*\\n)(?:\\|.*\\n)*`);
    if (!table.test(page)) throw new Error(`the page has no table that begins with ${head}`);
    return page.replace(table, `${lines.join('\n')}\n`);
  };
  const withSteps = replaced(text, 'step', stepLines(steps));
  return replaced(withSteps, 'cuBLAS', inferenceLines(inferences));
}

export function page(
  rows: ScriptRow[],
  runtimes: string[],
  { steps, inferences }: Recorded,
): string {
  const versions = Object.entries(versionsOfClients()).map(
    ([name, version]) => `| \`${name}\` | ${version} |`,
  );
  const lines = rows.map(
    ({ script: { name, way, computeCapability, traits, notNatively, note }, natively, remoted }) =>
      `| \`${name}.py\`${way ? `, ${way}` : ''} | ${computeCapability ?? (traits ? '9.0' : '12.0')} | ` +
      `${natively ?? '–'} | ${remoted} | ${notNatively ? `not natively: ${notNatively}` : (note ?? '')} |`,
  );
  return `# Real programs, unpatched

Written by \`npm run test:clients -- --write\`. The packages are those of PyPI as they are; nothing of them is changed, and nothing
of ours is linked to them. Natively they run on the software device ([how](software-device/clients.md)), remoted through
guest library, wire and an \`outboard serve\` on the same device:

\`\`\`
outboard run -- python train.py
\`\`\`

Each check compares what is computed with NumPy. What is computed remoted is the same to the bit as natively.

| script of \`test/clients\` | compute capability | checks natively | remoted | |
|---|--:|--:|--:|---|
${lines.join('\n')}

\`npm test\` checks some of it, \`npm run test:all\` all scripts of CuPy, Numba and tinygrad.

| package | version |
|---|---|
${versions.join('\n')}

ONNX Runtime's CUDA provider is compared with its CPU provider: element-wise kernels, matrix products, reductions, softmax,
convolution, pooling, batch and layer normalisation, attention, with its own kernels, cuDNN and cuBLAS; and a whole model that
answers questions, shaped as BERT is, with weights that a seed gives. Versions from 1.31 on hold no PTX.

Where cuBLAS is the server's, a program must wait for the network no more often than with its own: that is checked, too.

### What an inference costs

\`onnx_bert_large.py\` runs a model of BERT-large's shape (24 layers, 1024 wide, 384 words) on a device whose machine code is
taken and does nothing: what is computed is not looked at. A kernel is one command, and so is a call of the server's cuBLAS,
so that the commands must not be more than the nodes of the graph, as ONNX Runtime has optimised it, and ten
(\`npm run test:clients -- onnx_bert_large\` compares with \`test/costs/onnx*.json\`). It waits for its two results.

| cuBLAS | nodes | calls of the driver | commands | round trips | bytes sent | received |
|---|--:|--:|--:|--:|--:|--:|
${inferenceLines(inferences).join('\n')}

## CUDA runtimes

${runtimes.join(', ')}: each shared library, and each static one that there is (12.9 and from 13.0 on), with the legacy and the per-thread default
stream: memory, copies, launches of registered kernels (\`cudaLaunchKernel\`, \`cudaLaunchKernelExC\`), variables, streams, events,
host functions, allocation in the order of streams, captures and graphs, \`cudaGetDriverEntryPoint\`, errors. Several of them in one
process (11.8, 12.0, 12.9, 13.5) share the primary context: memory of one is memory of the others, and their threads run at
the same time. \`cuGetProcAddress\` is asked for functions as drivers from 1.0 to 99.9 have them. Natively and remoted say the same.

## PyTorch

| what | how it goes |
|---|---|
| \`is_available\`, properties, \`mem_get_info\`, statistics, summaries | as on a GPU of the size of the session |
| tensors there and back, pinned and not, \`non_blocking\`; \`zeros\`, \`zero_\`, \`clone\`, slices | work: these are copies and fills |
| streams, priorities, events, \`record_stream\`, threads | work |
| the caching allocator, \`set_per_process_memory_fraction\`, \`OutOfMemoryError\` | work; the limit is the session's |
| expandable segments | work remoted, where there is an NVML; PyTorch crashes without one |
| \`@\`, \`matmul\`, \`bmm\`, \`linear\` with their gradients; \`CUDAGraph\` of them | cuBLAS and cuBLASLt, which bring PTX for a device that is newer than they are (13.0) |
| tensors of other processes (\`torch.multiprocessing\`) | work, remoted between sessions of one server |
| every kernel of its own (\`a + b\`, \`ones\`, \`sum\`) | needs a real GPU: see below |

A wheel of PyTorch from 2.0 on has machine code for GPUs (sm_75 to sm_120 in 2.15) and no PTX, and the software device executes
PTX only. The program gets \`torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device\`, the
device is none the worse for it, and the log (\`OUTBOARD_LOG=error\`, and \`cuLogsRegisterCallback\`) says what the module holds and what the device is. On
an NVIDIA GPU, to which calls go unchanged, this does not arise. \`torch.compile\` makes machine code with Triton's \`ptxas\`, for which the same holds.

### Its host side

\`torch_host_side.py\` runs on a device whose machine code is taken and does nothing ([\`empty-cubins\`](software-device/traits.md), with
\`nvidia-like\`): steps of ResNet-50 and GPT-2 (124 million parameters), in all kinds of numbers, with everything that PyTorch, cuBLAS,
cuDNN, Triton and Inductor do on the host. What is computed makes no sense; every call must be served. The table is what one step costs
remoted, once all is loaded, and the synchronisation behind it, which is one round trip (\`npm run test:clients -- torch_host_side\` compares it
with \`test/costs/torch.json\`). A gradient scaler looks at the device for infinities in each step, which is one more, and so
is a loss that is printed. cuDNN, whose attention PyTorch takes on such a GPU, makes a library for each length of the keys and loads it.

| step | calls | commands | round trips | bytes sent | received |
|---|--:|--:|--:|--:|--:|
${stepLines(steps).join('\n')}

\`torch.compile\` starts a process that compiles, and that asks how many devices there are: it needs a session of its own. Where the server has
no second one free, it waits in the queue, and the program for it at its end, 300 s by PyTorch's own limit. With
\`TORCHINDUCTOR_COMPILE_THREADS=1\` the program compiles by itself.
`;
}
