// Several observers as one.
import type { Observer } from './view.js';

export function observers(all: readonly Observer[]): Observer {
  const each = (tell: (observer: Observer) => void) => {
    for (const observer of all) tell(observer);
  };
  return {
    refused: (...what) => each((observer) => observer.refused(...what)),
    began: (...what) => each((observer) => observer.began(...what)),
    ended: (...what) => each((observer) => observer.ended(...what)),
    slotReady: (...what) => each((observer) => observer.slotReady(...what)),
    slotLost: (...what) => each((observer) => observer.slotLost(...what)),
    moved: (...what) => each((observer) => observer.moved(...what)),
    policyFailed: (...what) => each((observer) => observer.policyFailed(...what)),
  };
}
