// TLS as both ends here use it: 1.3 only, with certificates and keys from files.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, type SecureContextOptions, type TLSSocket } from 'node:tls';
import { OutboardError } from './errors.js';
import type { CertificateIdentity } from './tenants.js';

export interface TlsFiles {
  /** The certificate, with those between it and an authority. Null: none. */
  cert: string | null;
  key: string | null;
  /** Authorities; null: those of the system. */
  ca: string | null;
}

export function filesOf({ cert, key, ca }: TlsFiles): string[] {
  return [cert, key, ca].filter((file) => file !== null);
}

/** Throws OB_TLS_FILES where the files do not go together: that is seen here, not by a guest. */
export function readTls(files: TlsFiles): SecureContextOptions {
  const options: SecureContextOptions = { minVersion: 'TLSv1.3' };
  for (const name of ['cert', 'key', 'ca'] as const) {
    const file = files[name];
    if (file === null) continue;
    try {
      options[name] = readFileSync(file);
      // createSecureContext leaves out what is none, without a word.
      if (name !== 'key') new X509Certificate(options[name]);
    } catch (error) {
      throw new OutboardError('OB_TLS_FILES', `${file}: ${(error as Error).message}`);
    }
  }
  try {
    createSecureContext(options);
  } catch (error) {
    const { cert, key } = files;
    throw new OutboardError('OB_TLS_FILES', `${cert} and ${key}: ${(error as Error).message}`);
  }
  return options;
}

/** The names in the other side's certificate; null: it sent none. Says nothing about its validity. */
export function peerIdentity(socket: TLSSocket): CertificateIdentity | null {
  const { subject, subjectaltname } = socket.getPeerCertificate();
  if (!subject) return null;
  // Of several common names none is the name.
  const cn: unknown = subject.CN;
  const names = alternativeNames(subjectaltname ?? '');
  return {
    cn: typeof cn === 'string' ? cn : null,
    dns: names.filter(([kind]) => kind === 'DNS').map(([, name]) => name),
    uris: names.filter(([kind]) => kind === 'URI').map(([, name]) => name),
  };
}

/**
 * Node's text for alternative names: `DNS:a, URI:b`, where a name that could be taken for more than one
 * (with a comma or a quote in it) is written as a JSON string.
 */
export function alternativeNames(text: string): [kind: string, name: string][] {
  const names: [string, string][] = [];
  const one = /([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^",]*)(?:, |$)/y;
  while (one.lastIndex < text.length) {
    const match = one.exec(text);
    // What is not understood is nobody's name, and neither is what comes with it.
    if (!match) return [];
    const [, kind = '', name = ''] = match;
    names.push([kind, name.startsWith('"') ? String(JSON.parse(name)) : name]);
  }
  return names;
}
