// Remembers which provider answered a conversation, so that its next turn goes there again and reads the prompt from that
// provider's cache. What is remembered is a hash and a name; nothing of the conversation itself.

import { createHash } from "node:crypto";
import { isObject } from "../../base/json.ts";
import { MINUTE_MS } from "../../base/time.ts";
import type { ParsedRequest } from "../request/parse-request.ts";

/** Longer than most providers keep a prompt; an hour's cache may be missed after a longer silence. */
const STICKY_MS = 30 * MINUTE_MS;
const CONVERSATIONS_MAX = 20_000;
/** What tells conversations apart is at their beginning, and hashing is not free. */
const HASHED_PREFIX_MAX_LENGTH = 32_768;

export interface StickyRouting {
  readonly providerOf: (conversation: string, model: string, now: number) => string | undefined;
  readonly record: (conversation: string, model: string, provider: string, now: number) => void;
}

interface StickyEntry {
  readonly provider: string;
  readonly expiresAt: number;
}

export function createStickyRouting(): StickyRouting {
  // A Map keeps the order of insertion: the first entry is the one that was used longest ago.
  const entries = new Map<string, StickyEntry>();
  return {
    providerOf: (conversation, model, now) => {
      const found = entries.get(`${conversation} ${model}`);
      return found === undefined || found.expiresAt <= now ? undefined : found.provider;
    },
    record: (conversation, model, provider, now) => {
      const name = `${conversation} ${model}`;
      entries.delete(name);
      entries.set(name, { provider, expiresAt: now + STICKY_MS });
      const [oldest] = entries.keys();
      if (entries.size > CONVERSATIONS_MAX && oldest !== undefined) entries.delete(oldest);
    },
  };
}

/** The same for every turn of a conversation: whose it is, what was asked for, and how it begins. */
export function conversationHash(request: ParsedRequest, accountId: string): string {
  const { json } = request;
  const start = [
    accountId,
    request.api,
    request.model,
    json["models"],
    json["system"] ?? json["instructions"],
    ...openingTurns(json["messages"] ?? json["input"]),
  ];
  const text = JSON.stringify(start).slice(0, HASHED_PREFIX_MAX_LENGTH);
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}

// Up to the first thing that the user said: everything after it comes and goes with the turns.
function openingTurns(turns: unknown): readonly unknown[] {
  if (!Array.isArray(turns)) return [turns];
  const first = turns.findIndex((turn) => isObject(turn) && turn["role"] === "user");
  return turns.slice(0, first === -1 ? 1 : first + 1);
}
