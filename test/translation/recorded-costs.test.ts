// What a recorded reply costs does not depend on the API over which it was asked for; and where its provider told what it
// charged, that is what is charged here, at the prices of that day.

import { describe, expect, test } from "bun:test";
import type { TokenMeter } from "../../src/base/usage-meters.ts";
import { createStreamMeter, usageOf } from "../../src/inference/metering/usage/usage.ts";
import { readEvent, usageSoFar } from "../../src/inference/metering/usage/stream-meter.ts";
import { PROVIDERS } from "../../src/inference/providers/providers.ts";
import { builtInModels, cardFor, catalogOf, findModel } from "../../src/models/catalog.ts";
import { price } from "../../src/models/price.ts";
import { integer } from "../../src/store/db.ts";
import { withModels } from "../inference/support/models-file.ts";
import {
  expectSettledLedger,
  grantCredits,
  PATHS,
  usageRecordOf,
  USD,
} from "../inference/support/harness.ts";
import {
  EQUAL,
  skipWithoutRecordedCosts,
  type RecordedCost,
  explainDifference,
  recordedCosts,
} from "../support/recordings/recorded-costs.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import {
  eventsOf,
  type Recording,
  recordings,
  replayBytes,
  skipWithoutRecordings,
} from "../support/recordings/recordings.ts";
import { type Api, APIS, type Json, type Wire, WIRES } from "./support/harness.ts";

const NOW = Date.parse("2026-11-21");
/** Every so many of the whole is called; all of them with POSTERN_FULL=1. */
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
  /** At least so many tokens of input: what was asked must be long enough for the hold to cover them. */
  readonly input: number;
  /** As it was recorded, with what the provider said that it charged. */
  readonly call?: RecordedCost;
  /** What is charged for this usage, at this model's price of that day. */
  readonly nanos?: number;
}

/** The provider's row where it can be called with a plain key, and speaks this wire. */
function rowOf(provider: string, wire: Wire) {
  return PROVIDERS.filter(({ id, isLocal }) => !isLocal && id !== "sim" && id !== "vertex").find(
    ({ id, paths }) => id === provider.replaceAll(".", "") && paths[wire] !== undefined,
  );
}

function modelOf(provider: string, wire: Wire, name: string): string | undefined {
  const row = rowOf(provider, wire);
  return row && findModel(CATALOG, `${row.id}/${name}`)?.model.id;
}

// ---- What was recorded

function recordedCases(): readonly Case[] {
  return [...recordings()].flatMap((recording, at) => {
    if (at % SAMPLE_EVERY !== 0 || recording.status !== 200 || recording.wire === undefined)
      return [];
    const { wire, provider, stream, bodyFormat } = recording;
    const model = modelOf(provider, wire, recording.model);
    const reply = replayBytes(recording);
    if (model === undefined || bodyFormat === "other" || reply.length === 0) return [];
    const input = inputOf(recording);
    // A file of several streams, or one whose usage was not kept, says no cost.
    if (input === undefined) return [];
    const name = `${recording.file}#${recording.interaction}`;
    return [{ name, wire, model, at: NOW, stream, reply, input }];
  });
}

/** All input that its usage tells of, or undefined where it tells of none. */
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

// ---- What providers said that they charged

/** The least reply on the call's wire that has the call's model, time and usage. */
function oracleCases(): readonly Case[] {
  return recordedCosts().flatMap((call, place) => {
    if (place % SAMPLE_EVERY !== 0) return [];
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
            nanos: Number(price(usage, card.card).cost),
            stream: false,
            reply: encoder.encode(JSON.stringify(body)),
            input: sumOf(usage.tokens),
            call,
          },
        ];
  });
}

// ---- Calls

/** A model on one wire alone, so that every API leads to the recording's own. */
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
  const said = { model, stream };
  if (api === "responses") return { ...said, input: text };
  const messages = [{ role: "user", content: text }];
  return api === "chat" ? { ...said, messages } : { ...said, messages, max_tokens: 64_000 };
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
  const charged: CaseCharges[] = [];
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
    charged.push({ testCase, nanos });
  }
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
  await upstream.stop(true);
  return charged;
}

/** Another amount than on the other APIs, or a refusal. */
function findDifferences(charged: readonly CaseCharges[]): readonly string[] {
  return charged
    .filter(
      ({ nanos }) => typeof nanos["chat"] !== "number" || new Set(Object.values(nanos)).size > 1,
    )
    .map(({ testCase, nanos }) => `${testCase.name} ${testCase.model} ${JSON.stringify(nanos)}`);
}

describe.skipIf(skipWithoutRecordings("costs through translation"))("what a reply costs", () => {
  test("is the same over all three APIs, for every recorded reply at its model's own price", async () => {
    const cases = recordedCases();
    const counts: string[] = [];
    const wrong: string[] = [];
    for (const wire of WIRES) {
      const charged = await chargesOn(
        wire,
        cases.filter((one) => one.wire === wire),
      );
      counts.push(`${wire} ${charged.length}`);
      wrong.push(...findDifferences(charged));
    }
    console.log(
      `» ${cases.length} recorded replies cost the same over 3 APIs (${counts.join(", ")})`,
    );
    expect(wrong.slice(0, 10)).toEqual([]);
    expect(cases.length).toBeGreaterThan(150);
  }, 120_000);

  test.skipIf(skipWithoutRecordedCosts())(
    "is what the provider said that it charged, or why it is not is known of every single one",
    async () => {
      const cases = oracleCases();
      const wrong: string[] = [];
      const counts = new Map<string, number>();
      for (const wire of ["chat", "responses"] as const) {
        const charged = await chargesOn(
          wire,
          cases.filter((one) => one.wire === wire),
        );
        wrong.push(...findDifferences(charged));
        for (const { testCase, nanos } of charged) {
          const { call, name } = testCase;
          const said = `${name} ${JSON.stringify(nanos)}`;
          if (call === undefined || nanos["messages"] !== testCase.nanos) wrong.push(said);
          else {
            const reason = explainDifference({ call, usd: Number(nanos["messages"]) / 1e9 });
            if (reason === undefined)
              wrong.push(`${said}: they say ${call.provider_cost_usd}, and nothing explains it`);
            const key = `${call.provider}: ${reason ?? "UNEXPLAINED"}`;
            counts.set(key, (counts.get(key) ?? 0) + 1);
          }
        }
      }
      console.log(`» ${cases.length} costs that providers stated, charged over 3 APIs:`);
      for (const [key, count] of [...counts].toSorted(([left], [right]) => (left < right ? -1 : 1)))
        console.log(`»  ${String(count).padStart(4)}  ${key}`);
      const equal = [...counts].reduce(
        (sum, [key, count]) => (key.endsWith(`: ${EQUAL}`) ? sum + count : sum),
        0,
      );
      expect(wrong.slice(0, 10)).toEqual([]);
      expect(equal / cases.length).toBeGreaterThan(0.85);
    },
    120_000,
  );
});
