// The public keys of an agent's operator, from `/.well-known/http-message-signatures-directory`.

import { createHash } from "node:crypto";
import { z } from "zod";
import { Fault } from "../base/fault.ts";
import type { PublicEndpoint, ResolveHost } from "../base/network/public-endpoint.ts";
import { createPublishedKeys, getPublicJson, REFETCH_MS } from "../base/network/published-keys.ts";

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
export type Ed25519Key = Readonly<z.infer<typeof Ed25519Key>>;

export interface KeyDirectory {
  /** Undefined if the operator has no such key. Throws if the directory cannot be read. */
  readonly findKey: (keyId: string, now: number) => Promise<Ed25519Key | undefined>;
}

export function createKeyDirectory(endpoint: PublicEndpoint, resolve: ResolveHost): KeyDirectory {
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
