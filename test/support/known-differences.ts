// Programs that say something else remotely, or may fail, on a device that is as NVIDIA's are, and why that is right.

const tellsFree =
  'it tells how much memory is free: what code and stacks take is kept back for remoted programs';

/** They end natively and remoted with success; what they print is not the same. */
export const saysOther: ReadonlyMap<string, string> = new Map([
  ['free-memory', tellsFree],
  ['virtual-vector', tellsFree],
  [
    'device-calls',
    'it prints all that the device claims: what is not served is not claimed remotely',
  ],
]);

/** They ask for more than some devices have, and fail natively there. */
export const asksForMore: ReadonlyMap<string, string> = new Map([
  ['newer-calls', 'it asks for calls that came with CUDA 13.5'],
  ['wide-values', 'it is code for compute capability 10.0 and later'],
]);

/** They end natively with success on the software device, whatever its traits, and not on every GPU. */
export const failsOnGpus: ReadonlyMap<string, string> = new Map([
  [
    'unsupported-instruction',
    'it is code for compute capability 10.0, of which one kernel is refused',
  ],
  ['tensor-modes', 'it is code for compute capability 10.0, too'],
  ['event-order', "it passes what is none, and NVIDIA's driver does not survive that"],
  [
    'graph-events',
    "it goes on with events that it has destroyed, and NVIDIA's driver does not survive that",
  ],
  [
    'callback-errors',
    "behind a kernel that has failed NVIDIA's driver tells callbacks nothing, and the program waits for it",
  ],
  ['handles', "it passes handles that are none, and NVIDIA's driver does not survive all of them"],
]);
