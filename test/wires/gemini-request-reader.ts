// Reads a request to Gemini back into the canonical form: the other half of a round trip, for tests alone.
import type {
  CanonicalRequest,
  Effort,
  Part,
  Tool,
  ToolChoice,
  ToolResultPart,
  Turn,
} from "../../src/inference/canonical.ts";

type Json = Record<string, any>;
const TYPES: Record<string, "image" | "file" | "audio" | "video"> = {
  image: "image",
  audio: "audio",
  video: "video",
  application: "file",
};

export function readGeminiRequest(body: Json, path: string): CanonicalRequest {
  const config: Json = body["generationConfig"] ?? {};
  const system: Turn[] =
    body["systemInstruction"] === undefined
      ? []
      : [{ role: "system", parts: body["systemInstruction"].parts.map(readPart) }];
  return {
    model: "deep-1",
    turns: [...system, ...body["contents"].flatMap(readContent)],
    stream: path.includes(":streamGenerateContent?alt=sse") || undefined,
    tools: body["tools"]?.[0].functionDeclarations.map(readTool),
    toolChoice: readChoice(body["toolConfig"]?.functionCallingConfig),
    output: readOutput(config),
    reasoning:
      config["thinkingConfig"] === undefined
        ? undefined
        : { effort: config["thinkingConfig"].thinkingLevel.toLowerCase() as Effort },
    maxOutputTokens: config["maxOutputTokens"],
    temperature: config["temperature"],
    topP: config["topP"],
    topK: config["topK"],
    seed: config["seed"],
    frequencyPenalty: config["frequencyPenalty"],
    presencePenalty: config["presencePenalty"],
    logprobs: config["responseLogprobs"],
    stop: config["stopSequences"],
    n: config["candidateCount"],
    serviceTier: body["serviceTier"] === "standard" ? "default" : body["serviceTier"],
  };
}

function readContent(content: Json): Turn[] {
  const parts: Json[] = content["parts"];
  if (content["role"] === "model") return [{ role: "assistant", parts: parts.map(readPart) }];
  const results = parts.filter((part) => part["functionResponse"]).map(readResult);
  const rest = parts.filter((part) => !part["functionResponse"]).map(readPart);
  return [
    ...(results.length > 0 ? [{ role: "tool", parts: results } as const] : []),
    ...(rest.length > 0 ? [{ role: "user", parts: rest } as const] : []),
  ];
}

function readPart(part: Json): Part {
  const signature = part["thoughtSignature"];
  const blob = (kind: "signature" | "call" | "text") =>
    signature === undefined || signature === "skip_thought_signature_validator"
      ? undefined
      : ({ wire: "gemini", kind, data: signature } as const);
  if (part["thought"]) return { type: "reasoning", text: part["text"], blob: blob("signature") };
  if (part["text"] !== undefined)
    return { type: "text", text: part["text"], signature: blob("text") };
  const call = part["functionCall"];
  if (call)
    return {
      type: "tool_call",
      id: call.id,
      name: call.name,
      arguments: JSON.stringify(call.args),
      signature: blob("call"),
    };
  return readData(part["inlineData"]);
}

function readData({ mimeType, data }: Json): Part {
  const type = TYPES[mimeType.split("/")[0]] ?? "file";
  return { type, source: { kind: "base64", mediaType: mimeType, data } };
}

function readResult({ functionResponse }: Json): ToolResultPart {
  const { id, name, response, parts = [] } = functionResponse;
  const said: string | string[] = response.error ?? response.output;
  const texts = (Array.isArray(said) ? said : [said]).map((text) => ({ type: "text", text }));
  const media = parts.map((part: Json) => readData(part["inlineData"]));
  return {
    type: "tool_result",
    callId: id,
    name,
    content: [...texts, ...media],
    isError: response.error === undefined ? undefined : true,
  };
}

function readTool(tool: Json): Tool {
  return {
    type: "function",
    name: tool["name"],
    description: tool["description"],
    parameters: tool["parametersJsonSchema"],
  };
}

function readChoice(config: Json | undefined): ToolChoice | undefined {
  if (config === undefined) return undefined;
  const names: string[] | undefined = config["allowedFunctionNames"];
  if (config["mode"] === "NONE") return { type: "none" };
  if (config["mode"] === "VALIDATED" && names) return { type: "allowed", mode: "auto", names };
  if (config["mode"] === "AUTO") return { type: "auto" };
  const [only] = names ?? [];
  return only === undefined ? { type: "required" } : { type: "tool", name: only };
}

function readOutput(config: Json): CanonicalRequest["output"] {
  if (config["responseJsonSchema"] !== undefined)
    return { type: "json_schema", schema: config["responseJsonSchema"] };
  return config["responseMimeType"] === undefined ? undefined : { type: "json_object" };
}
