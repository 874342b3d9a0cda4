// Google's API for Gemini, for every model: the model and the operation are in the path. Here both are written into the body, so
// that the rest of a call is that of the other APIs.

import {
  createSseParser,
  InvalidRequest,
  namedAsSent,
  readCountTokens,
  readEmbedContent,
  readSse,
  writeEmbedContent,
} from "@postern/wires";
import { z } from "zod";
import { Fault, invalid } from "../../base/fault.ts";
import { isObject, parseObject } from "../../base/json.ts";
import { parseJsonBody } from "../../http/request/body.ts";
import {
  type ResponseSink,
  streamResponse,
  takeStreamHandlers,
} from "../../http/response-stream.ts";
import {
  type AuthenticatedKey,
  type Caller,
  keyRoute,
  modelRoute,
  type Route,
  type RouteInput,
} from "../../http/route.ts";
import type { CallInput, SentForm, StreamWriter } from "../lifecycle/call.ts";
import { COUNT_HEADER, countInputTokens, type CountTokensDeps } from "../lifecycle/count-tokens.ts";
import { memberSpans, quoted, withMembers } from "../request/json-edit.ts";
import {
  BILLED_ROUTE,
  type CallDeps,
  callHandler,
  MODEL_FAULTS,
  RESPONSE_HEADERS,
} from "./call-handler.ts";
import { CALL_ROUTE, callInputOf } from "./call-route.ts";
import { routingFields } from "./inference-schemas.ts";

interface GeminiDeps extends CallDeps {
  readonly countTokens: CountTokensDeps;
}

const modelParams = (example: string) =>
  z.object({
    model: z.string().meta({ description: "A model id from GET /v1beta/models.", example }),
  });
const ModelParams = modelParams("sim/echo");
const EmbedParams = modelParams("sim/embed");
type ModelParams = z.infer<typeof ModelParams>;

/** Google's clients add parameters of their own, which are ignored. */
const StreamQuery = z.object({
  alt: z.string().optional().meta({
    description: "`sse`: server-sent events. Otherwise the chunks are one JSON array.",
    example: "sse",
  }),
});
type StreamQuery = z.infer<typeof StreamQuery>;

const GEMINI_ROUTE = {
  method: "POST",
  scope: "models:write",
  dialect: "google",
  params: ModelParams,
} as const;

const KEY_NOTE = "The key may also be in `x-goog-api-key` or the query parameter `key`.";

type GeminiInput<Q, C = Caller> = RouteInput<ModelParams, Q, unknown, C>;

export function geminiRoutes(deps: GeminiDeps): readonly Route[] {
  return [
    generateRoute(deps),
    streamRoute(deps),
    countRoute(deps),
    embedRoute(deps, false),
    embedRoute(deps, true),
  ];
}

const GenerateReply = z
  .looseObject({
    candidates: z.array(z.looseObject({})).optional().meta({
      description: "The replies, each with `content` and `finishReason`.",
    }),
    usageMetadata: z
      .looseObject({
        cost: z.number().optional().meta({ description: "The cost of the call in US dollars." }),
      })
      .optional()
      .meta({ description: "The counts of tokens, and the cost." }),
    modelVersion: z.string().optional().meta({ description: "The id of the model that replied." }),
    responseId: z.string().optional().meta({ description: "The id of the reply." }),
  })
  .meta({ id: "GenerateContentResponse" });

function generateRoute(deps: GeminiDeps): Route {
  const handle = callHandler(deps, "gemini");
  return modelRoute<ModelParams, undefined, unknown>({
    ...BILLED_ROUTE,
    ...GEMINI_ROUTE,
    path: "/v1beta/models/{model+}:generateContent",
    id: "generateContent",
    summary: "Generate content",
    description: `Google's generateContent, for every model: unchanged to Google, translated for other providers. \`usageMetadata\` has \`cost\`, in US dollars. ${KEY_NOTE}`,
    body: GeminiRequest,
    requestExample: GEMINI_EXAMPLES.request,
    responses: {
      200: {
        description: "The reply.",
        schema: GenerateReply,
        example: GEMINI_EXAMPLES.reply,
        headers: RESPONSE_HEADERS,
      },
    },
    faults: MODEL_FAULTS,
    run: (input) => namingFieldsAsSent(input, () => handle(withCall(input, false))),
  });
}

function streamRoute(deps: GeminiDeps): Route {
  const handle = callHandler(deps, "gemini");
  return modelRoute<ModelParams, StreamQuery, unknown>({
    ...BILLED_ROUTE,
    ...GEMINI_ROUTE,
    path: "/v1beta/models/{model+}:streamGenerateContent",
    id: "streamGenerateContent",
    summary: "Stream generated content",
    description: "The reply of generateContent in chunks of its form. The last one has the usage.",
    query: StreamQuery,
    body: GeminiRequest,
    requestExample: GEMINI_EXAMPLES.request,
    responses: {
      200: {
        description: "The chunks as a JSON array, or as server-sent events.",
        schema: z.array(GenerateReply).meta({ id: "GenerateContentChunks" }),
        example: [GEMINI_EXAMPLES.reply],
        headers: RESPONSE_HEADERS,
        alternatives: [{ contentType: "text/event-stream", example: GEMINI_EXAMPLES.stream }],
      },
    },
    faults: MODEL_FAULTS,
    run: (input) =>
      namingFieldsAsSent(input, async () => {
        const call = withCall(input, true);
        if (input.query?.alt === "sse") return await handle(call);
        return await asJsonArray(await handle({ ...call, sentForm: JSON_ARRAY_FORM }));
      }),
  });
}

function countRoute({ countTokens }: GeminiDeps): Route {
  return keyRoute<ModelParams, undefined, unknown>({
    ...CALL_ROUTE,
    ...GEMINI_ROUTE,
    path: "/v1beta/models/{model+}:countTokens",
    id: "countContentTokens",
    summary: "Count a request's input tokens",
    description:
      "Free of charge, for every model. The body has `contents`, or a whole request as `generateContentRequest`. The header `x-postern-count` says who counted, as for POST /v1/messages/count_tokens.",
    body: GeminiRequest,
    requestExample: GEMINI_EXAMPLES.request,
    responses: {
      200: {
        description: "The token count.",
        schema: z
          .looseObject({ totalTokens: z.int().meta({ description: "The tokens of the input." }) })
          .meta({ id: "CountTokensResponse" }),
        example: { totalTokens: 12 },
        headers: { [COUNT_HEADER]: "`provider`, `tokenizer` or `estimate`." },
      },
    },
    faults: ["forbidden", "model_not_found", "provider_not_configured"],
    run: (input: GeminiInput<undefined, AuthenticatedKey>) =>
      namingFieldsAsSent(input, async () => {
        const body = asInvalid(() => readCountTokens(parseJsonBody(input.bodyText)));
        const bodyText = JSON.stringify({ ...body, model: input.params.model, stream: undefined });
        const call = callInputOf("gemini", { ...input, bodyText });
        const { tokens, method } = await countInputTokens(countTokens, call);
        const headers = { [COUNT_HEADER]: method };
        return Response.json({ totalTokens: tokens }, { headers });
      }),
  });
}

const Embedding = z.looseObject({
  values: z.array(z.number()).meta({ description: "The embedding." }),
});
const EmbedReply = z
  .looseObject({
    embedding: Embedding.optional().meta({ description: "Of embedContent." }),
    embeddings: z
      .array(Embedding)
      .optional()
      .meta({ description: "Of batchEmbedContents, in the order of the requests." }),
  })
  .meta({ id: "EmbedContentResponse" });

function embedRoute(deps: GeminiDeps, isBatch: boolean): Route {
  const handle = callHandler(deps, "embeddings");
  const operation = isBatch ? "batchEmbedContents" : "embedContent";
  return modelRoute<ModelParams, undefined, unknown>({
    ...BILLED_ROUTE,
    ...GEMINI_ROUTE,
    params: EmbedParams,
    path: `/v1beta/models/{model+}:${operation}`,
    id: operation,
    summary: isBatch
      ? "Create embeddings in Google's form"
      : "Create an embedding in Google's form",
    description: `The same as POST /v1/embeddings, for every embedding model. \`taskType\` and \`title\` are dropped and listed in \`x-postern-dropped\`. ${KEY_NOTE}`,
    body: GeminiEmbedRequest,
    requestExample: isBatch ? GEMINI_EXAMPLES.embedBatch : GEMINI_EXAMPLES.embed,
    responses: {
      200: {
        description: isBatch ? "The embeddings." : "The embedding.",
        schema: EmbedReply,
        example: isBatch
          ? { embeddings: [{ values: [0.25, -0.5] }] }
          : { embedding: { values: [0.25, -0.5] } },
        headers: RESPONSE_HEADERS,
      },
    },
    faults: MODEL_FAULTS,
    run: async (input) => {
      const { params, bodyText } = input;
      const read = asInvalid(() => readEmbedContent(parseJsonBody(bodyText), params.model));
      const whole = (text: string): string =>
        JSON.stringify(writeEmbedContent(parseObject(text) ?? {}, isBatch));
      const response = await handle({
        ...input,
        bodyText: JSON.stringify(read.body),
        received: bodyText,
        sentForm: { ...JSON_ARRAY_FORM, whole },
      });
      const headers = new Headers(response.headers);
      if (read.dropped.length > 0) headers.set("x-postern-dropped", read.dropped.join(", "));
      return new Response(whole(await response.text()), { headers });
    },
  });
}

/** The body with the model and whether it streams; anything but an object is refused later. */
function withCall<Q>(
  input: GeminiInput<Q>,
  isStream: boolean,
): GeminiInput<Q> & Pick<CallInput, "received"> {
  const { params, bodyText } = input;
  const body = parseJsonBody(bodyText);
  const spans = isObject(body) ? memberSpans(bodyText) : undefined;
  if (spans === undefined)
    throw invalid("contents", "`contents` is required: the turns of the conversation.");
  const members = { model: quoted(params.model), stream: isStream ? "true" : undefined };
  return { ...input, bodyText: withMembers(bodyText, spans, members), received: bodyText };
}

/** The stages of a call know Google's camelCase names; the error has those of the body. */
async function namingFieldsAsSent(
  { bodyText }: Pick<GeminiInput<unknown>, "bodyText">,
  run: () => Promise<Response>,
): Promise<Response> {
  try {
    return await run();
  } catch (error) {
    const param = error instanceof Fault ? error.options.param : undefined;
    if (!(error instanceof Fault) || param === undefined) throw error;
    const sent = namedAsSent(parseObject(bodyText) ?? {}, param);
    if (sent === param) throw error;
    const { message, ...options } = error.options;
    throw new Fault(error.code, error.message, {
      ...options,
      ...(message !== undefined && {
        message: message.replaceAll(`\`${param}`, () => `\`${sent}`),
      }),
      param: sent,
      cause: error,
    });
  }
}

function asInvalid<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof InvalidRequest) throw invalid(error.path, error.message);
    throw error;
  }
}

// A stream of server-sent events as one JSON array that grows, the form of Google's streams without `alt=sse`.

/** What `asJsonArray` makes of a reply. */
const JSON_ARRAY_FORM: SentForm = { whole: (text) => text, stream: createArrayWriter };

const encoder = new TextEncoder();
const EVENT_STREAM = /^text\/event-stream\b/i;

/** Any other response is returned as it is. */
async function asJsonArray(response: Response): Promise<Response> {
  if (!EVENT_STREAM.test(response.headers.get("content-type") ?? "")) return response;
  const headers = new Headers(response.headers);
  headers.set("content-type", "application/json");
  const { body, status } = response;
  const handlers = body === null ? undefined : takeStreamHandlers(body);
  if (handlers === undefined) {
    const array = createArrayWriter();
    const text = array.push(new Uint8Array(await response.arrayBuffer())) + array.end();
    return new Response(text, { status, headers });
  }
  const stream = streamResponse({
    onStart: (sink) => handlers.onStart(arraySink(sink)),
    onClientGone: handlers.onClientGone,
  });
  return new Response(stream, { status, headers });
}

interface ArraySink extends ResponseSink {
  readonly inner: ResponseSink;
  readonly array: StreamWriter;
}

function arraySink(inner: ResponseSink): ArraySink {
  const { functions } = inner;
  const array = createArrayWriter();
  return {
    inner,
    array,
    // Safe because a sink is given to its own functions only.
    functions: {
      write: (_sink, bytes) => functions.write(inner, encoder.encode(array.push(bytes))),
      end: () => {
        void functions.write(inner, encoder.encode(array.end()));
        functions.end(inner);
      },
      abort: () => functions.abort(inner),
    },
  };
}

/** A comment, which keeps the connection open, becomes whitespace. */
function createArrayWriter(): StreamWriter {
  const parser = createSseParser();
  let isEmpty = true;
  const write = (events: ReturnType<typeof parser.push>): string => {
    let text = "";
    for (const event of events) {
      const data = readSse(event)?.data;
      if (data === undefined) continue;
      text += (isEmpty ? "[" : ",\r\n") + data;
      isEmpty = false;
    }
    return text;
  };
  return {
    push: (bytes) => write(parser.push(bytes)) || "\n",
    end: () => `${write(parser.end())}${isEmpty ? "[]" : "]"}`,
  };
}

// The bodies of Google's API that the OpenAPI document describes: what the gateway itself reads. Other fields are forwarded.

const Content = z
  .looseObject({
    role: z.enum(["user", "model"]).optional().meta({ description: "Default: `user`." }),
    parts: z.array(z.looseObject({})).meta({
      description: "`text`, `inlineData`, `functionCall`, `functionResponse` and others.",
    }),
  })
  .meta({ id: "GeminiContent" });

const GeminiRequest = z
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

const GeminiEmbedRequest = z
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

const GEMINI_EXAMPLES = {
  request: { contents: [CONTENT], generationConfig: { maxOutputTokens: 100 } },
  reply: REPLY,
  stream: `data: ${JSON.stringify(REPLY)}\n\n`,
  embed: { content: { parts: [{ text: "Hello!" }] } },
  embedBatch: { requests: [{ content: { parts: [{ text: "Hello!" }] } }] },
} as const;
