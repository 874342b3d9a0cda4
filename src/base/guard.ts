// What a call needs of the guardrails of its workspace: inference asks, the folder guardrails answers.

import type { JsonObject } from "./json.ts";

export type GuardPhase = "input" | "output";

/** A string of a request or reply, and where it is. */
export interface GuardedText {
  readonly path: string;
  readonly text: string;
}

/** A check of a guardrail, as the usage record says it. */
export interface GuardrailCheck {
  readonly name: string;
  readonly phase: GuardPhase;
  /** `failed`: a hook did not answer, and its setting let the call pass. */
  readonly action: "allowed" | "masked" | "rewritten" | "denied" | "failed";
  /** How long it took, in milliseconds. */
  readonly ms: number;
}

/** Replaces the characters from `start` to `end`. */
export interface TextEdit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** Edits in order, of which the first may begin before the text, and the last may end after it: a mask is where its match begins. */
export function applyEdits(text: string, edits: readonly TextEdit[]): string {
  let edited = "";
  let at = 0;
  for (const { start, end, text: replacement } of edits) {
    edited += text.slice(at, Math.max(0, start)) + (start >= 0 ? replacement : "");
    at = end;
  }
  return edited + text.slice(at);
}

/** The call that is checked. */
export interface GuardedCall {
  readonly accountId: string;
  readonly keyId: string;
  readonly requestId: string;
  readonly api: string;
  /** Makes a decisions call that the same key pays, and returns its reply. Absent for a count of tokens, which costs nothing. */
  readonly decide?: ((body: JsonObject, phase: GuardPhase) => Promise<JsonObject>) | undefined;
}

/** The guardrails of a workspace for one phase of a call. Each function throws the fault of a guardrail that denies. */
export interface Guard {
  /** Whether text leaves the process to be checked: then a stream is checked in larger parts. */
  readonly isRemote: boolean;
  /** The texts as they may be sent on, in their order. */
  readonly checkAll: (texts: readonly GuardedText[]) => Promise<readonly string[]>;
  /** A part of a stream; guardrails mask it, but rewrite nothing. */
  readonly checkPart: (part: StreamPart) => Promise<PartResult>;
}

export interface StreamPart {
  /** Begins with some characters of the part before, which were checked. */
  readonly text: string;
  /** How many of them. */
  readonly checked: number;
  readonly isLast: boolean;
}

export interface PartResult {
  readonly edits: readonly TextEdit[];
  /** The characters from here on wait for more: a match may continue. */
  readonly decided: number;
}

/** By phase; without those for which the workspace has no guardrails. Their checks are added to `checks`. */
export type OpenGuards = (
  call: GuardedCall,
  checks: GuardrailCheck[],
) => Promise<Partial<Readonly<Record<GuardPhase, Guard>>>>;
