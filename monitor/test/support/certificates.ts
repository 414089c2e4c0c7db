// Real certificates for tests, by openssl: authorities, and what they sign.
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { TlsFiles } from '../../src/tls/tls.js';

export interface Authority {
  /** Its certificate, a file. */
  ca: string;
  /**
   * A key and a certificate for it, signed. `names` as openssl writes them: DNS:localhost, URI:...
   * `days` below 0: it has expired.
   */
  issue(name: string, names: string[], days?: number): { cert: string; key: string };
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

function openssl(...args: string[]) {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

export function authority(parent: string, name: string): Authority {
  const folder = path.join(parent, name);
  mkdirSync(folder, { recursive: true });
  const file = (one: string) => path.join(folder, one);
  const [ca, caKey] = [file('ca.pem'), file('ca.key')];
  const subject = ['-subj', `/O=Test/CN=${name}`];
  openssl('req', '-x509', ...newKey, '-keyout', caKey, '-out', ca, '-days', '30', ...subject);
  let serial = 0;
  return {
    ca,
    issue(common, names, days = 30) {
      const base = file(`${++serial}`);
      const [key, request, cert] = [`${base}.key`, `${base}.csr`, `${base}.pem`];
      openssl('req', '-new', ...newKey, '-keyout', key, '-out', request, '-subj', `/CN=${common}`);
      // In a section of their own, where a comma is a comma.
      const lines = names.map((one, i) => one.replace(':', `.${i} = `));
      const section = ['subjectAltName = @names', '[names]', ...lines, ''].join('\n');
      writeFileSync(`${base}.ext`, names.length > 0 ? section : '');
      const signed = ['-req', '-in', request, '-CA', ca, '-CAkey', caKey, '-CAcreateserial'];
      const how = ['-days', String(days), '-extfile', `${base}.ext`, '-out', cert];
      openssl('x509', ...signed, ...how);
      return { cert, key };
    },
  };
}

const serverNames = ['DNS:localhost', 'IP:127.0.0.1'];

/** What a server on loopback shows. */
export function serverFiles(own: Authority, clients: Authority | null, days = 30): TlsFiles {
  return { ...own.issue('server', serverNames, days), ca: clients?.ca ?? null };
}

/** As certificates are replaced: whole, at once. */
export function replaceFile(from: string, to: string) {
  execFileSync('cp', [from, `${to}.new`]);
  renameSync(`${to}.new`, to);
}
