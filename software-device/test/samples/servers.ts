// Servers for the remoted runs, started when the first sample wants them.
import { startServer, type TestServer } from '../../../test/support/server.js';

/** One for each compute capability, and number of devices, that is asked for. */
export class Servers {
  readonly #running = new Map<string, Promise<TestServer>>();

  async address(computeCapability: string, devices: number): Promise<string> {
    const kind = `${computeCapability} ${devices}`;
    let server = this.#running.get(kind);
    if (!server) {
      server = startServer({
        // Some samples are several processes; each has as much memory as natively.
        args: ['--device', 'software', '--gpus', String(devices), '--servers-per-gpu', '3'],
        env: {
          SOFTWARE_DEVICE_COMPUTE_CAPABILITY: computeCapability,
          SOFTWARE_DEVICE_GPUS: String(devices),
          SOFTWARE_DEVICE_MEMORY: '12G',
        },
      });
      this.#running.set(kind, server);
    }
    return (await server).address;
  }

  async stop() {
    for (const server of this.#running.values()) await (await server).stop();
  }
}
