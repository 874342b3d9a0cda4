// A recorded reply costs the same over all three APIs, and what its provider reported as the cost, at that day's prices.

import { expect, test } from "bun:test";
import type { TokenMeter } from "../../src/base/money/usage-meters.ts";
import { readEvent, usageSoFar } from "../../src/inference/metering/usage/stream-meter.ts";
import { createStreamMeter, usageOf } from "../../src/inference/metering/usage/usage.ts";
import { PROVIDERS } from "../../src/inference/providers/providers.ts";
import { builtInModels, cardFor, catalogOf, findModel } from "../../src/models/catalog.ts";
import { price } from "../../src/models/price.ts";
import { integer } from "../../src/store/db.ts";
import {
  expectSettledLedger,
  grantCredits,
  PATHS,
  usageRecordOf,
  USD,
} from "../inference/support/harness.ts";
import { withModels } from "../inference/support/models-file.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import {
  EQUAL,
  skipWithoutRecordedCosts,
  type RecordedCost,
  explainDifference,
  recordedCosts,
} from "../support/recordings/recorded-costs.ts";
import {
  eventsOf,
  type Recording,
  recordings,
  replayBytes,
  skipWithoutRecordings,
} from "../support/recordings/recordings.ts";
import { sampleRecordings } from "../wires/sample-recordings.ts";
import { type Api, APIS, type Json, type Wire, WIRES } from "./support/harness.ts";

const NOW = Date.parse("2026-11-21");
/** The tests call every n-th recording; all with POSTERN_FULL=1. */
const SAMPLE_EVERY = process.env["POSTERN_FULL"] === "1" ? 1 : 4;
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

/** A minimal reply on the call's wire with the call's model, time and usage. */
function oracleCases(): readonly Case[] {
  return recordedCosts().flatMap((call, index) => {
    if (index % SAMPLE_EVERY !== 0) return [];
    const wire = call.endpoint === "openai.chat" ? "chat" : "responses";
    const model = modelOf(call.provider, wire, call.request_model);
    if (model === undefined) return [];
    const head = { id: "r_1", created: 1_700_000_000, model: call.response_models[0] };
    const body =
      wire === "chat"
        ? {
            ...head,
            object: "chat.completion",
            choices: [
              { index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" },
            ],
            usage: call.usage,
          }
        : { ...head, object: "response", status: "completed", output: [], usage: call.usage };
    const usage = usageOf(wire, body, call.provider);
    const at = call.created === null ? NOW : call.created * 1_000;
    const found = findModel(CATALOG, model)?.model;
    const card = found && cardFor(CATALOG, found, call.response_models[0], at);
    return usage === undefined || card === undefined
      ? []
      : [
          {
            name: call.path,
            wire,
            model,
            at,
            nanos: expectedCharge(Number(price(usage, card.card).cost), call.provider_cost_usd),
            stream: false,
            reply: encoder.encode(JSON.stringify(body)),
            input: sumOf(usage.tokens),
            call,
          },
        ];
  });
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
}, 120_000);

test.skipIf(skipWithoutRecordings("costs through translation"))(
  "a recorded reply costs the same over all three APIs (requires ../shared/recordings)",
  async () => {
    const cases = recordedCases();
    expect((await costDifferences(cases)).slice(0, 10)).toEqual([]);
    expect(cases.length).toBeGreaterThan(150);
  },
  120_000,
);

test.skipIf(skipWithoutRecordedCosts())(
  "a reply costs what its provider stated, over every API (requires ../shared)",
  async () => {
    const cases = oracleCases();
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
  120_000,
);
