// GET /protocol: what the gateway does with headers, fields and errors of model calls, for clients and their operators. Derived
// from the tables that decide it.

import { z } from "zod";
import { publicRoute, type Route } from "../../http/route.ts";
import { LABELS_HEADER } from "../../usage/labels.ts";
import { SESSION_HEADERS } from "../../usage/session-labels.ts";
import { sharedAccountRefusals } from "../lifecycle/shared-credentials.ts";
import {
  CACHE_HEADER,
  HOLD_HEADER,
  LOSSY_HEADER,
  MAX_COST_HEADER,
  ON_MAX_COST_HEADER,
  QUOTE_HEADER,
  RECEIPT_HEADER,
  SESSION_LIMIT_HEADER,
  STRICT_HEADER,
} from "../request/call-options.ts";
import {
  ANTHROPIC_PREFIX,
  FORWARDED_HEADERS,
  OWN_ACCOUNT_HEADER,
} from "../request/forwarded-headers.ts";

const CACHE_SECONDS = 300;

const Refusal = z.object({
  field: z.string().optional().meta({ description: "A top-level field, or a path." }),
  name_pattern: z.string().optional().meta({
    description: "A regular expression for names in snake case, at any depth.",
  }),
  type: z.string().optional().meta({ description: "The `type` of an item or part." }),
  reason: z.enum(["stored_at_provider", "cost_unknown", "price_unknown"]),
  instead: z.string(),
});

const Protocol = z
  .object({
    gateway: z.literal("postern"),
    version: z.int(),
    apis: z.array(z.object({ method: z.string(), path: z.string(), format: z.string() })),
    open: z.object({
      query: z.string(),
      headers: z.string(),
      fields: z.string(),
      types: z.string(),
    }),
    forwarded: z.object({
      headers: z.array(z.string()),
      except_on_shared_accounts: z.string().meta({
        description: "A regular expression for headers that go to the caller's own account only.",
      }),
      body: z.string(),
      errors: z.string(),
      streams: z.string(),
    }),
    consumed: z.object({ headers: z.array(z.string()) }),
    dropped: z.object({ reported_in: z.array(z.string()), strict: z.string() }),
    refused_on_shared_accounts: z.array(Refusal),
  })
  .meta({ id: "Protocol" });

const APIS = [
  { method: "POST", path: "/v1/messages", format: "anthropic-messages" },
  { method: "POST", path: "/v1/messages/count_tokens", format: "anthropic-messages" },
  { method: "POST", path: "/v1/chat/completions", format: "openai-chat-completions" },
  { method: "POST", path: "/v1/responses", format: "openai-responses" },
  { method: "POST", path: "/v1/responses/input_tokens", format: "openai-responses" },
  { method: "GET", path: "/v1/responses", format: "openai-responses-websocket" },
  { method: "POST", path: "/v1/responses/compact", format: "openai-responses" },
  { method: "POST", path: "/v1/embeddings", format: "openai-embeddings" },
  { method: "POST", path: "/v1/images/generations", format: "openai-images" },
  { method: "POST", path: "/v1/images/edits", format: "openai-images" },
  { method: "POST", path: "/v1/audio/speech", format: "openai-audio" },
  { method: "POST", path: "/v1/audio/transcriptions", format: "openai-audio" },
  { method: "POST", path: "/v1/audio/translations", format: "openai-audio" },
  { method: "POST", path: "/v1/rerank", format: "cohere-rerank" },
  { method: "POST", path: "/v2/rerank", format: "cohere-rerank" },
  { method: "POST", path: "/v1/moderations", format: "openai-moderations" },
  { method: "POST", path: "/v1/decisions", format: "openai-decisions" },
  { method: "POST", path: "/v1/completions", format: "openai-completions" },
  {
    method: "POST",
    path: "/v1beta/models/{model}:generateContent",
    format: "google-generate-content",
  },
  {
    method: "POST",
    path: "/v1beta/models/{model}:streamGenerateContent",
    format: "google-generate-content",
  },
  { method: "POST", path: "/v1beta/models/{model}:countTokens", format: "google-count-tokens" },
  { method: "POST", path: "/v1beta/models/{model}:embedContent", format: "google-embed-content" },
  {
    method: "POST",
    path: "/v1beta/models/{model}:batchEmbedContents",
    format: "google-embed-content",
  },
  { method: "GET", path: "/v1/models", format: "openai-models" },
  { method: "GET", path: "/v1beta/models", format: "google-models" },
];

export function protocolRoute(): Route {
  const body = protocolDocument();
  // The lists are long, and the endpoint returns them.
  const example = {
    ...body,
    apis: body.apis.slice(0, 2),
    refused_on_shared_accounts: body.refused_on_shared_accounts.slice(0, 2),
  };
  return publicRoute({
    method: "GET",
    path: "/protocol",
    id: "getProtocol",
    tag: "Discovery",
    dialect: "openai",
    summary: "Get the gateway protocol",
    description:
      "What the gateway does with the headers, fields, types and errors of model calls: which lists are open, what it forwards, consumes and drops, and what it refuses on its own provider accounts. With the caller's own provider key nothing of the last list is refused.",
    responses: { 200: { description: "The protocol.", schema: Protocol, example } },
    faults: [],
    run: () =>
      Response.json(body, { headers: { "cache-control": `public, max-age=${CACHE_SECONDS}` } }),
  });
}

function protocolDocument(): z.infer<typeof Protocol> {
  return {
    gateway: "postern",
    version: 1,
    apis: APIS,
    open: {
      query: "Unknown query parameters of model and model-list endpoints are ignored.",
      headers: "Unknown headers are ignored, or forwarded as listed below.",
      fields:
        "Unknown fields with numbers, booleans and plain words are forwarded. Others are forwarded if nothing in them could name something stored at the provider.",
      types: "Unknown types of messages, items and content parts are forwarded.",
    },
    forwarded: {
      headers: [...new Set([`${ANTHROPIC_PREFIX}*`, ...FORWARDED_HEADERS])],
      except_on_shared_accounts: OWN_ACCOUNT_HEADER.source,
      body: "To a provider of the same API, every field but `model` is sent as written. To another API, the request is translated.",
      errors:
        "On the caller's own API, the provider's status, type and message are unmodified, in streams too.",
      streams: "Events are forwarded as they arrive.",
    },
    consumed: {
      headers: [
        LABELS_HEADER,
        ...Object.values(SESSION_HEADERS),
        MAX_COST_HEADER,
        ON_MAX_COST_HEADER,
        HOLD_HEADER,
        LOSSY_HEADER,
        RECEIPT_HEADER,
        QUOTE_HEADER,
        CACHE_HEADER,
        SESSION_LIMIT_HEADER,
        STRICT_HEADER,
      ],
    },
    dropped: { reported_in: ["x-postern-dropped", "usage.dropped"], strict: STRICT_HEADER },
    refused_on_shared_accounts: [...sharedAccountRefusals()],
  };
}
