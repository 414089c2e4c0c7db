// Dark or light: as the system has it, unless the operator chose. Canvases cannot use CSS colours
// by name, so charts ask here for them.

const key = 'outboard.theme';
const choices = ['system', 'light', 'dark'] as const;
export type Theme = (typeof choices)[number];

const listeners = new Set<() => void>();
const colours = new Map<string, string>();
const probe = document.createElement('span');
probe.hidden = true;

export function startTheme() {
  document.body.append(probe);
  apply(theme());
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
}

export function theme(): Theme {
  const stored = localStorage.getItem(key);
  return choices.find((choice) => choice === stored) ?? 'system';
}

/** System, light, dark, system. */
export function nextTheme(): Theme {
  const next = choices[(choices.indexOf(theme()) + 1) % choices.length] ?? 'system';
  localStorage.setItem(key, next);
  apply(next);
  return next;
}

function apply(choice: Theme) {
  if (choice === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = choice;
  changed();
}

function changed() {
  colours.clear();
  for (const listener of listeners) listener();
}

/** Calls `listener` when colours change, until what it returns is called. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** What a custom property of the style sheet is now, as a colour. */
export function colour(name: string): string {
  let value = colours.get(name);
  if (value === undefined) {
    probe.style.color = `var(${name})`;
    value = getComputedStyle(probe).color;
    colours.set(name, value);
  }
  return value;
}
