// A test certificate authority, encoding DER (X.690) by RFC 5280: it can issue expired and otherwise invalid certificates,
// and needs no installed tools.

import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIP } from "node:net";
import { HOUR_MS } from "../../src/base/time.ts";

export interface Certificate {
  /** PEM. */
  readonly cert: string;
  /** PEM. */
  readonly key: string;
}

export interface CertificateAuthority {
  /** PEM. */
  readonly cert: string;
  readonly issueCertificate: (options: {
    /** DNS names and IP addresses of the certificate. */
    readonly hosts: readonly string[];
    readonly validFrom?: Date;
    readonly validUntil?: Date;
  }) => Certificate;
}

export function createCertificateAuthority(name: string): CertificateAuthority {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const issue = (
    subject: string,
    publicKeyOfSubject: KeyObject,
    fields: Validity & { extensions: Buffer[] },
  ) =>
    pemOf(
      "CERTIFICATE",
      encodeCertificate(
        { issuer: name, subject, subjectKey: publicKeyOfSubject, ...fields },
        privateKey,
      ),
    );
  const validity = {
    from: new Date(Date.now() - HOUR_MS),
    until: new Date(Date.now() + HOUR_MS),
  };
  return {
    cert: issue(name, publicKey, {
      ...validity,
      extensions: [extension(BASIC_CONSTRAINTS, sequence(der(0x01, Buffer.of(0xff))))],
    }),
    issueCertificate: ({ hosts, validFrom = validity.from, validUntil = validity.until }) => {
      const serverKeys = generateKeyPairSync("ec", { namedCurve: "P-256" });
      const names = sequence(...hosts.map(generalName));
      return {
        cert: issue("server", serverKeys.publicKey, {
          from: validFrom,
          until: validUntil,
          extensions: [extension(SUBJECT_ALT_NAMES, names)],
        }),
        key: serverKeys.privateKey.export({ type: "pkcs8", format: "pem" }),
      };
    },
  };
}

interface Validity {
  readonly from: Date;
  readonly until: Date;
}

interface CertificateFields extends Validity {
  readonly issuer: string;
  readonly subject: string;
  readonly subjectKey: KeyObject;
  readonly extensions: readonly Buffer[];
}

const COMMON_NAME = [2, 5, 4, 3] as const;
const ECDSA_WITH_SHA256 = [1, 2, 840, 10_045, 4, 3, 2] as const;
const BASIC_CONSTRAINTS = [2, 5, 29, 19] as const;
const SUBJECT_ALT_NAMES = [2, 5, 29, 17] as const;

function encodeCertificate(fields: CertificateFields, authorityKey: KeyObject): Buffer {
  const { issuer, subject, subjectKey, from, until, extensions } = fields;
  const algorithm = sequence(objectId(ECDSA_WITH_SHA256));
  const signed = sequence(
    der(0xa0, integer(Buffer.of(2))),
    integer(Buffer.concat([Buffer.of(1), randomBytes(15)])),
    algorithm,
    nameOf(issuer),
    sequence(timeOf(from), timeOf(until)),
    nameOf(subject),
    subjectKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(...extensions)),
  );
  const signature = sign("sha256", signed, authorityKey);
  return sequence(signed, algorithm, der(0x03, Buffer.concat([Buffer.of(0), signature])));
}

const der = (tag: number, content: Buffer): Buffer =>
  Buffer.concat([Buffer.of(tag), lengthOf(content.length), content]);
const sequence = (...parts: readonly Buffer[]): Buffer => der(0x30, Buffer.concat(parts));
const integer = (bytes: Buffer): Buffer => der(0x02, bytes);
const nameOf = (text: string): Buffer =>
  sequence(der(0x31, sequence(objectId(COMMON_NAME), der(0x0c, Buffer.from(text)))));
const timeOf = (at: Date): Buffer =>
  der(0x18, Buffer.from(at.toISOString().replaceAll(/[-:T]|\.\d{3}/g, "")));
const extension = (id: readonly number[], value: Buffer): Buffer =>
  sequence(objectId(id), der(0x04, value));
const pemOf = (label: string, bytes: Buffer): string =>
  `-----BEGIN ${label}-----\n${bytes.toString("base64").replaceAll(/(.{64})/g, "$1\n")}\n-----END ${label}-----\n`;

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.of(length);
  return length < 0x100 ? Buffer.of(0x81, length) : Buffer.of(0x82, length >> 8, length & 0xff);
}

function objectId([first = 0, second = 0, ...rest]: readonly number[]): Buffer {
  const bytes = rest.flatMap((arc) => {
    const groups = [arc & 0x7f];
    for (let left = arc >> 7; left > 0; left >>= 7) groups.unshift((left & 0x7f) | 0x80);
    return groups;
  });
  return der(0x06, Buffer.of(first * 40 + second, ...bytes));
}

function generalName(host: string): Buffer {
  if (isIP(host) === 0) return der(0x82, Buffer.from(host));
  return der(0x87, Buffer.of(...host.split(".").map(Number)));
}
