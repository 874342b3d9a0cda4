// Narrows an API key without a request: `deriveKey(key, caveats)`. The key may be derived itself.

import { createHmac, randomUUID } from "node:crypto";

/** Each field restricts the key; one that is absent restricts nothing. */
export interface Caveats {
  /** A name; without it, a random one. Two keys with the same caveats and name are one key. */
  readonly id?: string;
  /** The most that the key spends, in US dollars, as text: "1.50". */
  readonly usd?: string;
  /** When it expires, in seconds since 1970. */
  readonly exp?: number;
  readonly models?: readonly string[];
  /** APIs of model calls, as usage records name them: "chat", "embeddings". */
  readonly endpoints?: readonly string[];
  /** Names of MCP servers of the workspace; empty for none. */
  readonly mcp_servers?: readonly string[];
  readonly scopes?: readonly ("models:write" | "usage:read" | "claim:read")[];
  /** The session that all calls belong to. */
  readonly session?: string;
  /** The most that each session spends, in US dollars. */
  readonly session_usd?: string;
}

const hmac = (key: string | Buffer, text: string) =>
  createHmac("sha256", key).update(text).digest("base64url");

export function deriveKey(key: string, caveats: Caveats): string {
  const [prefix = "", kind, body = ""] = /^(.+?)-(rt|dk)-(.+)$/.exec(key)?.slice(1) ?? [];
  if (kind === undefined) throw new Error("this is not an API key of Postern");
  const parts = kind === "dk" ? body.split(".") : startOfChain(key);
  const secret = Buffer.from(parts.pop() ?? "", "base64url");
  const named = { id: randomUUID(), ...caveats };
  const block = Buffer.from(JSON.stringify(named)).toString("base64url");
  return `${prefix}-dk-${[...parts, block, hmac(secret, block)].join(".")}`;
}

function startOfChain(key: string): string[] {
  const reference = hmac(key, "postern-derived-key/reference").slice(0, 22);
  const secret = Buffer.from(hmac(key, "postern-derived-key/secret"), "base64url");
  return [reference, hmac(secret, reference)];
}
