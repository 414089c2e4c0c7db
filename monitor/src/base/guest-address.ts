// Addresses as guests can use them.

/**
 * `listen` as a server writes what it listens on; all addresses of a machine (0.0.0.0, [::]) are none that a program
 * can be given, so its name stands for them.
 */
export function guestAddress(listen: string, host: string): string {
  return listen.replace(/^(tls:\/\/)?(?:0\.0\.0\.0|\[::\])(?=:\d+$)/, `$1${host}`);
}
