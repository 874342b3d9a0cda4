// The bodies of Google's API that the OpenAPI document describes: what the gateway itself reads. Other fields are forwarded.

import { z } from "zod";
import { routingFields } from "./inference-schemas.ts";

const Content = z
  .looseObject({
    role: z.enum(["user", "model"]).optional().meta({ description: "Default: `user`." }),
    parts: z.array(z.looseObject({})).meta({
      description: "`text`, `inlineData`, `functionCall`, `functionResponse` and others.",
    }),
  })
  .meta({ id: "GeminiContent" });

export const GeminiRequest = z
  .looseObject({
    contents: z.array(Content).min(1).meta({ description: "The turns of the conversation." }),
    systemInstruction: Content.optional().meta({ description: "Instructions for the model." }),
    tools: z.array(z.looseObject({})).optional().meta({
      description: "`functionDeclarations`, and tools such as `googleSearch`.",
    }),
    generationConfig: z
      .looseObject({
        maxOutputTokens: z.int().min(1).optional().meta({ description: "The output limit." }),
        candidateCount: z
          .int()
          .min(1)
          .max(128)
          .optional()
          .meta({ description: "The number of replies." }),
      })
      .optional()
      .meta({ description: "Limits, sampling, output schema and `thinkingConfig`." }),
    serviceTier: z.string().optional().meta({ description: "`standard`, `flex` or `priority`." }),
    ...routingFields,
  })
  .meta({ id: "GenerateContentRequest" });

export const GeminiEmbedRequest = z
  .looseObject({
    content: Content.optional(),
    outputDimensionality: z
      .int()
      .min(1)
      .optional()
      .meta({ description: "The length of the embedding." }),
    requests: z
      .array(z.looseObject({ content: Content }))
      .optional()
      .meta({
        description: "Of a batch: one request for each embedding.",
      }),
  })
  .meta({ id: "EmbedContentRequest" });

const USAGE = {
  promptTokenCount: 5,
  candidatesTokenCount: 6,
  totalTokenCount: 11,
  cost: 0.000017,
};
const REPLY = {
  candidates: [
    {
      content: { parts: [{ text: "You said: Hello!" }], role: "model" },
      finishReason: "STOP",
    },
  ],
  usageMetadata: USAGE,
  modelVersion: "sim/echo",
  responseId: "req_01kah5t3mq7d2c9w4e6r8t0yax",
};
const CONTENT = { role: "user", parts: [{ text: "Hello!" }] };

export const GEMINI_EXAMPLES = {
  request: { contents: [CONTENT], generationConfig: { maxOutputTokens: 100 } },
  reply: REPLY,
  stream: `data: ${JSON.stringify(REPLY)}\n\n`,
  embed: { content: { parts: [{ text: "Hello!" }] } },
  embedBatch: { requests: [{ content: { parts: [{ text: "Hello!" }] } }] },
} as const;
