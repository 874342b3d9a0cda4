// Request and response schemas of the model APIs, for the OpenAPI document. They list what the gateway itself reads; other
// fields are forwarded.

import { z } from "zod";
import { SORT_KEYS } from "../routing/routing-preferences.ts";

const modelField = z.string().meta({
  description: "A model id from GET /v1/models: `<provider>/<name>`.",
  example: "sim/echo",
});
const streamField = z
  .boolean()
  .optional()
  .meta({ description: "Stream the response as server-sent events." });

const ProviderPreferences = z
  .strictObject({
    order: z.array(z.string()).optional().meta({
      description: "Providers to try first, in this order. It overrides `sort` and sticky routing.",
    }),
    only: z.array(z.string()).optional().meta({ description: "Use only these providers." }),
    ignore: z.array(z.string()).optional().meta({ description: "Never use these providers." }),
    sort: z.enum(SORT_KEYS).optional().meta({
      description:
        "Try the cheapest provider first, the one with the lowest latency, or the one with the highest throughput.",
    }),
    allow_fallbacks: z.boolean().optional().meta({
      description:
        "`false`: use only the first provider, or those in `order`. `true`: use any provider of the model.",
    }),
    require_parameters: z.boolean().optional().meta({
      description:
        "`true`: use only a provider that takes every field of the request; without one, the response is a 400.",
    }),
    data_collection: z.enum(["allow", "deny"]).optional().meta({
      description: "`deny`: use only providers that do not train on the data.",
    }),
    zdr: z.boolean().optional().meta({
      description: "`true`: use only providers that store nothing after the reply.",
    }),
    region: z.string().optional().meta({
      description: "Use only providers that process the data in this region, such as `us`.",
    }),
    quantizations: z.array(z.string()).optional().meta({
      description:
        "Only a list with `unknown` is accepted: providers do not say how they quantize.",
    }),
    max_price: z
      .strictObject({
        prompt: z.union([z.number(), z.string()]).optional(),
        completion: z.union([z.number(), z.string()]).optional(),
      })
      .optional()
      .meta({ description: "Maximum list prices, in US dollars per million tokens." }),
  })
  .meta({
    id: "ProviderPreferences",
    example: { order: ["bedrock", "anthropic"], max_price: { prompt: 5 } },
  });

const CallOptions = z
  .strictObject({
    cache: z.union([z.int(), z.string()]).optional().meta({
      description: "Seconds to cache the reply, or `off`: see `/docs/caching`.",
    }),
    max_cost_usd: z
      .union([z.number().min(0), z.string()])
      .optional()
      .meta({
        description:
          "The most that this call may cost, in US dollars. No candidate above it is tried, no hold and no charge is larger.",
      }),
    on_max_cost: z.enum(["shorten", "refuse"]).optional().meta({
      description:
        "If the call may cost more than `max_cost_usd`: lower the output limit until it fits (default), or refuse it with a 400 that says what would fit.",
    }),
    hold: z.enum(["rolling", "full"]).optional().meta({
      description:
        "`rolling` (default): a stream holds a part of what it can cost, and more as it runs. `full`: all of it at first.",
    }),
    quote: z.string().optional().meta({
      description:
        "The `offer` of a quote for this request: the call costs at most what was quoted.",
    }),
    receipt: z.boolean().optional().meta({
      description: "`true`: sign a receipt of the call. `GET /v1/usage/{id}/receipt` returns it.",
    }),
    lossy: z.boolean().optional().meta({
      description:
        "`true`: drop what the provider's API cannot express, even if the reply changes.",
    }),
  })
  .meta({ id: "CallOptions", example: { max_cost_usd: 0.05 } });

/** The gateway's own fields, on all four APIs. */
export const routingFields = {
  postern: CallOptions.optional().meta({ description: "The gateway's own options of this call." }),
  models: z.array(z.string()).min(1).optional().meta({
    description:
      "Models to try in this order, each if the one before fails. The model that replies is charged.",
  }),
  provider: ProviderPreferences.optional().meta({
    description:
      "Preferences among the providers of the model. Without them, only the model's own provider is used.",
  }),
};

export const UsageCost = z
  .looseObject({
    cost: z
      .number()
      .optional()
      .meta({ description: "Cost of the call in US dollars, at the provider's list price." }),
    dropped: z.array(z.string()).optional().meta({
      description:
        "What was dropped, if anything: paths in a translated request that the provider does not take, and paths in its reply (`reply.…`) that this API cannot express.",
    }),
  })
  .meta({
    id: "ProviderUsage",
    description: "The provider's usage object, with the cost added.",
  });

const ChatMessage = z
  .looseObject({
    role: z.string(),
    content: z
      .union([z.string(), z.array(z.looseObject({}))])
      .nullable()
      .optional(),
  })
  .meta({ id: "ChatMessage" });

export const ChatRequest = z
  .looseObject({
    model: modelField,
    messages: z.array(ChatMessage).min(1),
    max_tokens: z.int().min(1).optional().meta({
      description: "Maximum output tokens. It also limits the credits held for the call.",
    }),
    max_completion_tokens: z.int().min(1).optional(),
    stream: streamField,
    ...routingFields,
  })
  .meta({ id: "ChatCompletionRequest" });

export const ResponsesRequest = z
  .looseObject({
    model: modelField,
    input: z.union([z.string(), z.array(z.looseObject({}))]),
    max_output_tokens: z.int().min(1).optional(),
    stream: streamField,
    ...routingFields,
    store: z.boolean().optional().meta({
      description:
        "`false`: do not store it. Default: `true`, unless the gateway or the account stores less.",
    }),
    previous_response_id: z.string().optional().meta({
      description:
        "The stored response to continue, with any model. Its `instructions` are not carried over.",
    }),
    background: z.boolean().optional().meta({
      description:
        "Run in the background: poll it by its id or, with `stream: true`, read its events.",
    }),
    background_options: z.looseObject({}).optional().meta({
      description: "`completion_window`: `soonest`, `2h`, `8h` or `24h`. See `/docs/batches`.",
    }),
  })
  .meta({ id: "ModelResponseRequest" });

export const MessagesRequest = z
  .looseObject({
    model: modelField,
    messages: z.array(ChatMessage).min(1),
    max_tokens: z.int().min(1),
    stream: streamField,
    ...routingFields,
  })
  .meta({ id: "MessageRequest" });

export const CountTokensRequest = z
  .looseObject({ model: modelField, messages: z.array(ChatMessage).min(1), ...routingFields })
  .meta({ id: "TokenCountRequest" });

const EXAMPLE_MESSAGES = [{ role: "user", content: "Hello" }];

export const EXAMPLES = {
  chat: {
    request: { model: "sim/echo", messages: EXAMPLE_MESSAGES, max_tokens: 64 },
    reply: {
      id: "chatcmpl-1",
      object: "chat.completion",
      created: 1_795_000_000,
      model: "sim/echo",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "You said: Hello" },
          finish_reason: "stop",
        },
      ],
      usage: { cost: 0.000012, prompt_tokens: 4, completion_tokens: 4, total_tokens: 8 },
    },
    stream:
      'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"You"}}]}\n\ndata: [DONE]\n\n',
  },
  responses: {
    request: { model: "sim/echo", input: "Hello", max_output_tokens: 64 },
    reply: {
      id: "resp_1",
      object: "response",
      status: "completed",
      output: [
        {
          type: "message",
          role: "assistant",
          content: [{ type: "output_text", text: "You said: Hello", annotations: [] }],
        },
      ],
      usage: { cost: 0.000012, input_tokens: 4, output_tokens: 4, total_tokens: 8 },
    },
    stream: 'event: response.created\ndata: {"type":"response.created","sequence_number":0}\n\n',
  },
  messages: {
    request: { model: "sim/echo", max_tokens: 64, messages: EXAMPLE_MESSAGES },
    reply: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "sim/echo",
      content: [{ type: "text", text: "You said: Hello" }],
      stop_reason: "end_turn",
      usage: { cost: 0.000012, input_tokens: 4, output_tokens: 4 },
    },
    stream: 'event: message_start\ndata: {"type":"message_start"}\n\n',
  },
  countTokens: {
    request: { model: "sim/echo", messages: EXAMPLE_MESSAGES },
    reply: { input_tokens: 4 },
  },
  countInput: {
    request: { model: "sim/echo", input: "Hello" },
    reply: { object: "response.input_tokens", input_tokens: 8 },
  },
} as const;
