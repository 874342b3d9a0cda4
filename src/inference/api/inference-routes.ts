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
import { RELAYED_ROUTES } from "./relayed-routes.ts";

export interface InferenceRouteDeps extends CallDeps {
  readonly countTokens: CountTokensDeps;
  readonly quote: QuoteDeps;
}

export function inferenceRoutes(deps: InferenceRouteDeps): readonly Route[] {
  const routes = [
    chatRoute(deps),
    responsesRoute(deps),
    messagesRoute(deps),
    ...geminiRoutes(deps),
    countTokensRoute(deps),
    countInputRoute(deps),
    ...RELAYED_ROUTES.map((entry) => relayedRoute(deps, entry)),
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
