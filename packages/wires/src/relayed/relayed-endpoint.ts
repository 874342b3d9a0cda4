// An endpoint without a conversation: its request goes to a provider of the same API, and nothing is translated between
// wires. What the stages of a call must know of it is one entry of a table.

import type { JsonObject } from "../json-fields.ts";
import type { FeeMeter, Usage } from "../usage/usage-meters.ts";

export type ModelKind = "chat" | "embedding" | "image" | "rerank" | "moderation";

export interface RelayedEndpoint {
  /** The kind of models that serve it. */
  readonly kind: Exclude<ModelKind, "chat">;
  /** The model of a request that names none. */
  readonly defaultModel?: string;
  /** Throws an `InvalidRequest` for a request whose cost cannot be bounded, or that no provider takes. */
  readonly check: (json: JsonObject) => void;
  /** Fields with text of the caller. Nothing in them refers to storage at a provider. */
  readonly textFields: readonly string[];
  /** Further fields with text that its providers take. */
  readonly knownFields: string;
  /** The number of texts, each with a context of its own. */
  readonly countTexts: (json: JsonObject) => number;
  /** What a provider reads more than once: bytes in addition to the body. */
  readonly repeatedBytes: (json: JsonObject) => number;
  /** Upper bound of the output tokens that a model priced by token makes. */
  readonly outputTokensMax: (json: JsonObject) => number;
  /** Upper bound of the units that a model priced by unit charges. */
  readonly unitsMax: (json: JsonObject) => Readonly<Partial<Record<FeeMeter, number>>>;
  /** Undefined if the reply does not say what was used. */
  readonly readUsage: (reply: JsonObject, context: RelayedContext) => Usage | undefined;
  /** Members of the body that a provider of this form gets: absent ones are sent as they are. */
  readonly writeRequest?: (json: JsonObject, form: RelayedForm) => MemberChanges;
  /** The reply in the gateway's form. */
  readonly writeReply?: (reply: JsonObject, json: JsonObject, usage: Usage) => JsonObject;
}

/** The form of a provider whose fields have other names. */
export type RelayedForm = "standard" | "voyage";

/** A value of undefined removes the member. */
export type MemberChanges = Readonly<Record<string, unknown>>;

export interface RelayedContext {
  readonly request: JsonObject;
  /** Whether the model has a price for this unit. If not, it is priced by token. */
  readonly isPriced: (fee: FeeMeter) => boolean;
}

/** An endpoint that reads its input once and writes nothing that is billed. */
export const INPUT_ONLY = {
  countTexts: () => 1,
  repeatedBytes: () => 0,
  outputTokensMax: () => 0,
  unitsMax: () => ({}),
} satisfies Partial<RelayedEndpoint>;
