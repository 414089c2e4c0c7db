// TLS as both ends here use it: 1.3 only, with certificates and keys from files.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, type PeerCertificate, type SecureContextOptions } from 'node:tls';
import { OutboardError } from '../base/errors.js';
import type { CertificateIdentity } from '../tenants/tenants.js';

export interface TlsFiles {
  /** File of the certificate, with those between it and an authority; null: none. */
  cert: string | null;
  key: string | null;
  /** File of the authorities; null: those of the system. */
  ca: string | null;
}

export function filesOf({ cert, key, ca }: TlsFiles): string[] {
  return [cert, key, ca].filter((file) => file !== null);
}

/** Throws OB_TLS_FILES where a file is wrong or they do not go together, so that this is seen before a guest comes. */
export function readTls(files: TlsFiles): SecureContextOptions {
  const options: SecureContextOptions = { minVersion: 'TLSv1.3' };
  for (const name of ['cert', 'key', 'ca'] as const) {
    const file = files[name];
    if (file === null) continue;
    try {
      options[name] = readFileSync(file);
      // createSecureContext ignores a file without a certificate.
      if (name !== 'key') new X509Certificate(options[name]);
    } catch (error) {
      throw new OutboardError('OB_TLS_FILES', `${file}: ${fileProblem(error, name)}`);
    }
  }
  try {
    createSecureContext(options);
  } catch (error) {
    const { cert, key } = files;
    // OpenSSL tries without a passphrase, which makes some kind of key of one in 256.
    const problem = isEncrypted(options.key) ? encrypted : fileProblem(error, 'key');
    throw new OutboardError('OB_TLS_FILES', `${cert} and ${key}: ${problem}`);
  }
  return options;
}

/** For what programs will refuse a server's certificate, in the file `cert`; empty: for nothing that is known here. */
export function whyDisbelieved(cert: string): string[] {
  const { validFrom, validTo, subjectAltName } = new X509Certificate(readFileSync(cert));
  const now = Date.now();
  return [
    ...(Date.parse(validTo) < now ? [`has expired: it was valid until ${validTo}`] : []),
    ...(Date.parse(validFrom) > now ? [`is not valid yet: it is from ${validFrom}`] : []),
    ...(subjectAltName ? [] : ['has no name of the server (subjectAltName)']),
  ];
}

const encrypted =
  'the key is encrypted: write it without a passphrase, readable by the server alone';

/** In either form of PEM. */
const isEncrypted = (key: unknown) =>
  Buffer.isBuffer(key) &&
  /^-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(key.toString('latin1'));

/** What is wrong with a file, in plain words instead of OpenSSL's. */
function fileProblem(error: unknown, name: 'cert' | 'key' | 'ca'): string {
  const { code = '' } = error as NodeJS.ErrnoException;
  const what = name === 'key' ? 'private key' : 'certificate';
  switch (code) {
    case 'ENOENT':
      return 'there is no such file';
    case 'EACCES':
      return 'this user may not read it';
    case 'ERR_OSSL_PEM_NO_START_LINE':
    case 'ERR_OSSL_UNSUPPORTED':
      return `there is no ${what} in it (PEM: -----BEGIN ...)`;
    case 'ERR_OSSL_X509_KEY_VALUES_MISMATCH':
      return 'the key is not that of the certificate';
    default:
      return tlsReason(error);
  }
}

/** What went wrong, without the numbers and names of OpenSSL's parts. */
export function tlsReason(error: unknown): string {
  const { message, reason } = error as Error & { reason?: unknown };
  if (typeof reason === 'string' && reason !== '') return reason;
  // error:0A00010B:SSL routines::wrong version number
  return message.replace(/^.*error:[0-9A-F]{6,}:[^:]*:[^:]*:/s, '').trim();
}

/** Whether a code of Node's is about the other side's certificate. */
export function isAboutCertificate(code: string): boolean {
  const about =
    /^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|CRL_|INVALID_|HOSTNAME_|ERR_TLS_CERT_)/;
  return about.test(code);
}

/** Whether this is OpenSSL's name for a fault of a certificate, as CERT_HAS_EXPIRED. */
export function certificateProblem(name: string): string {
  return /^[A-Z0-9_]+$/.test(name) ? name.toLowerCase().replaceAll('_', ' ') : name;
}

/** The names in the other side's certificate, as Node has it; null: it sent none. Says nothing about its validity. */
export function namesIn({
  subject,
  subjectaltname,
}: Partial<Pick<PeerCertificate, 'subject' | 'subjectaltname'>>): CertificateIdentity | null {
  if (!subject) return null;
  // With several common names there is no telling which one counts.
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
    // Where something is not understood, no name of the certificate counts.
    if (!match) return [];
    const [, kind = '', name = ''] = match;
    names.push([kind, name.startsWith('"') ? String(JSON.parse(name)) : name]);
  }
  return names;
}
