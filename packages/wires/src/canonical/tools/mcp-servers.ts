// MCP servers whose tools the provider calls while the model answers.
import type {
  ServerToolDefinition,
  ServerToolReplyForm,
  ServerToolRequestForm,
} from "./server-tool.ts";

export interface McpServer {
  readonly name: string;
  readonly url: string;
  /** The field of the URL, for errors. */
  readonly urlPath: string;
  readonly token?: string | undefined;
  /** Absent: all tools of the server. */
  readonly allowedTools?: readonly string[] | undefined;
}

interface McpServers extends ServerToolDefinition {
  readonly servers: readonly McpServer[];
}

interface McpCall {
  readonly server: string;
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
  readonly output: string;
  readonly isError: boolean;
}

export type McpRequestForm = ServerToolRequestForm<McpServers>;
export type McpReplyForm = ServerToolReplyForm<McpCall>;
