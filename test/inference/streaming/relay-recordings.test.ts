// Every recorded reply of a passthrough wire, replayed by a raw provider in chunks of any size.

import { describe, expect, test } from "bun:test";
import {
  createSseParser,
  readSse,
  createStreamMeter,
  usageOf,
  readEvent,
  usageSoFar,
} from "@postern/wires";
import { sampleRecordings } from "../../../packages/wires/test/sample-recordings.ts";
import { tokenTotals } from "../../../src/inference/metering/charge.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { builtInModels, catalogOf, findModel } from "../../../src/models/catalog.ts";
import { integer } from "../../../src/store/db.ts";
import { every } from "../../support/full.ts";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import {
  type Recording,
  recordings,
  replayBytes,
  skipWithoutRecordings,
} from "../../support/recordings/recordings.ts";
import {
  type Api,
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  PATHS,
  usageRecordOf,
  USD,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";
import {
  seededRandom,
  randomCuts,
  type RawRequest,
  startRawProvider,
} from "../support/raw-provider.ts";

interface Case {
  readonly recording: Recording;
  readonly wire: Api;
  readonly provider: string;
  readonly model: string;
  readonly sent: string;
  readonly reply: Uint8Array;
}

/** Why a recorded request may be rejected on the gateway's accounts. */
const REFUSABLE =
  /^(?:previous_response_id|conversation|prompt|container|background|batch_id)$|file_id|vector_store_ids|file_ids|container|connector_id|^(?:input|messages)\[\d+\]|^tools\[\d+\]$|^provider\.only$|^service_tier$|^speed$|^tools$/;
const ADDED = new Set([
  "max_tool_calls",
  "stream_options",
  "store",
  "safety_identifier",
  "user",
  "metadata",
]);
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const random = seededRandom(20_261_121);

interface Relayed {
  /** Replies by API. */
  readonly counts: Readonly<Record<Api, number>>;
  /** Refused requests by field. */
  readonly refused: ReadonlyMap<string, number>;
  readonly wrong: readonly string[];
}

/** Relays each reply in chunks of random sizes, and compares what the client and the ledger get with the original. */
async function relayAll(cases: readonly Case[]): Promise<Relayed> {
  let current: Case | undefined;
  const upstream = await startRawProvider(() => {
    const reply = current?.reply ?? new Uint8Array();
    const headers = {
      "content-type":
        current?.recording.stream === true
          ? "text/event-stream; charset=utf-8"
          : "application/json",
    };
    return { headers, body: reply, cuts: randomCuts(reply.length, random) };
  });
  const gateway = await startGateway({ providers: [], env: settingsFor(cases, upstream.url) });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100_000n * USD);
  const counts: Record<Api, number> = { chat: 0, responses: 0, messages: 0, embeddings: 0 };
  const refused = new Map<string, number>();
  const wrong: string[] = [];
  for (const replayed of cases) {
    current = replayed;
    upstream.requests.length = 0;
    const name = `${replayed.recording.file} ${replayed.recording.interaction}`;
    const response = await fetch(gateway.url + PATHS[replayed.wire], {
      method: "POST",
      headers: account.headers,
      body: replayed.sent,
    });
    const received = await response.text();
    if (response.status === 400 && upstream.requests.length === 0) {
      const param = String(errorOf(JSON.parse(received))["param"]);
      if (!REFUSABLE.test(param)) wrong.push(`${name}: refused: ${received.slice(0, 300)}`);
      refused.set(
        param.replaceAll(/\d+/g, "n"),
        (refused.get(param.replaceAll(/\d+/g, "n")) ?? 0) + 1,
      );
      continue;
    }
    counts[replayed.wire] += 1;
    const problems = [
      ...(response.status === 200 ? [] : [`status ${response.status}: ${received.slice(0, 300)}`]),
      ...requestProblems(replayed, upstream.requests[0]),
      ...relayProblems(replayed, received, response.headers.get("x-postern-provider") ?? ""),
      ...recordProblems(
        replayed,
        await usageRecordOf(gateway.server.db, response.headers.get("x-request-id")).catch(
          () => ({}),
        ),
      ),
    ];
    if (problems.length > 0) wrong.push(`${name}: ${problems.join("; ")}`);
  }
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
  await upstream.stop();
  return { counts, refused, wrong };
}

test("sample replies are relayed byte for byte except for the usage and the model's id, and metered exactly", async () => {
  const samples = (["chat", "responses", "messages"] as const).flatMap(sampleRecordings);
  const { counts, wrong } = await relayAll(samples.flatMap((sample) => caseOf(sample) ?? []));
  expect(wrong).toEqual([]);
  expect(counts).toEqual({ chat: 2, responses: 2, messages: 2, embeddings: 0 });
});

/** In the short form, the test relays every n-th recording. */
const SAMPLE_EVERY = 8;

describe.skipIf(skipWithoutRecordings("relaying recorded replies"))("recorded replies", () => {
  test("are relayed byte for byte except for the usage and the model's id, in chunks of any size, and metered exactly", async () => {
    const cases = [...recordings()].flatMap((recording) => caseOf(recording) ?? []);
    const { counts, refused, wrong } = await relayAll(every(SAMPLE_EVERY, cases));
    const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
    console.log(
      `» ${total} recordings relayed (chat ${counts.chat}, responses ${counts.responses}, messages ${counts.messages}, embeddings ${counts.embeddings}); refused as references or unpriced: ${JSON.stringify(Object.fromEntries(refused))}`,
    );
    expect(wrong.slice(0, 20)).toEqual([]);
    expect(total).toBeGreaterThan(500 / SAMPLE_EVERY);
  });
});

/** Files that do not contain a complete reply of a provider, and why. */
const NO_REPLY: ReadonlyMap<string, string> = new Map([
  [
    "vercel-ai/openai/responses__parallel-tool-call-wrapper.1.chunks.txt",
    "its last event lacks a closing brace",
  ],
  [
    "lingua/multimodalRequest/responses/followup-response-streaming.json",
    "it was kept without its last event",
  ],
]);

/** Signed providers, and unknown ones: their recordings are replayed as an operator's own provider. */
const OTHERWISE: ReadonlySet<string> = new Set(["sim", "vertex", "bedrock"]);

const LAST_EVENT =
  /^data: ?\{"type": ?"(?:message_stop|response\.(?:completed|incomplete|failed))"/gm;

const WIRE_OF: ReadonlyMap<string, Api> = new Map([["openai.embeddings", "embeddings"]]);

function caseOf(recording: Recording): Case | undefined {
  const wire = recording.wire ?? WIRE_OF.get(recording.endpoint);
  if (NO_REPLY.has(recording.file) || isError(recording)) return undefined;
  if (wire === undefined || wire === "gemini" || wire === "converse" || recording.status !== 200)
    return undefined;
  const provider = providerOf(recording.provider, wire);
  const reply = replayBytes(recording);
  // Some files contain the streams of several calls.
  if ((decoder.decode(reply).match(LAST_EVENT)?.length ?? 0) > 1) return undefined;
  const request = requestOf(recording, wire);
  // A stored response has an id of the gateway, and background calls are always stored.
  const json =
    wire === "responses" && request !== undefined
      ? { ...without(request, "background"), store: false }
      : request;
  // A body without text would be rejected.
  if (json === undefined || reply.length === 0) return undefined;
  const model = `${provider}/${recording.model || "unnamed"}`;
  const sent = JSON.stringify({
    ...json,
    model,
    ...(wire === "embeddings" ? {} : { stream: recording.stream }),
  });
  return { recording, wire, provider, model, sent, reply };
}

/** An error that was recorded without its status. */
function isError({ bodyFormat, responseBody }: Recording): boolean {
  if (bodyFormat !== "json") return false;
  const json = parsed(decoder.decode(responseBody)) as Json | undefined;
  return (
    json?.["type"] === "error" ||
    (json?.["error"] !== undefined && json["error"] !== null && json["output"] === undefined)
  );
}

/** The provider if it has the wire, otherwise the name of an operator's own provider. */
function providerOf(name: string, wire: Api): string {
  const row = PROVIDERS.find((one) => one.id === name.replaceAll(".", ""));
  if (row !== undefined && !OTHERWISE.has(row.id) && row.paths[wire] !== undefined) return row.id;
  return `own-${name.toLowerCase().replaceAll(/[^a-z0-9]/g, "-")}`.slice(0, 30);
}

function without(json: Json, field: string): Json {
  return Object.fromEntries(Object.entries(json).filter(([name]) => name !== field));
}

function requestOf({ requestBody, model }: Recording, wire: Api): Json | undefined {
  const kept: unknown = requestBody === undefined ? undefined : parsed(requestBody);
  if (typeof kept === "object" && kept !== null && !Array.isArray(kept)) {
    const json = kept as Json;
    const content = wire === "chat" || wire === "messages" ? json["messages"] : json["input"];
    if (content !== undefined)
      return wire === "messages" && json["max_tokens"] === undefined
        ? { ...json, max_tokens: 1_000 }
        : json;
  }
  const messages = [{ role: "user", content: "hello" }];
  switch (wire) {
    case "chat":
      return { model, messages };
    case "messages":
      return { model, max_tokens: 1_000, messages };
    case "responses":
    case "embeddings":
      return { model, input: "hello" };
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** All providers at one address, and a price for every model that has none on its wire. */
function settingsFor(cases: readonly Case[], url: string): Record<string, string> {
  const catalog = catalogOf(builtInModels());
  const env: Record<string, string> = { TEST_PROVIDER_KEY: "test-key" };
  for (const { envPrefix, id } of PROVIDERS)
    if (!OTHERWISE.has(id))
      Object.assign(env, { [`${envPrefix}_BASE_URL`]: url, [`${envPrefix}_API_KEY`]: "test-key" });
  const models = new Map<string, { id: string; wires: Set<string> }>();
  const declared = new Map<string, Set<string>>();
  for (const { provider, model, wire } of cases) {
    if (provider.startsWith("own-"))
      declared.set(provider, (declared.get(provider) ?? new Set()).add(wire));
    const found = findModel(catalog, model);
    if (found?.model.wires.some((one) => one === wire) === true) continue;
    const id = found?.model.id ?? model;
    const entry = models.get(id) ?? { id, wires: new Set(found?.model.wires) };
    entry.wires.add(wire);
    models.set(id, entry);
  }
  const price = {
    tokens: { input: "1", output: "2" },
    fees: {
      web_search: "0.01",
      code_execution: "0.01",
      file_search: "0.01",
      web_fetch: "0",
      x_search: "0.01",
      image_generation: "0.01",
      grounding: "0.01",
    },
  };
  return {
    ...env,
    ...withModels(
      [...models.values()].map(({ id, wires }) => ({
        id,
        wires: [...wires],
        pricing: price,
        context_length: 1_000_000,
        max_output_tokens: 100_000,
      })),
      [...declared].map(([id, wires]) => ({
        id,
        base_url: url,
        wires: [...wires],
        api_key_env: "TEST_PROVIDER_KEY",
      })),
    ),
  };
}

/** Without the reasoning that has only an id: no provider has stored it. */
function withoutBareItems(body: Json): Json {
  const { input } = body;
  if (!Array.isArray(input)) return body;
  const isEmpty = (value: unknown): boolean => (value ?? "") === "" || String(value) === "";
  const isBare = ({ type, id, summary, content, encrypted_content: data }: Json): boolean =>
    type === "reasoning" && typeof id === "string" && [summary, content, data].every(isEmpty);
  const kept = (input as Json[]).filter((item) => !isBare(item));
  return kept.length === input.length ? body : { ...body, input: kept };
}

function requestProblems({ sent, model }: Case, request: RawRequest | undefined): string[] {
  const own = JSON.parse(sent) as Json;
  const before = withoutBareItems(own);
  const after = parsed(request?.body ?? "") as Json | undefined;
  if (request === undefined || after === undefined) return ["the provider received no JSON"];
  const changed = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  );
  const problems = changed
    .filter((name) => !isExpectedChange(name, after, model) && !isToolLimit(name, before, after))
    .map((name) => `${name} arrived as ${JSON.stringify(after[name])?.slice(0, 100)}`);
  // Everything else is unchanged and in order.
  const modelMember = `"model":${JSON.stringify(model)}`;
  const rest = sent.slice(sent.indexOf(modelMember) + modelMember.length);
  const isRest =
    before === own && changed.every((name) => name === "model" || before[name] === undefined);
  if (isRest && !request.body.endsWith(rest)) problems.push("the bytes after the model differ");
  return problems;
}

function isExpectedChange(name: string, after: Json, model: string): boolean {
  if (name === "model") return model.endsWith(`/${String(after["model"])}`);
  // Routing preferences are not forwarded.
  if (name === "provider") return after["provider"] === undefined;
  // An operator's provider gets the limit in the field that all servers support.
  if (name === "max_completion_tokens") return after[name] === undefined;
  if (name === "max_tokens") return after["max_completion_tokens"] === undefined;
  return ADDED.has(name) && after[name] !== undefined;
}

/** Tools without a limit get the one that the hold covers. */
function isToolLimit(name: string, before: Json, after: Json): boolean {
  const [sent, arrived] = [before[name], after[name]];
  if (name !== "tools" || !Array.isArray(sent) || !Array.isArray(arrived)) return false;
  const limited = sent.map((tool: Json) =>
    /^web_(search|fetch)/.test(String(tool["type"])) ? { max_uses: 10, ...tool } : tool,
  );
  return Bun.deepEquals(limited, arrived);
}

/** Each reply object names a model of the list; the rest is compared byte for byte. */
function relayProblems(replayed: Case, received: string, provider: string): string[] {
  const { recording, reply } = replayed;
  const expected = withoutModelNames(decoder.decode(reply), recording.stream, () => true);
  const given = withoutModelNames(received, recording.stream, (id) =>
    id.startsWith(`${provider}/`),
  );
  const compared = { ...replayed, reply: encoder.encode(expected) };
  return recording.stream ? streamProblems(compared, given) : wholeProblems(compared, given);
}

/** The text with `*` for the model's name in the reply object, and in the events that have one. */
function withoutModelNames(
  text: string,
  isStream: boolean,
  accepts: (name: string) => boolean,
): string {
  if (isStream)
    return text.replaceAll(
      /^(data: ?)(\{.*)$/gm,
      (_line, start: string, data: string) => start + masked(data),
    );
  return masked(text);
  function masked(part: string): string {
    const json = parsed(part) as Json | undefined;
    const holder = (json?.["response"] ?? json?.["message"] ?? json) as Json | undefined;
    const name = holder?.["model"];
    if (typeof name !== "string" || !accepts(name)) return part;
    const member = new RegExp(`("model":\\s*)${RegExp.escape(JSON.stringify(name))}`);
    return part.replace(member, '$1"*"');
  }
}

const COST = /"cost":[0-9.e+-]+,?/;

function wholeProblems({ reply }: Case, received: string): string[] {
  const original = decoder.decode(reply);
  if (received === original)
    return /"usage":\s*\{/.test(original) && !COST.test(original) ? ["no cost was added"] : [];
  const cost = COST.exec(
    received.slice(
      firstDifference(original, received) - 20 < 0 ? 0 : firstDifference(original, received) - 20,
    ),
  );
  if (cost === null) return [`differs without a cost at ${firstDifference(original, received)}`];
  return withoutCost(original) === withoutCost(received)
    ? []
    : [
        `differs at ${firstDifference(withoutCost(original), withoutCost(received))}: ${withoutCost(received).slice(-200)}`,
      ];
}

/** The usage objects of a text without their cost, of the provider or of the gateway, and without the dropped fields. */
function withoutCost(text: string): string {
  return text
    .replaceAll(/("usage":\s*\{)("cost":[^,}]*,?)/g, "$1")
    .replaceAll(/("usage":\s*\{)("dropped":\[(?:"[^"]*",?)*\],?)/g, "$1")
    .replaceAll(/("usage":\s*\{(?:[^{}]|\{[^{}]*\})*?"cost":)(?:[0-9.e+-]+|\{[^{}]*\})/g, "$1");
}

function firstDifference(left: string, right: string): number {
  let at = 0;
  while (at < left.length && left[at] === right[at]) at += 1;
  return at;
}

function streamProblems({ reply, wire, sent }: Case, received: string): string[] {
  const options = (JSON.parse(sent) as Json)["stream_options"] as Json | undefined;
  const wantsUsage = options?.["include_usage"] === true;
  const expected: string[] = [];
  for (const raw of rawEvents(reply)) {
    const message = readSse({ raw: encoder.encode(raw) } as Parameters<typeof readSse>[0]);
    const json = message === undefined ? undefined : (parsed(message.data) as Json | undefined);
    const usageOnly =
      wire === "chat" &&
      !wantsUsage &&
      Array.isArray(json?.["choices"]) &&
      json["choices"].length === 0 &&
      json["usage"] !== undefined &&
      json["usage"] !== null;
    if (!usageOnly) expected.push(raw);
  }
  const original = withoutCost(expected.join(""));
  const relayed = withoutCost(received);
  if (relayed === original) return [];
  // If the provider closed without its terminal event, the gateway adds it.
  if (!original.includes("[DONE]") && relayed === `${original}data: [DONE]\n\n`) return [];
  // Events after the terminal one are not part of the reply.
  if (
    original.startsWith(relayed) &&
    /\[DONE\]|response\.(?:completed|incomplete|failed)|message_stop|event: ?error|"error"/.test(
      relayed,
    )
  )
    return [];
  // The gateway rewrites error events.
  const events = rawEvents(encoder.encode(received));
  const errorAt = events.findIndex((event) => event.includes('"request_id":"req_'));
  const before = withoutCost(events.slice(0, errorAt).join(""));
  if (errorAt >= 0 && original.startsWith(before) && original.includes('"error"', before.length))
    return [];
  const at = firstDifference(original, relayed);
  return [
    `differs at ${at} of ${original.length}: expected ${JSON.stringify(original.slice(at - 20, at + 80))}, got ${JSON.stringify(relayed.slice(at - 20, at + 80))}`,
  ];
}

function rawEvents(reply: Uint8Array): string[] {
  const parser = createSseParser();
  return [...parser.push(reply), ...parser.end()].map((event) => decoder.decode(event.raw));
}

function recordProblems(
  { recording, wire, reply, provider }: Case,
  record: Readonly<Record<string, unknown>>,
): string[] {
  if (record["id"] === undefined) return ["no record"];
  const usage = meteredWhole(recording, wire, reply, provider);
  const sums = usage === undefined ? undefined : tokenTotals(usage);
  // The gateway counts the tokens of a complete reply without usage.
  if (sums === undefined && record["outcome"] === "completed")
    return integer(record, "exact") === 0 ? [] : ["recorded a count as exact"];
  const recorded = [
    integer(record, "input_tokens"),
    integer(record, "cache_read_tokens"),
    integer(record, "cache_write_tokens"),
    integer(record, "output_tokens"),
    integer(record, "reasoning_tokens"),
  ];
  const expectedCounts =
    sums === undefined
      ? [0, 0, 0, 0, 0]
      : [
          sums.inputTokens,
          sums.cacheReadTokens,
          sums.cacheWriteTokens,
          sums.outputTokens,
          sums.reasoningTokens,
        ];
  if (JSON.stringify(recorded) === JSON.stringify(expectedCounts)) return [];
  return [
    `recorded ${String(record["outcome"])} ${JSON.stringify(recorded)} instead of ${JSON.stringify(expectedCounts)}`,
  ];
}

function meteredWhole(recording: Recording, wire: Api, reply: Uint8Array, provider: string) {
  if (!recording.stream || wire === "embeddings") return usageOf(wire, reply, provider);
  const meter = createStreamMeter(wire, provider);
  const parser = createSseParser();
  for (const event of [...parser.push(reply), ...parser.end()]) {
    const message = readSse(event);
    if (message !== undefined) readEvent(meter, message.name, message.data);
  }
  return meter.isUsageFinal ? usageSoFar(meter) : undefined;
}
