// Calls the tools of MCP servers that workspaces allow, with the official client. Requests go only to public addresses. Errors say
// nothing about the network, and never have the secret headers, also if the server returns them.

import type {
  RequestOptions,
  StreamableHTTPClientTransport,
  Tool,
} from "@modelcontextprotocol/client";
import type { McpTool } from "@postern/wires";
import { isObject, type JsonObject, parseJson, parseObject } from "../../base/json.ts";
import type { ResolveHost } from "../../base/network/public-endpoint.ts";
import { createPublicFetch } from "../../base/network/public-fetch.ts";
import { rejectOnAbort } from "../../base/network/public-url.ts";
import { SECOND_MS } from "../../base/time.ts";
import { MCP_RESULT_TOKENS } from "../request/tool-bounds.ts";
import { cutBytes } from "../web-search/search-backends.ts";

/** The most bytes of one response. */
const RESPONSE_MAX_BYTES = 1_048_576;
const LIST_TIMEOUT_MS = 10 * SECOND_MS;
const CALL_TIMEOUT_MS = 30 * SECOND_MS;
const TOOLS_MAX = 200;
/** The most characters of all pages of a list. */
const LIST_MAX_LENGTH = RESPONSE_MAX_BYTES;
const LIST_PAGES_MAX = 20;
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
  readonly callTool: (tool: McpTool, args: JsonObject) => Promise<McpResult>;
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
          return readTools(client, { signal, timeout: LIST_TIMEOUT_MS });
        };
        // The client does not end each of its waits with the signal.
        const tools = await Promise.race([list(), rejectOnAbort(signal)]);
        return withoutSecrets(endpoint, tools);
      },
      callTool: async (tool, args) => {
        const signal = timeLimit(endpoint, CALL_TIMEOUT_MS);
        const run = async () => {
          const { client } = await opened();
          return client.callTool(
            { name: tool.name, arguments: args },
            { signal, timeout: CALL_TIMEOUT_MS, toolDefinition: definitionOf(tool) },
          );
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

/** `client.listTools` would read pages of any total size, and write names of tools to the log. */
async function readTools(
  client: Pick<Awaited<ReturnType<typeof connect>>["client"], "request">,
  options: RequestOptions,
): Promise<readonly McpTool[]> {
  const tools: McpTool[] = [];
  let length = 0;
  let cursor: string | undefined;
  for (let page = 0; page < LIST_PAGES_MAX; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const found = await client.request({ method: "tools/list", params }, options);
    for (const { name, description, inputSchema } of found.tools)
      tools.push({ name, description, inputSchema });
    length += JSON.stringify(found.tools).length;
    if (length > LIST_MAX_LENGTH) throw new Error("the list of tools is too long");
    cursor = found.nextCursor;
    if (cursor === undefined || tools.length >= TOOLS_MAX) break;
  }
  return tools.slice(0, TOOLS_MAX);
}

/**
 * Without a schema of the result, by which the client would check it: a pattern in it could take minutes. With a definition, the
 * client does not list the tools itself.
 */
function definitionOf({ name, inputSchema }: McpTool): Tool {
  // Safe because the client only looks for headers in it.
  return { name, inputSchema: inputSchema as Tool["inputSchema"] };
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
    // A response to a request of the server, such as a ping: one reply of it could have thousands.
    if (method === "POST" && !isRequest(body)) return new Response(null, { status: 202 });
    const limits = [callSignal, AbortSignal.timeout(CALL_TIMEOUT_MS)];
    return send(String(url), {
      method,
      headers: Object.fromEntries(new Headers(headers)),
      body,
      signal: AbortSignal.any(signal == null ? limits : [...limits, signal]),
    });
  };
}

function isRequest(body: unknown): boolean {
  return typeof body === "string" && parseObject(body)?.["method"] !== undefined;
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

/** Without the secrets of the request. In JSON, some characters of them are escaped. */
function redacted({ headers }: McpEndpoint, text: string): string {
  return Object.values(headers)
    .flatMap((value) => value.split(" ").concat(value))
    .flatMap((value) =>
      value.length < SECRET_MIN_LENGTH ? [] : [value, JSON.stringify(value).slice(1, -1)],
    )
    .reduce((rest, value) => rest.replaceAll(value, "[redacted]"), text);
}

function withoutSecrets(endpoint: McpEndpoint, tools: readonly McpTool[]): readonly McpTool[] {
  const text = JSON.stringify(tools);
  const safe = redacted(endpoint, text);
  if (safe === text) return tools;
  const parsed = parseJson(safe);
  if (!Array.isArray(parsed)) throw new Error("the list of tools has a secret");
  // Safe because only texts within it were replaced.
  return parsed as readonly McpTool[];
}

/** Without the secrets of the request, and of bounded length. */
function shown(endpoint: McpEndpoint, text: string): string {
  const safe = redacted(endpoint, text);
  const cut = cutBytes(safe, MCP_RESULT_TOKENS - CUT_NOTE.length);
  return cut === safe ? safe : cut + CUT_NOTE;
}

const CUT_NOTE = "\n[The rest of the result is cut.]";
