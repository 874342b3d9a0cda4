// `postern mcp`: the MCP server of a gateway over standard input and output, for clients that start a command. It forwards
// each message to `/mcp` with the key of the key file, and keeps the key that create_account returns.

import { createSseParser, readSse } from "@postern/wires";
import { isObject, type JsonObject, objectIn, parseObject, stringIn } from "../../base/json.ts";
import type { CliEnv, Command } from "../command.ts";
import { gatewayUrl, unreachable, URL_FLAG } from "./gateway-url.ts";
import { readKey, saveKey } from "./key-file.ts";

const MESSAGE_MAX_CHARACTERS = 4 * 1_048_576;
/** Further messages wait. */
const REQUESTS_AT_ONCE_MAX = 64;
const VERSION_META = "io.modelcontextprotocol/protocolVersion";
const UNREACHABLE_CODE = -32_000;

export const mcp: Command = {
  summary: "Serve the MCP tools of a gateway over standard input and output",
  details:
    "The key is that of ~/.postern/<host>.json or POSTERN_API_KEY. Without one, create_account creates an account and its\nkey is kept in that file.",
  positionals: [],
  flags: { url: URL_FLAG },
  run: async (args, cli) => {
    const url = gatewayUrl(args, cli);
    const key = readKey(cli.client.homeFolder, url) ?? cli.client.apiKey;
    await forwardAll({ url, cli, key, version: undefined, pending: new Map() });
    return 0;
  },
};

interface Connection {
  readonly url: string;
  readonly cli: CliEnv;
  key: string | undefined;
  /** The protocol version of a client that begins with `initialize`. */
  version: string | undefined;
  readonly pending: Map<unknown, AbortController>;
}

async function forwardAll(connection: Connection): Promise<void> {
  const running = new Set<Promise<void>>();
  let buffer = "";
  const decoder = new TextDecoder();
  for await (const chunk of connection.cli.client.input()) {
    buffer += decoder.decode(chunk, { stream: true });
    const lines = buffer.split("\n");
    buffer = lines.pop() ?? "";
    if (buffer.length > MESSAGE_MAX_CHARACTERS)
      throw new Error(`A message is longer than ${MESSAGE_MAX_CHARACTERS} characters.`);
    for (const line of lines.filter((text) => text.trim() !== "")) {
      const request = forward(connection, line);
      running.add(request);
      void request.finally(() => running.delete(request));
      if (running.size >= REQUESTS_AT_ONCE_MAX) await Promise.race(running);
    }
  }
  await Promise.all(running);
}

async function forward(connection: Connection, line: string): Promise<void> {
  // JSON-RPC identifies the error about an invalid message by null.
  const message = parseObject(line) ?? { id: null };
  if (message["method"] === "notifications/cancelled") {
    connection.pending.get(objectIn(message["params"])?.["requestId"])?.abort();
    return;
  }
  const { id } = message;
  const abort = new AbortController();
  if (id !== undefined) connection.pending.set(id, abort);
  try {
    const response = await post(connection, message, line, abort.signal);
    await relay(connection, message, response);
  } catch (cause) {
    // A canceled request gets no response.
    if (!abort.signal.aborted && id !== undefined)
      write(connection, {
        jsonrpc: "2.0",
        id,
        error: { code: UNREACHABLE_CODE, message: unreachable(connection.url, cause).message },
      });
  } finally {
    connection.pending.delete(id);
  }
}

function post(
  { url, key, version }: Connection,
  { method, params }: JsonObject,
  line: string,
  signal: AbortSignal,
): Promise<Response> {
  const fields = objectIn(params) ?? {};
  const modern = stringIn(objectIn(fields["_meta"])?.[VERSION_META]);
  const name = stringIn(fields["name"]) ?? stringIn(fields["uri"]);
  const headers = new Headers({
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
  });
  if (key !== undefined) headers.set("authorization", `Bearer ${key}`);
  const revision = modern ?? version;
  if (revision !== undefined) headers.set("mcp-protocol-version", revision);
  if (modern !== undefined && typeof method === "string") {
    headers.set("mcp-method", method);
    if (name !== undefined) headers.set("mcp-name", headerValue(name));
  }
  return fetch(`${url}/mcp`, { method: "POST", headers, body: line, signal });
}

/** MCP's encoding of values that no header can hold. */
function headerValue(text: string): string {
  return /^[\u{21}-\u{7e}]+$/u.test(text)
    ? text
    : `=?base64?${Buffer.from(text).toString("base64")}?=`;
}

async function relay(
  connection: Connection,
  request: JsonObject,
  response: Response,
): Promise<void> {
  if (response.body === null || response.status === 202) return;
  if (response.headers.get("content-type")?.includes("text/event-stream") !== true) {
    const reply = parseObject(await response.text());
    if (reply === undefined) throw new Error(`status ${response.status} without JSON`);
    deliver(connection, request, reply);
    return;
  }
  const parser = createSseParser();
  for await (const chunk of response.body)
    for (const event of parser.push(chunk)) {
      const reply = parseObject(readSse(event)?.data ?? "");
      if (reply !== undefined) deliver(connection, request, reply);
    }
}

function deliver(
  connection: Connection,
  { id, method, params }: JsonObject,
  reply: JsonObject,
): void {
  const isResponse = reply["result"] !== undefined || reply["error"] !== undefined;
  const result = objectIn(reply["result"]);
  if (isResponse && method === "initialize")
    connection.version = stringIn(result?.["protocolVersion"]);
  if (isResponse && method === "tools/call" && objectIn(params)?.["name"] === "create_account")
    keepKey(connection, result?.["structuredContent"]);
  // The gateway refuses some messages before it reads their id. A notification gets no response.
  if (!isResponse) write(connection, reply);
  else if (id !== undefined) write(connection, { ...reply, id });
}

/** Never replaces a key: the file may hold another account with credits. */
function keepKey(connection: Connection, created: unknown): void {
  const key = isObject(created) ? stringIn(created["api_key"]) : undefined;
  if (key === undefined || connection.key !== undefined) return;
  const { url, cli } = connection;
  connection.key = key;
  cli.printError(`Saved the API key in ${saveKey(cli.client.homeFolder, url, created)}`);
}

function write({ cli }: Connection, message: JsonObject): void {
  cli.print(JSON.stringify(message));
}
