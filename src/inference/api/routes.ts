// The model endpoints: the HTTP face of inference.

import { z } from "zod";
import { type IdempotentCall, readIdempotencyKey } from "../../http/request/idempotent-call.ts";
import { type Caller, keyRoute, type Route, type RouteInput } from "../../http/route.ts";
import type { CallInput } from "../lifecycle/call.ts";
import { countTokens, type CountTokensDeps } from "../lifecycle/count-tokens.ts";
import { infer, type InferDeps } from "../lifecycle/infer.ts";
import { type IdempotencyDeps, withIdempotency } from "../lifecycle/with-idempotency.ts";
import { type PaymentDeps, withPayment } from "../lifecycle/with-payment.ts";
import { readForwardedHeaders } from "../request/forwarded-headers.ts";
import type { Api } from "../request/parse-request.ts";
import {
  ChatRequest,
  CountTokensRequest,
  EmbeddingsRequest,
  EXAMPLES,
  MessagesRequest,
  ResponsesRequest,
  UsageCost,
} from "./schemas.ts";

export interface InferenceRouteDeps {
  readonly infer: InferDeps;
  readonly countTokens: CountTokensDeps;
  readonly idempotency: IdempotencyDeps;
  /** Undefined where the gateway takes no x402 payments. */
  readonly payment: PaymentDeps | undefined;
}

const BODY_LIMIT_BYTES = 32 * 1_048_576;

const MODEL_FAULTS = [
  "insufficient_credits",
  "forbidden",
  "key_limit_reached",
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
    embeddingsRoute(deps),
  ];
  return deps.payment === undefined ? routes : routes.map(documentPayment);
}

/** Says of a call that holds money that it may bring a payment. */
function documentPayment(route: Route): Route {
  const { 200: ok, ...others } = route.responses;
  if (route.recheckedByHold !== true || ok === undefined) return route;
  const description = `${route.description ?? ""} A \`402\` carries the header \`PAYMENT-REQUIRED\` (x402, version 2): the same request with the header \`PAYMENT-SIGNATURE\` buys credits and runs on them.`;
  const paymentHeader = "What the payment that came with the request has settled: base64 of JSON.";
  const headers = { ...ok.headers, "payment-response": paymentHeader };
  return {
    ...route,
    description: description.trim(),
    responses: { ...others, 200: { ...ok, headers } },
  };
}

/** What `upstream.ts` passes on. */
const RELAYED_HEADER_DOCS = {
  "retry-after-ms": "The provider's own, in milliseconds, beside `retry-after`.",
  "x-should-retry": "The provider's own: whether it would have the request sent again.",
  "x-ratelimit-*": "The provider's limits, as OpenAI and those who follow it say them.",
  "anthropic-ratelimit-*": "The provider's limits, as Anthropic says them.",
  "anthropic-fast-*": "The provider's limits of its fast mode, as Anthropic says them.",
  "openai-processing-ms": "How long the provider took, as OpenAI says it.",
  "openai-model": "The provider's own name of the model, as OpenAI says it.",
} as const;

const CALL_ROUTE = {
  tag: "Models",
  bodyLimitBytes: BODY_LIMIT_BYTES,
  rawBody: true,
  relayedHeaders: RELAYED_HEADER_DOCS,
} as const;

const BILLED_ROUTE = { ...CALL_ROUTE, recheckedByHold: true, idempotent: true } as const;

const RESPONSE_HEADERS = {
  "x-postern-cost-usd":
    "What the call cost, on replies that are not streamed; a stream says it in its usage.",
  "x-postern-max-tokens":
    "The output limit that was set because none was given and the balance does not afford the model's own.",
  "x-postern-dropped":
    "What this model's provider could not be told and, on replies that are not streamed, what of the reply this API cannot say (`reply.…`): paths, with commas; of very many, the first, `and … more`; characters that no header takes as `\\uXXXX`. See docs/translation.md.",
  "x-postern-byok": "Whether it went on the caller's own provider key, and cost no credits.",
  "x-postern-provider": "Who answered.",
  "x-postern-model":
    "The id of the model that answered: another than was asked for only where `models` names it.",
};

function chatRoute(deps: InferenceRouteDeps): Route {
  return keyRoute({
    ...BILLED_ROUTE,
    method: "POST",
    path: "/v1/chat/completions",
    id: "createChatCompletion",
    summary: "Chat Completions, as OpenAI speaks it",
    description:
      "The body is passed on as it is. `stream: true` answers with server-sent events. The usage object carries `cost`, in US dollars.",
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
  return keyRoute({
    ...BILLED_ROUTE,
    method: "POST",
    path: "/v1/responses",
    id: "createResponse",
    summary: "Responses, as OpenAI speaks it",
    description:
      "Nothing is stored unless `store: true` asks for it: then the reply and its input are kept here, encrypted, for 30 days, and never at the provider. `previous_response_id` goes on from a stored response, with any model; otherwise send earlier turns in `input`. With `background: true` the answer comes at once, `in_progress`. `stream: true` answers with server-sent events.",
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
  return keyRoute({
    ...BILLED_ROUTE,
    method: "POST",
    path: "/v1/messages",
    id: "createMessage",
    summary: "Messages, as Anthropic speaks it",
    description:
      "The body is passed on as it is, and so are `anthropic-version` and `anthropic-beta`. `stream: true` answers with server-sent events.",
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
        headers: RESPONSE_HEADERS,
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
    summary: "Count a message's input tokens",
    description:
      "Costs nothing. Where the model's provider cannot count, the answer is an upper bound, and `x-postern-count: upper-bound` says so.",
    dialect: "messages",
    body: CountTokensRequest,
    requestExample: EXAMPLES.countTokens.request,
    responses: {
      200: {
        description: "The count.",
        schema: z.looseObject({ input_tokens: z.int() }).meta({ id: "TokenCount" }),
        example: EXAMPLES.countTokens.reply,
        headers: {
          "x-postern-count": "`upper-bound` where the provider cannot count.",
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

function embeddingsRoute(deps: InferenceRouteDeps): Route {
  return keyRoute({
    ...BILLED_ROUTE,
    method: "POST",
    path: "/v1/embeddings",
    id: "createEmbeddings",
    summary: "Embeddings, as OpenAI speaks it",
    dialect: "openai",
    body: EmbeddingsRequest,
    requestExample: EXAMPLES.embeddings.request,
    responses: {
      200: {
        description: "The vectors.",
        schema: z
          .looseObject({
            object: z.literal("list"),
            data: z.array(z.looseObject({})),
            model: z.string(),
            usage: UsageCost,
          })
          .meta({ id: "Embeddings" }),
        example: EXAMPLES.embeddings.reply,
        headers: RESPONSE_HEADERS,
      },
    },
    faults: MODEL_FAULTS,
    run: callHandler(deps, "embeddings"),
  });
}

type ModelInput = RouteInput<undefined, undefined, unknown, Caller>;

function callHandler(
  { infer: inferDeps, idempotency, payment }: InferenceRouteDeps,
  api: Api,
): (input: ModelInput) => Promise<Response> {
  return (routeInput) => {
    const { headers, request } = routeInput;
    const idempotent = idempotentCallOf(api, routeInput, idempotency.now());
    const hasPayment = payment !== undefined && headers.has("payment-signature");
    const input = { ...callInputOf(api, routeInput), idempotent, hasPayment };
    const run = (): Promise<Response> => infer(inferDeps, input);
    const runPaid = payment && (() => withPayment(payment, input, request.url, run));
    if (idempotent !== undefined)
      return withIdempotency(idempotency, input, idempotent, runPaid ?? run);
    return runPaid === undefined ? infer(inferDeps, input) : runPaid();
  };
}

function callInputOf(api: Api, input: ModelInput): CallInput {
  const { caller, requestId, now, headers, request, bodyText } = input;
  return {
    api,
    text: bodyText,
    caller,
    requestId,
    now,
    headers,
    forwardedHeaders: readForwardedHeaders(headers),
    signal: request.signal,
    idempotent: undefined,
  };
}

// `now`: the body may arrive minutes after the request, and the key's age counts from its end.
function idempotentCallOf(
  api: Api,
  { caller, headers, bodyText }: ModelInput,
  now: number,
): IdempotentCall | undefined {
  const key = readIdempotencyKey(headers);
  return key === undefined
    ? undefined
    : { scope: `${caller.accountId} ${api}`, key, body: bodyText, now };
}
