// POST /v1/quote: what a call would hold and can cost, as a signed offer.

import { z } from "zod";
import { keyRoute, type Route } from "../../http/route.ts";
import { USAGE_APIS } from "../../usage/usage.ts";
import { quote, type QuoteDeps, quoteModels } from "../lifecycle/quote.ts";
import { callInputOf, MODEL_ROUTE } from "./call-route.ts";
import { ChatRequest, EXAMPLES } from "./inference-schemas.ts";

const QuoteRecord = z.object({
  object: z.literal("quote"),
  id: z.string(),
  api: z.enum(USAGE_APIS),
  model: z.string().meta({ description: "The model that would be tried first." }),
  provider: z.string(),
  byok: z
    .boolean()
    .meta({ description: "True if the call would use your own provider key and cost nothing." }),
  input_tokens_max: z.int().meta({ description: "Upper bound of the input tokens." }),
  output_tokens_max: z.int().meta({
    description: "The output limit of the request, or the model's own limit if it has none.",
  }),
  input_usd_max: z.string().meta({ description: "Upper bound of the cost of the input alone." }),
  cost_usd_max: z.string().meta({ description: "The most that the call can cost." }),
  batch_usd_max: z.string().nullable().meta({
    description:
      "The most that it can cost in a batch of the provider; null if only the gateway can run it.",
  }),
  hold_credits: z.int().meta({
    description:
      "Credits that the call would hold. Without an output limit, a call holds less if the balance does not cover this.",
  }),
  stream_hold_credits: z.int().meta({
    description:
      "What a stream, or a whole reply that is short of credits, holds at first; its hold grows with it. Equal to `hold_credits` where it holds everything.",
  }),
  available_credits: z.int().meta({
    description:
      "What the balance, the limit of the key and the budgets all cover, without what running calls hold.",
  }),
  affordable_output_tokens: z.int().meta({
    description:
      "The largest output limit that the available credits cover, up to `output_tokens_max`.",
  }),
  offer: z.string().meta({
    description:
      "The signed offer. A call with the same body and this text in the header `x-postern-quote`, or in `postern.quote`, costs at most `cost_usd_max`, even if prices rise before it.",
  }),
  expires_at: z.string().meta({ description: "Ten minutes after the quote." }),
});

const QuoteList = z.object({
  object: z.literal("list"),
  data: z.array(
    z.union([
      QuoteRecord,
      z.object({
        object: z.literal("quote_error"),
        model: z.string(),
        error: z.object({ code: z.string(), message: z.string() }),
      }),
    ]),
  ),
});

const MODELS_MAX = 10;

const QuoteQuery = z.strictObject({
  api: z.enum(USAGE_APIS).default("chat").meta({ description: "The API of the body." }),
  models: z
    .string()
    .transform((text) => text.split(",").map((id) => id.trim()))
    .pipe(z.array(z.string().min(1)).min(1).max(MODELS_MAX))
    .optional()
    .meta({
      description: `Up to ${MODELS_MAX} model ids, separated by commas: returns a quote for each.`,
    }),
});

export function quoteRoute(deps: QuoteDeps): Route {
  return keyRoute({
    ...MODEL_ROUTE,
    multipart: "allowed",
    method: "POST",
    path: "/v1/quote",
    id: "createQuote",
    scope: "models:write",
    summary: "Quote a model call",
    description:
      "Takes the body of a model call and returns what the call would hold and can cost at most, without sending or charging anything. The quote binds: until it expires, the same call with its `offer` costs at most `cost_usd_max`.",
    dialect: "openai",
    query: QuoteQuery,
    body: ChatRequest,
    requestExample: EXAMPLES.chat.request,
    responses: {
      200: {
        description: "The quote; with `models`, a list of quotes and errors.",
        schema: z.union([QuoteRecord, QuoteList]),
        example: {
          object: "quote",
          id: "quo_01kah5t3mq7d2c9w4e6r8t0yax",
          api: "chat",
          model: "sim/echo",
          provider: "sim",
          byok: false,
          input_tokens_max: 62,
          output_tokens_max: 50,
          input_usd_max: "0.000062",
          cost_usd_max: "0.000162",
          batch_usd_max: null,
          hold_credits: 162,
          stream_hold_credits: 162,
          available_credits: 50_000,
          affordable_output_tokens: 50,
          offer: "eyJhbGciOi…",
          expires_at: "2026-11-21T09:41:00.000Z",
        },
      },
    },
    faults: ["workspace_frozen", "model_not_found", "provider_not_configured"],
    run: async (input) => {
      const { api, models } = input.query;
      const call = callInputOf(api, input);
      if (models === undefined) return { status: 200, body: await quote(deps, call) };
      return {
        status: 200,
        body: { object: "list", data: await quoteModels(deps, call, models) },
      };
    },
  });
}
