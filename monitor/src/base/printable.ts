// Names that somebody else chose (a guest's program, host and function, a certificate's subject), made
// fit for logs, terminals, metrics labels and web pages: whatever stands in them, they stay on
// one line, look like what they are, and end.

/** Control, formatting (bidirectional, zero width), private, unassigned, half characters; line ends. */
const unseen = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** `most` characters at most; what cannot be seen stands as its number, as in \\u{1b}. */
export function printable(text: string, most = 128): string {
  // Cut before anything else: a hostile name may be as long as a message.
  const start = text.slice(0, 2 * most + 2);
  const shown = start.replace(unseen, (one) => `\\u{${one.codePointAt(0)?.toString(16)}}`);
  if (shown.length <= most) return shown;
  const characters = [...shown];
  if (characters.length <= most) return shown;
  return `${characters.slice(0, most - 1).join('')}…`;
}
