// The table of endpoints without a conversation. Their routes differ in what is listed here and in nothing else.

import type { RelayedApi } from "@postern/wires";
import { z } from "zod";
import type { FaultCode } from "../../base/fault.ts";
import type { Dialect, ResponseDoc } from "../../http/route.ts";
import { UsageCost } from "./inference-schemas.ts";

/** What is particular to the route of a model call. */
export interface CallEntry<A extends string = RelayedApi> {
  readonly api: A;
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly body: z.ZodType;
  readonly requestExample: unknown;
  readonly reply: string;
  readonly schema?: z.ZodType;
  readonly example?: unknown;
  readonly multipart?: "allowed" | "required";
  readonly alternatives?: ResponseDoc["alternatives"];
  /** The content type of a reply that is not JSON. */
  readonly contentType?: string;
  /** OpenAI's if absent. */
  readonly dialect?: Dialect;
  /** Besides those of every call. */
  readonly faults?: readonly FaultCode[];
  readonly headers?: Readonly<Record<string, string>>;
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
    stream: z.boolean().optional().meta({ description: "`true`: responds with events." }),
    partial_images: z
      .int()
      .min(0)
      .max(3)
      .optional()
      .meta({ description: "How many images a stream shows before the last one." }),
  })
  .meta({ id: "ImagesRequest" });

const ImageEditsRequest = z
  .looseObject({
    model: modelField("openai/gpt-image-2"),
    prompt: z.string().meta({ description: "What to change." }),
    image: z
      .union([z.string(), z.looseObject({}), z.array(z.unknown())])
      .optional()
      .meta({ description: "1 to 16 files; several are `image[]`." }),
    images: z
      .array(z.looseObject({ image_url: z.string().optional().meta({ description: "A URL." }) }))
      .optional()
      .meta({ description: "In JSON, the images as URLs." }),
    mask: z
      .union([z.string(), z.looseObject({})])
      .optional()
      .meta({ description: "Transparent where the first image may change." }),
    n: z.int().min(1).max(10).optional().meta({ description: "Number of images. Default: 1." }),
    stream: z.boolean().optional().meta({ description: "`true`: responds with events." }),
  })
  .meta({ id: "ImageEditsRequest" });

const IMAGES_REPLY = z
  .looseObject({
    created: z.int().meta({ description: "A Unix timestamp in seconds." }),
    data: z.array(z.looseObject({})),
    usage: UsageCost.optional(),
  })
  .meta({ id: "Images" });

const IMAGES_EXAMPLE = {
  created: 1_795_000_000,
  data: [{ b64_json: "iVBORw0KGgo=" }],
  usage: { cost: 0.002116, input_tokens: 4, output_tokens: 1_056, total_tokens: 1_060 },
};

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

const SpeechRequest = z
  .looseObject({
    model: modelField("groq/canopylabs/orpheus-v1-english"),
    input: z.string().max(20_000).meta({ description: "The text to speak." }),
    voice: z
      .union([z.string(), z.looseObject({})])
      .meta({ description: "A voice of the model, such as `alloy`." }),
    instructions: z.string().optional().meta({ description: "How to speak it." }),
    response_format: z
      .string()
      .optional()
      .meta({ description: "`mp3` (default), `opus`, `aac`, `flac`, `wav` or `pcm`." }),
    speed: z.number().min(0.25).max(4).optional().meta({ description: "Default: 1." }),
    stream_format: z
      .enum(["audio", "sse"])
      .optional()
      .meta({ description: "`sse`: events with base64 audio, and the usage in the last." }),
  })
  .meta({ id: "SpeechRequest" });

const File = z.string().meta({ description: "The recording, as a file.", format: "binary" });

const TranslationRequest = z
  .looseObject({
    model: modelField("groq/whisper-large-v3"),
    file: File,
    prompt: z.string().optional().meta({ description: "Words that may occur in it." }),
    response_format: z
      .enum(["json", "text", "srt", "verbose_json", "vtt"])
      .optional()
      .meta({ description: "Default: `json`." }),
    temperature: z.number().optional().meta({ description: "From 0 to 1." }),
  })
  .meta({ id: "TranslationRequest" });

const TranscriptionRequest = z
  .looseObject({
    model: modelField("openai/gpt-transcribe"),
    file: File,
    language: z.string().optional().meta({ description: "ISO 639-1, such as `en`." }),
    prompt: z.string().optional().meta({ description: "Words that may occur in it." }),
    response_format: z
      .enum(["json", "text", "srt", "verbose_json", "vtt", "diarized_json"])
      .optional()
      .meta({ description: "Default: `json`." }),
    stream: z.boolean().optional().meta({ description: "`true`: responds with events." }),
    temperature: z.number().optional().meta({ description: "From 0 to 1." }),
  })
  .meta({ id: "TranscriptionRequest" });

const Transcript = z
  .looseObject({
    text: z.string().meta({ description: "What was said." }),
    usage: UsageCost.optional(),
  })
  .meta({ id: "Transcript" });

const TRANSCRIPT = {
  multipart: "required",
  requestExample: { model: "sim/transcribe", file: "@speech.mp3" },
  reply: "The transcript.",
  schema: Transcript,
  example: {
    text: "A recording of 2 seconds.",
    usage: { cost: 0.0002, type: "duration", seconds: 2 },
  },
} as const;

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

export const RELAYED_ROUTES: readonly CallEntry[] = [
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
    reply: "The images, or a stream of them.",
    schema: IMAGES_REPLY,
    example: IMAGES_EXAMPLE,
    alternatives: [
      {
        contentType: "text/event-stream",
        example:
          'data: {"type":"image_generation.partial_image","partial_image_index":0,"b64_json":"iVBORw0KGgo="}\n\ndata: {"type":"image_generation.completed","b64_json":"iVBORw0KGgo=","usage":{"cost":0.002116,"input_tokens":4,"output_tokens":1056,"total_tokens":1060}}\n\n',
      },
    ],
  },
  {
    api: "image_edits",
    path: "/v1/images/edits",
    id: "editImages",
    summary: "Edit images",
    description:
      "OpenAI's Images API. The body is a form with files, or JSON with URLs of images. Otherwise as for POST /v1/images/generations.",
    multipart: "allowed",
    body: ImageEditsRequest,
    requestExample: {
      model: "sim/image",
      prompt: "Make it night",
      images: [{ image_url: "https://example.com/lighthouse.png" }],
    },
    reply: "The images, or a stream of them.",
    schema: IMAGES_REPLY,
    example: IMAGES_EXAMPLE,
    alternatives: [{ contentType: "text/event-stream" }],
  },
  {
    api: "speech",
    path: "/v1/audio/speech",
    id: "createSpeech",
    summary: "Create speech",
    description:
      "OpenAI's Speech API. The audio is relayed while it arrives. `x-postern-cost-usd` is the cost for models that are priced by character; the events of `stream_format: sse` have it in their usage.",
    body: SpeechRequest,
    requestExample: { model: "sim/speech", input: "Hello", voice: "alloy" },
    reply: "The audio, or its events.",
    contentType: "audio/mpeg",
    alternatives: [
      {
        contentType: "text/event-stream",
        example:
          'data: {"type":"speech.audio.delta","audio":"SUQz"}\n\ndata: {"type":"speech.audio.done","usage":{"cost":0.000244,"input_tokens":4,"output_tokens":20,"total_tokens":24}}\n\n',
      },
    ],
  },
  {
    ...TRANSCRIPT,
    api: "transcriptions",
    path: "/v1/audio/transcriptions",
    id: "createTranscription",
    summary: "Transcribe audio",
    description:
      "OpenAI's Transcriptions API. The body is a form with a file, of at most 32 MiB together. Models are priced by the second or by token.",
    body: TranscriptionRequest,
    alternatives: [
      { contentType: "text/plain", example: "A recording of 2 seconds.\n" },
      {
        contentType: "text/event-stream",
        example:
          'data: {"type":"transcript.text.delta","delta":"A recording "}\n\ndata: {"type":"transcript.text.done","text":"A recording of 2 seconds.","usage":{"cost":0.000076,"type":"tokens","input_tokens":20,"output_tokens":8,"total_tokens":28}}\n\n',
      },
    ],
  },
  {
    ...TRANSCRIPT,
    api: "translations",
    path: "/v1/audio/translations",
    id: "createTranslation",
    summary: "Translate audio to English",
    description:
      "OpenAI's Translations API: a transcript in English. Otherwise as for transcriptions.",
    body: TranslationRequest,
    alternatives: [{ contentType: "text/plain", example: "A recording of 2 seconds.\n" }],
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
    api: "decisions",
    path: "/v1/decisions",
    id: "createDecision",
    summary: "Create a decision",
    description:
      "OpenAI's Decisions API, in beta: answers to typed questions about an input, with probabilities. Only the input has a price.",
    body: z
      .looseObject({
        model: modelField("openai/gpt-6-luna"),
        input: Texts,
        questions: z
          .array(
            z.looseObject({
              type: z.enum(["predicate", "choice", "score"]),
              name: z.string().nullish().meta({ description: "Repeated in the answer." }),
            }),
          )
          .min(1)
          .max(400)
          .meta({ description: "What to decide." }),
      })
      .meta({ id: "DecisionRequest" }),
    requestExample: {
      model: "sim/echo",
      input: "I was charged twice.",
      questions: [{ type: "predicate", name: "refund", instructions: "A refund is due." }],
    },
    reply: "The answers.",
    schema: z
      .looseObject({
        model: z.string(),
        answers: z.array(z.looseObject({})).meta({ description: "One for each question." }),
        usage: UsageCost,
      })
      .meta({ id: "Decision" }),
    example: {
      model: "echo",
      answers: [{ type: "predicate", name: "refund", probability: 0.75 }],
      usage: { cost: 0.0000032, input_tokens: 32, output_tokens: 0, total_tokens: 32 },
    },
  },
  {
    api: "completions",
    path: "/v1/completions",
    id: "createCompletion",
    summary: "Create a text completion",
    description:
      "OpenAI's older API, at providers that have it: Together, Fireworks and servers of your own. `max_tokens` is 16 if absent.",
    body: z
      .looseObject({
        model: modelField("together/Qwen/Qwen2.5-7B-Instruct-Turbo"),
        prompt: Texts.meta({ description: "One text, or several." }),
        max_tokens: z.int().min(1).optional().meta({ description: "Default: 16." }),
        stream: z.boolean().optional().meta({ description: "`true`: responds with events." }),
      })
      .meta({ id: "CompletionRequest" }),
    requestExample: { model: "sim/echo", prompt: "Hello there", max_tokens: 8 },
    reply: "The completion, or its stream.",
    schema: z
      .looseObject({ id: z.string(), choices: z.array(z.looseObject({})), usage: UsageCost })
      .meta({ id: "Completion" }),
    example: {
      id: "cmpl-1",
      object: "text_completion",
      model: "sim/echo",
      choices: [{ index: 0, text: "Hello there", finish_reason: "length" }],
      usage: { cost: 0.000006, prompt_tokens: 2, completion_tokens: 2, total_tokens: 4 },
    },
    alternatives: [{ contentType: "text/event-stream" }],
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
