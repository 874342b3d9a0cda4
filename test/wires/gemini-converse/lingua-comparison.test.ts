// One intent, sent natively to several APIs: what a caller of one of them wrote, written to Gemini and to Converse, is
// compared with what was sent there. Every difference must have a reason.
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { InboundWire, OutboundWire } from "../../../src/inference/canonical/wire.ts";
import { chatWire } from "../../../src/inference/wires/chat/chat.ts";
import { converseWire } from "../../../src/inference/wires/converse/converse.ts";
import { geminiWire } from "../../../src/inference/wires/gemini/gemini.ts";
import { messagesWire } from "../../../src/inference/wires/messages/messages.ts";
import { responsesWire } from "../../../src/inference/wires/responses/responses.ts";
import { recordingsFolder, skipWithoutRecordings } from "../../support/recordings/recordings.ts";

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

/** Where a difference lies, and its reason; "≠" where both say something else, "+" ours alone, "-" theirs. */
const EXPECTED_DIFFERENCES: readonly (readonly [RegExp, string])[] = [
  [
    /^\+ generationConfig\.maxOutputTokens$|^\+ inferenceConfig\.maxTokens$/,
    "the Messages API demands a limit, which the native request leaves out",
  ],
  [
    /^- generationConfig\.(?:temperature|maxOutputTokens)$/,
    "the case's native request sets what the caller's does not",
  ],
  [
    /^[+≠] (?:generationConfig\.thinkingConfig|additionalModelRequestFields\.thinking)/,
    "the caller asks for an effort, the native request for a budget or for nothing",
  ],
  [/additionalProperties$/, "the caller's schema is closed, the native one says nothing"],
  [
    /^\+ generationConfig\.responseJsonSchema\.description$/,
    "the format's description goes into the schema",
  ],
  [
    /^[+-] .*functionResponse\.response\.(?:output|result)$/,
    "the key of a tool's output is free; `output` is the one that the provider documents",
  ],
  [/^[+-] toolConfig\.functionCallingConfig\.mode$/, "AUTO is the default"],
  [/^[≠] .*functionResponse\.response\.output/, "a tool's text stays text, even where it is JSON"],
  [
    /^- .*functionResponse\.response\.output\[\d\]$|^\+ .*functionResponse\.response\.output$/,
    "a tool's text stays text, even where it is JSON",
  ],
  [/^- .*thoughtSignature$/, "the caller's field for a signature is none of its API's: a loss"],
  [/^- tools/, "a server tool of one API has no twin at another: a loss"],
  [/toolUseId$/, "the caller's case has ids of its own"],
  [
    /^≠ systemInstruction\.parts\[0\]\.text$|^≠ contents\[0\]\.parts\[0\]\.text$/,
    "the case words it differently for this API",
  ],
];

const UNTRANSLATED_DIFFERENCES: readonly (readonly [RegExp, string])[] = [
  [
    /^multimodalRequest .*[+-] contents\[0\]\.parts\[1\]\.(?:fileData|inlineData)/,
    "the caller gives an address, the native request the bytes",
  ],
  [
    /^multimodalRequest .*≠ .*(?:inlineData\.data|source\.bytes)$/,
    "the case has another picture for this API",
  ],
  [
    /^multimodalRequest .*- messages\[0\]\.content\[1\]\.image/,
    "the provider fetches nothing: a loss",
  ],
  [
    /^bedrockAnthropicOpus48SamplingParam .*\+ inferenceConfig\.temperature$/,
    "that this model takes no temperature is the catalog's to say",
  ],
  [
    /^jsonSchemaFormatParam anthropic .*≠ generationConfig\.maxOutputTokens$/,
    "the case has another limit for this API",
  ],
  [/ anthropic .*\+ toolConfig\.toolChoice\.auto$/, "the caller says what is the default"],
];

function reasonOf(where: string, one: string): string | undefined {
  const whole = `${where}: ${one}`;
  return (EXPECTED_DIFFERENCES.find(([pattern]) => pattern.test(one)) ??
    UNTRANSLATED_DIFFERENCES.find(([pattern]) => pattern.test(whole)))?.[1];
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

/** Parameters are written as JSON schema, where the recorded requests have the older form with types in capitals. */
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

/** The native SDK wrote its bytes as an object of numbers, or as a buffer. */
function withBytes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withBytes);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]: [string, unknown]) => {
      if (key !== "bytes" || typeof one !== "object" || one === null) return [key, withBytes(one)];
      const held = "data" in one ? one.data : Object.values(one);
      return [key, Buffer.from(held as number[]).toString("base64")];
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
  return INBOUND_APIS.flatMap(([dialect, inbound]) => {
    const file = join(folder, dialect, "request.json");
    if (!existsSync(file)) return [];
    const { body } = wire.writeRequest(inbound.readRequest(readJson(file)), {
      provider: "p",
      model: name,
    });
    const ours: unknown = JSON.parse(JSON.stringify(body));
    const found = differences(ours, wire.name === "gemini" ? normalize(native) : withBytes(native));
    return [{ name: `${folder.split("/").at(-1)} ${dialect} → ${target}`, differences: found }];
  });
}

describe.skipIf(skipWithoutRecordings("one intent in several APIs"))(
  "one intent in several APIs",
  () => {
    test("is written as it was sent natively, but for differences with a reason", () => {
      const root = join(recordingsFolder() ?? "", "lingua");
      const counts = new Map<string, number>();
      const unexplained: string[] = [];
      const all = [...pairs(root)];
      for (const { name, differences } of all)
        for (const one of differences) {
          const reason = reasonOf(name, one);
          if (reason === undefined) unexplained.push(`${name}: ${one}`);
          else counts.set(reason, (counts.get(reason) ?? 0) + 1);
        }
      const same = all.filter(({ differences }) => differences.length === 0).length;
      console.log(
        `lingua: ${all.length} pairs, ${same} the same to the letter; differences by reason:`,
      );
      for (const [reason, count] of counts) console.log(`  ${count} × ${reason}`);
      expect(unexplained).toEqual([]);
      expect(all.length).toBeGreaterThan(40);
    });
  },
);
