// The table of endpoints without a conversation. Their routes differ in what is listed here and in nothing else.

import type { RelayedApi } from "@postern/wires";
import { z } from "zod";
import { UsageCost } from "./inference-schemas.ts";

interface RelayedRoute {
  readonly api: RelayedApi;
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly body: z.ZodType;
  readonly requestExample: unknown;
  readonly reply: string;
  readonly schema: z.ZodType;
  readonly example: unknown;
}

const Texts = z.union([z.string(), z.array(z.unknown())]);

function modelField(example: string) {
  return z.string().meta({ description: "A model id from GET /v1/models.", example });
}

const EmbeddingsRequest = z
  .looseObject({ model: modelField("sim/embed"), input: Texts })
  .meta({ id: "EmbeddingsRequest" });

const ImagesRequest = z
  .looseObject({
    model: modelField("openai/gpt-image-2"),
    prompt: z.string().meta({ description: "A description of the image." }),
    n: z.int().min(1).max(10).optional().meta({ description: "Number of images. Default: 1." }),
    size: z.string().optional().meta({
      description: "`<width>x<height>`, at most 3840x2160, or `auto` (default).",
    }),
    quality: z.string().optional().meta({ description: "Such as `low`, `medium` or `high`." }),
  })
  .meta({ id: "ImagesRequest" });

const RerankRequest = z
  .looseObject({
    model: modelField("cohere/rerank-v4.0-pro"),
    query: z.string().meta({ description: "What to compare the documents with." }),
    documents: z
      .array(
        z.union([
          z.string(),
          z.looseObject({ text: z.string().meta({ description: "The text of the document." }) }),
        ]),
      )
      .min(1)
      .max(1_000)
      .meta({ description: "The documents to sort." }),
    top_n: z.int().min(1).optional().meta({ description: "The number of results. Default: all." }),
    return_documents: z.boolean().optional().meta({
      description: "`true`: each result has its document. Default: `false`.",
    }),
  })
  .meta({ id: "RerankRequest" });

const RerankReply = z
  .looseObject({
    results: z
      .array(
        z.looseObject({
          index: z.int().meta({ description: "The position of the document in the request." }),
          relevance_score: z.number().meta({ description: "Higher is more relevant." }),
        }),
      )
      .meta({ description: "The documents by relevance, the most relevant first." }),
    meta: z.looseObject({}).meta({ description: "What was billed, in Cohere's form." }),
    usage: UsageCost,
  })
  .meta({ id: "RerankResults" });

const RERANK = {
  api: "rerank",
  body: RerankRequest,
  requestExample: {
    model: "sim/rerank",
    query: "Where is the capital of France?",
    documents: ["Berlin is in Germany.", "The capital of France is Paris."],
    top_n: 1,
  },
  reply: "The documents by relevance.",
  schema: RerankReply,
  example: {
    object: "list",
    model: "sim/rerank",
    results: [{ index: 1, relevance_score: 0.5 }],
    meta: { api_version: { version: "2" }, billed_units: { search_units: 1 } },
    usage: { cost: 0.002, search_units: 1 },
  },
} as const;

export const RELAYED_ROUTES: readonly RelayedRoute[] = [
  {
    api: "embeddings",
    path: "/v1/embeddings",
    id: "createEmbeddings",
    summary: "Create embeddings",
    body: EmbeddingsRequest,
    requestExample: { model: "sim/embed", input: "Hello" },
    reply: "The embeddings.",
    schema: z
      .looseObject({
        object: z.literal("list"),
        data: z.array(z.looseObject({})),
        model: z.string(),
        usage: UsageCost,
      })
      .meta({ id: "Embeddings" }),
    example: {
      object: "list",
      model: "sim/embed",
      data: [{ object: "embedding", index: 0, embedding: [0.1, -0.2] }],
      usage: { cost: 0.000002, prompt_tokens: 2, total_tokens: 2 },
    },
  },
  {
    api: "images",
    path: "/v1/images/generations",
    id: "createImages",
    summary: "Create images",
    description:
      "OpenAI's Images API. The body is forwarded, apart from the model's name. The reply has the images as `b64_json`. `x-postern-cost-usd` is the cost; `usage.cost` repeats it for models that report usage.",
    body: ImagesRequest,
    requestExample: { model: "sim/image", prompt: "A lighthouse at night", size: "1024x1024" },
    reply: "The images.",
    schema: z
      .looseObject({
        created: z.int().meta({ description: "A Unix timestamp in seconds." }),
        data: z.array(z.looseObject({})),
        usage: UsageCost.optional(),
      })
      .meta({ id: "Images" }),
    example: {
      created: 1_795_000_000,
      data: [{ b64_json: "iVBORw0KGgo=" }],
      usage: { cost: 0.002116, input_tokens: 4, output_tokens: 1_056, total_tokens: 1_060 },
    },
  },
  {
    ...RERANK,
    path: "/v1/rerank",
    id: "rerankDocuments",
    summary: "Rerank documents",
    description:
      "Sorts documents by their relevance to a query. The same request works with every rerank model.",
  },
  {
    ...RERANK,
    path: "/v2/rerank",
    id: "rerankDocumentsV2",
    summary: "Rerank documents (Cohere v2)",
    description: "The same as POST /v1/rerank, at the path that Cohere's clients call.",
  },
  {
    api: "moderations",
    path: "/v1/moderations",
    id: "createModeration",
    summary: "Create a moderation",
    description:
      "OpenAI's Moderations API. It is free at OpenAI; the call still has a usage record. Default `model`: `openai/omni-moderation-latest`.",
    body: z
      .looseObject({ model: modelField("sim/moderation").optional(), input: Texts })
      .meta({ id: "ModerationRequest" }),
    requestExample: { model: "sim/moderation", input: "I love you" },
    reply: "The categories of each input.",
    schema: z
      .looseObject({
        id: z.string(),
        model: z.string(),
        results: z.array(z.looseObject({})).meta({ description: "One result for each input." }),
      })
      .meta({ id: "Moderation" }),
    example: {
      id: "modr_1",
      model: "sim/moderation",
      results: [{ flagged: false, categories: {}, category_scores: {} }],
    },
  },
];
