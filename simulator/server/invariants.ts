// What must hold after every event of a simulation, whatever the policy. Nothing here asks the code
// that it judges: what fits is worked out again, from the sessions that run.
import type { PlacementParameters } from '../../monitor/policies/placement.js';
import type { SessionRequest } from '../../monitor/policies/state.js';
import type { SimulatedGpu } from './gpu.js';
import type { Simulation } from './simulation.js';

/** Throws what is wrong. Called after each event. */
export class Invariants {
  /** Of those that got a place; they never go back, unless an API server process was lost. */
  #newest = 0;
  #seen = 0;

  readonly check = (simulation: Simulation) => {
    for (const gpu of simulation.gpus) checkGpu(gpu, simulation.options.parameters);
    checkLimits(simulation);
    checkTenants(simulation);
    if (!simulation.options.queueSkip) this.#checkOrder(simulation);
    checkHead(simulation);
    const { arrived, running, queue, tally } = simulation;
    const known = running + queue.length + tally.count;
    expect(arrived === known, `${arrived} have come, ${known} are known of`, simulation);
  };

  #checkOrder(simulation: Simulation) {
    const { order, queue } = simulation;
    for (; this.#seen < order.length; this.#seen++) {
      const id = order[this.#seen] ?? 0;
      // One whose process was lost before it began gets another place, before all who came later.
      const again = id <= this.#newest && order.indexOf(id) < this.#seen;
      expect(id > this.#newest || again, `${id} was placed after ${this.#newest}`, simulation);
      this.#newest = Math.max(id, this.#newest);
    }
    let last = 0;
    for (const { id } of queue) {
      expect(id > last, `${id} waits behind ${last}`, simulation);
      last = id;
    }
  }
}

/** Throws unless everything is as it was at the beginning, and all that came are accounted for. */
export function checkEmpty(simulation: Simulation) {
  const { gpus, queue, running, arrived, outcomes } = simulation;
  for (const gpu of gpus) {
    expect(gpu.reserved === 0n, `${gpu.reserved} bytes of GPU ${gpu.index} reserved`, simulation);
    expect(gpu.sessions.length === 0, `sessions left on GPU ${gpu.index}`, simulation);
    expect(gpu.healthy && gpu.free.every(Boolean), `GPU ${gpu.index} is not whole`, simulation);
    expect(gpu.foreseen === null, `work left on GPU ${gpu.index}`, simulation);
  }
  expect(queue.length === 0 && running === 0, 'somebody is left', simulation);
  expect(arrived === outcomes.length, `${outcomes.length} outcomes of ${arrived}`, simulation);
  expect(new Set(outcomes.map(({ id }) => id)).size === arrived, 'two of one id', simulation);
  for (const tenant of simulation.tenantsSeen) {
    const { sessions, memory, share } = simulation.usageOf(tenant);
    const nothing = sessions === 0 && memory === 0n && Math.abs(share) < 1e-6;
    expect(nothing, `tenant ${tenant} is left with something`, simulation);
  }
}

function checkGpu(gpu: SimulatedGpu, { omega }: PlacementParameters) {
  const { index, sessions, reserved, memory } = gpu;
  const sum = sessions.reduce((sum, session) => sum + session.memory, 0n);
  must(sum === reserved, `GPU ${index}: ${reserved} bytes reserved, its sessions have ${sum}`);
  must(reserved <= memory, `GPU ${index}: memory oversubscribed`);
  const { requests, limits: most } = gpu.promised;
  const kept = Math.abs(requests / 1000 - promised(gpu)) + Math.abs(most / 1000 - limits(gpu));
  must(kept < 0.001 * (1 + sessions.length), `GPU ${index}: its sums of shares are not its own`);
  must(promised(gpu) <= 100 * Math.min(1, omega) + 1e-6, `GPU ${index}: time oversubscribed`);
  const taken = new Set(sessions.map(({ slot }) => slot));
  must(taken.size === sessions.length, `GPU ${index}: two sessions in one slot`);
  must(gpu.healthy || sessions.length === 0, `GPU ${index} is not healthy, and serves`);
  for (const [slot, free] of gpu.free.entries()) {
    const should = !taken.has(slot) && !gpu.lost[slot];
    must(free === should, `GPU ${index}: slot ${slot} is ${free ? '' : 'not '}free`);
  }
}

function promised({ sessions }: SimulatedGpu): number {
  return sessions.reduce((sum, { shareRequest }) => sum + shareRequest, 0);
}

function limits({ sessions }: SimulatedGpu): number {
  return sessions.reduce((sum, { shareLimit }) => sum + shareLimit, 0);
}

function checkLimits({ gpus, options }: Simulation) {
  if (!options.policy.boundsLimits) return;
  const most = 100 * Math.max(1, options.parameters.gamma) + 1e-6;
  for (const gpu of gpus) must(limits(gpu) <= most, `GPU ${gpu.index}: limits over gamma`);
}

function checkTenants(simulation: Simulation) {
  for (const [name, { limits }] of simulation.options.tenants) {
    const { sessions, memory, share } = simulation.usageOf(name);
    must(sessions <= (limits.sessions ?? sessions), `tenant ${name}: too many sessions`);
    must(memory <= (limits.memory ?? memory), `tenant ${name}: too much memory`);
    must(share <= (limits.share ?? share) + 1e-6, `tenant ${name}: too much time`);
  }
}

/** The queue moves: nobody waits at its head who could run; with skip, nobody at all. */
function checkHead(simulation: Simulation) {
  const { queue, options } = simulation;
  for (const { id, job } of queue) {
    const there = simulation.gpus.find((gpu) => fits(gpu, job.request, simulation));
    expect(!there, `${id} waits, and fits on GPU ${there?.index}`, simulation);
    if (!options.queueSkip) return;
  }
}

function fits(gpu: SimulatedGpu, request: SessionRequest, { options }: Simulation): boolean {
  const { omega, gamma } = options.parameters;
  if (!gpu.healthy || !gpu.free.includes(true)) return false;
  if (request.allowed && !request.allowed.includes(gpu.index)) return false;
  if ((request.memory ?? gpu.usual) > gpu.memory - gpu.reserved) return false;
  if (promised(gpu) + request.shareRequest > 100 * Math.min(1, omega) + 1e-6) return false;
  const limit = options.policy.boundsLimits ? 100 * Math.max(1, gamma) : Number.POSITIVE_INFINITY;
  return limits(gpu) + request.shareLimit <= limit + 1e-6;
}

function must(right: boolean, what: string) {
  if (!right) throw new Error(what);
}

function expect(right: boolean, what: string, { now, options }: Simulation) {
  must(right, `${options.policy.name}, at ${now.toFixed(3)} s: ${what}`);
}
