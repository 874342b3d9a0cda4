// A web search that the provider runs, and its calls in a reply, independent of any wire.

import type {
  ServerToolDefinition,
  ServerToolReplyForm,
  ServerToolRequestForm,
  Setting,
} from "./server-tool.ts";

export interface SearchLocation {
  readonly city?: string | undefined;
  readonly region?: string | undefined;
  readonly country?: string | undefined;
  readonly timezone?: string | undefined;
}

export interface WebSearch extends ServerToolDefinition {
  readonly allowedDomains?: Setting<readonly string[]> | undefined;
  readonly blockedDomains?: Setting<readonly string[]> | undefined;
  readonly location?: Setting<SearchLocation> | undefined;
  readonly contextSize?: Setting<"low" | "medium" | "high"> | undefined;
  readonly maxUses?: Setting<number> | undefined;
}

export interface SearchCall {
  readonly queries: readonly string[];
  readonly sources: readonly SearchSource[];
  readonly error?: SearchError | undefined;
}

/** Why a search has no results, in Anthropic's words. */
export type SearchError = "unavailable" | "max_uses_exceeded" | "invalid_tool_input";

export interface SearchSource {
  readonly url: string;
  readonly title?: string | undefined;
  /** What the model read of it, of a search that the gateway ran. */
  readonly content?: string | undefined;
  /** The date of the page. */
  readonly age?: string | undefined;
}

export type SearchRequestForm = ServerToolRequestForm<WebSearch>;
export type SearchReplyForm = ServerToolReplyForm<SearchCall>;
