// The page of shared memory through which the slots of a GPU take turns (api-server/executor/gate/turn_page.h).
// The monitor makes it, and says when a slot's process is gone.
import { closeSync } from 'node:fs';
import type { Native } from '../../../api-server/src/native.js';

export class TurnPage {
  /** For the processes of slots to inherit. */
  readonly fd: number;
  readonly #native: Pick<Native, 'leaveTurns'>;
  readonly #buffer: ArrayBuffer;

  constructor(native: Pick<Native, 'createTurnPage' | 'leaveTurns'>) {
    const { fd, buffer } = native.createTurnPage();
    this.fd = fd;
    this.#native = native;
    this.#buffer = buffer;
  }

  /** The slot's process has ended: whoever waits for it goes on. */
  leave(slot: number) {
    this.#native.leaveTurns(this.#buffer, slot);
  }

  /** No slot of the GPU is started any more. */
  close() {
    closeSync(this.fd);
  }
}
