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
const REQUEST_ID: Reference = { $ref: "#/components/headers/RequestId" };

export const HEADERS: Readonly<Record<string, HeaderObject>> = {
  RequestId: {
    description: "Names this request. On a model call it is also the id of the usage record.",
    schema: { type: "string", examples: ["req_01jd8v6k3m0000000000000000"] },
  },
  RetryAfter: {
    description: "Seconds to wait before the next try.",
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
    referenceTo(nameOf(route.dialect, codes)),
  ]);
  return { ...Object.fromEntries(statuses), default: referenceTo(anyName(route.dialect)) };
}

/** The components that those references name. */
export function errorComponents(
  routes: readonly Route[],
  book: SchemaBook,
  baseUrl: string,
): Readonly<Record<string, ResponseObject>> {
  const components: Record<string, ResponseObject> = {};
  for (const route of routes) {
    const { dialect } = route;
    for (const [, codes] of codesByStatus(route))
      components[nameOf(dialect, codes)] ??= responseFor(dialect, codes, book, baseUrl);
    components[anyName(dialect)] ??= anyError(dialect, book, baseUrl);
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
  dialect: Dialect,
  codes: readonly FaultCode[],
  book: SchemaBook,
  baseUrl: string,
): ResponseObject {
  return {
    description: codes
      .map((code) => `\`${code}\`: ${FAULTS[code][1]} ${ADVICE[code].next}`)
      .join("\n\n"),
    headers: headersOf(codes),
    content: contentOf(dialect, codes, book, baseUrl),
  };
}

/** What no endpoint lists for itself: a path that does not exist, a method that it does not take. */
function anyError(dialect: Dialect, book: SchemaBook, baseUrl: string): ResponseObject {
  return {
    description: "Any other error, in the same form.",
    headers: { "x-request-id": REQUEST_ID, allow: { $ref: "#/components/headers/Allow" } },
    content: contentOf(dialect, ["not_found", "method_not_allowed"], book, baseUrl),
  };
}

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
  if (codes.some((code) => ADVICE[code].again === "after retry-after"))
    headers["retry-after"] = { $ref: "#/components/headers/RetryAfter" };
  if (codes.includes("invalid_api_key"))
    headers["www-authenticate"] = { $ref: "#/components/headers/Challenge" };
  if (codes.includes("payment_required"))
    headers["payment-required"] = { $ref: "#/components/headers/PaymentRequired" };
  return headers;
}

function nameOf(dialect: Dialect, codes: readonly FaultCode[]): string {
  return `${PREFIXES[dialect]}${codes.map(pascal).join("Or")}`;
}

function anyName(dialect: Dialect): string {
  return `${PREFIXES[dialect]}AnyError`;
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
