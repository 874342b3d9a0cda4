// The public keys of an agent's operator, from `/.well-known/http-message-signatures-directory`. The request connects only to
// public addresses, follows no redirect, and is limited in time and size.

import { createHash } from "node:crypto";
import { z } from "zod";
import { Fault } from "../base/fault.ts";
import { parseJson } from "../base/json.ts";
import type { PublicEndpoint, ResolveHost } from "../base/network/public-endpoint.ts";
import { getPublicUrl } from "../base/network/public-url.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../base/time.ts";

const DIRECTORY_PATH = "/.well-known/http-message-signatures-directory";
const MEDIA_TYPE = "application/http-message-signatures-directory+json";
const TIMEOUT_MS = 5_000;
const BYTES_MAX = 65_536;
const FRESH_MS = HOUR_MS;
/** An unknown key causes at most one request in this time. */
const REFETCH_MS = MINUTE_MS;
/** While the directory cannot be read, its last keys count for this long. */
const STALE_MAX_MS = DAY_MS;

const Directory = z.object({ keys: z.array(z.unknown()).max(100) });
const Ed25519Key = z.object({
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  x: z.string().regex(/^[\w-]{43}$/),
  nbf: z.number().optional(),
  exp: z.number().optional(),
});
export type Ed25519Key = Readonly<z.infer<typeof Ed25519Key>>;

export interface KeyDirectory {
  /** Undefined if the operator has no such key. Throws if the directory cannot be read. */
  readonly findKey: (keyId: string, now: number) => Promise<Ed25519Key | undefined>;
}

interface CachedKeys {
  readonly keys: ReadonlyMap<string, Ed25519Key>;
  readonly fetchedAt: number;
}

export function createKeyDirectory(endpoint: PublicEndpoint, resolve: ResolveHost): KeyDirectory {
  let cached: CachedKeys | undefined;
  let triedAt = Number.NEGATIVE_INFINITY;
  let inFlight: Promise<void> | undefined;

  async function refresh(now: number): Promise<void> {
    triedAt = now;
    const keys = parseDirectory(await fetchDirectory(endpoint, resolve));
    cached = { keys, fetchedAt: now };
  }

  return {
    findKey: async (keyId, now) => {
      const isFresh = cached !== undefined && Math.abs(now - cached.fetchedAt) < FRESH_MS;
      const isKnown = isFresh && cached?.keys.has(keyId) === true;
      if (!isKnown && Math.abs(now - triedAt) >= REFETCH_MS)
        inFlight ??= refresh(now).finally(() => {
          inFlight = undefined;
        });
      await inFlight?.catch(() => undefined);
      if (cached === undefined || now - cached.fetchedAt > STALE_MAX_MS)
        throw unavailable(endpoint);
      return cached.keys.get(keyId);
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
function parseDirectory(text: string): ReadonlyMap<string, Ed25519Key> {
  const { keys } = Directory.parse(parseJson(text));
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

async function fetchDirectory(endpoint: PublicEndpoint, resolve: ResolveHost): Promise<string> {
  const { status, body } = await getPublicUrl({
    endpoint: { ...endpoint, url: new URL(DIRECTORY_PATH, endpoint.url) },
    accept: MEDIA_TYPE,
    bytesMax: BYTES_MAX,
    resolve,
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (status !== 200) throw new Error(`status ${status}`);
  if (body === undefined) throw new Error("the directory is too large");
  return body.toString("utf8");
}
