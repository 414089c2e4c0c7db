// Tokens, and who brings one. A token is 32 random bytes, so its plain SHA-256 is kept: nobody can
// guess 256 random bits, however fast the hash is. The slow, salted hashes that passwords need would
// only make each attach slow.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

export interface Token {
  /** SHA-256 of the token, 32 bytes. */
  hash: Buffer;
  /** Milliseconds since 1970; null: never. */
  expires: number | null;
}

export const tokenHashForm = /^sha256:[0-9a-f]{64}$/;

/** The beginning is for people, and for programs that look for secrets in places they do not belong. */
export function newToken(): string {
  return `outboard_${randomBytes(32).toString('base64url')}`;
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** As it stands in the tenants file. */
export function hashToken(token: string): string {
  return `sha256:${digest(token).toString('hex')}`;
}

export interface Holder {
  tokens: readonly Token[];
}

/**
 * Who has the token. Takes as long for any token: all are compared, each in constant time, so the
 * answer's delay says nothing about how near a guess was, or whose token it is.
 */
export function holderOf<T extends Holder>(
  token: string,
  holders: readonly T[],
): { holder: T; token: Token } | null {
  const hash = digest(token);
  let found: { holder: T; token: Token } | null = null;
  for (const holder of holders) {
    for (const token of holder.tokens) {
      const match = { holder, token };
      found = timingSafeEqual(hash, token.hash) ? match : found;
    }
  }
  return found;
}
