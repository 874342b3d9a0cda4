// How the tests of the specification talk to a gateway: a line such as `POST /v1/keys`, a key, a body; and the answer
// with its body read.

import { expect } from "bun:test";
import type { Gateway } from "../support/gateway.ts";

export type Json = Readonly<Record<string, unknown>>;

export interface ApiRequest {
  readonly key?: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it is, where it is not JSON or must not be. */
  readonly raw?: BodyInit;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body, where it is JSON; otherwise empty. */
  readonly body: Json;
}

export async function call(
  gateway: Pick<Gateway, "url">,
  line: string,
  sent: ApiRequest = {},
): Promise<ApiResponse> {
  const [method = "GET", path = "/"] = line.split(" ");
  const body = sent.raw ?? (sent.body === undefined ? undefined : JSON.stringify(sent.body));
  const response = await fetch(gateway.url + path, {
    method,
    redirect: "manual",
    headers: {
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(sent.key === undefined ? {} : { authorization: `Bearer ${sent.key}` }),
      ...sent.headers,
    },
    ...(body === undefined ? {} : { body }),
  });
  return read(response);
}

async function read(response: Response): Promise<ApiResponse> {
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.includes("json") === true && text !== "";
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: isJson ? (JSON.parse(text) as Json) : {},
  };
}

/** A member by its path: `at(body, "error.code")`, `at(body, "data.0.id")`. */
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
    throw new Error(`no text at ${path} of ${JSON.stringify(value).slice(0, 300)}`);
  return found;
}

export function listAt(value: unknown, path: string): readonly Json[] {
  const found = valueAt(value, path);
  if (!Array.isArray(found)) throw new Error(`no list at ${path}`);
  return found as readonly Json[];
}

/** A refusal in the form of the OpenAI API, by its code and, where it names one, the field that is wrong. */
export function expectError(
  answer: ApiResponse,
  { status, code, param }: { status: number; code: string; param?: string | null },
): void {
  const { status: got, body } = answer;
  expect({ status: got, code: valueAt(body, "error.code") }).toEqual({ status, code });
  if (param !== undefined) expect(valueAt(body, "error.param")).toBe(param);
  expect(valueAt(body, "error.request_id")).toBe(answer.headers.get("x-request-id"));
  expectNoInternals(answer);
}

/** What no answer to bad input may show. */
export function expectNoInternals({ status, text }: Pick<ApiResponse, "status" | "text">): void {
  expect({ status, fine: status < 500 }).toEqual({ status, fine: true });
  expect(text).not.toMatch(/\bat .*\.tsx?:\d+|node_modules|SQLITE|Postgres(?:Error)?\b|\/src\//);
}

/** A model call that the simulator answers. */
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

/** A clock that moves only when it is told to. */
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
