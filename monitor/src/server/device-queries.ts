// Answers guests that want no session, but want to know what the devices do. Collects from the live server
// what device-report.ts makes the answer of.
import type { DeviceReport, Hello, Room } from '../../../api-server/src/control.js';
import type { NvmlFacts } from '../../../api-server/src/native.js';
import { version } from '../../../api-server/src/version.js';
import {
  type PlacementParameters,
  type PlacementPolicy,
  placeAll,
} from '../../policies/placement.js';
import type { Placement, ServerState } from '../../policies/state.js';
import { OutboardError } from '../base/errors.js';
import type { SensorsView, SessionView } from '../base/view.js';
import { capabilityOf, deviceReport, type ReportedGpu } from '../devices/device-report.js';
import { deviceRoom } from '../devices/device-room.js';
import { type Driver, uuidOf } from '../devices/devices.js';
import { formatMemoryRule, type MemoryRule } from '../devices/memory-rule.js';
import { Sensors } from '../devices/sensors.js';
import { admit, allowedTo, usageOf } from '../queue/admission.js';
import type { Session } from '../sessions/session.js';
import type { Turns } from '../sessions/turns.js';
import type { LibraryCosts } from '../slots/library-costs.js';
import type { Pool } from '../slots/pool.js';
import type { Tenant } from '../tenants/tenants.js';

/** What of the live server an answer is made from. */
export interface QueriedServer {
  readonly options: {
    readonly parameters: PlacementParameters;
    readonly placement: PlacementPolicy;
    readonly queueMax: number;
    readonly memoryRule: MemoryRule;
    readonly driver: Pick<Driver, 'kind'>;
    /** Of cuBLAS for sessions; null or absent: there is none. */
    readonly libraries?: string | null;
  };
  /** Null: new sessions are taken. */
  readonly closed: string | null;
  readonly state: ServerState;
  readonly pool: Pick<Pool, 'devices'>;
  readonly turns: Pick<Turns, 'allowedNow' | 'leftFor' | 'positionOf'>;
  readonly sessions: ReadonlyMap<unknown, Session>;
  readonly running: { readonly libraryCosts: Pick<LibraryCosts, 'advise'> };
  view(session: Session): SessionView;
}

export class DeviceQueries {
  readonly #server: QueriedServer;
  readonly #sensors: Sensors;

  /** `nvml`: the library of the GPU machine; null: there is none. */
  constructor(server: QueriedServer, nvml: string | null) {
    this.#server = server;
    this.#sensors = new Sensors(nvml);
  }

  /** Throws the refusal. `tenant` null: there are none here. */
  async answer(tenant: Tenant | null, hello: Hello): Promise<DeviceReport> {
    const server = this.#server;
    if (hello.query?.versionOnly) return this.#versions();
    const facts = await this.#facts();
    const gpus = this.#gpus(facts);
    const first = facts.find((one) => one !== null);
    const whose = tenant?.name ?? '';
    const report = deviceReport(hello, {
      version,
      nvidiaDriver: first?.nvidiaDriver ?? '',
      nvmlVersion: first?.nvmlVersion ?? '',
      gpus,
      sessions: [...server.sessions.values()]
        .filter(({ visitor }) => visitor.request.tenant === whose)
        .map((session) => server.view(session)),
      allowed: allowedTo(tenant, hello, server.state.gpus),
      placed: this.#placedNow(tenant, hello),
    });
    return hello.query?.room ? { ...report, room: this.#room(tenant, hello, report) } : report;
  }

  /** For a program that asks before it wants a session, which waits for no sensor. The oldest driver's. */
  #versions(): DeviceReport {
    const { devices } = this.#server.pool;
    const known = devices.flatMap(({ snapshot }) => (snapshot ? [snapshot.driverVersion] : []));
    const driverVersion = known.length > 0 ? Math.min(...known) : 0;
    const empty = { nvidiaDriver: '', nvmlVersion: '', devices: [], processes: [] };
    return { serverVersion: version, driverVersion, ...empty };
  }

  /** For `outboard doctor`: what the guest's own Hello would meet now. */
  #room(tenant: Tenant | null, hello: Hello, { devices }: DeviceReport): Room {
    const { state, options, closed } = this.#server;
    const { parameters, queueMax } = options;
    const waiting = state.queue.length;
    let refusal: OutboardError | null = closed === null ? null : new OutboardError('OB_DRAINING');
    let position = 0;
    let usualMost: bigint | undefined;
    try {
      const request = admit(hello, state, parameters, tenant);
      const now = this.#server.turns.allowedNow(request);
      usualMost = now?.usualMost;
      const left = this.#server.turns.leftFor(request);
      const placed =
        now &&
        typeof left !== 'string' &&
        placeAll(options.placement, state, { ...now, allowed: left.gpus }, parameters);
      if (!placed) position = this.#server.turns.positionOf(request);
      if (!placed && waiting >= queueMax) refusal ??= new OutboardError('OB_QUEUE_FULL', queueMax);
    } catch (error) {
      if (!(error instanceof OutboardError)) throw error;
      refusal ??= error;
    }
    const usage = usageOf(tenant?.name ?? '', state);
    const { memory = null, share = null } = tenant?.limits ?? {};
    const left = memory === null ? null : memory - usage.memory;
    const shareLeft = share === null ? null : share - usage.share;
    const room = devices.map((device) => {
      const gpu = state.gpus.find((one) => one.uuid === uuidOf(device));
      if (!gpu) return { memory: 0n, share: 0, slots: 0, session: 0n };
      return deviceRoom(gpu, parameters, { asked: hello.memory, usualMost, left, shareLeft });
    });
    return {
      tenant: tenant?.name ?? '',
      position,
      refusal: refusal?.refusal ?? null,
      devices: room,
      memoryRule: formatMemoryRule(options.memoryRule),
      device: options.driver.kind,
      libraries: this.#libraries(tenant?.name ?? '', hello.name),
    };
  }

  /** For `outboard run --libraries=auto`. */
  #libraries(tenant: string, name: string): string {
    const { options, running } = this.#server;
    return options.libraries && name ? running.libraryCosts.advise({ tenant, name }) : 'guest';
  }

  /** For operators. */
  async sensors(): Promise<SensorsView[]> {
    const facts = await this.#facts();
    return this.#server.pool.devices.map(({ index, uuid, snapshot }) => {
      const { nvidiaDriver, sensors } = facts[index] ?? {};
      return {
        gpu: index,
        uuid,
        computeCapability: snapshot ? capabilityOf(snapshot) : null,
        driver: nvidiaDriver || null,
        temperature: sensors?.temperature ?? null,
        power: sensors?.power ?? null,
        powerLimit: sensors?.powerLimit ?? null,
        fanSpeed: sensors?.fanSpeed ?? null,
      };
    });
  }

  /** By GPU. */
  #facts(): Promise<(NvmlFacts | null)[]> {
    const { devices } = this.#server.pool;
    return Promise.all(devices.map(({ uuid, slots }) => this.#sensors.of(uuid, slots[0])));
  }

  #gpus(facts: readonly (NvmlFacts | null)[]): ReportedGpu[] {
    return this.#server.pool.devices.flatMap(({ snapshot, ...gpu }) => {
      const sensors = facts[gpu.index]?.sensors ?? {};
      return snapshot ? [{ ...gpu, healthy: gpu.problem === null, snapshot, sensors }] : [];
    });
  }

  /** Where a session would be placed now; nowhere, too, where it would be refused. */
  #placedNow(tenant: Tenant | null, hello: Hello): Placement[] {
    const { state, options } = this.#server;
    const { placement, parameters } = options;
    try {
      const request = admit(hello, state, parameters, tenant);
      const now = this.#server.turns.allowedNow(request);
      return (now && placeAll(placement, state, now, parameters)) ?? [];
    } catch (error) {
      if (error instanceof OutboardError) return [];
      throw error;
    }
  }
}
