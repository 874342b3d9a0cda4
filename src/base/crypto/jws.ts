// Compact JSON Web Signatures (RFC 7515) with Ed25519 (RFC 8037), and the public keys as JSON Web Keys.

import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { decodeJson } from "../canonical-json.ts";
import { type JsonObject, objectIn } from "../json.ts";

export interface SigningKey {
  readonly id: string;
  readonly privateKey: KeyObject;
  /** The 32 bytes of the public key, in base64url. */
  readonly publicKey: string;
}

export interface PublicJwk {
  readonly kty: "OKP";
  readonly crv: "Ed25519";
  readonly alg: "EdDSA";
  readonly use: "sig";
  readonly kid: string;
  readonly x: string;
}

/** PKCS #8 of an Ed25519 key, up to its 32 bytes (RFC 8410). */
const PKCS8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");

/** `seed`: the 32 bytes of the private key. */
export function signingKeyFrom(seed: Uint8Array, id: string): SigningKey {
  const privateKey = createPrivateKey({
    key: Buffer.concat([PKCS8_PREFIX, seed]),
    format: "der",
    type: "pkcs8",
  });
  const { x = "" } = createPublicKey(privateKey).export({ format: "jwk" });
  return { id, privateKey, publicKey: x };
}

export function publicJwk(id: string, publicKey: string): PublicJwk {
  return { kty: "OKP", crv: "Ed25519", alg: "EdDSA", use: "sig", kid: id, x: publicKey };
}

export function signJws(key: SigningKey, type: string, payload: object): string {
  const signed = `${encode({ alg: "EdDSA", kid: key.id, typ: type })}.${encode(payload)}`;
  return `${signed}.${sign(null, Buffer.from(signed), key.privateKey).toString("base64url")}`;
}

const BASE64URL = /^[\w-]+$/;

/**
 * The payload, if the signature is by one of these keys and the header has this type. The algorithm is fixed, whatever the
 * header says.
 */
export function verifyJws(
  text: string,
  type: string,
  publicKeyOf: (id: string) => string | undefined,
): JsonObject | undefined {
  const parts = text.split(".");
  const [head = "", body = "", signature = ""] = parts;
  // Buffer ignores other characters, so several texts would have the same signature.
  if (parts.length !== 3 || !parts.every((part) => BASE64URL.test(part))) return undefined;
  const header = objectIn(decodeJson(head));
  if (header?.["alg"] !== "EdDSA" || header["typ"] !== type || "crit" in header) return undefined;
  const id = header["kid"];
  const x = typeof id === "string" ? publicKeyOf(id) : undefined;
  if (x === undefined) return undefined;
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  const isSigned = verify(
    null,
    Buffer.from(`${head}.${body}`),
    key,
    Buffer.from(signature, "base64url"),
  );
  return isSigned ? objectIn(decodeJson(body)) : undefined;
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
