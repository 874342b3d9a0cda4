// The model endpoints: Chat Completions, Responses, Messages, Gemini, token counting, those without a conversation, and quotes.

import { z } from "zod";
import { keyRoute, type Route, modelRoute } from "../../http/route.ts";
import {
  COUNT_HEADER,
  countResponseTokens,
  countTokens,
  type CountTokensDeps,
} from "../lifecycle/count-tokens.ts";
import type { QuoteDeps } from "../lifecycle/quote.ts";
import {
  BILLED_ROUTE,
  type CallDeps,
  callHandler,
  MODEL_FAULTS,
  RESPONSE_HEADERS,
} from "./call-handler.ts";
import { CALL_ROUTE, callInputOf } from "./call-route.ts";
import { geminiRoutes } from "./gemini-routes.ts";
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
import { type CallEntry, RELAYED_ROUTES } from "./relayed-routes.ts";

export interface InferenceRouteDeps extends CallDeps {
  readonly countTokens: CountTokensDeps;
  readonly quote: QuoteDeps;
}

export function inferenceRoutes(deps: InferenceRouteDeps): readonly Route[] {
  const routes = [
    ...CONVERSATIONS.map((entry) => callRoute(deps, entry)),
    ...geminiRoutes(deps),
    countTokensRoute(deps),
    countInputRoute(deps),
    ...RELAYED_ROUTES.map((entry) => callRoute(deps, entry)),
    quoteRoute(deps.quote),
    protocolRoute(),
  ];
  const payable = deps.payment === undefined ? routes : routes.map(documentPayment);
  return deps.wallet === undefined ? payable : payable.map(acceptWallets);
}

/** The routes of `callHandler`: no other may be called without a key. */
function acceptWallets(route: Route): Route {
  if (route.kind !== "model") return route;
  const description = `${route.description ?? ""} Without a key, the \`402\` asks for an x402 signature of the most that the call can cost (scheme \`upto\`), and the call is charged what it used.`;
  const faults = [...route.faults, "payment_required"] as const;
  return { ...route, acceptsWallets: true, faults, description: description.trim() };
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

const CONVERSATIONS: readonly CallEntry<"chat" | "responses" | "messages">[] = [
  {
    api: "chat",
    path: "/v1/chat/completions",
    id: "createChatCompletion",
    summary: "Create a chat completion",
    description:
      "OpenAI's Chat Completions API. The body is forwarded unchanged where the provider has this API, and translated otherwise. `stream: true` responds with server-sent events. The usage object has `cost`, in US dollars.",
    body: ChatRequest,
    requestExample: EXAMPLES.chat.request,
    reply: "The completion, or its stream.",
    schema: z
      .looseObject({
        id: z.string(),
        object: z.string(),
        choices: z.array(z.looseObject({})),
        usage: UsageCost.optional(),
      })
      .meta({ id: "ChatCompletion" }),
    example: EXAMPLES.chat.reply,
    alternatives: [{ contentType: "text/event-stream", example: EXAMPLES.chat.stream }],
  },
  {
    api: "responses",
    path: "/v1/responses",
    id: "createResponse",
    summary: "Create a response",
    description:
      "OpenAI's Responses API. The gateway stores it and its input, encrypted, unless `store` is `false`; providers store nothing. `background: true` responds at once, or streams events that `GET /v1/responses/{id}` continues.",
    body: ResponsesRequest,
    requestExample: EXAMPLES.responses.request,
    reply: "The response, or its stream.",
    schema: z
      .looseObject({
        id: z.string(),
        object: z.string(),
        output: z.array(z.looseObject({})),
        usage: UsageCost.nullable().optional(),
      })
      .meta({ id: "ModelResponse" }),
    example: EXAMPLES.responses.reply,
    alternatives: [{ contentType: "text/event-stream", example: EXAMPLES.responses.stream }],
    faults: ["not_found"],
  },
  {
    api: "messages",
    path: "/v1/messages",
    id: "createMessage",
    summary: "Create a message",
    description:
      "Anthropic's Messages API. The body and the headers `anthropic-version` and `anthropic-beta` are forwarded unchanged where the provider has this API; otherwise the body is translated. `stream: true` responds with server-sent events.",
    dialect: "messages",
    body: MessagesRequest,
    requestExample: EXAMPLES.messages.request,
    reply: "The message, or its stream.",
    schema: z
      .looseObject({
        id: z.string(),
        type: z.literal("message"),
        content: z.array(z.looseObject({})),
        usage: UsageCost,
      })
      .meta({ id: "Message" }),
    example: EXAMPLES.messages.reply,
    alternatives: [{ contentType: "text/event-stream", example: EXAMPLES.messages.stream }],
    headers: { "request-id": "The id of the request, the same as `x-request-id`." },
  },
];

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

function callRoute(
  deps: InferenceRouteDeps,
  entry: CallEntry | (typeof CONVERSATIONS)[number],
): Route {
  const { api, reply: description, schema, example, contentType, alternatives, ...more } = entry;
  const { headers, faults = [], ...described } = more;
  const ok = {
    description,
    headers: { ...RESPONSE_HEADERS, ...headers },
    ...(schema === undefined ? {} : { schema, example }),
    ...(contentType === undefined ? {} : { contentType }),
    ...(alternatives === undefined ? {} : { alternatives }),
  };
  return modelRoute({
    ...BILLED_ROUTE,
    dialect: "openai",
    ...described,
    method: "POST",
    scope: "models:write",
    responses: { 200: ok },
    faults: [...MODEL_FAULTS, ...faults],
    run: callHandler(deps, api),
  });
}
