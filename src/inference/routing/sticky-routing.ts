// Routes the next turn of a conversation to the provider that answered the last one, so that it reads the prompt from that
// provider's cache. Only a hash of the conversation is kept, no text.

import { createHash } from "node:crypto";
import { isObject } from "../../base/json.ts";
import { MINUTE_MS } from "../../base/time.ts";
import { commonForm } from "../request/common-form.ts";
import type { ParsedRequest } from "../request/parse-request.ts";

/** Longer than most prompt caches last; only a one-hour cache may be missed. */
const STICKY_MS = 30 * MINUTE_MS;
const CONVERSATIONS_MAX = 20_000;
/** Conversations differ at their start, and hashing costs time. */
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
  // A Map keeps insertion order, so the first entry is the least recently used.
  const entries = new Map<string, StickyEntry>();
  return {
    providerOf: (conversation, model, now) => {
      const entry = entries.get(`${conversation} ${model}`);
      return entry === undefined || entry.expiresAt <= now ? undefined : entry.provider;
    },
    record: (conversation, model, provider, now) => {
      const key = `${conversation} ${model}`;
      entries.delete(key);
      entries.set(key, { provider, expiresAt: now + STICKY_MS });
      const [oldest] = entries.keys();
      if (entries.size > CONVERSATIONS_MAX && oldest !== undefined) entries.delete(oldest);
    },
  };
}

/** The same for every turn of a conversation: a hash of account, API, model and the opening messages. */
export function conversationHash(request: ParsedRequest, accountId: string): string {
  const json = commonForm(request);
  const identity = [
    accountId,
    request.api,
    request.model,
    json["models"],
    json["system"] ?? json["instructions"],
    ...openingTurns(json["messages"] ?? json["input"]),
  ];
  const text = JSON.stringify(identity).slice(0, HASHED_PREFIX_MAX_LENGTH);
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}

// Everything up to the first user message; what follows changes from turn to turn.
function openingTurns(turns: unknown): readonly unknown[] {
  if (!Array.isArray(turns)) return [turns];
  const first = turns.findIndex((turn) => isObject(turn) && turn["role"] === "user");
  return turns.slice(0, first === -1 ? 1 : first + 1);
}
