// The same request in several APIs: translates it to Gemini and Converse, and compares the result with the native request.
// Every difference must be explained.

import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  recordingsFolder,
  skipWithoutRecordings,
} from "../../../../test/support/recordings/recordings.ts";
import type { InboundWire, OutboundWire } from "../../src/canonical/wire-interfaces.ts";
import { chatWire } from "../../src/chat/chat-wire.ts";
import { converseWire } from "../../src/converse/converse-wire.ts";
import { geminiWire } from "../../src/gemini/gemini-wire.ts";
import { messagesWire } from "../../src/messages/messages-wire.ts";
import { responsesWire } from "../../src/responses/responses-wire.ts";

type Values = Readonly<Record<string, unknown>>;

const INBOUND_APIS: readonly (readonly [string, InboundWire])[] = [
  ["chat-completions", chatWire],
  ["anthropic", messagesWire],
  ["responses", responsesWire],
];
const TARGETS: readonly (readonly [string, OutboundWire])[] = [
  ["google", geminiWire],
  ["vertex-google", geminiWire],
  ["bedrock", converseWire],
];

/** The path of a difference and its reason: "≠" for other values, "+" for only ours, "-" for only the native one. */
const EXPECTED_DIFFERENCES: readonly (readonly [RegExp, string])[] = [
  [
    /^\+ generationConfig\.maxOutputTokens$|^\+ inferenceConfig\.maxTokens$/,
    "the Messages API requires a limit that the native request omits",
  ],
  [/^- generationConfig\.(?:temperature|maxOutputTokens)$/, "only the native request sets it"],
  [
    /^[+≠] (?:generationConfig\.thinkingConfig|additionalModelRequestFields\.thinking)/,
    "the caller sets an effort, the native request a budget or nothing",
  ],
  [/additionalProperties$/, "only the caller's schema is closed"],
  [
    /^\+ generationConfig\.responseJsonSchema\.description$/,
    "the format's description goes into the schema",
  ],
  [
    /^[+-] .*functionResponse\.response\.(?:output|result)$/,
    "a tool output may have any key; `output` is the documented one",
  ],
  [/^[+-] toolConfig\.functionCallingConfig\.mode$/, "AUTO is the default"],
  [/^[≠] .*functionResponse\.response\.output/, "a tool's text stays text, even if it is JSON"],
  [
    /^- .*functionResponse\.response\.output\[\d\]$|^\+ .*functionResponse\.response\.output$/,
    "a tool's text stays text, even if it is JSON",
  ],
  [/^- .*thoughtSignature$/, "the caller's API has no such signature field: a loss"],
  [/^- tools/, "a server tool has no equivalent in another API: a loss"],
  [/toolUseId$/, "the ids differ"],
  [
    /^≠ systemInstruction\.parts\[0\]\.text$|^≠ contents\[0\]\.parts\[0\]\.text$/,
    "the texts differ",
  ],
];

const UNTRANSLATED_DIFFERENCES: readonly (readonly [RegExp, string])[] = [
  [
    /^multimodalRequest .*[+-] contents\[0\]\.parts\[1\]\.(?:fileData|inlineData)/,
    "the caller sends a URL, the native request bytes",
  ],
  [/^multimodalRequest .*≠ .*(?:inlineData\.data|source\.bytes)$/, "the images differ"],
  [
    /^multimodalRequest .*- messages\[0\]\.content\[1\]\.image/,
    "the provider does not fetch URLs: a loss",
  ],
  [
    /^bedrockAnthropicOpus48SamplingParam .*\+ inferenceConfig\.temperature$/,
    "the catalog, absent here, says that this model takes no temperature",
  ],
  [/^jsonSchemaFormatParam anthropic .*≠ generationConfig\.maxOutputTokens$/, "the limits differ"],
  [/ anthropic .*\+ toolConfig\.toolChoice\.auto$/, "the caller sets the default"],
];

function reasonOf(comparison: string, difference: string): string | undefined {
  const full = `${comparison}: ${difference}`;
  return (EXPECTED_DIFFERENCES.find(([pattern]) => pattern.test(difference)) ??
    UNTRANSLATED_DIFFERENCES.find(([pattern]) => pattern.test(full)))?.[1];
}

function* pairs(root: string): Generator<Comparison> {
  for (const folder of readdirSync(root).map((name) => join(root, name)))
    for (const [target, wire] of TARGETS)
      if (existsSync(join(folder, target, "request.json"))) yield* compare(folder, target, wire);
}

function leaves(value: unknown, at: string, out: Map<string, unknown>): Map<string, unknown> {
  if (typeof value !== "object" || value === null) return out.set(at, value);
  const entries = Object.entries(value);
  if (entries.length === 0) out.set(at, Array.isArray(value) ? "[]" : "{}");
  for (const [key, one] of entries)
    leaves(one, Array.isArray(value) ? `${at}[${key}]` : at === "" ? key : `${at}.${key}`, out);
  return out;
}

function differences(ours: unknown, theirs: unknown): string[] {
  const [mine, native] = [leaves(ours, "", new Map()), leaves(theirs, "", new Map())];
  const found: string[] = [];
  for (const [at, value] of mine)
    if (!native.has(at)) found.push(`+ ${at}`);
    else if (native.get(at) !== value) found.push(`≠ ${at}`);
  for (const at of native.keys()) if (!mine.has(at)) found.push(`- ${at}`);
  return found;
}

/** Recorded requests have parameters in the older form, with upper-case types; ours are JSON schemas. */
function normalize(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normalize);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => {
      if (key === "parameters") return ["parametersJsonSchema", normalize(one)];
      return [key, key === "type" && typeof one === "string" ? one.toLowerCase() : normalize(one)];
    }),
  );
}

/** Recorded requests have bytes as an object of numbers or a serialized Buffer; ours are base64. */
function withBytes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withBytes);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]: [string, unknown]) => {
      if (key !== "bytes" || typeof one !== "object" || one === null) return [key, withBytes(one)];
      const bytes = "data" in one ? one.data : Object.values(one);
      return [key, Buffer.from(bytes as number[]).toString("base64")];
    }),
  );
}

const readJson = (file: string) => JSON.parse(readFileSync(file, "utf8")) as Values;

interface Comparison {
  readonly name: string;
  readonly differences: readonly string[];
}

function compare(folder: string, target: string, wire: OutboundWire): Comparison[] {
  const { model, modelId, ...native } = readJson(join(folder, target, "request.json"));
  const named = model ?? modelId;
  const name = (typeof named === "string" ? named : "gemini-2.5-flash").replace(
    "publishers/google/models/",
    "",
  );
  return INBOUND_APIS.flatMap(([api, inbound]) => {
    const file = join(folder, api, "request.json");
    if (!existsSync(file)) return [];
    const found = compareRequest({ inbound, body: readJson(file) }, wire, name, native);
    return [{ name: `${folder.split("/").at(-1)} ${api} → ${target}`, differences: found }];
  });
}

function compareRequest(
  { inbound, body }: { readonly inbound: InboundWire; readonly body: Values },
  wire: OutboundWire,
  model: string,
  native: Values,
): readonly string[] {
  const written = wire.writeRequest(inbound.readRequest(body), { provider: "p", model });
  const ours: unknown = JSON.parse(JSON.stringify(written.body));
  return differences(ours, wire.name === "gemini" ? normalize(native) : withBytes(native));
}

test("a sample request is translated to the native request", () => {
  const parameters = { type: "object", properties: { city: { type: "string" } } };
  const body = {
    model: "m",
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "What is the weather in Oslo?" },
    ],
    max_completion_tokens: 100,
    tools: [{ type: "function", function: { name: "weather", parameters } }],
    tool_choice: "required",
  };
  const caller = { inbound: chatWire, body };
  expect(
    compareRequest(caller, geminiWire, "gemini-3-flash-preview", {
      systemInstruction: { parts: [{ text: "Be brief." }] },
      contents: [{ role: "user", parts: [{ text: "What is the weather in Oslo?" }] }],
      tools: [{ functionDeclarations: [{ name: "weather", parameters }] }],
      toolConfig: { functionCallingConfig: { mode: "ANY" } },
      generationConfig: { maxOutputTokens: 100 },
    }),
  ).toEqual([]);
  expect(
    compareRequest(caller, converseWire, "anthropic.claude-haiku-4-5-20251001-v1:0", {
      system: [{ text: "Be brief." }],
      messages: [{ role: "user", content: [{ text: "What is the weather in Oslo?" }] }],
      toolConfig: {
        tools: [{ toolSpec: { name: "weather", inputSchema: { json: parameters } } }],
        toolChoice: { any: {} },
      },
      inferenceConfig: { maxTokens: 100 },
    }),
  ).toEqual([]);
});

test.skipIf(skipWithoutRecordings("requests in several APIs"))(
  "recorded requests are translated to the native request (requires ../shared/recordings)",
  () => {
    const root = join(recordingsFolder() ?? "", "lingua");
    const counts = new Map<string, number>();
    const unexplained: string[] = [];
    const comparisons = [...pairs(root)];
    for (const { name, differences } of comparisons)
      for (const difference of differences) {
        const reason = reasonOf(name, difference);
        if (reason === undefined) unexplained.push(`${name}: ${difference}`);
        else counts.set(reason, (counts.get(reason) ?? 0) + 1);
      }
    const equal = comparisons.filter(({ differences }) => differences.length === 0).length;
    console.log(`lingua: ${comparisons.length} pairs, ${equal} equal; differences by reason:`);
    for (const [reason, count] of counts) console.log(`  ${count} × ${reason}`);
    expect(unexplained).toEqual([]);
    expect(comparisons.length).toBeGreaterThan(40);
  },
);
