import { afterAll, describe, expect, test } from "bun:test";
import { integer } from "../../../src/store/db.ts";
import { eventually } from "../../support/eventually.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import {
  type Api,
  bodyOf,
  errorOf,
  expectSettledLedger,
  expectEnvelope,
  grantCredits,
  isCompleteStream,
  type Json,
  postCall,
  usageRecordOf,
  simStats,
  STREAMED_APIS,
  USD,
} from "../support/harness.ts";
import { identicalModels, withModels } from "../support/models-file.ts";

const LONG = { firstByteMs: 60_000, replyMs: 60_000, idleMs: 60_000 };
/** Only the calls that must time out are sent to a gateway with short timeouts: on a busy machine, others would too. */
const TIMEOUTS = {
  none: LONG,
  "before the first byte": { ...LONG, firstByteMs: 700, replyMs: 700, idleMs: 700 },
  "after the first bytes": { ...LONG, idleMs: 700, drainMs: 700 },
} as const;
type TimesOut = keyof typeof TIMEOUTS;

interface Expected {
  readonly status: number;
  readonly code: string;
  readonly outcome?: string;
}

/** The response to a call that is not streamed, for each injected fault. */
const WHOLE: readonly (readonly [order: string, expected: Expected])[] = [
  ["status=400", { status: 400, code: "invalid_request" }],
  ["status=401", { status: 503, code: "provider_not_configured" }],
  ["status=402", { status: 503, code: "provider_not_configured" }],
  ["status=403", { status: 503, code: "provider_not_configured" }],
  ["status=404", { status: 404, code: "model_not_found" }],
  ["status=413", { status: 413, code: "payload_too_large" }],
  ["status=422", { status: 422, code: "invalid_request" }],
  ["status=429 retry-after=30", { status: 429, code: "rate_limited" }],
  ["status=500", { status: 500, code: "upstream_error" }],
  ["status=502", { status: 502, code: "upstream_error" }],
  ["status=503 retry-after=30", { status: 503, code: "overloaded" }],
  ["status=504", { status: 504, code: "upstream_timeout", outcome: "upstream_timeout" }],
  ["status=529", { status: 529, code: "overloaded" }],
  ["html", { status: 502, code: "upstream_error" }],
  ["html status=200", { status: 502, code: "upstream_error" }],
  ["error-body", { status: 502, code: "upstream_error" }],
  ["redirect=https://example.com/", { status: 502, code: "upstream_error" }],
  ["drop", { status: 502, code: "upstream_error" }],
  ["cut=1", { status: 502, code: "upstream_error" }],
  ["garble=1", { status: 502, code: "upstream_error" }],
  ["hang=1", { status: 504, code: "upstream_timeout", outcome: "upstream_timeout" }],
  ["latency=9000", { status: 504, code: "upstream_timeout", outcome: "upstream_timeout" }],
];

/** The end of a stream that breaks after its first bytes. A failure before them is the same as for a whole reply. */
const STREAMED: readonly (readonly [
  order: string,
  expected: { readonly outcome: string; readonly code?: string },
])[] = [
  ["cut=2 pace=30", { outcome: "upstream_error", code: "upstream_error" }],
  ["fail=2 pace=10", { outcome: "upstream_error" }],
];

interface Target {
  readonly gateway: Gateway;
  readonly account: TestAccount;
}
let twin = 0;

const start = async (timesOut: TimesOut): Promise<Target> => {
  const timeouts = TIMEOUTS[timesOut];
  const gateway = await startGateway({ timeouts, env: withModels(identicalModels(200)) });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 10n * USD);
  return { gateway, account };
};
const targets = {
  none: await start("none"),
  "before the first byte": await start("before the first byte"),
  "after the first bytes": await start("after the first bytes"),
};
afterAll(async () => {
  for (const { gateway } of Object.values(targets)) await gateway.stop();
});

function timesOut(order: string): TimesOut {
  if (order.startsWith("hang=2")) return "after the first bytes";
  return /^(?:hang|latency)/.test(order) ? "before the first byte" : "none";
}

/** Each call uses another model, so that no circuit opens. */
async function call(api: Api, order: string, more: Json = {}) {
  const { gateway, account } = targets[timesOut(order)];
  const model = `sim/${api === "embeddings" ? "embed" : "twin"}-${twin++ % 200}`;
  const response = await postCall(
    gateway,
    account,
    api,
    bodyOf(api, `[[sim: ${order}]] one two three four five six seven eight`, { model, ...more }),
  );
  const body = await response.text();
  const readRecord = () => usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
  return { response, body, readRecord };
}

for (const api of [...STREAMED_APIS, "embeddings"] as const) {
  for (const stream of api === "embeddings" ? [false] : [false, true]) {
    describe(`a provider failure ${stream ? "before the first byte of a stream" : "of a whole reply"} on ${api}`, () => {
      // In a stream, these happen after its first bytes.
      const orders = WHOLE.filter(([order]) => !stream || !/^(cut|garble|hang)/.test(order));
      test.concurrent.each(orders.map(([order, expected]) => ({ order, expected })))(
        "is a $expected.status in the caller's envelope, free of charge: $order",
        async ({ order, expected }) => {
          const { response, body, readRecord } = await call(
            api,
            order,
            stream ? { stream: true } : {},
          );
          expect([response.status, body.slice(0, 300)]).toEqual([
            expected.status,
            body.slice(0, 300),
          ]);
          const json: unknown = JSON.parse(body);
          expectEnvelope(api, json);
          expect(errorOf(json)["code"]).toBe(expected.code);
          if (/retry-after=30/.test(order)) expect(response.headers.get("retry-after")).toBe("30");
          expect(await readRecord()).toMatchObject({
            outcome: expected.outcome ?? "upstream_error",
            status: expected.status,
            cost_nano: 0,
          });
        },
      );
    });
  }
}

describe("a stream that breaks after its first bytes", () => {
  for (const api of STREAMED_APIS) {
    test.concurrent.each(STREAMED.map(([order, expected]) => ({ order, expected })))(
      `ends with an error event, free of charge (${api}, $order)`,
      async ({ order, expected }) => {
        const { response, body, readRecord } = await call(api, order, { stream: true });
        expect(response.status).toBe(200);
        expect(isCompleteStream(api, body)).toBe(false);
        expect(body).toContain('"error"');
        if (expected.code !== undefined) expect(body).toContain(`"code":"${expected.code}"`);
        if (api !== "chat") expect(body).toContain("event: error");
        expect(await readRecord()).toMatchObject({
          outcome: expected.outcome,
          cost_nano: 0,
          exact: 0,
        });
      },
    );
  }
});

describe("a stream that stops after its first bytes", () => {
  for (const api of STREAMED_APIS) {
    test.concurrent(`ends with an error event, and costs what was relayed (${api})`, async () => {
      const { body, readRecord } = await call(api, "hang=2", { stream: true });
      expect(isCompleteStream(api, body)).toBe(false);
      expect(body).toContain('"code":"upstream_timeout"');
      // The response ends before the settlement.
      const record = await eventually(readRecord);
      expect(record).toMatchObject({ outcome: "upstream_timeout", exact: 0 });
      expect(integer(record, "input_tokens")).toBeGreaterThan(0);
      expect(integer(record, "output_tokens")).toBeGreaterThan(0);
      expect(integer(record, "cost_nano")).toBe(
        integer(record, "input_tokens") * 1_000 + integer(record, "output_tokens") * 2_000,
      );
    });
  }
});

describe("an unusual but complete stream", () => {
  for (const api of STREAMED_APIS) {
    for (const order of [
      "slice=1",
      "slice=7 slow=1",
      "newline=crlf",
      "keepalive",
      "gzip",
      "garble=2",
      "usage=twice",
      "kb=300 chunks=1",
      "pace=20",
    ]) {
      test.concurrent(`is relayed to its end and charged by its usage (${api}, ${order})`, async () => {
        const { response, body, readRecord } = await call(api, order, { stream: true });
        expect(response.status).toBe(200);
        expect(isCompleteStream(api, body)).toBe(true);
        const record = await readRecord();
        expect(record).toMatchObject({ outcome: "completed", exact: 1 });
        expect(integer(record, "cost_nano")).toBe(
          integer(record, "input_tokens") * 1_000 + integer(record, "output_tokens") * 2_000,
        );
        expect(integer(record, "output_tokens")).toBeGreaterThan(0);
      });
    }
  }
});

describe("a stream without its terminal event", () => {
  for (const api of STREAMED_APIS) {
    test.concurrent(`is charged if its usage came before, and free otherwise (${api})`, async () => {
      const { body, readRecord } = await call(api, "no-end", { stream: true });
      const record = await readRecord();
      // In the Responses API, only the terminal event has the usage.
      if (api === "responses") {
        expect(record).toMatchObject({ outcome: "upstream_error", cost_nano: 0 });
        expect(body).toContain('"code":"upstream_error"');
      } else {
        expect(record).toMatchObject({ outcome: "completed", exact: 1 });
        expect(integer(record, "cost_nano")).toBeGreaterThan(0);
        expect(body).not.toContain('"error"');
        // The gateway adds the missing terminal event.
        expect(isCompleteStream(api, body)).toBe(true);
      }
    });
  }
});

describe("a stream that closes between its stop reason and its usage", () => {
  for (const api of STREAMED_APIS) {
    test.concurrent(`is free and ends with an error event (${api})`, async () => {
      const { body, readRecord } = await call(api, "no-end usage=none", { stream: true });
      expect(await readRecord()).toMatchObject({
        outcome: "upstream_error",
        cost_nano: 0,
      });
      expect(isCompleteStream(api, body)).toBe(false);
      expect(body).toContain('"code":"upstream_error"');
    });
  }
});

describe("a reply of a special kind", () => {
  for (const api of STREAMED_APIS) {
    for (const order of [
      "refusal",
      "filter",
      "empty",
      "tier=flex",
      "answer-model=sim/reason",
      "limits=5",
      "flood=1024",
      "gzip",
    ]) {
      test.concurrent(`is forwarded and charged by its usage, whole and streamed (${api}, ${order})`, async () => {
        for (const stream of [false, true]) {
          const { response, body, readRecord } = await call(api, order, stream ? { stream } : {});
          expect([order, stream, response.status]).toEqual([order, stream, 200]);
          if (stream) expect([order, isCompleteStream(api, body)]).toEqual([order, true]);
          const record = await readRecord();
          expect(record).toMatchObject({ outcome: "completed" });
          expect(integer(record, "cost_nano")).toBeGreaterThan(0);
          if (order === "limits=5")
            expect([...response.headers.keys()].join()).toContain("ratelimit");
          expect(response.headers.get("content-encoding")).toBeNull();
        }
      });
    }
  }
});

describe("usage", () => {
  for (const api of STREAMED_APIS) {
    for (const stream of [false, true]) {
      const streamed = stream ? { stream: true } : {};
      const how = `${api}${stream ? ", streamed" : ""}`;
      test.concurrent(`that is missing is counted, and logged (${how})`, async () => {
        const { response, body, readRecord } = await call(api, "usage=none", streamed);
        expect(response.status).toBe(200);
        if (stream) expect(isCompleteStream(api, body)).toBe(true);
        const record = await readRecord();
        expect(record).toMatchObject({ outcome: "completed", exact: 0 });
        expect(integer(record, "cost_nano")).toBe(
          integer(record, "input_tokens") * 1_000 + integer(record, "output_tokens") * 2_000,
        );
        expect(integer(record, "output_tokens")).toBeGreaterThan(0);
        const id = response.headers.get("x-request-id") ?? "?";
        const lines = targets.none.gateway.logLines.filter((line) => line.includes(id));
        expect(lines.join("")).toContain("provider reported no usage");
      });
      test.concurrent(`that is all zero costs nothing and is exact (${how})`, async () => {
        const { readRecord } = await call(api, "usage=zero", streamed);
        expect(await readRecord()).toMatchObject({
          outcome: "completed",
          cost_nano: 0,
          exact: 1,
        });
      });
      test.concurrent(`that is negative is never credited (${how})`, async () => {
        const { readRecord } = await call(api, "usage=negative", streamed);
        const record = await readRecord();
        expect(integer(record, "cost_nano")).toBeGreaterThanOrEqual(0);
        expect(integer(record, "input_tokens")).toBeGreaterThanOrEqual(0);
      });
      test.concurrent(`that is implausible is capped at the hold and marked as inexact (${how})`, async () => {
        const { readRecord } = await call(api, "usage=huge", streamed);
        const record = await readRecord();
        expect(record).toMatchObject({ outcome: "completed", exact: 0 });
        expect(integer(record, "cost_nano")).toBeLessThan(2_000_000);
      });
      test.concurrent(`that is malformed or incomplete does not fail the call (${how})`, async () => {
        for (const order of ["usage=text", "usage=missing"]) {
          const { response, readRecord } = await call(api, order, streamed);
          expect([order, response.status]).toEqual([order, 200]);
          expect(integer(await readRecord(), "cost_nano")).toBeGreaterThanOrEqual(0);
        }
      });
    }
  }
});

test("afterwards nothing is held, the ledger is consistent and no stream is open upstream", async () => {
  for (const { gateway } of Object.values(targets)) {
    await expectSettledLedger(gateway.server.db);
    expect((await simStats(gateway)).open_streams).toBe(0);
    expect(gateway.logLines.filter((line) => line.includes('"unexpected"'))).toEqual([]);
  }
});
