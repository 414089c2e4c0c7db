// The experiment on the simulated server, where functions on one GPU slow each other down.
import { placementPolicies } from '../../monitor/policies/index.js';
import type { CoRun } from '../server/co-run.js';
import { checkEmpty, Invariants } from '../server/invariants.js';
import { Simulation } from '../server/simulation.js';
import type { Arrival, Done, Setting } from './plan.js';
import { gpuMemory } from './workloads.js';

const MB = 1n << 20n;

export function simulate(setting: Setting, plan: readonly Arrival[], coRun: CoRun): Done[] {
  const policy = placementPolicies.get(setting.policy);
  if (!policy) throw new Error(`no policy ${setting.policy}`);
  const one = { memory: BigInt(gpuMemory) * MB, slots: setting.servers };
  const gpus = Array.from({ length: setting.gpus }, () => one);
  const simulation = new Simulation({ gpus, policy, coRun, after: new Invariants().check });
  for (const { at, workload } of plan) {
    simulation.add({
      arrives: at,
      request: {
        ...{ tenant: '', name: workload.name, class: 'latency-strict', gpus: 1, allowed: null },
        ...{ memory: BigInt(workload.memory) * MB, shareRequest: 0, shareLimit: 100 },
      },
      prepare: workload.prepare,
      work: workload.gpu,
      patience: null,
    });
  }
  simulation.run();
  checkEmpty(simulation);
  return simulation.outcomes.map(({ job, how, gpu, waited, at }) => {
    if (how !== 'done' || gpu === null) throw new Error(`${job.request.name} is ${how}`);
    return { workload: job.request.name, gpu, arrived: job.arrives, waited, ended: at };
  });
}
