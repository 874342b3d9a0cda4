// Agents that sign their requests (Web Bot Auth), of operators that this gateway's settings list. A signature of another
// operator counts as none; a wrong signature of a listed one is refused.

import { createHash, createPublicKey, verify } from "node:crypto";
import { z } from "zod";
import type { VerifiedAgent, VerifyAgent } from "../accounts/verified-agent.ts";
import { Fault } from "../base/fault.ts";
import type { Nano } from "../base/money/money.ts";
import {
  parseEndpoint,
  type PublicEndpoint,
  type ResolveHost,
} from "../base/network/public-endpoint.ts";
import { createPublishedKeys, getPublicJson, REFETCH_MS } from "../base/network/published-keys.ts";
import { DAY_MS, MINUTE_MS, SECOND_MS } from "../base/time.ts";
import { type MessageSignature, readSignature } from "../signed-requests/http-signature.ts";

/** Tolerated difference between the agent's clock and this machine's. */
const CLOCK_SKEW_MS = MINUTE_MS;
const VALIDITY_MAX_MS = DAY_MS;
/** The algorithm of all keys that a directory can have here. */
const ALGORITHM = "ed25519";

interface ListedAgent {
  /** The origin of the agent's operator. */
  readonly url: string;
  readonly accountsPerHour: number;
  readonly startingCredit: Nano;
}

export interface VerifiedAgentOptions {
  readonly agents: readonly ListedAgent[];
  readonly baseUrl: string;
  /** Development only. */
  readonly allowLoopback: boolean;
  readonly resolve: ResolveHost;
}

interface AgentWithKeys extends ListedAgent {
  readonly directory: KeyDirectory;
}

export function createVerifyAgent({
  agents,
  baseUrl,
  allowLoopback,
  resolve,
}: VerifiedAgentOptions): VerifyAgent {
  const base = new URL(baseUrl);
  const listed = new Map<string, AgentWithKeys>();
  for (const agent of agents) {
    const endpoint = parseEndpoint(agent.url, allowLoopback);
    if (typeof endpoint === "string") throw new Error(`${agent.url} ${endpoint}`);
    const directory = createKeyDirectory(endpoint, resolve);
    listed.set(endpoint.url.origin, { ...agent, url: endpoint.url.origin, directory });
  }
  return async ({ method, path, headers }, now) => {
    if (listed.size === 0 || !headers.has("signature-input")) return undefined;
    const scheme = base.protocol.slice(0, -1);
    const signed = readSignature({ method, authority: base.host, scheme, path, headers });
    if (signed === undefined) return undefined;
    if (typeof signed === "string") throw refused(signed);
    if (signed.agent === undefined) {
      // Signed by the key of the new account only, and not for an operator.
      if (!headers.has("signature-agent")) return undefined;
      throw refused("the signature must cover `signature-agent`");
    }
    const agent = listed.get(originOf(signed.agent));
    return agent === undefined ? undefined : await verifyFor(agent, signed, now);
  };
}

async function verifyFor(
  { directory, url, accountsPerHour, startingCredit }: AgentWithKeys,
  signed: MessageSignature,
  now: number,
): Promise<VerifiedAgent> {
  const { createdAt, expiresAt, keyId, algorithm } = signed;
  // RFC 9421 §3.2: an algorithm that contradicts the key fails.
  if (algorithm !== undefined && algorithm !== ALGORITHM)
    throw refused(`its parameter \`alg\` must be "${ALGORITHM}"`);
  if (createdAt > now + CLOCK_SKEW_MS) throw refused("it was created in the future");
  if (expiresAt <= now) throw refused("it has expired");
  if (expiresAt - createdAt > VALIDITY_MAX_MS) throw refused("it is valid for more than a day");
  const key = await directory.findKey(keyId, now);
  if (key === undefined || !isCurrent(key, now))
    throw refused(`${url} has no current Ed25519 key with the id ${JSON.stringify(keyId)}`);
  if (!isSignedBy(key, signed)) throw refused("it does not match the request");
  const signatureId = createHash("sha256").update(signed.signature).digest("base64url");
  return { url, accountsPerHour, startingCredit, signatureId, expiresAt };
}

function isCurrent({ nbf, exp }: Ed25519Key, now: number): boolean {
  const seconds = now / SECOND_MS;
  return (nbf === undefined || nbf <= seconds) && (exp === undefined || exp > seconds);
}

function isSignedBy({ kty, crv, x }: Ed25519Key, { base, signature }: MessageSignature): boolean {
  const key = createPublicKey({ key: { kty, crv, x }, format: "jwk" });
  return verify(null, Buffer.from(base), key, signature);
}

function originOf(agent: string): string {
  return URL.canParse(agent) ? new URL(agent).origin : "";
}

function refused(reason: string): Fault {
  return new Fault("forbidden", `agent signature refused: ${reason}`, {
    message: `The request's signature was refused: ${reason}. Nothing was created. Sign the request again, with \`@authority\` and \`signature-agent\`, or send it without a signature.`,
    next: [
      {
        method: "POST",
        url: "/v1/accounts",
        why: "Without the headers Signature and Signature-Input, the limits of your network apply.",
      },
    ],
  });
}

// The public keys of an agent's operator, from `/.well-known/http-message-signatures-directory`.

const DIRECTORY_PATH = "/.well-known/http-message-signatures-directory";
const MEDIA_TYPE = "application/http-message-signatures-directory+json";

const Directory = z.object({ keys: z.array(z.unknown()).max(100) });
const Ed25519Key = z.object({
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  x: z.string().regex(/^[\w-]{43}$/),
  nbf: z.number().optional(),
  exp: z.number().optional(),
});
type Ed25519Key = Readonly<z.infer<typeof Ed25519Key>>;

interface KeyDirectory {
  /** Undefined if the operator has no such key. Throws if the directory cannot be read. */
  readonly findKey: (keyId: string, now: number) => Promise<Ed25519Key | undefined>;
}

function createKeyDirectory(endpoint: PublicEndpoint, resolve: ResolveHost): KeyDirectory {
  const directory = { ...endpoint, url: new URL(DIRECTORY_PATH, endpoint.url) };
  const keysOf = createPublishedKeys(async () =>
    parseDirectory(await getPublicJson(directory, MEDIA_TYPE, resolve)),
  );
  return {
    findKey: async (keyId, now) => {
      const keys = await keysOf((all) => all.has(keyId), now);
      if (keys === undefined) throw unavailable(endpoint);
      return keys.get(keyId);
    },
  };
}

function unavailable({ url }: PublicEndpoint): Fault {
  return new Fault("overloaded", `no key directory at ${url.origin}`, {
    message: `The key directory of ${url.origin} could not be read, so the signature could not be verified. Nothing was created. Try again in a minute, or send the request without a signature.`,
    retryAfterSeconds: REFETCH_MS / 1_000,
  });
}

/** Keys by their thumbprint. Keys of other algorithms are left out. */
function parseDirectory(json: unknown): ReadonlyMap<string, Ed25519Key> {
  const { keys } = Directory.parse(json);
  return new Map(
    keys.flatMap((key) => {
      const parsed = Ed25519Key.safeParse(key);
      return parsed.success ? [[thumbprintOf(parsed.data), parsed.data] as const] : [];
    }),
  );
}

/** RFC 7638, RFC 8037: the required members in lexicographic order. */
function thumbprintOf({ crv, kty, x }: Ed25519Key): string {
  return createHash("sha256").update(JSON.stringify({ crv, kty, x })).digest("base64url");
}
