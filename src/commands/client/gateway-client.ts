// Requests of the client commands to a gateway.

import {
  arrayIn,
  isObject,
  type JsonObject,
  numberIn,
  objectIn,
  parseObject,
  stringIn,
} from "../../base/json.ts";
import type { ClientModel } from "./client-configs.ts";
import { unreachable } from "./gateway-url.ts";

interface RequestOptions {
  readonly key?: string | undefined;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An error response becomes an error whose cause is the response's error object. */
export async function request(
  url: string,
  line: string,
  { key, body, headers }: RequestOptions = {},
): Promise<JsonObject> {
  const [method = "GET", path = "/"] = line.split(" ");
  const response = await fetch(`${url}${path}`, {
    method,
    headers: {
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }).catch((error: unknown) => {
    throw unreachable(url, error);
  });
  const reply = parseObject(await response.text());
  if (response.ok && reply !== undefined) return reply;
  const error = reply?.["error"];
  const message = isObject(error)
    ? stringIn(error["message"])
    : stringIn(reply?.["error_description"]);
  throw new Error(
    `${line} failed with status ${response.status}: ${message ?? "no reason given"}`,
    { cause: error },
  );
}

const DEFAULT_CONTEXT_TOKENS = 128_000;
const DEFAULT_OUTPUT_TOKENS = 8_192;

/** Models that answer messages with text and can be called now; an embedding model does not. */
export async function listCallableModels(url: string): Promise<readonly ClientModel[]> {
  const { data } = await request(url, "GET /v1/models?available=true");
  return arrayIn(data)
    .map(objectIn)
    .filter((model) => model !== undefined)
    .filter(
      ({ output_modalities: output, wires }) =>
        arrayIn(output).includes("text") && arrayIn(wires).includes("chat"),
    )
    .map((model) => ({
      id: stringIn(model["id"]) ?? "",
      contextTokens: numberIn(model["context_length"]) ?? DEFAULT_CONTEXT_TOKENS,
      outputTokens: numberIn(model["max_output_tokens"]) ?? DEFAULT_OUTPUT_TOKENS,
    }));
}
