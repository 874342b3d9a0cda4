// POST /v1/quote: what a chat completion would hold and can cost.

import { z } from "zod";
import { keyRoute, type Route } from "../../http/route.ts";
import { quote, type QuoteDeps } from "../lifecycle/quote.ts";
import { callInputOf, MODEL_ROUTE } from "./call-route.ts";
import { ChatRequest, EXAMPLES } from "./inference-schemas.ts";

const QuoteRecord = z.object({
  object: z.literal("quote"),
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
  hold_credits: z.int().meta({
    description:
      "Credits that the call would hold. Without an output limit, a call holds less if the balance does not cover this.",
  }),
  available_credits: z.int().meta({ description: "Balance without what running calls hold." }),
  affordable_output_tokens: z.int().meta({
    description:
      "The largest output limit that the available credits cover, up to `output_tokens_max`.",
  }),
});

export function quoteRoute(deps: QuoteDeps): Route {
  return keyRoute({
    ...MODEL_ROUTE,
    method: "POST",
    path: "/v1/quote",
    id: "createQuote",
    scope: "models:write",
    summary: "Quote a chat completion",
    description:
      "Takes the body of `POST /v1/chat/completions` and returns what the call would hold and can cost at most, without sending or charging anything.",
    dialect: "openai",
    body: ChatRequest,
    requestExample: EXAMPLES.chat.request,
    responses: {
      200: {
        description: "The quote.",
        schema: QuoteRecord,
        example: {
          object: "quote",
          model: "sim/echo",
          provider: "sim",
          byok: false,
          input_tokens_max: 62,
          output_tokens_max: 50,
          input_usd_max: "0.000062",
          cost_usd_max: "0.000162",
          hold_credits: 162,
          available_credits: 50_000,
          affordable_output_tokens: 50,
        },
      },
    },
    faults: ["workspace_frozen", "model_not_found", "provider_not_configured"],
    run: async (input) => ({ status: 200, body: await quote(deps, callInputOf("chat", input)) }),
  });
}
