// The model endpoints: Chat Completions, Responses, Messages, token counting, those without a conversation, and quotes.

import { z } from "zod";
import { isPaymentCredential } from "../../http/request/api-key-header.ts";
import {
  type IdempotentCall,
  readIdempotencyKey,
  scopeOfKey,
} from "../../http/request/idempotent-call.ts";
import { keyRoute, type Route, modelRoute } from "../../http/route.ts";
import { LABELS_HEADER } from "../../usage/labels.ts";
import { SESSION_HEADERS } from "../../usage/session-labels.ts";
import type { CallInput } from "../lifecycle/call.ts";
import {
  COUNT_HEADER,
  countResponseTokens,
  countTokens,
  type CountTokensDeps,
} from "../lifecycle/count-tokens.ts";
import { infer, type InferDeps } from "../lifecycle/infer.ts";
import type { QuoteDeps } from "../lifecycle/quote.ts";
import { type IdempotencyDeps, withIdempotency } from "../lifecycle/with-idempotency.ts";
import { type PaymentDeps, withPayment } from "../lifecycle/with-payment.ts";
import { readCacheUse, withResponseCache } from "../lifecycle/with-response-cache.ts";
import {
  CACHE_HEADER,
  HOLD_HEADER,
  LOSSY_HEADER,
  MAX_COST_HEADER,
  ON_MAX_COST_HEADER,
  QUOTE_HEADER,
  RECEIPT_HEADER,
  SESSION_LIMIT_HEADER,
} from "../request/call-options.ts";
import type { Api } from "../request/parse-request.ts";
import { CALL_ROUTE, callInputOf, type ModelInput } from "./call-route.ts";
import {
  ChatRequest,
  CountTokensRequest,
  EXAMPLES,
  MessagesRequest,
  ResponsesRequest,
  UsageCost,
} from "./inference-schemas.ts";
import { protocolRoute } from "./protocol-route.ts";
import { quoteRoute } from "./quote-route.ts";
import { RELAYED_ROUTES } from "./relayed-routes.ts";

export interface InferenceRouteDeps {
  readonly infer: InferDeps;
  readonly countTokens: CountTokensDeps;
  readonly quote: QuoteDeps;
  readonly idempotency: IdempotencyDeps;
  /** Undefined where a call cannot pay for itself. */
  readonly payment: PaymentDeps | undefined;
}

const MODEL_FAULTS = [
  "insufficient_credits",
  "forbidden",
  "key_limit_reached",
  "session_limit_reached",
  "session_stopped",
  "workspace_budget_reached",
  "workspace_frozen",
  "model_not_found",
  "conflict",
  "upstream_error",
  "provider_not_configured",
  "upstream_timeout",
] as const;

export function inferenceRoutes(deps: InferenceRouteDeps): readonly Route[] {
  const routes = [
    chatRoute(deps),
    responsesRoute(deps),
    messagesRoute(deps),
    countTokensRoute(deps),
    countInputRoute(deps),
    ...RELAYED_ROUTES.map((entry) => relayedRoute(deps, entry)),
    quoteRoute(deps.quote),
    protocolRoute(),
  ];
  return deps.payment === undefined ? routes : routes.map(documentPayment);
}

/** Documents payments on the routes that hold credits. */
function documentPayment(route: Route): Route {
  const { 200: ok, ...others } = route.responses;
  if (route.kind !== "model" || ok === undefined) return route;
  const description = `${route.description ?? ""} A \`402\` response says how to buy credits with the same request: the header \`PAYMENT-REQUIRED\` for x402 (version 2), paid with \`PAYMENT-SIGNATURE\`, and \`Payment\` challenges in \`WWW-Authenticate\` for Machine Payments, paid with \`Authorization: Payment\` and the API key in \`x-api-key\`.`;
  const paymentHeader = "The settlement of the x402 payment: base64-encoded JSON.";
  const receipt = "The receipt of a Machine Payment: base64url-encoded JSON.";
  const headers = { ...ok.headers, "payment-response": paymentHeader, "payment-receipt": receipt };
  return {
    ...route,
    description: description.trim(),
    responses: { ...others, 200: { ...ok, headers } },
  };
}

const BILLED_ROUTE = {
  ...CALL_ROUTE,
  idempotent: true,
  requestHeaders: {
    [LABELS_HEADER]: "Up to five labels of usage, such as `team=search, job=nightly`.",
    [SESSION_HEADERS.session]: "The session of the call: up to 64 letters, digits and `_.:@+-`.",
    [SESSION_HEADERS.agent]: "The agent of the session that makes the call.",
    [SESSION_HEADERS.parent_agent]: "The agent that started this agent.",
    [SESSION_LIMIT_HEADER]: "The most that all calls of the session may spend, in US dollars.",
    [MAX_COST_HEADER]: "The most that the call may cost, as `postern.max_cost_usd`.",
    [ON_MAX_COST_HEADER]: "`shorten` or `refuse`, as `postern.on_max_cost`.",
    [HOLD_HEADER]: "`full` or `rolling`, as `postern.hold`.",
    [QUOTE_HEADER]: "The `offer` of a quote for this request, as `postern.quote`.",
    [RECEIPT_HEADER]: "`1`: sign a receipt of the call, as `postern.receipt`.",
    [CACHE_HEADER]: "Seconds that a reply may serve identical calls: see `/docs/caching`.",
    [LOSSY_HEADER]: "`true` or `false`, as `postern.lossy`.",
  },
} as const;

const RESPONSE_HEADERS = {
  "x-postern-cost-usd": "In US dollars. A stream has it in its usage.",
  [RECEIPT_HEADER]: "The signed receipt, if asked for; not on streams.",
  [CACHE_HEADER]: "`hit`, `miss` or `bypass`.",
  "ratelimit-policy": "Calls per minute and burst, if the key has a limit.",
  ratelimit: "The rest of the burst, and seconds until it is full.",
  "x-postern-max-tokens": "The output limit that the credits afford, if lower.",
  "x-postern-budget-cut": "`true` if `max_cost_usd` or a stream's credits lowered it.",
  "x-postern-max-tool-calls": "The limit of tool calls, if the gateway set it.",
  "x-postern-held-tool-calls": "The tool calls that the hold covers.",
  "x-postern-dropped":
    "Fields that an API cannot express, separated by commas. With `x-postern-strict: true` they are a 400. See `/docs/translation`.",
  "x-postern-byok": "Whether your provider key was used.",
  "x-postern-provider": "The provider that replied.",
  "x-postern-model": "The model that replied.",
};

function chatRoute(deps: InferenceRouteDeps): Route {
  return modelRoute({
    ...BILLED_ROUTE,
    method: "POST",
    path: "/v1/chat/completions",
    id: "createChatCompletion",
    scope: "models:write",
    summary: "Create a chat completion",
    description:
      "OpenAI's Chat Completions API. The body is forwarded unchanged where the provider has this API, and translated otherwise. `stream: true` responds with server-sent events. The usage object has `cost`, in US dollars.",
    dialect: "openai",
    body: ChatRequest,
    requestExample: EXAMPLES.chat.request,
    responses: {
      200: {
        description: "The completion, or its stream.",
        schema: z
          .looseObject({
            id: z.string(),
            object: z.string(),
            choices: z.array(z.looseObject({})),
            usage: UsageCost.optional(),
          })
          .meta({ id: "ChatCompletion" }),
        example: EXAMPLES.chat.reply,
        headers: RESPONSE_HEADERS,
        alternatives: [{ contentType: "text/event-stream", example: EXAMPLES.chat.stream }],
      },
    },
    faults: MODEL_FAULTS,
    run: callHandler(deps, "chat"),
  });
}

function responsesRoute(deps: InferenceRouteDeps): Route {
  return modelRoute({
    ...BILLED_ROUTE,
    method: "POST",
    path: "/v1/responses",
    id: "createResponse",
    scope: "models:write",
    summary: "Create a response",
    description:
      "OpenAI's Responses API. The gateway stores it and its input, encrypted, unless `store` is `false`; providers store nothing. `previous_response_id` continues a stored response, with any model. `background: true` responds at once with status `in_progress`, or streams events that `GET /v1/responses/{id}` continues.",
    dialect: "openai",
    body: ResponsesRequest,
    requestExample: EXAMPLES.responses.request,
    responses: {
      200: {
        description: "The response, or its stream.",
        schema: z
          .looseObject({
            id: z.string(),
            object: z.string(),
            output: z.array(z.looseObject({})),
            usage: UsageCost.nullable().optional(),
          })
          .meta({ id: "ModelResponse" }),
        example: EXAMPLES.responses.reply,
        headers: RESPONSE_HEADERS,
        alternatives: [{ contentType: "text/event-stream", example: EXAMPLES.responses.stream }],
      },
    },
    faults: [...MODEL_FAULTS, "not_found"],
    run: callHandler(deps, "responses"),
  });
}

function messagesRoute(deps: InferenceRouteDeps): Route {
  return modelRoute({
    ...BILLED_ROUTE,
    method: "POST",
    path: "/v1/messages",
    id: "createMessage",
    scope: "models:write",
    summary: "Create a message",
    description:
      "Anthropic's Messages API. The body and the headers `anthropic-version` and `anthropic-beta` are forwarded unchanged where the provider has this API; otherwise the body is translated. `stream: true` responds with server-sent events.",
    dialect: "messages",
    body: MessagesRequest,
    requestExample: EXAMPLES.messages.request,
    responses: {
      200: {
        description: "The message, or its stream.",
        schema: z
          .looseObject({
            id: z.string(),
            type: z.literal("message"),
            content: z.array(z.looseObject({})),
            usage: UsageCost,
          })
          .meta({ id: "Message" }),
        example: EXAMPLES.messages.reply,
        headers: {
          ...RESPONSE_HEADERS,
          "request-id": "The id of the request, the same as `x-request-id`.",
        },
        alternatives: [{ contentType: "text/event-stream", example: EXAMPLES.messages.stream }],
      },
    },
    faults: MODEL_FAULTS,
    run: callHandler(deps, "messages"),
  });
}

function countTokensRoute(deps: InferenceRouteDeps): Route {
  return keyRoute({
    ...CALL_ROUTE,
    method: "POST",
    path: "/v1/messages/count_tokens",
    id: "countTokens",
    scope: "models:write",
    summary: "Count a message's input tokens",
    description:
      "Free of charge. The header `x-postern-count` says where the count is from: the `provider`, if it has an endpoint for it (OpenAI, Anthropic, Google, Bedrock), else the `tokenizer` of the model, or an `estimate` for models whose tokenizer is not published.",
    dialect: "messages",
    body: CountTokensRequest,
    requestExample: EXAMPLES.countTokens.request,
    responses: {
      200: {
        description: "The token count.",
        schema: z.looseObject({ input_tokens: z.int() }).meta({ id: "TokenCount" }),
        example: EXAMPLES.countTokens.reply,
        headers: {
          [COUNT_HEADER]: COUNT_HEADER_DOC,
        },
      },
    },
    faults: [
      "forbidden",
      "model_not_found",
      "upstream_error",
      "provider_not_configured",
      "upstream_timeout",
    ],
    run: (input) => countTokens(deps.countTokens, callInputOf("messages", input)),
  });
}

const COUNT_HEADER_DOC = "`provider`, `tokenizer` or `estimate`.";

function countInputRoute(deps: InferenceRouteDeps): Route {
  return keyRoute({
    ...CALL_ROUTE,
    method: "POST",
    path: "/v1/responses/input_tokens",
    id: "countInputTokens",
    scope: "models:write",
    summary: "Count a response's input tokens",
    description:
      "Free of charge, for every model. The body is that of POST /v1/responses. The header `x-postern-count` says who counted, as for POST /v1/messages/count_tokens.",
    dialect: "openai",
    body: ResponsesRequest,
    requestExample: EXAMPLES.countInput.request,
    responses: {
      200: {
        description: "The token count.",
        schema: z
          .looseObject({ object: z.literal("response.input_tokens"), input_tokens: z.int() })
          .meta({ id: "InputTokenCount" }),
        example: EXAMPLES.countInput.reply,
        headers: { [COUNT_HEADER]: COUNT_HEADER_DOC },
      },
    },
    faults: ["forbidden", "model_not_found", "provider_not_configured"],
    run: (input) => countResponseTokens(deps.countTokens, callInputOf("responses", input)),
  });
}

function relayedRoute(deps: InferenceRouteDeps, entry: (typeof RELAYED_ROUTES)[number]): Route {
  const {
    api,
    reply: description,
    schema,
    example,
    contentType,
    alternatives,
    ...described
  } = entry;
  const ok = {
    description,
    headers: RESPONSE_HEADERS,
    ...(schema === undefined ? {} : { schema, example }),
    ...(contentType === undefined ? {} : { contentType }),
    ...(alternatives === undefined ? {} : { alternatives }),
  };
  return modelRoute({
    ...BILLED_ROUTE,
    ...described,
    method: "POST",
    scope: "models:write",
    dialect: "openai",
    responses: { 200: ok },
    faults: MODEL_FAULTS,
    run: callHandler(deps, api),
  });
}

function callHandler(
  { infer: inferDeps, idempotency, payment }: InferenceRouteDeps,
  api: Api,
): (input: ModelInput) => Promise<Response> {
  return (routeInput) => {
    const { headers, request } = routeInput;
    const hasPayment = payment !== undefined && containsPayment(headers);
    const unkeyed = callInputOf(api, routeInput, { hasPayment });
    const idempotent = idempotentCallOf(unkeyed, idempotency.now());
    const input = idempotent === undefined ? unkeyed : { ...unkeyed, idempotent };
    const run = (call: CallInput): Promise<Response> =>
      payment === undefined
        ? infer(inferDeps, call)
        : withPayment(payment, call, request.url, () => infer(inferDeps, call));
    if (idempotent !== undefined)
      return withIdempotency(idempotency, input, idempotent, () => run(input));
    const cache = readCacheUse(input, idempotency.now());
    return cache === undefined ? run(input) : withResponseCache(idempotency, input, cache, run);
  };
}

function containsPayment(headers: Headers): boolean {
  return headers.has("payment-signature") || isPaymentCredential(headers.get("authorization"));
}

// `now` is after the body, which may arrive minutes after the request: the key's age counts from there.
function idempotentCallOf(
  { api, caller, headers, text }: CallInput,
  now: number,
): IdempotentCall | undefined {
  const key = readIdempotencyKey(headers);
  return key === undefined
    ? undefined
    : { scope: `${scopeOfKey(caller)} ${api}`, key, body: text, now };
}
