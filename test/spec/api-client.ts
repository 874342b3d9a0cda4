// A small API client: `call(gateway, "POST /v1/keys", { key, body })`.

import { expect } from "bun:test";
import type { Gateway } from "../support/gateway.ts";

export type Json = Readonly<Record<string, unknown>>;

export interface ApiRequest {
  readonly key?: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent without encoding, instead of `body`. */
  readonly raw?: BodyInit;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body if it is JSON, otherwise empty. */
  readonly body: Json;
}

export async function call(
  gateway: Pick<Gateway, "url">,
  line: string,
  request: ApiRequest = {},
): Promise<ApiResponse> {
  const [method = "GET", path = "/"] = line.split(" ");
  const body =
    request.raw ?? (request.body === undefined ? undefined : JSON.stringify(request.body));
  const response = await fetch(gateway.url + path, {
    method,
    redirect: "manual",
    headers: {
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(request.key === undefined ? {} : { authorization: `Bearer ${request.key}` }),
      ...request.headers,
    },
    ...(body === undefined ? {} : { body }),
    ...(request.signal === undefined ? {} : { signal: request.signal }),
  });
  return read(response);
}

async function read(response: Response): Promise<ApiResponse> {
  const text = await response.text();
  const type = response.headers.get("content-type") ?? "";
  const isJson = /json(?:;|$)/.test(type) && !type.includes("ndjson") && text !== "";
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson ? (JSON.parse(text) as Json) : {},
  };
}

/** A member by path: `valueAt(body, "error.code")`, `valueAt(body, "data.0.id")`. */
export function valueAt(value: unknown, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>(
      (inner, name) =>
        typeof inner === "object" && inner !== null ? (inner as Json)[name] : undefined,
      value,
    );
}

export function textAt(value: unknown, path: string): string {
  const found = valueAt(value, path);
  if (typeof found !== "string")
    throw new Error(`no string at ${path} of ${JSON.stringify(value).slice(0, 300)}`);
  return found;
}

export function listAt(value: unknown, path: string): readonly Json[] {
  const found = valueAt(value, path);
  if (!Array.isArray(found)) throw new Error(`no array at ${path}`);
  return found as readonly Json[];
}

/** Expects an error in OpenAI's envelope with this status, code and param. */
export function expectError(
  response: ApiResponse,
  { status, code, param }: { status: number; code: string; param?: string | null },
): void {
  const { status: actual, body } = response;
  expect({ status: actual, code: valueAt(body, "error.code") }).toEqual({ status, code });
  if (param !== undefined) expect(valueAt(body, "error.param")).toBe(param);
  expect(valueAt(body, "error.request_id")).toBe(response.headers.get("x-request-id"));
  expectNoInternals(response);
}

/** Expects no server error and no stack trace, path or database name. */
export function expectNoInternals({ status, text }: Pick<ApiResponse, "status" | "text">): void {
  expect({ status, isServerError: status >= 500 }).toEqual({ status, isServerError: false });
  expect(text).not.toMatch(/\bat .*\.tsx?:\d+|node_modules|SQLITE|Postgres(?:Error)?\b|\/src\//);
}

/** A chat completion of the simulator. */
export function chat(
  gateway: Pick<Gateway, "url">,
  key: string,
  overrides: Json = {},
  headers: Readonly<Record<string, string>> = {},
): Promise<ApiResponse> {
  const body = {
    model: "sim/echo",
    messages: [{ role: "user", content: "hello" }],
    max_tokens: 50,
    ...overrides,
  };
  return call(gateway, "POST /v1/chat/completions", { key, body, headers });
}

/** A clock that moves only by `advance`. */
export function createFakeClock(start = Date.now()): {
  readonly now: () => number;
  readonly advance: (ms: number) => void;
} {
  let time = start;
  return {
    now: () => time,
    advance: (ms) => {
      time += ms;
    },
  };
}
