// Google's SDK behind the interface of the other official clients.

import {
  type Content,
  createPartFromFunctionResponse,
  FunctionCallingConfigMode,
  type GenerateContentConfig,
  type GenerateContentParameters,
  type GenerateContentResponse,
  GoogleGenAI,
  ThinkingLevel,
} from "@google/genai";
import type { Harness } from "./harness.ts";
import type { NormalizedReply, Prompt, SdkClient } from "./sdk-clients.ts";

const DEFAULT_MAX_TOKENS = 4_000;
const LEVELS = {
  low: ThinkingLevel.LOW,
  medium: ThinkingLevel.MEDIUM,
  high: ThinkingLevel.HIGH,
} as const;
const FINISHES: Readonly<Record<string, string>> = {
  STOP: "stop",
  MAX_TOKENS: "length",
  SAFETY: "content_filter",
};

function googleFor(harness: Harness, apiKey = harness.account.key): GoogleGenAI {
  return new GoogleGenAI({
    apiKey,
    httpOptions: { baseUrl: harness.gateway.url, retryOptions: { attempts: 1 } },
  });
}

export function googleClient(harness: Harness, apiKey = harness.account.key): SdkClient {
  const { models } = googleFor(harness, apiKey);
  const complete = async (prompt: Prompt) =>
    normalize([await models.generateContent(parametersOf(prompt))]);
  return {
    complete,
    stream: async (prompt) => {
      const chunks: GenerateContentResponse[] = [];
      for await (const chunk of await models.generateContentStream(parametersOf(prompt)))
        chunks.push(chunk);
      return normalize(chunks);
    },
    status: (prompt) =>
      complete(prompt).then(
        () => 200,
        (error: unknown) => (error as { status?: unknown }).status ?? String(error),
      ),
  };
}

function parametersOf(prompt: Prompt): GenerateContentParameters {
  const { model, text, image, previousReply, toolResults = [] } = prompt;
  const parts = [
    { text },
    ...(image === undefined ? [] : [{ inlineData: { mimeType: "image/png", data: image } }]),
  ];
  const contents: Content[] = [{ role: "user", parts }];
  if (previousReply !== undefined) {
    contents.push(...(previousReply.raw as Content[]));
    const results = previousReply.calls.map(({ id, name }, at) =>
      createPartFromFunctionResponse(id, name, { output: toolResults[at] ?? "nothing" }),
    );
    contents.push({ role: "user", parts: results });
  }
  return { model, contents, config: configOf(prompt) };
}

function configOf(prompt: Prompt): GenerateContentConfig {
  const { maxTokens = DEFAULT_MAX_TOKENS, tools, toolChoice, schema, effort } = prompt;
  return {
    maxOutputTokens: maxTokens,
    ...(tools === undefined
      ? {}
      : {
          tools: [
            {
              functionDeclarations: Object.entries(tools).map(([name, parametersJsonSchema]) => ({
                name,
                description: `the ${name}`,
                parametersJsonSchema,
              })),
            },
          ],
        }),
    ...(toolChoice === undefined
      ? {}
      : { toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } } }),
    ...(schema === undefined
      ? {}
      : { responseMimeType: "application/json", responseJsonSchema: schema }),
    ...(effort === undefined
      ? {}
      : { thinkingConfig: { thinkingLevel: LEVELS[effort], includeThoughts: true } }),
  };
}

function normalize(chunks: readonly GenerateContentResponse[]): NormalizedReply {
  const contents = chunks.flatMap(({ candidates }) => candidates?.[0]?.content ?? []);
  const parts = contents.flatMap((content) => content.parts ?? []);
  const textOf = (isThought: boolean) =>
    parts
      .filter(({ thought }) => (thought === true) === isThought)
      .map(({ text = "" }) => text)
      .join("");
  const calls = parts.flatMap(({ functionCall: call }) =>
    call === undefined ? [] : [{ id: call.id ?? "", name: call.name ?? "", arguments: call.args }],
  );
  const last = chunks.at(-1);
  const finish = FINISHES[last?.candidates?.[0]?.finishReason ?? ""] ?? "";
  const usage = last?.usageMetadata;
  return {
    text: textOf(false),
    reasoning: textOf(true),
    calls,
    finish: finish === "stop" && calls.length > 0 ? "tool_calls" : finish,
    usage: {
      input: usage?.promptTokenCount ?? -1,
      cached: usage?.cachedContentTokenCount ?? 0,
      cacheWritten: 0,
      output: (usage?.candidatesTokenCount ?? -1) + (usage?.thoughtsTokenCount ?? 0),
      reasoning: usage?.thoughtsTokenCount ?? 0,
      cost: (usage as { readonly cost?: number } | undefined)?.cost ?? -1,
    },
    raw: contents,
  };
}
