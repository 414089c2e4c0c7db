// What people call a kernel, from its name in a module.

/**
 * The qualified name without parameters, of a name mangled as the Itanium C++ ABI has it; what is
 * too involved for that stays as it is. `<>` stands for template arguments.
 */
export function shortName(mangled: string): string {
  if (!mangled.startsWith('_Z')) return mangled;
  const rest = mangled.slice(2);
  if (!rest.startsWith('N')) {
    const one = identifier(rest);
    return one ? one.text + (rest[one.length] === 'I' ? '<>' : '') : mangled;
  }
  const parts: string[] = [];
  let at = 1;
  while (/[rVK]/.test(rest[at] ?? '')) at++;
  for (;;) {
    const next = identifier(rest.slice(at));
    if (!next) break;
    parts.push(next.text.startsWith('_GLOBAL__N_') ? '(anonymous)' : next.text);
    at += next.length;
  }
  if (parts.length === 0 || !['E', 'I'].includes(rest[at] ?? '')) return mangled;
  return parts.join('::') + (rest[at] === 'I' ? '<>' : '');
}

/** A length and so many characters. */
function identifier(text: string): { text: string; length: number } | null {
  const digits = /^L?(\d+)/.exec(text);
  if (!digits?.[1]) return null;
  const begin = digits[0].length;
  const length = Number(digits[1]);
  if (length === 0 || begin + length > text.length) return null;
  return { text: text.slice(begin, begin + length), length: begin + length };
}
