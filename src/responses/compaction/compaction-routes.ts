// The route POST /v1/responses/compact.

import { z } from "zod";
import { type Route, modelRoute } from "../../http/route.ts";
import { MODEL_FAULTS, RESPONSE_HEADERS } from "../../inference/api/call-handler.ts";
import { callInputOf, CALL_ROUTE } from "../../inference/api/call-route.ts";
import type { Responses } from "../responses.ts";

const CompactRequest = z
  .looseObject({
    model: z.string().meta({ description: "A model id from GET /v1/models." }),
    input: z
      .union([z.string(), z.array(z.looseObject({}))])
      .optional()
      .meta({ description: "The conversation so far." }),
    previous_response_id: z
      .string()
      .optional()
      .meta({ description: "The stored response whose conversation is compacted." }),
    instructions: z.string().optional(),
    tools: z.array(z.looseObject({})).optional(),
    postern: z
      .looseObject({ compaction: z.literal("summary").optional() })
      .optional()
      .meta({
        description:
          '`compaction: "summary"` asks for a summary that any model can continue from, where the provider compacts natively.',
      }),
  })
  .meta({ id: "CompactRequest" });

const CompactedResponse = z
  .looseObject({
    id: z.string(),
    object: z.literal("response.compaction"),
    created_at: z.int(),
    output: z.array(z.looseObject({ type: z.string() })),
  })
  .meta({
    id: "CompactedResponse",
    description:
      "User messages, and an encrypted summary. Send `output` in `input` of the next request.",
  });

export function compactRoute(responses: Responses): Route {
  return modelRoute({
    ...CALL_ROUTE,
    method: "POST",
    path: "/v1/responses/compact",
    id: "compactResponse",
    scope: "models:write",
    summary: "Compact a conversation",
    description:
      "Replaces a long conversation by its user messages and an encrypted summary; the call is charged like any other. Send `output` at the beginning of `input` in the next request. OpenAI's models compact natively, and only OpenAI can read the result; other models write a summary that any model can continue from, but only in the account that created it. The gateway does not store it.",
    dialect: "openai",
    body: CompactRequest,
    requestExample: {
      model: "sim/echo",
      input: [
        { role: "user", content: "Hello" },
        { role: "assistant", content: "You said: Hello" },
      ],
    },
    responses: {
      200: {
        description: "The compacted conversation.",
        schema: CompactedResponse,
        example: {
          id: "resp_01kvf2q8xn3m5r7t9w1y4z6b8d",
          object: "response.compaction",
          created_at: 1_795_000_000,
          output: [
            { type: "message", role: "user", content: "Hello" },
            {
              id: "cmp_01kvf2q8xn3m5r7t9w1y4z6b8d",
              type: "compaction",
              encrypted_content: "pst-compaction-1.…",
            },
          ],
          usage: { cost: 0.000_012, input_tokens: 120, output_tokens: 40, total_tokens: 160 },
        },
        headers: {
          "x-postern-cost-usd": "Cost of the call in US dollars.",
          "x-postern-byok": RESPONSE_HEADERS["x-postern-byok"],
          "x-postern-provider": RESPONSE_HEADERS["x-postern-provider"],
          "x-postern-model": RESPONSE_HEADERS["x-postern-model"],
        },
      },
    },
    faults: [...MODEL_FAULTS.filter((code) => code !== "conflict"), "not_found"],
    run: (input) => responses.compact(callInputOf("responses", input)),
  });
}
