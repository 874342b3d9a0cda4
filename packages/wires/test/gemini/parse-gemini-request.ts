// Parses a Gemini request into the canonical form, for round-trip tests.

import type {
  FilePart,
  ImagePart,
  MediaPart,
  OpaqueBlob,
  Part,
  ToolResultPart,
} from "../../src/canonical/canonical-parts.ts";
import type {
  CanonicalRequest,
  Effort,
  Tool,
  ToolChoice,
  Turn,
} from "../../src/canonical/canonical-request.ts";
import type {
  GeminiBody,
  GeminiConfig,
  GeminiContent,
  GeminiData,
  GeminiPart,
} from "./gemini-types.ts";

const MEDIA_KIND_BY_TYPE: Record<string, "image" | "file" | "audio" | "video"> = {
  image: "image",
  audio: "audio",
  video: "video",
  application: "file",
};

export function parseGeminiRequest(body: GeminiBody, path: string): CanonicalRequest {
  const config = body.generationConfig ?? {};
  const system: Turn[] =
    body.systemInstruction === undefined
      ? []
      : [{ role: "system", parts: (body.systemInstruction.parts ?? []).map(readPart) }];
  const level = config.thinkingConfig?.thinkingLevel;
  return {
    model: "deep-1",
    turns: [...system, ...body.contents.flatMap(readContent)],
    stream: path.includes(":streamGenerateContent?alt=sse") || undefined,
    tools: readTools(body),
    toolChoice: readChoice(body),
    output: readOutput(config),
    reasoning: level === undefined ? undefined : { effort: level.toLowerCase() as Effort },
    maxOutputTokens: config.maxOutputTokens,
    temperature: config.temperature,
    topP: config.topP,
    topK: config.topK,
    seed: config.seed,
    frequencyPenalty: config.frequencyPenalty,
    presencePenalty: config.presencePenalty,
    logprobs: config.responseLogprobs,
    stop: config.stopSequences,
    n: config.candidateCount,
    serviceTier: body.serviceTier,
  };
}

function readContent({ role, parts = [] }: GeminiContent): Turn[] {
  if (role === "model") return [{ role: "assistant", parts: parts.map(readPart) }];
  const results = parts.flatMap(readResult);
  const rest = parts.filter((part) => part.functionResponse === undefined).map(readPart);
  const turns: Turn[] = [];
  if (results.length > 0) turns.push({ role: "tool", parts: results });
  if (rest.length > 0) turns.push({ role: "user", parts: rest });
  return turns;
}

function readPart(part: GeminiPart): Part {
  const { text, thought, thoughtSignature: signature, functionCall: call, inlineData } = part;
  const blob = (kind: OpaqueBlob["kind"]): OpaqueBlob | undefined =>
    signature === undefined || signature === "skip_thought_signature_validator"
      ? undefined
      : { wire: "gemini", kind, data: signature };
  if (text !== undefined)
    return thought === true
      ? { type: "reasoning", text, blob: blob("signature") }
      : { type: "text", text, signature: blob("text") };
  if (call !== undefined)
    return {
      type: "tool_call",
      id: call.id ?? "",
      name: call.name ?? "",
      arguments: JSON.stringify(call.args),
      signature: blob("call"),
    };
  if (inlineData !== undefined) return readData(inlineData);
  throw new Error(`no part of a request: ${JSON.stringify(part)}`);
}

function readData({ mimeType, data }: GeminiData): ImagePart | FilePart | MediaPart {
  const type = MEDIA_KIND_BY_TYPE[mimeType.split("/")[0] ?? ""] ?? "file";
  return { type, source: { kind: "base64", mediaType: mimeType, data } };
}

function readResult({ functionResponse }: GeminiPart): ToolResultPart[] {
  if (functionResponse === undefined) return [];
  const { id = "", name, response, parts = [] } = functionResponse;
  const texts = [response.error ?? response.output ?? ""].flat();
  return [
    {
      type: "tool_result",
      callId: id,
      name,
      content: [
        ...texts.map((text) => ({ type: "text", text }) as const),
        ...parts.map((part) => readData(part.inlineData)),
      ],
      isError: response.error === undefined ? undefined : true,
    },
  ];
}

function readTools({ tools }: GeminiBody): Tool[] | undefined {
  return tools?.[0]?.functionDeclarations?.map(
    ({ name, description, parametersJsonSchema: parameters }) => ({
      type: "function",
      name,
      description,
      parameters,
    }),
  );
}

function readChoice({ toolConfig }: GeminiBody): ToolChoice | undefined {
  const { mode, allowedFunctionNames: names } = toolConfig?.functionCallingConfig ?? {};
  if (mode === undefined) return undefined;
  if (mode === "NONE") return { type: "none" };
  if (mode === "VALIDATED" && names !== undefined) return { type: "allowed", mode: "auto", names };
  if (mode === "AUTO") return { type: "auto" };
  const [only] = names ?? [];
  return only === undefined ? { type: "required" } : { type: "tool", name: only };
}

function readOutput(config: GeminiConfig): CanonicalRequest["output"] {
  const { responseJsonSchema: schema, responseMimeType } = config;
  if (schema !== undefined) return { type: "json_schema", schema };
  return responseMimeType === undefined ? undefined : { type: "json_object" };
}
