// Remembers which provider answered a conversation, so that its next turn goes there again and reads the prompt from that
// provider's cache. What is remembered is a hash and a name; nothing of the conversation itself.

import { createHash } from "node:crypto";
import { type Ask, isObject } from "./ask.ts";

/** Longer than most providers keep a prompt; an hour's cache may be missed after a longer silence. */
const KEPT_MS = 30 * 60_000;
const CONVERSATIONS_MAX = 20_000;
/** What tells conversations apart is at their beginning, and hashing is not free. */
const PREFIX_MAX_CHARACTERS = 32_768;

export interface Sticky {
  readonly providerOf: (conversation: string, model: string, now: number) => string | undefined;
  readonly answered: (conversation: string, model: string, provider: string, now: number) => void;
}

interface Kept {
  readonly provider: string;
  readonly until: number;
}

export function createSticky(): Sticky {
  // A Map keeps the order of insertion: the first entry is the one that was used longest ago.
  const kept = new Map<string, Kept>();
  return {
    providerOf: (conversation, model, now) => {
      const found = kept.get(`${conversation} ${model}`);
      return found === undefined || found.until <= now ? undefined : found.provider;
    },
    answered: (conversation, model, provider, now) => {
      const name = `${conversation} ${model}`;
      kept.delete(name);
      kept.set(name, { provider, until: now + KEPT_MS });
      const [oldest] = kept.keys();
      if (kept.size > CONVERSATIONS_MAX && oldest !== undefined) kept.delete(oldest);
    },
  };
}

/** The same for every turn of a conversation: whose it is, what was asked for, and how it begins. */
export function conversationOf(ask: Ask, accountId: string): string {
  const { json } = ask;
  const start = [
    accountId,
    ask.api,
    ask.model,
    json["models"],
    json["system"] ?? json["instructions"],
    ...openingOf(json["messages"] ?? json["input"]),
  ];
  const text = JSON.stringify(start).slice(0, PREFIX_MAX_CHARACTERS);
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}

// Up to the first thing that the user said: everything after it comes and goes with the turns.
function openingOf(turns: unknown): readonly unknown[] {
  if (!Array.isArray(turns)) return [turns];
  const first = turns.findIndex((turn) => isObject(turn) && turn["role"] === "user");
  return turns.slice(0, first === -1 ? 1 : first + 1);
}
