// `postern mcp`: the MCP server of a gateway over standard input and output, for clients that start a command. It forwards
// each message to `/mcp` with the key of the key file, and keeps the keys that create_account returns to itself.

import { createSseParser, readSse } from "@postern/wires";
import { type JsonObject, objectIn, parseObject, stringIn } from "../../base/json.ts";
import type { CliEnv, Command } from "../command.ts";
import { gatewayUrl, unreachable, URL_FLAG } from "./gateway-url.ts";
import { readKey } from "./key-file.ts";
import {
  type ChosenAccount,
  chooseAccount,
  keepAccount,
  type KeyFiles,
  presentAccount,
  presentResult,
} from "./mcp-accounts.ts";

const MESSAGE_MAX_CHARACTERS = 4 * 1_048_576;
/** Further messages wait. */
const REQUESTS_AT_ONCE_MAX = 64;
const VERSION_META = "io.modelcontextprotocol/protocolVersion";
const UNREACHABLE_CODE = -32_000;
const HTTP_UNAUTHORIZED = 401;
const CREATE_ACCOUNT = "create_account";

export const mcp: Command = {
  summary: "Serve the MCP tools of a gateway over standard input and output",
  details:
    "The key is that of ~/.postern/<host>.json or POSTERN_API_KEY. Without one, create_account creates an account and its\nkey is kept in that file. Further accounts have files of their own, ~/.postern/<host>-<account id>.json.",
  positionals: [],
  flags: { url: URL_FLAG },
  run: async (args, cli) => {
    const url = gatewayUrl(args, cli);
    const key = readKey(cli.client.homeFolder, url) ?? cli.client.apiKey;
    await forwardAll({
      url,
      cli,
      key,
      isKeyRefused: false,
      version: undefined,
      pending: new Map(),
    });
    return 0;
  },
};

interface Connection {
  readonly url: string;
  readonly cli: CliEnv;
  key: string | undefined;
  /** Whether the gateway refused the key. */
  isKeyRefused: boolean;
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
    const chosen = chooseAccount(filesOf(connection), message);
    if (chosen === undefined) write(connection, unknownAccount(id));
    else await send(connection, chosen, abort.signal);
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

function filesOf({ url, cli }: Connection): KeyFiles {
  return { home: cli.client.homeFolder, url };
}

function unknownAccount(id: unknown): JsonObject {
  const text =
    "There is no key of this `account` on this computer. Use an id that create_account returned.";
  const content = [{ type: "text", text }];
  return { jsonrpc: "2.0", id, result: { resultType: "complete", isError: true, content } };
}

/** Without them a client could neither start nor create another account when its key was revoked. */
function needsNoKey({ method, params }: JsonObject): boolean {
  return method !== "tools/call" || stringIn(objectIn(params)?.["name"]) === CREATE_ACCOUNT;
}

async function send(
  connection: Connection,
  { key, message }: ChosenAccount,
  signal: AbortSignal,
): Promise<void> {
  const response = await post(connection, message, key ?? connection.key, signal);
  if (response.status !== HTTP_UNAUTHORIZED || key !== undefined || !needsNoKey(message))
    return relay(connection, message, response);
  await response.body?.cancel();
  connection.isKeyRefused = true;
  return relay(connection, message, await post(connection, message, undefined, signal));
}

function post(
  { url, version }: Connection,
  message: JsonObject,
  key: string | undefined,
  signal: AbortSignal,
): Promise<Response> {
  const { method, params } = message;
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
  return fetch(`${url}/mcp`, {
    method: "POST",
    headers,
    body: JSON.stringify(message),
    signal,
  });
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
    await deliver(connection, request, reply);
    return;
  }
  const parser = createSseParser();
  for await (const chunk of response.body)
    for (const event of parser.push(chunk)) {
      const reply = parseObject(readSse(event)?.data ?? "");
      if (reply !== undefined) await deliver(connection, request, reply);
    }
}

async function deliver(
  connection: Connection,
  { id, method, params }: JsonObject,
  reply: JsonObject,
): Promise<void> {
  const isResponse = reply["result"] !== undefined || reply["error"] !== undefined;
  // The gateway refuses some messages before it reads their id. A notification gets no response.
  if (!isResponse) write(connection, reply);
  if (!isResponse || id === undefined) return;
  const result = objectIn(reply["result"]);
  if (method === "initialize") connection.version = stringIn(result?.["protocolVersion"]);
  const isCreation = method === "tools/call" && objectIn(params)?.["name"] === CREATE_ACCOUNT;
  const created = isCreation ? objectIn(result?.["structuredContent"]) : undefined;
  const key = stringIn(created?.["api_key"]);
  if (created !== undefined && key !== undefined) {
    write(connection, {
      ...reply,
      id,
      result: await keepKey(connection, { result, created, key }),
    });
    return;
  }
  write(connection, { ...reply, id, ...(result && { result: presentResult(result) }) });
}

interface Creation {
  readonly result: JsonObject | undefined;
  readonly created: JsonObject;
  readonly key: string;
}

/** If the key cannot be saved, the client gets it: it would be lost otherwise. */
async function keepKey(
  connection: Connection,
  { result, created, key }: Creation,
): Promise<JsonObject | undefined> {
  const { cli, url } = connection;
  const hasWorkingKey = connection.key !== undefined && !connection.isKeyRefused;
  try {
    const file = keepAccount(filesOf(connection), created, hasWorkingKey);
    if (!hasWorkingKey) {
      connection.key = key;
      connection.isKeyRefused = false;
    }
    cli.printError(`Saved the API key in ${file}`);
    return { ...result, ...(await presentAccount(url, created, file)) };
  } catch (error) {
    cli.printError(`The API key could not be saved: ${String(error)}`);
    return result;
  }
}

function write({ cli }: Connection, message: JsonObject): void {
  cli.print(JSON.stringify(message));
}
