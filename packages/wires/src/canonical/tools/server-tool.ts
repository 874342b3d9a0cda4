// A tool that providers of several APIs run, such as a web search, in the forms of each wire.

import type { Loss } from "../canonical-losses.ts";
import type { NativePart } from "../canonical-parts.ts";
import type { CanonicalRequest } from "../canonical-request.ts";
import type { Target } from "../wire-interfaces.ts";

/** OpenAI's tool that generates images. */
export const IMAGE_TOOL = "image_generation";

/** A value that the caller set, and its field, for errors. */
export interface Setting<T> {
  readonly value: T;
  readonly path: string;
}

/** What the definitions of all such tools have. */
export interface ServerToolDefinition {
  readonly path: string;
  /** The model must use it. */
  readonly isRequired?: boolean | undefined;
  /** Settings that only the caller's API has. */
  readonly losses: readonly Loss[];
}

/** A wire's form in requests. A wire that only writes or only reads requests has one of the functions. */
export interface ServerToolRequestForm<T extends ServerToolDefinition> {
  /** The tool of the request, and the request without it. */
  readonly read?: (
    request: CanonicalRequest,
  ) => { readonly tool: T; readonly rest: CanonicalRequest } | undefined;
  /** The request with the tool. */
  readonly write?: (
    request: CanonicalRequest,
    tool: T,
    target: Target,
    losses: Loss[],
  ) => CanonicalRequest;
  /** Whether a target of this wire has the tool; absent: all that the wire is written for. */
  readonly isOfferedBy?: (target: Target) => boolean;
}

/** What a part of a reply says about calls of the tool; undefined for any other part. */
type ServerToolReport<C> =
  /** Another part has the rest of the call, or no other API has what this part contains. */
  | { readonly kind: "pending" }
  | {
      readonly kind: "call";
      readonly call: C;
      /** The part also has content, such as images, that is listed as dropped. */
      readonly isPartial?: true | undefined;
    };

/** A wire's form of calls in replies. */
export interface ServerToolReplyForm<C> {
  /** Reads the parts of one reply in their order. */
  readonly createReader: () => (part: NativePart) => ServerToolReport<C> | undefined;
  /** `id` is unique in the conversation. Empty for an API without such calls. */
  readonly writeCall: (call: C, id: string) => readonly NativePart[];
}
