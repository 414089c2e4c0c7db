// What the monitor tells an API server process, with what most tests do not care for.
import { emptyOffer, type Open, type SessionOffer } from '../../src/ipc.js';

/** Nothing is held back or kept. */
export function openMessage(given: Pick<Open, 'build' | 'library'> & Partial<Open>): Open {
  return {
    type: 'open',
    ordinal: 0,
    uuid: null,
    quotaPageFd: null,
    turnPageFd: null,
    slot: 0,
    moduleFolder: null,
    moduleBytes: 0n,
    uploadFolder: null,
    uploadBytes: 0n,
    imageBytes: null,
    libraries: null,
    warm: 'handles',
    ...given,
  };
}

/** A session of nobody in particular, on its own. */
export function sessionOffer(given: Partial<SessionOffer> = {}): SessionOffer {
  return { ...emptyOffer, session: 1n, memoryLimit: 1n, ...given };
}
