// The error responses in the OpenAPI description. Routes share a component if dialect, status and codes are the same.

import { type FaultCode, FAULTS } from "../../base/fault.ts";
import type { Dialect, Route } from "../../http/route.ts";
import {
  ERROR_ADVICE,
  ERROR_ENVELOPES,
  errorExample,
  faultMeaning,
  possibleFaults,
} from "../error-docs.ts";
import type { SchemaRegistry } from "./json-schemas.ts";
import type { HeaderObject, MediaType, Reference, ResponseObject } from "./openapi-types.ts";

const DIALECT_PREFIXES: Readonly<Record<Dialect, string>> = {
  openai: "",
  messages: "Messages",
  google: "Google",
  oauth: "OAuth",
  jsonrpc: "JsonRpc",
  scim: "Scim",
  page: "Page",
};
const RELAYED_PREFIX = "ModelCall";
const RETRY_AFTER: Reference = { $ref: "#/components/headers/RetryAfter" };
/** Codes that have `retry-after` only if the provider sent it or its circuit breaker is open. */
const OPTIONAL_RETRY_AFTER: ReadonlySet<FaultCode> = new Set([
  "conflict",
  "upstream_error",
  "upstream_timeout",
]);
const REQUEST_ID: Reference = { $ref: "#/components/headers/RequestId" };

export const RESPONSE_HEADERS: Readonly<Record<string, HeaderObject>> = {
  RequestId: {
    description: "The id of this request. For a model call it is also the id of the usage record.",
    schema: { type: "string", examples: ["req_01jd8v6k3m0000000000000000"] },
  },
  RetryAfter: {
    description: "Seconds to wait before the next attempt.",
    schema: { type: "integer", minimum: 1, examples: [2] },
  },
  ShouldRetry: {
    description: "`false` if the same request will fail again: SDKs do not repeat it then.",
    schema: { type: "string", const: "false" },
  },
  Challenge: {
    description: "The authentication challenge, with the URL of the protected resource metadata.",
    schema: { type: "string" },
  },
  PaymentChallenge: {
    description:
      "`Payment` challenges (Machine Payments), where a method is enabled. Each has one method, and a `request` with amount and recipient.",
    schema: { type: "string" },
  },
  PaymentRequired: {
    description: "The x402 payment requirements where x402 is enabled, as base64-encoded JSON.",
    schema: { type: "string" },
  },
  Allow: {
    description: "The methods that this path supports.",
    schema: { type: "string", examples: ["GET, HEAD"] },
  },
  Replayed: {
    description:
      "`true` if this is the stored response to an earlier request with the same `idempotency-key`.",
    schema: { type: "string", const: "true" },
  },
};

/** The error responses of a route by status, as references to components. */
export function errorResponseRefs(route: Route): Readonly<Record<string, Reference>> {
  const statuses = [...codesByStatus(route)].map(([status, codes]) => [
    String(status),
    responseReference(responseName(route, codes)),
  ]);
  return {
    ...Object.fromEntries(statuses),
    default: responseReference(defaultResponseName(route)),
  };
}

/** The components that `errorResponseRefs` refers to. */
export function errorResponseComponents(
  routes: readonly Route[],
  registry: SchemaRegistry,
): Readonly<Record<string, ResponseObject>> {
  const components: Record<string, ResponseObject> = {};
  for (const route of routes) {
    for (const [, codes] of codesByStatus(route))
      components[responseName(route, codes)] ??= responseFor(route, codes, registry);
    components[defaultResponseName(route)] ??= defaultResponse(route, registry);
  }
  return Object.fromEntries(Object.entries(components).toSorted(([a], [b]) => a.localeCompare(b)));
}

function codesByStatus(route: Route): ReadonlyMap<number, readonly FaultCode[]> {
  const byStatus = new Map<number, FaultCode[]>();
  for (const code of possibleFaults(route)) {
    const status = FAULTS[code][0];
    // A route that describes this status itself, such as the claim poll, takes precedence.
    if (route.responses[status] !== undefined) continue;
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  return byStatus;
}

function responseFor(
  route: Route,
  codes: readonly FaultCode[],
  registry: SchemaRegistry,
): ResponseObject {
  return {
    description: codes
      .map((code) => `\`${code}\`: ${faultMeaning(FAULTS[code][1])} ${ERROR_ADVICE[code].next}`)
      .join("\n\n"),
    headers: { ...errorHeaders(codes), ...(mayBeRelayed(codes) ? relayedHeadersOf(route) : {}) },
    content: errorContent(route.dialect, codes, registry),
  };
}

/** Errors that no route lists, such as an unknown path or method. */
function defaultResponse(route: Route, registry: SchemaRegistry): ResponseObject {
  const relayed = relaysProviderErrors(route)
    ? " Errors from a model's provider keep their status, such as 422, 500 or 529."
    : "";
  return {
    description: `Any other error, in the same format.${relayed}`,
    headers: {
      "x-request-id": REQUEST_ID,
      allow: { $ref: "#/components/headers/Allow" },
      ...(relaysProviderErrors(route)
        ? { "retry-after": RETRY_AFTER, ...relayedHeadersOf(route) }
        : {}),
    },
    content: errorContent(route.dialect, ["not_found", "method_not_allowed"], registry),
  };
}

/** The provider's headers that the route passes on in responses and errors. */
export function relayedHeadersOf(route: Route): Readonly<Record<string, HeaderObject>> {
  const entries = Object.entries(route.relayedHeaders ?? {}).map(([name, description]) => [
    name,
    { description, schema: { type: "string" } },
  ]);
  return Object.fromEntries(entries);
}

function relaysProviderErrors(route: Route): boolean {
  return route.relayedHeaders !== undefined;
}

/** Whether an error with one of these codes may come from a provider. */
function mayBeRelayed(codes: readonly FaultCode[]): boolean {
  return codes.some((code) => RELAYED_CODES.has(code));
}

const RELAYED_CODES: ReadonlySet<FaultCode> = new Set([
  "invalid_request",
  "model_not_found",
  "payload_too_large",
  "rate_limited",
  "internal",
  "upstream_error",
  "overloaded",
  "upstream_timeout",
]);

export function errorContent(
  dialect: Dialect,
  codes: readonly FaultCode[],
  registry: SchemaRegistry,
): Readonly<Record<string, MediaType>> {
  const envelope = ERROR_ENVELOPES[dialect];
  if (envelope === undefined) return { "text/plain": { schema: { type: "string" } } };
  const examples = codes.map(
    (code) => [code, { summary: code, value: errorExample(code, dialect) }] as const,
  );
  return {
    [dialect === "scim" ? "application/scim+json" : "application/json"]: {
      schema: registry.jsonSchemaFor("output", envelope),
      examples: Object.fromEntries(examples),
    },
  };
}

const FINAL_CODES: readonly FaultCode[] = [
  "conflict",
  "provider_not_configured",
  "invalid_api_key",
];

function errorHeaders(codes: readonly FaultCode[]): Readonly<Record<string, Reference>> {
  const headers: Record<string, Reference> = { "x-request-id": REQUEST_ID };
  if (
    codes.some(
      (code) => ERROR_ADVICE[code].retry === "after retry-after" || OPTIONAL_RETRY_AFTER.has(code),
    )
  )
    headers["retry-after"] = RETRY_AFTER;
  if (FINAL_CODES.some((code) => codes.includes(code)))
    headers["x-should-retry"] = { $ref: "#/components/headers/ShouldRetry" };
  if (codes.includes("invalid_api_key"))
    headers["www-authenticate"] = { $ref: "#/components/headers/Challenge" };
  if (codes.includes("payment_required")) {
    headers["payment-required"] = { $ref: "#/components/headers/PaymentRequired" };
    headers["www-authenticate"] = { $ref: "#/components/headers/PaymentChallenge" };
  }
  return headers;
}

/** Routes that pass on provider errors have components of their own for the codes concerned. */
function responseName(route: Route, codes: readonly FaultCode[]): string {
  const relayedPrefix = relaysProviderErrors(route) && mayBeRelayed(codes) ? RELAYED_PREFIX : "";
  return `${DIALECT_PREFIXES[route.dialect]}${relayedPrefix}${codes.map(pascalCase).join("Or")}`;
}

function defaultResponseName(route: Route): string {
  return `${DIALECT_PREFIXES[route.dialect]}${relaysProviderErrors(route) ? RELAYED_PREFIX : ""}AnyError`;
}

function responseReference(name: string): Reference {
  return { $ref: `#/components/responses/${name}` };
}

function pascalCase(code: string): string {
  return code
    .split("_")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");
}
