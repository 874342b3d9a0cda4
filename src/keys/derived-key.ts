// Format of a derived key: `<prefix>-dk-<key reference>.<block>…<signature>`. A holder of a key makes one without a request: each
// block narrows the key before it, and the signature is a chain of HMACs over the blocks, as in macaroons. The gateway finds
// the first secret of the chain by the key reference; both are computed from the raw key.

import { createHmac } from "node:crypto";
import { z } from "zod";
import { timingSafeEqualText } from "../base/crypto/secret.ts";
import { parseJson } from "../base/json.ts";
import { type Nano, nanoFromUsd } from "../base/money/money.ts";
import type { KeyPolicy } from "../http/key-policy.ts";
import { MODEL_CALL_SCOPES } from "../http/scopes.ts";
import { POLICY_SCHEMA } from "./key-record.ts";

const REFERENCE_CHARACTERS = 22;
const BLOCKS_MAX = 8;
const TOKEN_MAX_CHARACTERS = 4_000;
const USD = z.string().regex(/^\d{1,7}(\.\d{1,9})?$/);

// A field that this version does not know could be a restriction, so it is refused.
const Caveats = z.strictObject({
  id: z.string().max(60).optional(),
  usd: USD.optional(),
  exp: z.int().positive().max(9_999_999_999).optional(),
  models: POLICY_SCHEMA.allowed_models.unwrap().optional(),
  endpoints: POLICY_SCHEMA.allowed_endpoints.unwrap().optional(),
  mcp_servers: POLICY_SCHEMA.allowed_mcp_servers.unwrap().optional(),
  scopes: z.array(z.enum(MODEL_CALL_SCOPES)).min(1).optional(),
  session: POLICY_SCHEMA.session.unwrap().optional(),
  session_usd: USD.optional(),
});

/** One step of narrowing. A field that is absent restricts nothing. */
export interface KeyBlock {
  /** A name, and what tells two blocks apart that restrict alike. */
  readonly id: string | undefined;
  readonly limit: Nano | undefined;
  readonly expiresAt: number | undefined;
  readonly scopes: z.infer<typeof Caveats>["scopes"];
  readonly policy: Pick<
    KeyPolicy,
    "models" | "endpoints" | "mcpServers" | "session" | "sessionLimitUsd"
  >;
}

export interface DerivedKeyText {
  readonly reference: string;
  /** The first block narrows the raw key, each other the one before it. */
  readonly blocks: readonly KeyBlock[];
  /** The texts of the keys of the chain; undefined if the signature does not match. */
  readonly verify: (chainSecret: string) => readonly string[] | undefined;
}

export function isDerivedKey(prefix: string, raw: string): boolean {
  return raw.startsWith(`${prefix}-dk-`);
}

/** What a raw key is found by if it is narrowed, and the secret of the chain; neither leads back to the key. */
export function chainOf(raw: string): { readonly reference: string; readonly secret: string } {
  return {
    reference: hmac(raw, "postern-derived-key/reference").slice(0, REFERENCE_CHARACTERS),
    secret: hmac(raw, "postern-derived-key/secret"),
  };
}

/** Undefined for a text that no helper makes. */
export function readDerivedKey(prefix: string, raw: string): DerivedKeyText | undefined {
  if (!isDerivedKey(prefix, raw) || raw.length > TOKEN_MAX_CHARACTERS) return undefined;
  const start = `${prefix}-dk-`;
  const [reference = "", ...rest] = raw.slice(start.length).split(".");
  const signature = rest.pop() ?? "";
  if (reference.length !== REFERENCE_CHARACTERS || rest.length === 0 || rest.length > BLOCKS_MAX)
    return undefined;
  const blocks = rest.flatMap(readBlock);
  if (blocks.length !== rest.length) return undefined;
  const verify = (chainSecret: string): readonly string[] | undefined => {
    let signed = hmac(decoded(chainSecret), reference);
    const texts = rest.map((block, index) => {
      signed = hmac(decoded(signed), block);
      return `${start}${[reference, ...rest.slice(0, index + 1), signed].join(".")}`;
    });
    // Compared as text: another spelling of the same bytes would be another key with a counter of its own.
    return timingSafeEqualText(signed, signature) ? texts : undefined;
  };
  return { reference, blocks, verify };
}

function readBlock(text: string): readonly KeyBlock[] {
  const caveats = Caveats.safeParse(tryParseJson(decoded(text).toString("utf8")));
  if (!caveats.success) return [];
  const { id, usd, exp, scopes, models, endpoints, session } = caveats.data;
  const { session_usd: usdMax, mcp_servers: mcpServers } = caveats.data;
  const limit = usd === undefined ? undefined : nanoFromUsd(usd);
  const expiresAt = exp === undefined ? undefined : exp * 1_000;
  const policy = {
    ...(models !== undefined && { models }),
    ...(endpoints !== undefined && { endpoints }),
    ...(mcpServers !== undefined && { mcpServers }),
    ...(session !== undefined && { session }),
    ...(usdMax !== undefined && { sessionLimitUsd: usdMax }),
  };
  return [{ id, limit, expiresAt, scopes, policy }];
}

function tryParseJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

function hmac(key: string | Uint8Array, text: string): string {
  return createHmac("sha256", key).update(text).digest("base64url");
}

function decoded(text: string): Buffer {
  return Buffer.from(text, "base64url");
}
