// The responses that endpoints share: one for each dialect and each set of codes that has one status.

import { type FaultCode, FAULTS } from "../base/fault.ts";
import type { Dialect, Route } from "../http/route.ts";
import { ADVICE, ENVELOPES, errorExample, faultsOf } from "./errors.ts";
import type { HeaderObject, MediaType, Reference, ResponseObject } from "./openapi-form.ts";
import type { SchemaBook } from "./schemas.ts";

const PREFIXES: Readonly<Record<Dialect, string>> = {
  openai: "",
  messages: "Messages",
  oauth: "OAuth",
  page: "Page",
};
const RELAYED_PREFIX = "ModelCall";
const RETRY_AFTER: Reference = { $ref: "#/components/headers/RetryAfter" };
/** They say it only where it is known: the provider said so, or the gateway leaves it alone for a while. */
const MAY_SAY_WHEN: ReadonlySet<FaultCode> = new Set([
  "conflict",
  "upstream_error",
  "upstream_timeout",
]);
const REQUEST_ID: Reference = { $ref: "#/components/headers/RequestId" };

export const HEADERS: Readonly<Record<string, HeaderObject>> = {
  RequestId: {
    description: "Names this request. On a model call it is also the id of the usage record.",
    schema: { type: "string", examples: ["req_01jd8v6k3m0000000000000000"] },
  },
  RetryAfter: {
    description: "Whole seconds to wait before the next try.",
    schema: { type: "integer", minimum: 1, examples: [2] },
  },
  Challenge: {
    description: "How to get in: points to the protected-resource metadata.",
    schema: { type: "string" },
  },
  PaymentRequired: {
    description: "What has to be paid, and where to: base64 of JSON, as x402 says it.",
    schema: { type: "string" },
  },
  Allow: {
    description: "The methods that this path takes.",
    schema: { type: "string", examples: ["GET, HEAD"] },
  },
  Replayed: {
    description: "`true` on the stored answer to a repeated `idempotency-key`.",
    schema: { type: "string", const: "true" },
  },
};

/** Everything that can go wrong with a route, by status. */
export function errorReferences(route: Route): Readonly<Record<string, Reference>> {
  const statuses = [...codesByStatus(route)].map(([status, codes]) => [
    String(status),
    referenceTo(nameOf(route, codes)),
  ]);
  return { ...Object.fromEntries(statuses), default: referenceTo(anyName(route)) };
}

/** The components that those references name. */
export function errorComponents(
  routes: readonly Route[],
  book: SchemaBook,
  baseUrl: string,
): Readonly<Record<string, ResponseObject>> {
  const components: Record<string, ResponseObject> = {};
  for (const route of routes) {
    for (const [, codes] of codesByStatus(route))
      components[nameOf(route, codes)] ??= responseFor(route, codes, book, baseUrl);
    components[anyName(route)] ??= anyError(route, book, baseUrl);
  }
  return Object.fromEntries(Object.entries(components).toSorted(([a], [b]) => a.localeCompare(b)));
}

function codesByStatus(route: Route): ReadonlyMap<number, readonly FaultCode[]> {
  const byStatus = new Map<number, FaultCode[]>();
  for (const code of faultsOf(route)) {
    const status = FAULTS[code][0];
    // An endpoint that describes this status itself, as the claim poll does, knows better.
    if (route.answers[status] !== undefined) continue;
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return byStatus;
}

function responseFor(
  route: Route,
  codes: readonly FaultCode[],
  book: SchemaBook,
  baseUrl: string,
): ResponseObject {
  return {
    description: codes
      .map((code) => `\`${code}\`: ${FAULTS[code][1]} ${ADVICE[code].next}`)
      .join("\n\n"),
    headers: { ...headersOf(codes), ...(isRelayed(codes) ? relayedHeadersOf(route) : {}) },
    content: contentOf(route.dialect, codes, book, baseUrl),
  };
}

/** What no endpoint lists for itself: a path that does not exist, a method that it does not take. */
function anyError(route: Route, book: SchemaBook, baseUrl: string): ResponseObject {
  const relayed = relays(route)
    ? " A provider's own error keeps its status, such as 422, 500 or 529."
    : "";
  return {
    description: `Any other error, in the same form.${relayed}`,
    headers: {
      "x-request-id": REQUEST_ID,
      allow: { $ref: "#/components/headers/Allow" },
      ...(relays(route) ? { "retry-after": RETRY_AFTER, ...relayedHeadersOf(route) } : {}),
    },
    content: contentOf(route.dialect, ["not_found", "method_not_allowed"], book, baseUrl),
  };
}

/** The headers of a provider's reply that a route's answers and errors carry on. */
export function relayedHeadersOf(route: Route): Readonly<Record<string, HeaderObject>> {
  const told = Object.entries(route.relayedHeaders ?? {}).map(([name, description]) => [
    name,
    { description, schema: { type: "string" } },
  ]);
  return Object.fromEntries(told);
}

function relays(route: Route): boolean {
  return route.relayedHeaders !== undefined;
}

/** Whether an error of one of these codes may be a provider's own. */
function isRelayed(codes: readonly FaultCode[]): boolean {
  return codes.some((code) => RELAYED.has(code));
}

const RELAYED: ReadonlySet<FaultCode> = new Set([
  "invalid_request",
  "model_not_found",
  "payload_too_large",
  "rate_limited",
  "internal",
  "upstream_error",
  "overloaded",
  "upstream_timeout",
]);

function contentOf(
  dialect: Dialect,
  codes: readonly FaultCode[],
  book: SchemaBook,
  baseUrl: string,
): Readonly<Record<string, MediaType>> {
  const envelope = ENVELOPES[dialect];
  if (envelope === undefined) return { "text/plain": { schema: { type: "string" } } };
  const examples = codes.map(
    (code) => [code, { summary: code, value: errorExample(code, dialect, baseUrl) }] as const,
  );
  return {
    "application/json": {
      schema: book.of("output", envelope),
      examples: Object.fromEntries(examples),
    },
  };
}

function headersOf(codes: readonly FaultCode[]): Readonly<Record<string, Reference>> {
  const headers: Record<string, Reference> = { "x-request-id": REQUEST_ID };
  if (codes.some((code) => ADVICE[code].again === "after retry-after" || MAY_SAY_WHEN.has(code)))
    headers["retry-after"] = RETRY_AFTER;
  if (codes.includes("invalid_api_key"))
    headers["www-authenticate"] = { $ref: "#/components/headers/Challenge" };
  if (codes.includes("payment_required"))
    headers["payment-required"] = { $ref: "#/components/headers/PaymentRequired" };
  return headers;
}

/** A route that relays a provider's errors has those that may be one for itself. */
function nameOf(route: Route, codes: readonly FaultCode[]): string {
  const whose = relays(route) && isRelayed(codes) ? RELAYED_PREFIX : "";
  return `${PREFIXES[route.dialect]}${whose}${codes.map(pascal).join("Or")}`;
}

function anyName(route: Route): string {
  return `${PREFIXES[route.dialect]}${relays(route) ? RELAYED_PREFIX : ""}AnyError`;
}

function referenceTo(name: string): Reference {
  return { $ref: `#/components/responses/${name}` };
}

function pascal(code: string): string {
  return code
    .split("_")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");
}
