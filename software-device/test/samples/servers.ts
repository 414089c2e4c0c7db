// Servers for the remoted runs, started when the first sample wants them.
import { startServer, type TestServer } from '../../../test/support/server.js';

/** One for each compute capability that is asked for, all memory of its device for one session. */
export class Servers {
  readonly #running = new Map<string, Promise<TestServer>>();

  async address(computeCapability: string): Promise<string> {
    let server = this.#running.get(computeCapability);
    if (!server) {
      server = startServer({
        args: ['--device', 'software', '--gpus', '1', '--servers-per-gpu', '1'],
        env: { SOFTWARE_DEVICE_COMPUTE_CAPABILITY: computeCapability, SOFTWARE_DEVICE_GPUS: '1' },
      });
      this.#running.set(computeCapability, server);
    }
    return (await server).address;
  }

  async stop() {
    for (const server of this.#running.values()) await (await server).stop();
  }
}
