// Recorded errors of providers, and recorded replies with corrupted bytes.

import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import path from "node:path";
import { sampleRecordings } from "../../../packages/wires/test/sample-recordings.ts";
import { integer } from "../../../src/store/db.ts";
import { eventually } from "../../support/eventually.ts";
import { runs } from "../../support/full.ts";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import {
  type Recording,
  recordings,
  recordingsFolder,
  replayBytes,
  skipWithoutRecordings,
} from "../../support/recordings/recordings.ts";
import {
  bodyOf,
  errorOf,
  expectSettledLedger,
  expectEnvelope,
  grantCredits,
  postCall,
  usageRecordOf,
  STREAMED_APIS,
  USD,
} from "../support/harness.ts";
import { identicalModels, withModels } from "../support/models-file.ts";
import {
  seededRandom,
  randomCuts,
  type RawReply,
  startRawProvider,
} from "../support/raw-provider.ts";

const MODELS = 200;
const MUTATIONS = runs(600);
const KNOWN_STATUSES = new Set([400, 404, 413, 422, 429, 500, 502, 503, 504, 529]);

async function start(reply: () => RawReply) {
  const provider = await startRawProvider(reply);
  const gateway = await startGateway({
    providers: [],
    env: {
      SIM_BASE_URL: provider.url,
      SIM_API_KEY: "test-key-0123456789",
      ...withModels(identicalModels(MODELS)),
    },
    timeouts: { firstByteMs: 3_000, replyMs: 3_000, idleMs: 3_000 },
  });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 1_000n * USD);
  return { provider, gateway, account, stop: () => Promise.all([gateway.stop(), provider.stop()]) };
}

const STATUS_BY_CODE: Readonly<Record<string, number>> = {
  model_not_found: 404,
  provider_not_configured: 503,
  rate_limited: 429,
  payload_too_large: 413,
};

/** Passes on each error, a line of `… <status> | <body>`; returns how many there were. */
async function passOnErrors(lines: readonly string[]): Promise<number> {
  let current: RawReply = { body: "" };
  const { gateway, account, provider, stop } = await start(() => current);
  let count = 0;
  for (const line of lines) {
    const [head = "", body = ""] = line.split(" | ");
    const status = Number(head.split(" ").at(-1));
    if (!(status >= 400)) continue;
    current = { status, body, headers: { "retry-after": "30" } };
    const api = STREAMED_APIS[count % 3] ?? "chat";
    const before = provider.requests.length;
    const response = await postCall(
      gateway,
      account,
      api,
      bodyOf(api, "x", { model: `sim/twin-${count % MODELS}`, stream: count % 2 === 0 }),
    );
    const text = await response.text();
    const json: unknown = JSON.parse(text);
    expectEnvelope(api, json);
    expect([line.slice(0, 200), KNOWN_STATUSES.has(response.status)]).toEqual([
      line.slice(0, 200),
      true,
    ]);
    // The rejected key is the gateway's, not the caller's.
    if ([401, 402, 403].includes(status))
      expect([line.slice(0, 200), response.status, errorOf(json)["code"]]).toEqual([
        line.slice(0, 200),
        503,
        "provider_not_configured",
      ]);
    // Some providers use 400 for errors with a more specific status: then the code decides.
    else if (status < 500)
      expect(response.status).toBe(
        STATUS_BY_CODE[String(errorOf(json)["code"])] ??
          (status === 409 || status === 405 || status === 415 ? 400 : status),
      );
    expect(provider.requests.length).toBe(before + 1);
    expect(
      await usageRecordOf(gateway.server.db, response.headers.get("x-request-id")),
    ).toMatchObject({
      outcome: "upstream_error",
      cost_nano: 0,
    });
    count += 1;
  }
  await expectSettledLedger(gateway.server.db);
  await stop();
  return count;
}

test("sample errors reach the caller in its API's envelope, with a matching code and status", async () => {
  const errors = [
    '401 | {"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","code":"invalid_api_key"}}',
    '404 | {"type":"error","error":{"type":"not_found_error","message":"model: m"}}',
    '429 | {"error":{"message":"Rate limit reached.","type":"requests","code":"rate_limit_exceeded"}}',
    '500 | {"error":{"code":500,"message":"Internal error.","status":"INTERNAL"}}',
    "502 | <html><body>Bad gateway</body></html>",
    '529 | {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
  ];
  expect(await passOnErrors(errors)).toBe(errors.length);
});

describe.skipIf(skipWithoutRecordings("recorded errors"))("recorded errors of providers", () => {
  test("reach the caller in its API's envelope, with a matching code and status", async () => {
    const lines = readFileSync(path.join(recordingsFolder() ?? "", "error-bodies.txt"), "utf8")
      .trim()
      .split("\n");
    const count = await passOnErrors(lines);
    console.log(`» ${count} recorded errors passed on`);
    expect(count).toBeGreaterThan(100);
  });
});

/** Corrupts a random reply as often, and returns the outcomes of the calls. */
async function corruptReplies(
  pool: readonly Recording[],
  mutations: number,
): Promise<ReadonlyMap<string, number>> {
  const random = seededRandom(4_711);
  let current: RawReply = { body: "" };
  const { gateway, account, stop } = await start(() => current);
  const outcomes = new Map<string, number>();
  for (let count = 0; count < mutations; count++) {
    const recording = pool[Math.floor(random() * pool.length)];
    if (recording === undefined) throw new Error("no recording");
    const body = corrupt(replayBytes(recording), random);
    current = {
      body,
      cuts: randomCuts(body.length, random),
      headers: { "content-type": recording.stream ? "text/event-stream" : "application/json" },
      ending: random() < 0.3 ? "cut" : "end",
    };
    const api =
      recording.wire === "messages" || recording.wire === "responses" ? recording.wire : "chat";
    const response = await postCall(
      gateway,
      account,
      api,
      bodyOf(api, "x", { model: `sim/twin-${count % MODELS}`, stream: recording.stream }),
    );
    const text = await response.text();
    if (response.status !== 200) {
      expectEnvelope(api, JSON.parse(text));
      expect([502, 503, 529, 429, 400, 404, 500, 504]).toContain(response.status);
      expect(errorOf(JSON.parse(text))["code"]).not.toBe("internal");
    }
    // A stream with malformed bytes ends before its call is settled.
    const record = await eventually(() =>
      usageRecordOf(gateway.server.db, response.headers.get("x-request-id")),
    );
    const outcome = String(record["outcome"]);
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    expect(integer(record, "cost_nano")).toBeGreaterThanOrEqual(0);
    // The request asks for 200 output tokens and has a few hundred input tokens: more is implausible.
    if (integer(record, "exact") === 0)
      expect(integer(record, "cost_nano")).toBeLessThan(1_000_000);
  }
  await expectSettledLedger(gateway.server.db);
  expect(gateway.logLines.filter((line) => line.includes('"internal"'))).toEqual([]);
  await stop();
  return outcomes;
}

const CORRUPTED_WIRES = ["chat", "responses", "messages"] as const;

test("corrupted sample replies end, are never charged beyond the hold, and leave nothing held", async () => {
  const outcomes = await corruptReplies(CORRUPTED_WIRES.flatMap(sampleRecordings), 60);
  expect(outcomes.size).toBeGreaterThan(1);
});

describe.skipIf(skipWithoutRecordings("corrupted replies"))("corrupted replies", () => {
  test("end, are never charged beyond the hold, and leave nothing held", async () => {
    const pool = [...recordings()].filter(
      ({ wire, status }) => status === 200 && CORRUPTED_WIRES.some((one) => one === wire),
    );
    const outcomes = await corruptReplies(pool, MUTATIONS);
    console.log(
      `» ${MUTATIONS} corrupted replies: ${JSON.stringify(Object.fromEntries(outcomes))}`,
    );
  });
});

function corrupt(bytes: Uint8Array, random: () => number): Uint8Array {
  const at = (): number => Math.floor(random() * bytes.length);
  switch (Math.floor(random() * 6)) {
    case 0:
      return bytes.subarray(0, at());
    case 1: {
      // `slice` of a Buffer would share its memory.
      const copy = Uint8Array.from(bytes);
      for (let flips = 0; flips < 5; flips++) copy[at()] = Math.floor(random() * 256);
      return copy;
    }
    case 2: {
      const [from, until] = [at(), at()].sort((left, right) => left - right);
      return Buffer.concat([bytes.subarray(0, from), bytes.subarray(until)]);
    }
    case 3: {
      const position = at();
      return Buffer.concat([
        bytes.subarray(0, position),
        Uint8Array.from({ length: 64 }, () => Math.floor(random() * 256)),
        bytes.subarray(position),
      ]);
    }
    case 4:
      return Buffer.concat([bytes, bytes]);
    default: {
      // Token counts change in value and type.
      const text = new TextDecoder().decode(bytes);
      const kinds = ["-1", "1e99", '"7"', "null", "9007199254740993", "0.5", "[]", "{}"];
      return new TextEncoder().encode(
        text.replaceAll(
          /(_tokens"?:\s*)\d+/g,
          (_, before: string) => `${before}${kinds[Math.floor(random() * kinds.length)]}`,
        ),
      );
    }
  }
}
