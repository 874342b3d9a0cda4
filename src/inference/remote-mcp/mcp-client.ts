// Calls the tools of MCP servers that workspaces allow, with the official client. Requests go only to public addresses. Errors say
// nothing about the network, and never have the secret headers, also if the server returns them.

import type { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { McpTool } from "@postern/wires";
import { isObject, type JsonObject } from "../../base/json.ts";
import type { ResolveHost } from "../../base/network/public-endpoint.ts";
import { createPublicFetch } from "../../base/network/public-fetch.ts";
import { rejectOnAbort } from "../../base/network/public-url.ts";
import { SECOND_MS } from "../../base/time.ts";
import { MCP_RESULT_TOKENS } from "../request/tool-bounds.ts";
import { cutBytes } from "../web-search/search-backends.ts";

/** Of one response. */
const RESPONSE_MAX_BYTES = 1_048_576;
const LIST_TIMEOUT_MS = 10 * SECOND_MS;
const CALL_TIMEOUT_MS = 30 * SECOND_MS;
const TOOLS_MAX = 200;
/** Shorter values could be words of any text. */
const SECRET_MIN_LENGTH = 8;

export interface McpEndpoint {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

export interface McpResult {
  readonly text: string;
  readonly isError: boolean;
}

export interface McpConnection {
  readonly listTools: () => Promise<readonly McpTool[]>;
  /** Returns failures as an error result, which the model reads. Does not throw. */
  readonly callTool: (name: string, args: JsonObject) => Promise<McpResult>;
  readonly close: () => Promise<void>;
}

/** Connects at the first use. */
export type OpenMcpConnection = (endpoint: McpEndpoint) => McpConnection;

export interface McpClientDeps {
  readonly resolve: ResolveHost;
  /** Development only. */
  readonly allowLoopback: boolean;
}

export function createOpenMcpConnection(deps: McpClientDeps): OpenMcpConnection {
  return (endpoint) => {
    let opening: ReturnType<typeof connect> | undefined;
    const opened = (): ReturnType<typeof connect> => (opening ??= connect(deps, endpoint));
    return {
      listTools: async () => {
        const signal = timeLimit(endpoint, LIST_TIMEOUT_MS);
        const list = async () => {
          const { client } = await opened();
          return client.listTools(undefined, { signal, timeout: LIST_TIMEOUT_MS });
        };
        // The client does not end each of its waits with the signal.
        const { tools } = await Promise.race([list(), rejectOnAbort(signal)]);
        return tools.slice(0, TOOLS_MAX).map(({ name, description, inputSchema }) => ({
          name,
          description,
          inputSchema,
        }));
      },
      callTool: async (name, args) => {
        const signal = timeLimit(endpoint, CALL_TIMEOUT_MS);
        const run = async () => {
          const { client } = await opened();
          const options = { signal, timeout: CALL_TIMEOUT_MS };
          return client.callTool({ name, arguments: args }, options);
        };
        try {
          const result = await Promise.race([run(), rejectOnAbort(signal)]);
          const text = resultText(result.content, result.structuredContent);
          return { text: shown(endpoint, text), isError: result.isError === true };
        } catch (cause) {
          return { text: failureText(endpoint, cause, signal), isError: true };
        }
      },
      close: async () => {
        const ending = opening;
        opening = undefined;
        if (ending === undefined) return;
        const { client, transport } = await ending;
        await transport.terminateSession();
        await client.close();
      },
    };
  };
}

function timeLimit({ signal }: McpEndpoint, ms: number): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ms)]);
}

async function connect(deps: McpClientDeps, endpoint: McpEndpoint) {
  // Most calls need no MCP client, and it is large.
  const { Client, StreamableHTTPClientTransport: Transport } =
    await import("@modelcontextprotocol/client");
  const client = new Client(
    { name: "Postern", version: "1" },
    { versionNegotiation: { mode: "auto" } },
  );
  const transport: StreamableHTTPClientTransport = new Transport(new URL(endpoint.url), {
    requestInit: { headers: endpoint.headers },
    fetch: fetchFor(deps, endpoint),
  });
  await client.connect(transport, {
    signal: timeLimit(endpoint, LIST_TIMEOUT_MS),
    timeout: LIST_TIMEOUT_MS,
  });
  return { client, transport };
}

function fetchFor(
  { resolve, allowLoopback }: McpClientDeps,
  { signal: callSignal }: McpEndpoint,
): (url: string | URL, init?: RequestInit) => Promise<Response> {
  const send = createPublicFetch({ resolve, allowLoopback, bytesMax: RESPONSE_MAX_BYTES });
  return async (url, { method = "GET", headers, body, signal } = {}) => {
    // A stream of notifications, which tools do not need.
    if (method === "GET") return new Response(null, { status: 405 });
    const limits = [callSignal, AbortSignal.timeout(CALL_TIMEOUT_MS)];
    return send(String(url), {
      method,
      headers: Object.fromEntries(new Headers(headers)),
      body,
      signal: AbortSignal.any(signal == null ? limits : [...limits, signal]),
    });
  };
}

function resultText(content: readonly unknown[], structured: unknown): string {
  const texts = content.flatMap((block) => {
    if (!isObject(block)) return [];
    const { type, text, resource, uri } = block;
    if (typeof text === "string") return [text];
    if (isObject(resource) && typeof resource["text"] === "string") return [resource["text"]];
    if (type === "resource_link") return [String(uri)];
    return [`[${String(type)} content, which the gateway does not pass on]`];
  });
  return texts.length === 0 && structured !== undefined
    ? JSON.stringify(structured)
    : texts.join("\n");
}

/** The message of an error that the server sent; nothing of another one. */
function failureText(endpoint: McpEndpoint, cause: unknown, { aborted }: AbortSignal): string {
  if (aborted) return "The tool did not answer in time.";
  const isServers = cause instanceof Error && cause.name === "ProtocolError";
  return isServers
    ? shown(endpoint, `The tool failed: ${cause.message}`)
    : "The server of the tool could not be reached, or did not answer as MCP has it.";
}

/** Without the secrets of the request, and of bounded length. */
function shown({ headers }: McpEndpoint, text: string): string {
  const secrets = Object.values(headers)
    .flatMap((value) => value.split(" ").concat(value))
    .filter((value) => value.length >= SECRET_MIN_LENGTH);
  const safe = secrets.reduce((rest, value) => rest.replaceAll(value, "[redacted]"), text);
  const cut = cutBytes(safe, MCP_RESULT_TOKENS - CUT_NOTE.length);
  return cut === safe ? safe : cut + CUT_NOTE;
}

const CUT_NOTE = "\n[The rest of the result is cut.]";
