// Restrictions of an API key besides its spending limit: what it may call, and how fast. A model call uses a copy that may
// be five seconds old, which its hold compares with the stored one.

import type { DataRules } from "../base/data-rules.ts";
import { isObject } from "../base/json.ts";

/** A day, as long as the store of replies keeps them. */
export const CACHE_SECONDS_MAX = 86_400;

/** A field that is absent restricts nothing. */
export interface KeyPolicy {
  /** Globs of model ids, such as `openai/*`. */
  readonly models?: readonly string[];
  /** Globs of provider ids. */
  readonly providers?: readonly string[];
  /** The APIs of model calls that it may use, as usage records name them. */
  readonly endpoints?: readonly string[];
  /** Globs of names of the workspace's MCP servers; empty for none. */
  readonly mcpServers?: readonly string[];
  readonly requestsPerMinute?: number;
  readonly tokensPerMinute?: number;
  readonly concurrentCalls?: number;
  /** US dollars per million tokens, of input and output each. */
  readonly maxPriceUsd?: string;
  /** The most that each session of an agent may spend, in US dollars. */
  readonly sessionLimitUsd?: string;
  /** The session that all its calls belong to. */
  readonly session?: string;
  /** What providers may do with the data of its calls. */
  readonly dataPolicy?: DataRules;
  /** Every call gets a signed receipt, whether it asks for one or not. */
  readonly receipts?: true;
  /** Calls of the key use the response cache without asking for it. The oldest reply that they get, in seconds. */
  readonly cacheSeconds?: number;
  /** The requests and replies of its calls are kept for people of the workspace. */
  readonly promptLogging?: true;
}

export const POLICY_FIELDS = [
  "models",
  "providers",
  "endpoints",
  "mcpServers",
  "requestsPerMinute",
  "tokensPerMinute",
  "concurrentCalls",
  "maxPriceUsd",
  "sessionLimitUsd",
  "session",
  "dataPolicy",
  "receipts",
  "cacheSeconds",
  "promptLogging",
] as const satisfies readonly (keyof KeyPolicy)[];

/** Policies of keys count per key, so such a key must not create others. */
export function hasRates({
  requestsPerMinute,
  tokensPerMinute,
  concurrentCalls,
}: KeyPolicy): boolean {
  return (requestsPerMinute ?? tokensPerMinute ?? concurrentCalls) !== undefined;
}

/** The column: null for a key without a policy. */
export function policyText(policy: KeyPolicy | undefined): string | null {
  const given = Object.entries(policy ?? {}).filter(([, value]) => value !== undefined);
  return given.length === 0 ? null : JSON.stringify(Object.fromEntries(given));
}

export function parsePolicy(column: unknown): KeyPolicy | undefined {
  if (typeof column !== "string") return undefined;
  const policy: unknown = JSON.parse(column);
  return isObject(policy) ? policy : undefined;
}

/** `*` matches any characters; letter case is ignored. */
export function matchesGlob(globs: readonly string[] | undefined, name: string): boolean {
  return (
    globs === undefined || globs.some((glob) => isGlobMatch(glob.toLowerCase(), name.toLowerCase()))
  );
}

// Linear, unlike a regular expression of several wildcards: each part is searched once, from left to right.
function isGlobMatch(glob: string, name: string): boolean {
  const [first = "", ...rest] = glob.split("*");
  if (rest.length === 0) return glob === name;
  const last = rest.pop() ?? "";
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = name.indexOf(part, at);
    if (found === -1) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}
