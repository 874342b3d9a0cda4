// The request of Bedrock's Converse operation, as its API reference describes it: Amazon publishes no file for it that
// could be read here. Unknown members are mistakes.

const closed = (properties: object, required: readonly string[] = []) => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});
/** Exactly one member of a union. */
const union = (properties: object) => ({
  ...closed(properties),
  minProperties: 1,
  maxProperties: 1,
});
const list = (items: object, least = 0) => ({ type: "array", items, minItems: least });
const text = { type: "string", minLength: 1 };
const bytes = { type: "string", pattern: "^[A-Za-z0-9+/]+=*$" };
const place = union({ bytes, s3Location: closed({ uri: text, bucketOwner: text }, ["uri"]) });
const id = { type: "string", pattern: "^[a-zA-Z0-9_.:-]{1,64}$" };
const toolName = { type: "string", pattern: "^[a-zA-Z0-9_-]{1,64}$" };
const cachePoint = closed({ type: { enum: ["default"] }, ttl: { enum: ["5m", "1h"] } }, ["type"]);

const image = closed({ format: { enum: ["png", "jpeg", "gif", "webp"] }, source: place }, [
  "format",
  "source",
]);
const document = closed(
  {
    format: { enum: ["pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"] },
    name: { type: "string", pattern: "^[A-Za-z0-9 ()\\[\\]-]{1,200}$", not: { pattern: "  " } },
    source: union({ bytes, s3Location: {}, text, content: list(union({ text }), 1) }),
    context: text,
    citations: closed({ enabled: { type: "boolean" } }, ["enabled"]),
  },
  ["name", "source"],
);
const video = closed(
  {
    format: { enum: ["mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"] },
    source: place,
  },
  ["format", "source"],
);
const audio = closed({ format: text, source: place }, ["format", "source"]);
const reasoning = union({
  reasoningText: closed({ text: { type: "string" }, signature: text }, ["text"]),
  redactedContent: bytes,
});
const result = closed(
  {
    toolUseId: id,
    content: list(union({ text: { type: "string" }, json: {}, image, document, video })),
    status: { enum: ["success", "error"] },
    type: text,
  },
  ["toolUseId", "content"],
);
const block = union({
  text,
  image,
  document,
  video,
  audio,
  toolUse: closed({ toolUseId: id, name: toolName, input: { type: "object" }, type: text }, [
    "toolUseId",
    "name",
    "input",
  ]),
  toolResult: result,
  guardContent: {},
  cachePoint,
  reasoningContent: reasoning,
  citationsContent: {},
  searchResult: {},
});
const tool = union({
  toolSpec: closed(
    {
      name: toolName,
      description: text,
      inputSchema: closed({ json: { type: "object", required: ["type"] } }, ["json"]),
      strict: { type: "boolean" },
    },
    ["name", "inputSchema"],
  ),
  systemTool: closed({ name: toolName }, ["name"]),
  cachePoint,
});

export const CONVERSE_SCHEMA = closed(
  {
    messages: list(
      closed({ role: { enum: ["user", "assistant"] }, content: list(block, 1) }, [
        "role",
        "content",
      ]),
      1,
    ),
    system: list(union({ text, guardContent: {}, cachePoint })),
    inferenceConfig: closed({
      maxTokens: { type: "integer", minimum: 1 },
      temperature: { type: "number", minimum: 0, maximum: 1 },
      topP: { type: "number", minimum: 0, maximum: 1 },
      stopSequences: list(text),
    }),
    toolConfig: closed(
      {
        tools: list(tool, 1),
        toolChoice: union({
          auto: closed({}),
          any: closed({}),
          tool: closed({ name: toolName }, ["name"]),
        }),
      },
      ["tools"],
    ),
    outputConfig: closed({ textFormat: {} }),
    additionalModelRequestFields: { type: "object" },
    additionalModelResponseFieldPaths: list(text),
    requestMetadata: { type: "object" },
    serviceTier: closed({ type: { enum: ["default", "flex", "priority", "reserved"] } }, ["type"]),
    performanceConfig: {},
    guardrailConfig: {},
    promptVariables: {},
  },
  ["messages"],
);
