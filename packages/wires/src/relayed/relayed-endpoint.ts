// An endpoint without a conversation: its request goes to a provider of the same API, and nothing is translated between
// wires. What the stages of a call must know of it is one entry of a table.

import { isSet, type JsonObject } from "../json-fields.ts";
import type { FeeMeter, Usage } from "../usage/usage-meters.ts";

export const MODEL_KINDS = [
  "chat",
  "embedding",
  "image",
  "speech",
  "transcription",
  "rerank",
  "moderation",
  "decision",
] as const;
export type ModelKind = (typeof MODEL_KINDS)[number];

export interface RelayedEndpoint {
  /** The kind of models that serve it. */
  readonly kind: ModelKind;
  /** The end of the names of its models in the catalog: they have another price than on the provider's other APIs. */
  readonly modelSuffix?: string;
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
  /** The size and quality that the price of an image can depend on. */
  readonly imageClass?: (json: JsonObject) => string;
  /** Undefined if the reply does not say what was used. */
  readonly readUsage: (reply: JsonObject, context: RelayedContext) => Usage | undefined;
  /** Whether a reply has neither output nor a reason why it ended: it costs nothing. */
  readonly isEmpty?: (reply: JsonObject) => boolean;
  /** Members of the body that the provider gets: absent ones are sent as they are. */
  readonly writeRequest?: (json: JsonObject, context: RelayedContext) => MemberChanges;
  /** The reply in the gateway's form. */
  readonly writeReply?: (reply: JsonObject, json: JsonObject, usage: Usage) => JsonObject;
  /** The reply in a format that is not JSON, if the request asks for one. */
  readonly writeFile?: (reply: JsonObject, json: JsonObject) => FileReply | undefined;
  /** Providers that have the models, but not the endpoint. */
  readonly translations?: Readonly<Partial<Record<RelayedForm, RelayedTranslation>>>;
  /** Set if requests are forms, which can have files. */
  readonly form?: RelayedFormBody;
  /** Set if replies can be streams. */
  readonly stream?: RelayedStream;
}

/** The endpoint on another API of a provider. */
export interface RelayedTranslation {
  readonly wire: "gemini" | "converse" | "images" | "image_edits";
  readonly pathOf: (upstreamName: string) => string;
  /** The output limit that is sent, which bounds the hold. */
  readonly outputTokensMax?: number;
  /** Throws an `InvalidRequest` for what the API cannot express. */
  readonly write: (json: JsonObject, context: TranslationContext) => JsonObject;
  /** The fields that the API has no place for. */
  readonly dropped: (json: JsonObject) => readonly string[];
  /** Absent: the reply has the form of the endpoint. */
  readonly read?: (reply: JsonObject, createdSeconds: number, usage: Usage) => JsonObject;
  /** Absent: as the endpoint reads them. */
  readonly isEmpty?: (reply: JsonObject) => boolean;
  readonly readUsage?: (reply: JsonObject, context: RelayedContext) => Usage | undefined;
}

export interface TranslationContext {
  readonly upstreamName: string;
  /** The file of a form that this member of its JSON stands for. */
  readonly fileOf: (member: unknown) => RelayedFile | undefined;
}

export interface RelayedFile {
  readonly bytes: Uint8Array;
  readonly contentType: string;
}

/** The names of the fields that a translation does not read. */
export function fieldsWithout(json: JsonObject, read: ReadonlySet<string>): readonly string[] {
  return Object.keys(json).filter((name) => isSet(json[name]) && !read.has(name));
}

export interface RelayedFormBody {
  /** A request without files may also be JSON. */
  readonly isOptional: boolean;
  /** Fields that are not text: a form has only text and files. */
  readonly fields: Readonly<Record<string, "boolean" | "number" | "json" | "list">>;
  /** What the price depends on: members of the JSON that stands for the file. */
  readonly describeFile: (bytes: Uint8Array) => JsonObject;
}

/** How the reply of a request arrives, and how its usage is read. */
export interface RelayedStream {
  /** Whether the caller asks for a stream, or gets bytes. */
  readonly isStream: (json: JsonObject) => boolean;
  /** What the provider sends, and what the caller gets. */
  readonly formOf: (json: JsonObject, context: RelayedContext) => StreamForm;
  /** The usage that the events report. */
  readonly usageInEvent: (event: JsonObject, context: RelayedContext) => Usage | undefined;
  /** The usage that is known from the request alone. */
  readonly usageOfBytes?: (context: RelayedContext) => Usage | undefined;
  /** `[DONE]` follows the event with the usage. */
  readonly hasTerminalEvent?: true;
  /** Whether it is the last event of its stream, with the usage. */
  readonly isLast: (event: JsonObject) => boolean;
  /** Whether an event says why the stream ends. Absent: the last one does. */
  readonly endsIn?: (event: JsonObject) => boolean;
  /** The content of an event: encoded bytes, or text. */
  readonly contentOf: (event: JsonObject) => string | undefined;
}

export interface StreamForm {
  readonly sent: "bytes" | "events";
  readonly returned: "bytes" | "events";
  /** The content type of the bytes that are returned; undefined to return the provider's. */
  readonly contentType?: string | undefined;
}

/** A reply that is not JSON. */
export interface FileReply {
  readonly text: string;
  readonly contentType: string;
}

/**
 * The form of a provider that differs from the others: the names of its fields, or `timed` and `together`, where only a
 * transcript with times says how long the recording is.
 */
export type RelayedForm =
  | "standard"
  | "voyage"
  | "mistral"
  | "timed"
  | "together"
  | "fireworks"
  | "xai"
  | "gemini"
  | "bedrock";

/** A value of undefined removes the member. */
export type MemberChanges = Readonly<Record<string, unknown>>;

export interface RelayedContext {
  readonly request: JsonObject;
  /** Whether the model has a price for this unit. If not, it is priced by token. */
  readonly isPriced: (fee: FeeMeter) => boolean;
  readonly form: RelayedForm;
  /** Shorter audio is billed as if it had this length. */
  readonly audioSecondsMin: number;
}

/** An endpoint that reads its input once and writes nothing that is billed. */
export const INPUT_ONLY = {
  countTexts: () => 1,
  repeatedBytes: () => 0,
  outputTokensMax: () => 0,
  unitsMax: () => ({}),
} satisfies Partial<RelayedEndpoint>;
