// The fetching of pages that the conversation names, and its calls in a reply, independent of any wire.

import type { ServerToolDefinition, ServerToolRequestForm, Setting } from "./server-tool.ts";

export interface WebFetch extends ServerToolDefinition {
  readonly allowedDomains?: Setting<readonly string[]> | undefined;
  readonly blockedDomains?: Setting<readonly string[]> | undefined;
  readonly maxUses?: Setting<number> | undefined;
  readonly maxContentTokens?: Setting<number> | undefined;
}

export interface FetchCall {
  readonly url: string;
  /** Undefined with an error. */
  readonly page?: FetchedPage | undefined;
  readonly error?: FetchError | undefined;
}

export interface FetchedPage {
  readonly title?: string | undefined;
  readonly text: string;
  /** ISO 8601. */
  readonly fetchedAt?: string | undefined;
}

/** Why a page was not fetched, in Anthropic's words. */
export type FetchError =
  | "invalid_tool_input"
  | "url_not_allowed"
  | "url_not_accessible"
  | "unsupported_content_type"
  | "max_uses_exceeded"
  | "unavailable";

export type FetchRequestForm = ServerToolRequestForm<WebFetch>;
