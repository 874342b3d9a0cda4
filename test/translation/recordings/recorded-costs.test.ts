// A recorded reply costs the same over all three APIs, and what its provider reported as the cost, at that day's prices.

import { expect, test } from "bun:test";
import { type TokenMeter, createStreamMeter, usageOf, readEvent, usageSoFar } from "@postern/wires";
import { sampleRecordings } from "../../../packages/wires/test/sample-recordings.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { builtInModels, cardFor, catalogOf, findModel } from "../../../src/models/catalog.ts";
import { price } from "../../../src/models/price.ts";
import { integer } from "../../../src/store/db.ts";
import {
  expectSettledLedger,
  grantCredits,
  PATHS,
  usageRecordOf,
  USD,
} from "../../inference/support/harness.ts";
import { withModels } from "../../inference/support/models-file.ts";
import { IS_FULL } from "../../support/full.ts";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import {
  EQUAL,
  skipWithoutRecordedCosts,
  type RecordedCost,
  explainDifference,
  recordedCosts,
} from "../../support/recordings/recorded-costs.ts";
import {
  eventsOf,
  type Recording,
  recordings,
  replayBytes,
  skipWithoutRecordings,
} from "../../support/recordings/recordings.ts";
import { type Api, APIS, type Json, type Wire, WIRES } from "../support/harness.ts";

const NOW = Date.parse("2026-11-21");
/** The tests call every n-th recording. */
const SAMPLE_EVERY = IS_FULL ? 1 : 24;
const CATALOG = catalogOf(builtInModels());
const encoder = new TextEncoder();

interface Case {
  readonly name: string;
  readonly wire: Wire;
  readonly model: string;
  readonly at: number;
  readonly stream: boolean;
  readonly reply: Uint8Array;
  /** Input tokens of the reply; the prompt must be long enough for the hold to cover them. */
  readonly input: number;
  /** The call with the cost that the provider reported. */
  readonly call?: RecordedCost;
  /** The expected charge at that day's prices. */
  readonly nanos?: number;
}

/** The provider, if it can be called with a plain API key over this wire. */
function providerOf(provider: string, wire: Wire) {
  return PROVIDERS.filter(({ id, isLocal }) => !isLocal && id !== "sim" && id !== "vertex").find(
    ({ id, paths }) => id === provider.replaceAll(".", "") && paths[wire] !== undefined,
  );
}

function modelOf(provider: string, wire: Wire, name: string): string | undefined {
  const row = providerOf(provider, wire);
  return row && findModel(CATALOG, `${row.id}/${name}`)?.model.id;
}

// ---- Recorded replies

function recordedCases(): readonly Case[] {
  return [...recordings()]
    .filter((_, index) => index % SAMPLE_EVERY === 0)
    .flatMap((recording) => caseOf(recording) ?? []);
}

function caseOf(recording: Recording): Case | undefined {
  const { wire, provider, stream, bodyFormat } = recording;
  if (recording.status !== 200 || wire === undefined) return undefined;
  const model = modelOf(provider, wire, recording.model);
  const reply = replayBytes(recording);
  if (model === undefined || bodyFormat === "other" || reply.length === 0) return undefined;
  const input = inputOf(recording);
  // Files with several streams or without usage have no cost.
  if (input === undefined) return undefined;
  const name = `${recording.file}#${recording.interaction}`;
  return { name, wire, model, at: NOW, stream, reply, input };
}

/** The total of the reply's usage, or undefined if it has none. */
function inputOf(recording: Recording): number | undefined {
  const { wire, stream, responseBody } = recording;
  if (wire === undefined) return undefined;
  const meter = createStreamMeter(wire, recording.provider);
  if (stream) for (const { name, data } of eventsOf(recording)) readEvent(meter, name, data);
  const usage = stream ? usageSoFar(meter) : usageOf(wire, responseBody, recording.provider);
  if (usage === undefined || (stream && (!meter.isUsageFinal || meter.failed))) return undefined;
  const all = [usage, ...(usage.additional ?? [])];
  return all.reduce((sum, { tokens }) => sum + sumOf(tokens), 0);
}

function sumOf(tokens: Readonly<Partial<Record<TokenMeter, number>>>): number {
  return Object.values(tokens).reduce((sum, count) => sum + count, 0);
}

// ---- Costs that providers reported

/** Minimal replies on the call's wire with the call's model, time and usage: a whole one and a stream. */
function oracleCases(calls: readonly RecordedCost[]): readonly Case[] {
  return calls.flatMap((call, index) => {
    if (index % SAMPLE_EVERY !== 0) return [];
    const wire = call.endpoint === "openai.chat" ? "chat" : "responses";
    const model = modelOf(call.provider, wire, call.request_model);
    if (model === undefined) return [];
    const head = { id: "r_1", created: 1_700_000_000, model: call.response_models[0] };
    const message = { role: "assistant", content: "hi" };
    const choice = { index: 0, finish_reason: "stop" };
    const chunk = { ...head, object: "chat.completion.chunk" };
    const response = { ...head, object: "response", output: [], usage: call.usage };
    const body =
      wire === "chat"
        ? {
            ...head,
            object: "chat.completion",
            choices: [{ ...choice, message }],
            usage: call.usage,
          }
        : { ...response, status: "completed" };
    const events =
      wire === "chat"
        ? [
            { ...chunk, choices: [{ ...choice, delta: message }] },
            { ...chunk, choices: [], usage: call.usage },
          ]
        : [
            { type: "response.created", response: { ...response, status: "in_progress" } },
            { type: "response.completed", response: body },
          ];
    const replies = [
      { stream: false, text: JSON.stringify(body) },
      { stream: true, text: sseText(wire, events) },
    ];
    const usage = usageOf(wire, body, call.provider);
    const at = call.created === null ? NOW : call.created * 1_000;
    const found = findModel(CATALOG, model)?.model;
    const card = found && cardFor(CATALOG, found, call.response_models[0], at);
    return usage === undefined || card === undefined
      ? []
      : replies.map(({ stream, text }) => ({
          name: `${call.path}${stream ? ", streamed" : ""}`,
          wire,
          model,
          at,
          nanos: expectedCharge(Number(price(usage, card.card).cost), call.provider_cost_usd),
          stream,
          reply: encoder.encode(text),
          input: sumOf(usage.tokens),
          call,
        }));
  });
}

function sseText(wire: "chat" | "responses", events: readonly Json[]): string {
  const lines = events.map((event) => {
    const name = wire === "chat" ? "" : `event: ${String(event["type"])}\n`;
    return `${name}data: ${JSON.stringify(event)}\n\n`;
  });
  return wire === "chat" ? `${lines.join("")}data: [DONE]\n\n` : lines.join("");
}

/** The cost that the provider states, unless it is 0 or differs from the list price by rounding alone. */
function expectedCharge(listPrice: number, statedUsd: number): number {
  const stated = Math.ceil(Number((statedUsd * 1e9).toFixed(6)));
  return stated === 0 || Math.abs(stated - listPrice) <= 2 ? listPrice : stated;
}

// ---- Calls

/** Each model has only this wire, so that all APIs are translated to it. */
function settingsFor(wire: Wire, cases: readonly Case[], url: string): Record<string, string> {
  const env: Record<string, string> = {};
  for (const { envPrefix, paths } of PROVIDERS)
    if (paths[wire] !== undefined && envPrefix !== "SIM")
      Object.assign(env, { [`${envPrefix}_BASE_URL`]: url, [`${envPrefix}_API_KEY`]: "test-key" });
  delete env["VERTEX_API_KEY"];
  delete env["VERTEX_BASE_URL"];
  const ids = new Set(cases.map(({ model }) => model));
  return { ...env, ...withModels([...ids].map((id) => ({ id, wires: [wire] }))) };
}

function requestBody(api: Api, { model, stream, input }: Case): Json {
  const text = "words ".repeat(Math.ceil(input / 4) + 10);
  const base = { model, stream };
  if (api === "responses") return { ...base, input: text };
  const messages = [{ role: "user", content: text }];
  return api === "chat" ? { ...base, messages } : { ...base, messages, max_tokens: 64_000 };
}

interface CaseCharges {
  readonly testCase: Case;
  readonly nanos: Readonly<Record<string, number | string>>;
}

async function chargesOn(wire: Wire, cases: readonly Case[]): Promise<readonly CaseCharges[]> {
  let current: Case | undefined;
  const upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch: () => {
      const type =
        current?.stream !== true
          ? "application/json"
          : wire === "converse"
            ? "application/vnd.amazon.eventstream"
            : "text/event-stream";
      return new Response(current?.reply.slice() ?? "", { headers: { "content-type": type } });
    },
  });
  const sorted = cases.toSorted((one, other) => one.at - other.at);
  let now = Math.min(NOW, sorted[0]?.at ?? NOW);
  const gateway = await startGateway({
    providers: [],
    env: settingsFor(wire, cases, `http://127.0.0.1:${upstream.port}`),
    now: () => now,
  });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 1_000_000n * USD);
  const charges: CaseCharges[] = [];
  for (const testCase of sorted) {
    current = testCase;
    now = Math.max(now, testCase.at);
    const nanos: Record<string, number | string> = {};
    for (const api of APIS) {
      const response = await fetch(gateway.url + PATHS[api], {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify(requestBody(api, testCase)),
      });
      const text = await response.text();
      const record = await usageRecordOf(
        gateway.server.db,
        response.headers.get("x-request-id"),
      ).catch(() => undefined);
      nanos[api] =
        response.status === 200 && record !== undefined
          ? integer(record, "cost_nano")
          : `${response.status} ${text.slice(0, 200)}`;
    }
    charges.push({ testCase, nanos });
  }
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
  await upstream.stop(true);
  return charges;
}

/** Cases with different charges over the three APIs, or with an error. */
function findDifferences(charges: readonly CaseCharges[]): readonly string[] {
  return charges
    .filter(
      ({ nanos }) => typeof nanos["chat"] !== "number" || new Set(Object.values(nanos)).size > 1,
    )
    .map(({ testCase, nanos }) => `${testCase.name} ${testCase.model} ${JSON.stringify(nanos)}`);
}

/** Calls the cases over all three APIs, and returns those with different charges. */
async function costDifferences(cases: readonly Case[]): Promise<readonly string[]> {
  const counts: string[] = [];
  const differences: string[] = [];
  for (const wire of WIRES) {
    const charges = await chargesOn(
      wire,
      cases.filter((testCase) => testCase.wire === wire),
    );
    counts.push(`${wire} ${charges.length}`);
    differences.push(...findDifferences(charges));
  }
  console.log(`» ${cases.length} replies charged over 3 APIs (${counts.join(", ")})`);
  return differences;
}

test("a sample reply costs the same over all three APIs", async () => {
  const cases = WIRES.flatMap(sampleRecordings).flatMap((recording) => caseOf(recording) ?? []);
  expect(cases).toHaveLength(10);
  expect(await costDifferences(cases)).toEqual([]);
});

test.skipIf(skipWithoutRecordings("costs through translation"))(
  "a recorded reply costs the same over all three APIs (requires ../shared/recordings)",
  async () => {
    const cases = recordedCases();
    expect((await costDifferences(cases)).slice(0, 10)).toEqual([]);
    expect(cases.length).toBeGreaterThan(600 / SAMPLE_EVERY);
  },
);

test("the stated cost of a server tool is charged over every API, streamed or not", async () => {
  const sample = { path: "sample", created: null, provider_cost_usd: 0.0160614 };
  const openrouter: RecordedCost = {
    ...sample,
    provider: "openrouter",
    endpoint: "openai.chat",
    request_model: "openai/gpt-4o-mini",
    response_models: ["openai/gpt-4o-mini"],
    // 0.0001764 USD for the tokens; the rest is the fee of a PDF or an advisor.
    usage: { prompt_tokens: 900, completion_tokens: 69, total_tokens: 969, cost: 0.0160614 },
  };
  const xai: RecordedCost = {
    ...sample,
    provider: "xai",
    endpoint: "openai.responses",
    request_model: "grok-4.3",
    response_models: ["grok-4.3"],
    usage: {
      input_tokens: 900,
      output_tokens: 69,
      total_tokens: 969,
      cost_in_usd_ticks: 160_614_000,
    },
  };
  for (const [wire, call] of [
    ["chat", openrouter],
    ["responses", xai],
  ] as const) {
    const charges = await chargesOn(wire, oracleCases([call]));
    expect(charges.map(({ testCase, nanos }) => [testCase.stream, nanos])).toEqual(
      [false, true].map((stream) => [
        stream,
        Object.fromEntries(APIS.map((api) => [api, 16_061_400])),
      ]),
    );
  }
});

test.skipIf(skipWithoutRecordedCosts())(
  "a reply costs what its provider stated, over every API (requires ../shared)",
  async () => {
    const cases = oracleCases(recordedCosts());
    const problems: string[] = [];
    const counts = new Map<string, number>();
    for (const wire of ["chat", "responses"] as const) {
      const charges = await chargesOn(
        wire,
        cases.filter((testCase) => testCase.wire === wire),
      );
      problems.push(...findDifferences(charges));
      for (const { testCase, nanos } of charges) {
        const { call, name } = testCase;
        const line = `${name} ${JSON.stringify(nanos)}`;
        if (call === undefined || nanos["messages"] !== testCase.nanos) problems.push(line);
        else {
          const reason = explainDifference({ call, usd: Number(nanos["messages"]) / 1e9 });
          if (Number(nanos["messages"]) < call.provider_cost_usd * 0.99e9)
            problems.push(`${line}: less than the stated cost ${call.provider_cost_usd}`);
          if (reason === undefined)
            problems.push(`${line}: unexplained, the provider says ${call.provider_cost_usd}`);
          const key = `${call.provider}: ${reason ?? "UNEXPLAINED"}`;
          counts.set(key, (counts.get(key) ?? 0) + 1);
        }
      }
    }
    console.log(`» ${cases.length} costs that providers reported, charged over 3 APIs:`);
    for (const [key, count] of [...counts].toSorted(([left], [right]) => (left < right ? -1 : 1)))
      console.log(`»  ${String(count).padStart(4)}  ${key}`);
    const equal = [...counts].reduce(
      (sum, [key, count]) => (key.endsWith(`: ${EQUAL}`) ? sum + count : sum),
      0,
    );
    expect(problems.slice(0, 10)).toEqual([]);
    expect(equal / cases.length).toBeGreaterThan(0.95);
  },
);
