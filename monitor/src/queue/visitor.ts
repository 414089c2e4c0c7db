// A visitor is a client whose Hello was read and whose session may come: it was admitted, or has claimed a place that
// is kept for its program. It waits for a process, or has its session.
import type { Hello } from '../../../api-server/src/control.js';
import type { WaitingState } from '../../policies/queue.js';
import type { SessionRequest } from '../../policies/state.js';
import type { QueueView } from '../base/view.js';
import type { Client } from '../guests/client.js';
import { Decisions } from './decisions.js';
import type { Waiter, WaitsFor } from './overtaking.js';
import { whyItWaits } from './reasons.js';

export class Visitor implements Waiter {
  /** The number that its session has or will have. */
  readonly id: number;
  readonly client: Client;
  readonly hello: Hello;
  readonly request: SessionRequest;
  /** Milliseconds on performance's clock. */
  readonly arrived = performance.now();
  /** How many API server processes have died while they took it over. */
  lost = 0;
  passed = 0;
  /** How many that came after it were served before it, on GPUs that it may use. */
  overtaken = 0;
  /** What was decided about it, and about its session later. */
  readonly decisions = new Decisions();
  #waitsFor: WaitsFor = 'others';
  #waits = false;

  constructor(id: number, client: Client, hello: Hello, request: SessionRequest) {
    this.id = id;
    this.client = client;
    this.hello = hello;
    this.request = request;
  }

  /** What it waited for when it last had its turn. */
  get waitsFor(): WaitsFor {
    return this.#waitsFor;
  }

  set waitsFor(waitsFor: WaitsFor) {
    if (this.#waits && waitsFor === this.#waitsFor) return;
    this.#waits = true;
    this.#waitsFor = waitsFor;
    this.decisions.add('queue', whyItWaits(waitsFor, this.request.tenant));
  }

  get state(): WaitingState {
    const { id, request, overtaken } = this;
    return { id, request, arrived: this.arrived / 1000, overtaken };
  }

  view(position: number): QueueView {
    const { tenant, name, class: kind, gpus, memory, shareRequest, shareLimit } = this.request;
    return {
      id: this.id,
      position,
      tenant,
      name,
      program: this.hello.program,
      class: kind,
      peer: this.client.peer,
      gpus,
      memory: memory === null ? null : Number(memory),
      shareRequest,
      shareLimit,
      waitedSeconds: (performance.now() - this.arrived) / 1000,
    };
  }
}
