// A stream that its caller leaves costs the tokens of its input and of what was relayed, for every kind of content: never
// more than the finished call. The provider counts with OpenAI's tokenizer, loaded here from another package's ranks.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { decodeRelayedText, meterWholeReply, usageOf } from "@postern/wires";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { parseObject } from "../../../src/base/json.ts";
import { tokenTotals } from "../../../src/inference/metering/charge.ts";
import {
  countInput,
  isInputCountable,
} from "../../../src/inference/metering/tokens/count-input.ts";
import { countTextTokens, encodingOf } from "../../../src/inference/metering/tokens/tokenizer.ts";
import { integer } from "../../../src/store/db.ts";
import { casesOn } from "../../support/full.ts";
import { type Gateway, registerAccount, startGateway } from "../../support/gateway.ts";
import {
  type Recording,
  recordings,
  skipWithoutRecordings,
} from "../../support/recordings/recordings.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  expectSettledLedger,
  grantCredits,
  type Json,
  STREAMED_APIS,
  USD,
  usageRecordsOf,
} from "../support/harness.ts";
import {
  randomCuts,
  type RawProvider,
  type RawReply,
  seededRandom,
  startRawProvider,
} from "../support/raw-provider.ts";
import { openSocketClient } from "../support/socket-client.ts";

const INPUT_NANO = 2_000;
const OUTPUT_NANO = 8_000;
const MODEL = "openai/gpt-4.1";

const random = seededRandom(11);
const pick = (characters: string, length: number): string =>
  Array.from({ length }, () => characters[Math.floor(random() * characters.length)]).join("");
const HEX = "0123456789abcdef";
const uuid = (): string => [8, 4, 4, 4, 12].map((length) => pick(HEX, length)).join("-");
const objects = Array.from({ length: 40 }, (_, id) => ({
  id,
  score: random(),
  tags: ["a", uuid()],
}));

const PROSE =
  "The history of navigation is the history of an idea: that a position on the open sea can be computed from a clock and a star. ";
const TEXTS: Readonly<Record<string, string>> = {
  prose: PROSE.repeat(40),
  "a short text": "Hello there.",
  digits: pick("0123456789", 4_000),
  "rare Unicode": Array.from({ length: 800 }, () =>
    String.fromCodePoint(0x1_20_00 + Math.floor(random() * 900)),
  ).join(""),
  base64: Buffer.from(Array.from({ length: 3_000 }, () => random() * 256)).toString("base64"),
  UUIDs: Array.from({ length: 120 }, uuid).join("\n"),
  hex: pick(HEX, 4_000),
  "float JSON": JSON.stringify(Array.from({ length: 300 }, () => random() * 1e3)),
  "pretty JSON": JSON.stringify(objects, undefined, 2),
  quotes: 'say "no\\n" \n'.repeat(300),
  "one run": "ab".repeat(2_000),
};

interface Reply {
  readonly chat: (delta: string) => Json;
  readonly responses: (delta: string) => Json;
}
const CONTENT: Reply = {
  chat: (content) => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] }),
  responses: (delta) => ({ type: "response.output_text.delta", item_id: "m", delta }),
};
const ARGUMENTS: Reply = {
  chat: (args) => ({
    choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: args } }] } }],
  }),
  responses: (delta) => ({ type: "response.function_call_arguments.delta", item_id: "f", delta }),
};

/** Of the last delta. */
const MARKER = "END-OF-TEXT";

const sse = (event: Json): string => `data: ${JSON.stringify(event)}\n\n`;

/** The events of a stream whose last delta is followed by silence. */
function events(api: "chat" | "responses", text: string, isCall: boolean): string {
  const { [api]: deltaOf } = isCall ? ARGUMENTS : CONTENT;
  const cuts = [...randomCuts(text.length, random), text.length];
  const deltas = cuts.map((end, index) => text.slice(cuts[index - 1] ?? 0, end));
  deltas.push(MARKER);
  const call = { type: "function_call", name: "save_all", arguments: "" };
  const first: Readonly<Record<typeof api, Json>> = {
    chat: {
      model: "gpt-4.1",
      choices: [
        {
          index: 0,
          delta: isCall
            ? { tool_calls: [{ index: 0, id: "c", function: { name: "save_all", arguments: "" } }] }
            : { role: "assistant", content: "" },
        },
      ],
    },
    responses: isCall
      ? { type: "response.output_item.added", item: call }
      : { type: "response.created", response: { model: "gpt-4.1", status: "in_progress" } },
  };
  return [sse(first[api]), ...deltas.map((delta) => sse(deltaOf(delta)))].join("");
}

const PROMPT = "Write what I asked for.";
const TOOL = {
  name: "save_all",
  description: "Saves it.",
  parameters: { type: "object", properties: {} },
};

function request(api: (typeof STREAMED_APIS)[number], content: string): Json {
  const messages = [{ role: "user", content }];
  switch (api) {
    case "chat":
      return { model: MODEL, stream: true, max_tokens: 20_000, messages };
    case "responses":
      return {
        model: MODEL,
        stream: true,
        max_output_tokens: 20_000,
        store: false,
        input: content,
      };
    case "messages":
      return { model: MODEL, stream: true, max_tokens: 20_000, messages };
  }
}

describe.each(STORE_KINDS)("a stream that is left costs what was relayed, on %s", (store) => {
  let gateway: Gateway;
  let provider: RawProvider;
  let reply: RawReply;

  beforeAll(async () => {
    provider = await startRawProvider(() => reply);
    gateway = await startGateway({
      store,
      providers: [],
      logLevel: "warn",
      abandonedCallsPerMinute: 10_000,
      env: { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: "test-key-0123456789" },
    });
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });

  async function leave(api: (typeof STREAMED_APIS)[number], text: string, isCall: boolean) {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, 10n * USD);
    const sent = provider.requests.length;
    const wireReply = {
      chat: events("chat", text, isCall),
      responses: events("responses", text, isCall),
    };
    // The gateway chooses the wire of an API that the provider does not have.
    const headers = { "content-type": "text/event-stream" };
    reply = {
      headers,
      get body() {
        const path = provider.requests.at(-1)?.path ?? "";
        return path.endsWith("responses") ? wireReply.responses : wireReply.chat;
      },
      ending: "silence",
    };
    const client = openSocketClient(gateway, account, api, request(api, PROMPT));
    await client.waitForText(MARKER);
    client.disconnect();
    await expectSettledLedger(gateway.server.db);
    expect(provider.requests.length).toBe(sent + 1);
    const [record] = await usageRecordsOf(gateway.server.db, account.id);
    if (record === undefined) throw new Error("no record");
    expect([record["outcome"], integer(record, "exact")]).toEqual(["client_aborted", 0]);
    const output = countTokens(text + MARKER) + (isCall ? 7 + countTokens("save_all") : 0);
    // As the provider counts: three tokens for the message and three for the reply, and the role.
    const input = countTokens(PROMPT) + 7;
    return integer(record, "cost_nano") / (input * INPUT_NANO + output * OUTPUT_NANO);
  }

  for (const [kind, text] of casesOn(store, Object.entries(TEXTS)))
    for (const api of casesOn(store, STREAMED_APIS))
      test(`${kind}, on ${api}`, async () => {
        expect(await leave(api, text, false)).toBeWithin(0.97, 1.000_001);
      });

  for (const api of ["chat", "responses"] as const)
    test(`tool arguments, on ${api}`, async () => {
      expect(await leave(api, TEXTS["pretty JSON"] ?? "", true)).toBeWithin(0.97, 1.000_001);
    });
});

test("the functions of a request are counted", async () => {
  const body = {
    messages: [{ role: "user", content: "x" }],
    tools: [{ type: "function", function: TOOL }],
  };
  expect(isInputCountable(body)).toBe(true);
  expect(await countInput(body, "o200k_base")).toBeGreaterThan(12);
  for (const more of [
    { response_format: { type: "json_schema" } },
    // Compaction has output that is not relayed.
    { context_management: [{ type: "compaction" }] },
    { functions: [TOOL] },
  ])
    expect(isInputCountable({ ...body, ...more })).toBe(false);
  expect(isInputCountable({ messages: [{ role: "user", content: [{ type: "image_url" }] }] })).toBe(
    false,
  );
});

interface Counts {
  readonly name: string;
  readonly counted: number;
  readonly reported: number;
}

/** The instructions that OpenAI adds to some functions. */
const INPUT_SHORTFALL_TOKENS = 30;
const OUTPUT_SHORTFALL_TOKENS = 2;

/** Undefined for a call that the gateway would not count. */
async function countsOf(
  recording: Recording,
): Promise<{ readonly input: Counts; readonly output: Counts | undefined } | undefined> {
  const { wire, provider, requestBody, status, model, stream, responseBody, file } = recording;
  const encoding = encodingOf(model);
  if (provider !== "openai" || (wire !== "chat" && wire !== "responses")) return undefined;
  if (status >= 300 || stream || encoding === undefined || /gpt-5|^o\d/.test(model))
    return undefined;
  const body = parseObject(requestBody ?? "");
  const json = parseObject(new TextDecoder().decode(responseBody));
  const usage = json && usageOf(wire, json, provider);
  if (usage === undefined || json === undefined || body === undefined) return undefined;
  const isCompaction = json["object"] === "response.compaction";
  if (!isInputCountable(body) || body["modalities"] !== undefined || isCompaction) return undefined;
  const totals = tokenTotals(usage);
  const name = `${file} ${model}`;
  const input = {
    name,
    counted: await countInput(body, encoding),
    reported: totals.inputTokens,
  };
  const meter = meterWholeReply(wire, provider, json);
  const isText = meter.toolCalls === 0 && meter.outputBytes > 0 && totals.reasoningTokens === 0;
  if (!isText || body["n"] !== undefined) return { input, output: undefined };
  const counted = await countTextTokens(decodeRelayedText(meter.text), encoding);
  return { input, output: { name, counted, reported: totals.outputTokens } };
}

function isOutside({ counted, reported }: Counts, shortfall: number): boolean {
  return counted > reported || counted < Math.min(0.97 * reported, reported - shortfall);
}

test.skipIf(skipWithoutRecordings("token counts"))(
  "counts of recorded calls are 97 to 100 % of OpenAI's, or at most some tokens below",
  async () => {
    const inputs: Counts[] = [];
    const outputs: Counts[] = [];
    for (const recording of recordings()) {
      const counts = await countsOf(recording);
      if (counts !== undefined) inputs.push(counts.input);
      if (counts?.output !== undefined) outputs.push(counts.output);
    }
    expect(inputs.length).toBeGreaterThan(20);
    expect(outputs.length).toBeGreaterThan(20);
    expect(inputs.filter((one) => isOutside(one, INPUT_SHORTFALL_TOKENS))).toEqual([]);
    expect(outputs.filter((one) => isOutside(one, OUTPUT_SHORTFALL_TOKENS))).toEqual([]);
  },
);
