// Access tokens, and who brings one. An access token is 32 random bytes, so its plain SHA-256 is kept:
// nobody can guess 256 random bits, however fast the hash is. The slow, salted hashes that passwords
// need would only make each attach slow.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

export interface AccessToken {
  /** SHA-256 of the access token, 32 bytes. */
  hash: Buffer;
  /** Milliseconds since 1970; null: never. */
  expires: number | null;
}

export const accessTokenHashForm = /^sha256:[0-9a-f]{64}$/;

/** It begins so that people, and programs that look for leaked secrets, recognise it. */
export function newAccessToken(): string {
  return `outboard_${randomBytes(32).toString('base64url')}`;
}

function digest(accessToken: string): Buffer {
  return createHash('sha256').update(accessToken).digest();
}

/** The hash as it is written in the tenants file. */
export function hashAccessToken(accessToken: string): string {
  return `sha256:${digest(accessToken).toString('hex')}`;
}

export interface Holder {
  accessTokens: readonly AccessToken[];
}

/**
 * Who has the access token. The time that this takes says nothing about how near a guess was, or whose
 * access token it is: all are compared, each in constant time.
 */
export function holderOf<T extends Holder>(
  accessToken: string,
  holders: readonly T[],
): { holder: T; accessToken: AccessToken } | null {
  const hash = digest(accessToken);
  let found: { holder: T; accessToken: AccessToken } | null = null;
  for (const holder of holders) {
    for (const accessToken of holder.accessTokens) {
      const match = { holder, accessToken };
      found = timingSafeEqual(hash, accessToken.hash) ? match : found;
    }
  }
  return found;
}
