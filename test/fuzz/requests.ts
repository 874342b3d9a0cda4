// Builds a request from the OpenAPI description, the pages and a seed.

import { lookUp } from "../../src/base/look-up.ts";
import { CALL_BODIES, withDirective } from "./call-bodies.ts";
import { isMutable, mutateText, mutateValue } from "./mutations.ts";
import { type Random, randomFor } from "./random.ts";
import { HOSTILE_TEXTS, isJson, type Json, valueFor } from "./values.ts";

/** An endpoint or page. */
export interface Operation {
  readonly method: string;
  readonly path: string;
  /** JSON Schema of the body. */
  readonly body: unknown;
  readonly contentType: string;
  readonly queries: readonly string[];
  readonly example: unknown;
  readonly needsSession: boolean;
}

export interface FuzzTarget {
  readonly document: Json;
  readonly operations: readonly Operation[];
  readonly models: readonly string[];
  readonly keys: () => readonly string[];
  readonly sessions: readonly { readonly cookie: string; readonly csrf: string }[];
  readonly origin: string;
  /** Ids and tokens from earlier responses, by their prefix. */
  readonly ids: () => readonly string[];
}

export interface FuzzRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  /** Hangs up after this time. */
  readonly abortAfterMs: number | undefined;
}

const METHODS: readonly [string, ...string[]] = ["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD"];
const CONTENT_TYPES: readonly [string, ...string[]] = [
  "application/json",
  "application/json; charset=utf-16",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=a",
  "text/plain",
  "application/vnd.a+json",
  "",
];
const HEADERS: readonly [string, ...string[]] = [
  "accept",
  "accept-encoding",
  "accept-language",
  "anthropic-beta",
  "anthropic-version",
  "content-encoding",
  "cookie",
  "idempotency-key",
  "if-none-match",
  "last-event-id",
  "mcp-protocol-version",
  "mcp-session-id",
  "openai-beta",
  "origin",
  "payment-signature",
  "range",
  "traceparent",
  "tracestate",
  "user-agent",
  "x-api-key",
  "x-forwarded-for",
  "x-payment",
  "x-postern-labels",
  "x-stainless-retry-count",
];
const ABORT_AFTER_MAX_MS = 30;
const CALL_SHARE = 0.3;

export function requestAt(target: FuzzTarget, seed: number, index: number): FuzzRequest {
  const random = randomFor(seed, index);
  const calls = target.operations.filter(({ path }) => CALL_BODIES[path] !== undefined);
  const operation = random.pickFrom(random.chance(CALL_SHARE) ? calls : target.operations);
  if (operation === undefined) throw new Error("no operations");
  const isCall = CALL_BODIES[operation.path] !== undefined;
  const body = bodyFor(target, random, operation);
  const method = random.chance(0.02) ? random.pick(METHODS) : operation.method;
  return {
    method,
    target: pathFor(target, random, operation) + queryFor(random, operation),
    headers: headersFor(target, random, operation),
    body: method === "GET" || method === "HEAD" ? undefined : body,
    abortAfterMs: isCall && random.chance(0.05) ? random.integer(ABORT_AFTER_MAX_MS) : undefined,
  };
}

function pathFor(target: FuzzTarget, random: Random, { path }: Operation): string {
  const filled = path.replaceAll(/\{(\w+)\+?\}/g, (_, name: string) => {
    const known = name === "model" ? target.models : target.ids();
    return encodeURIComponent(
      (random.chance(0.85) ? random.pickFrom(known) : undefined) ??
        random.pick(HOSTILE_TEXTS).toWellFormed().slice(0, 400),
    );
  });
  if (!random.chance(0.02)) return filled;
  return filled + random.pick(["/", "//", "/..", "%2f", ";a=b", "%", "%zz", "#a", "/%2e%2e/"]);
}

function queryFor(random: Random, { queries }: Operation): string {
  const chosen = queries.filter(() => random.chance(0.3));
  if (random.chance(0.03)) chosen.push(random.pick(HOSTILE_TEXTS), ...chosen);
  const pairs = chosen.map((name) => `${encoded(name)}=${encoded(queryValue(random, name))}`);
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
}

function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed().slice(0, 400));
}

const QUERY_VALUES: Readonly<Record<string, readonly [string, ...string[]]>> = {
  limit: ["1", "100", "0", "-1", "1e3", "99999999999999999999"],
  from: ["2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"],
  to: ["2027-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "+275760-09-13T00:00:00Z"],
  group_by: ["day", "hour", "model", "key", "label", "provider", "api"],
  time_zone: ["Europe/Berlin", "Asia/Kathmandu", "Etc/GMT+14", "UTC"],
  stream: ["true", "false", "1"],
  order: ["asc", "desc"],
};

function queryValue(random: Random, name: string): string {
  const known = lookUp(QUERY_VALUES, name);
  return known !== undefined && random.chance(0.8)
    ? random.pick(known)
    : random.pick(HOSTILE_TEXTS);
}

function headersFor(
  target: FuzzTarget,
  random: Random,
  operation: Operation,
): Record<string, string> {
  const headers: Record<string, string> = {};
  const key = random.pickFrom(target.keys());
  if (key !== undefined && random.chance(0.95)) headers["authorization"] = `Bearer ${key}`;
  const session = random.pickFrom(target.sessions);
  if (operation.needsSession && session !== undefined && random.chance(0.95))
    Object.assign(headers, {
      cookie: session.cookie,
      origin: target.origin,
      "sec-fetch-site": "same-origin",
    });
  if (operation.method !== "GET")
    headers["content-type"] = random.chance(0.97)
      ? operation.contentType
      : random.pick(CONTENT_TYPES);
  if (random.chance(0.1))
    headers["idempotency-key"] = `repeated-key-number-${random.integer(1_000)}`;
  while (random.chance(0.15)) headers[random.pick(HEADERS)] = headerText(random);
  return headers;
}

/** `fetch` refuses other characters; test/fuzz/raw-bytes.ts sends those. */
function headerText(random: Random): string {
  const text = random.chance(0.5) ? "a=b, c;q=0.1" : random.pick(HOSTILE_TEXTS).slice(0, 4_000);
  return text.replaceAll(/[^\x20-\x7e]/g, "?").trim();
}

function bodyFor(target: FuzzTarget, random: Random, operation: Operation): string {
  const value = mutated(random, validBody(target, random, operation));
  if (operation.contentType === "application/x-www-form-urlencoded") {
    const form = formText(target, random, value);
    return random.chance(0.05) ? mutateText(random, form) : form;
  }
  const text = JSON.stringify(value) ?? "";
  return random.chance(0.07) ? mutateText(random, text) : text;
}

function mutated(random: Random, valid: unknown): unknown {
  let value = valid;
  while (random.chance(0.55) && isMutable(value)) value = mutateValue(random, value);
  return value;
}

function validBody(target: FuzzTarget, random: Random, operation: Operation): unknown {
  const call = CALL_BODIES[operation.path];
  if (call !== undefined && random.chance(0.9)) return callBody(target, random, call);
  if (operation.example !== undefined && random.chance(0.4)) return operation.example;
  return valueFor(
    { document: target.document, random, knownValue: (field) => knownValue(target, random, field) },
    operation.body,
  );
}

function callBody(target: FuzzTarget, random: Random, call: Json): unknown {
  const chosen = Object.fromEntries(
    Object.entries(call).filter(
      ([name]) =>
        /^(model|messages|input|contents|requests|max_tokens|prompt|images|voice|query|documents|questions)$/.test(
          name,
        ) || random.chance(0.3),
    ),
  );
  // Models of chat serve no other endpoint.
  const isOwnModel = /^sim\/(image|speech|rerank|moderation)/.test(String(call["model"]));
  const body: Json = {
    ...chosen,
    ...(isOwnModel && random.chance(0.95) ? {} : { model: random.pickFrom(target.models) }),
    ...(random.chance(0.4) ? { stream: true } : {}),
  };
  return random.chance(0.08) ? withDirective(random, body) : body;
}

function knownValue(target: FuzzTarget, random: Random, field: string): unknown {
  if (field === "model") return random.pickFrom(target.models);
  if (field === "url") return "http://127.0.0.1:9/hook";
  if (/(^|_)id$/.test(field)) return random.pickFrom(target.ids());
  return undefined;
}

function formText(target: FuzzTarget, random: Random, value: unknown): string {
  const csrf = random.pickFrom(target.sessions)?.csrf;
  const fields = isJson(value) ? value : { value };
  const entries = Object.entries(fields).map(([name, member]): [string, string] => [
    name.toWellFormed(),
    (typeof member === "string" ? member : (JSON.stringify(member) ?? "")).toWellFormed(),
  ]);
  if (csrf !== undefined && random.chance(0.97)) entries.push(["csrf", csrf]);
  return new URLSearchParams(entries).toString();
}
