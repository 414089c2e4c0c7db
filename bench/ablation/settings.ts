// What is left out (guest-lib/src/base/ablation.h).

export interface Setting {
  name: string;
  /** OUTBOARD_ABLATION. */
  without: string;
}

const decisions = ['batching', 'local', 'handles', 'deferred', 'modules'];
const words: Record<string, string> = {
  local: 'local answers',
  handles: 'minted handles',
  deferred: 'deferred copies',
  modules: 'module cache',
};

export const settings: readonly Setting[] = [
  { name: 'as it is', without: '' },
  ...decisions.map((name) => ({ name: `no ${words[name] ?? name}`, without: name })),
  { name: 'none of them', without: decisions.join(',') },
];
