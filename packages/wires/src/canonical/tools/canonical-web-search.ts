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

interface SearchCall {
  readonly queries: readonly string[];
  readonly sources: readonly SearchSource[];
}

export interface SearchSource {
  readonly url: string;
  readonly title?: string | undefined;
}

export type SearchRequestForm = ServerToolRequestForm<WebSearch>;
export type SearchReplyForm = ServerToolReplyForm<SearchCall>;
