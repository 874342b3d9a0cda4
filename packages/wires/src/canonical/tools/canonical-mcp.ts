// MCP servers whose tools the provider calls while the model answers.

import type { JsonObject } from "../../json-fields.ts";
import type {
  ServerToolDefinition,
  ServerToolReplyForm,
  ServerToolRequestForm,
  Setting,
} from "./server-tool.ts";

export interface McpServer {
  readonly name: string;
  readonly url: string;
  /** The field of the URL, for errors. */
  readonly urlPath: string;
  readonly token?: string | undefined;
  /** Headers that the caller sets besides the token. */
  readonly headers?: Setting<Readonly<Record<string, string>>> | undefined;
  /** Absent: all tools of the server. */
  readonly allowedTools?: readonly string[] | undefined;
  /** The field that asks for an approval of calls; absent if calls need none. */
  readonly approvalPath?: string | undefined;
}

/** A tool as the server lists it. */
export interface McpTool {
  readonly name: string;
  readonly description?: string | undefined;
  readonly inputSchema: JsonObject;
}

export interface McpServers extends ServerToolDefinition {
  readonly servers: readonly McpServer[];
}

export interface McpCall {
  readonly server: string;
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
  readonly output: string;
  readonly isError: boolean;
}

export type McpRequestForm = ServerToolRequestForm<McpServers>;
export type McpReplyForm = ServerToolReplyForm<McpCall>;
