// A request of this API by the names of the other APIs, for code that bounds or estimates what a call can cost: messages with
// typed parts, and tools with a type each. It is never sent.

import { arrayIn, isObject, type JsonObject, lookUp, objectIn, stringIn } from "../json-fields.ts";

/** Tools that Google runs, by the names of what they are elsewhere. */
const TOOL_TYPES: Readonly<Record<string, string>> = {
  googleSearch: "web_search",
  googleSearchRetrieval: "web_search",
  urlContext: "web_fetch",
  codeExecution: "code_execution",
};
/** Fields of a tool whose price is known, or that costs tokens only. */
export const GEMINI_TOOL_FIELDS: ReadonlySet<string> = new Set([
  "functionDeclarations",
  ...Object.keys(TOOL_TYPES),
]);
/** Data of these types is text, whose tokens its bytes bound. */
const TEXT_TYPE = /^(?:text\/|application\/(?:json|xml|javascript)$)/;

export function geminiCommonForm(body: JsonObject): JsonObject {
  const { contents, systemInstruction, tools, generationConfig, serviceTier, ...rest } = body;
  const system = objectIn(systemInstruction);
  const config = objectIn(generationConfig);
  return {
    ...rest,
    messages: arrayIn(contents).map(commonContent),
    ...(system === undefined ? undefined : { system: arrayIn(system["parts"]).map(commonPart) }),
    ...(tools === undefined ? undefined : { tools: arrayIn(tools).flatMap(commonTools) }),
    ...(config === undefined ? undefined : commonSchema(config)),
    ...(serviceTier === undefined ? undefined : { service_tier: serviceTier }),
  };
}

function commonSchema({
  responseJsonSchema,
  responseSchema,
  responseModalities,
}: JsonObject): JsonObject {
  const schema = responseJsonSchema ?? responseSchema;
  return {
    ...(schema === undefined ? undefined : { response_format: { schema } }),
    ...(Array.isArray(responseModalities)
      ? { modalities: responseModalities.map((one) => String(one).toLowerCase()) }
      : undefined),
  };
}

function commonContent(content: unknown): unknown {
  if (!isObject(content)) return content;
  return { role: content["role"], content: arrayIn(content["parts"]).map(commonPart) };
}

function commonPart(part: unknown): unknown {
  if (!isObject(part)) return part;
  const { thoughtSignature: signature, ...rest } = part;
  const result = objectIn(part["functionResponse"]);
  if (result !== undefined) {
    const { parts, ...data } = result;
    return { ...data, signature, content: arrayIn(parts).map(commonPart) };
  }
  const data = objectIn(part["inlineData"]);
  if (data !== undefined) return commonData(data) ?? { ...rest, signature };
  const file = objectIn(part["fileData"]);
  if (file === undefined) return signature === undefined ? part : { ...rest, signature };
  const url = stringIn(file["fileUri"]) ?? "";
  return (stringIn(file["mimeType"]) ?? "").startsWith("image/")
    ? { type: "image_url", image_url: { url } }
    : { type: "file_url", file_url: url };
}

function commonData({ mimeType, data }: JsonObject): JsonObject | undefined {
  const type = stringIn(mimeType)?.toLowerCase() ?? "";
  if (TEXT_TYPE.test(type)) return undefined;
  if (type.startsWith("image/"))
    return { type: "image", source: { type: "base64", media_type: type, data } };
  if (type.startsWith("audio/")) return { type: "input_audio", input_audio: { data } };
  return { type: "file", file: { file_data: data } };
}

function commonTools(tool: unknown): readonly JsonObject[] {
  if (!isObject(tool)) return [];
  return Object.entries(tool).flatMap(([name, settings]): readonly JsonObject[] => {
    if (name === "functionDeclarations")
      return arrayIn(settings)
        .filter(isObject)
        .map((fn) => Object.assign({ type: "function" }, fn));
    if (settings === null) return [];
    if (name === "mcpServers") return [{ type: "mcp" }];
    return [{ type: lookUp(TOOL_TYPES, name) ?? name }];
  });
}
