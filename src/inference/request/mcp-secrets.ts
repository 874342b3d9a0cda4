// The secrets of a request that are for MCP servers. What is stored of the request does not have them.

import { isObject, parseJson } from "../../base/json.ts";
import type { ParsedRequest } from "./parse-request.ts";

const TOKENS: ReadonlySet<string> = new Set(["authorization", "authorization_token"]);
const REDACTED = "[redacted]";

export function withoutMcpSecrets({ hasMcp }: Pick<ParsedRequest, "hasMcp">, text: string): string {
  const json = hasMcp ? parseJson(text) : undefined;
  return json === undefined ? text : JSON.stringify(json, redact);
}

function redact(name: string, value: unknown): unknown {
  if (TOKENS.has(name) && typeof value === "string") return REDACTED;
  if (name !== "headers" || !isObject(value)) return value;
  return Object.fromEntries(Object.keys(value).map((header) => [header, REDACTED]));
}
