// A web search that the provider runs, and its calls in a reply, independent of any wire.
import type { Loss } from "./loss.ts";
import type { NativePart } from "./parts.ts";
import type { CanonicalRequest } from "./request.ts";
import type { Target } from "./wire.ts";

/** A value that the caller set, and its field, for errors. */
export interface Setting<T> {
  readonly value: T;
  readonly path: string;
}

export interface SearchLocation {
  readonly city?: string | undefined;
  readonly region?: string | undefined;
  readonly country?: string | undefined;
  readonly timezone?: string | undefined;
}

export interface WebSearch {
  readonly path: string;
  readonly allowedDomains?: Setting<readonly string[]> | undefined;
  readonly blockedDomains?: Setting<readonly string[]> | undefined;
  readonly location?: Setting<SearchLocation> | undefined;
  readonly contextSize?: Setting<"low" | "medium" | "high"> | undefined;
  readonly maxUses?: Setting<number> | undefined;
  /** The model must search. */
  readonly isRequired?: boolean | undefined;
  /** What only the caller's API has. */
  readonly losses: readonly Loss[];
}

export interface SearchCall {
  readonly queries: readonly string[];
  readonly sources: readonly SearchSource[];
}

export interface SearchSource {
  readonly url: string;
  readonly title?: string | undefined;
}

/** What a part of a reply says about searches; undefined for any other part. */
export type SearchReport =
  /** More about the same search follows in another part. */
  { readonly kind: "pending" } | { readonly kind: "call"; readonly call: SearchCall };

/** A wire's form of a search in requests. A wire that only writes or only reads requests has one of the functions. */
export interface SearchRequestForm {
  /** The search of the request, and the request without it. */
  readonly read?: (
    request: CanonicalRequest,
  ) => { readonly search: WebSearch; readonly rest: CanonicalRequest } | undefined;
  /** The request with the search; undefined if this target has none. */
  readonly write?: (
    request: CanonicalRequest,
    search: WebSearch,
    target: Target,
    losses: Loss[],
  ) => CanonicalRequest | undefined;
}

/** A wire's form of searches in replies. */
export interface SearchReplyForm {
  /** Reads the parts of one reply in their order. */
  readonly createReader: () => (part: NativePart) => SearchReport | undefined;
  /** `id` is unique in the conversation. Empty for an API without search calls. */
  readonly writeCall: (call: SearchCall, id: string) => readonly NativePart[];
}
