// `max_cost_usd`: the most that a call may cost, whatever the request, the fallbacks and the provider do.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import * as fc from "fast-check";
import { runs } from "../../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { runExample } from "../../support/run-example.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  bodyOf,
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  lastSimulatorRequest,
  postCall,
  readWallet,
  STREAMED_APIS,
  USD,
  usageRecordOf,
  withHeaders,
} from "../support/harness.ts";
import { identicalModels, withModels } from "../support/models-file.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";

const LIMIT_OF = {
  chat: "max_tokens",
  messages: "max_tokens",
  responses: "max_output_tokens",
} as const;
/** Input at 1 and output at 2 US dollars per million tokens. */
const MODEL = "sim/twin-0";
const PROMPT = "[[sim: tokens=3000]] count";
const CEILING = 0.001;
const CEILING_NANO = 1_000_000;

for (const store of STORE_KINDS) {
  describe(`max_cost_usd on ${store}`, () => {
    let gateway: Gateway;
    let account: TestAccount;
    beforeAll(async () => {
      const [twin] = identicalModels(1);
      const dear = {
        ...twin,
        id: "sim/dear",
        pricing: { tokens: { input: "1000", output: "2000" } },
      };
      gateway = await startGateway({ store, env: withModels([twin ?? {}, dear]) });
      account = await registerAccount(gateway);
      await grantCredits(gateway, account, 10n * USD);
    });
    afterAll(async () => {
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });

    const call = (api: (typeof STREAMED_APIS)[number], more: Json, headers = {}) =>
      postCall(
        gateway,
        withHeaders(account, headers),
        api,
        bodyOf(api, PROMPT, { model: MODEL, [LIMIT_OF[api]]: 4_000, ...more }),
      );
    const costOf = async (response: Response): Promise<number> => {
      const record = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
      return Number(record["cost_nano"]);
    };

    for (const api of STREAMED_APIS)
      for (const stream of [false, true])
        test(`lowers the output limit until the call fits, and says so (${api}${stream ? ", streamed" : ""})`, async () => {
          const response = await call(api, { stream, postern: { max_cost_usd: CEILING } });
          await response.text();
          expect(response.status).toBe(200);
          expect(response.headers.get("x-postern-budget-cut")).toBe("true");
          const limit = Number(response.headers.get("x-postern-max-tokens"));
          expect(limit).toBeGreaterThan(100);
          expect(limit).toBeLessThanOrEqual(500);
          const sent = JSON.parse((await lastSimulatorRequest(gateway)).body) as Json;
          expect(sent[LIMIT_OF[api]]).toBe(limit);
          expect(sent["postern"]).toBeUndefined();
          const cost = await costOf(response);
          expect(cost).toBeGreaterThan(CEILING_NANO / 2);
          expect(cost).toBeLessThanOrEqual(CEILING_NANO);
        });

    test("changes nothing for a call that fits", async () => {
      const response = await call("chat", { max_tokens: 100, postern: { max_cost_usd: 1 } });
      expect(response.status).toBe(200);
      expect(response.headers.get("x-postern-budget-cut")).toBeNull();
      expect(response.headers.get("x-postern-max-tokens")).toBeNull();
    });

    test("can be a header, and the body wins", async () => {
      const byHeader = await call("chat", {}, { "x-postern-max-cost-usd": String(CEILING) });
      expect(byHeader.headers.get("x-postern-budget-cut")).toBe("true");
      const both = await call(
        "chat",
        { postern: { max_cost_usd: 1 } },
        { "x-postern-max-cost-usd": String(CEILING) },
      );
      expect(both.headers.get("x-postern-budget-cut")).toBeNull();
    });

    test("refuses the call instead if the caller prefers that, with the limit that fits", async () => {
      const postern = { max_cost_usd: CEILING, on_max_cost: "refuse" };
      const refused = await call("chat", { postern });
      const error = errorOf(await refused.json());
      expect([refused.status, error["code"], error["param"]]).toEqual([
        400,
        "invalid_request",
        "postern.max_cost_usd",
      ]);
      const fitting = Number(error["affordable_max_tokens"]);
      expect(fitting).toBeGreaterThan(0);
      expect((await call("chat", { postern, max_tokens: fitting })).status).toBe(200);
      const above = await call("chat", { postern, max_tokens: fitting + 10 });
      expect(above.status).toBe(400);
    });

    test("refuses a call whose input alone costs more", async () => {
      const before = await readWallet(gateway.server.db, account.id);
      const response = await call("chat", { postern: { max_cost_usd: 0.000001 } });
      const error = errorOf(await response.json());
      expect([response.status, error["affordable_max_tokens"]]).toEqual([400, 0]);
      expect(error["message"]).toContain("Its input alone costs more");
      expect(await readWallet(gateway.server.db, account.id)).toEqual(before);
    });

    test("skips a fallback that costs more", async () => {
      const response = await call("chat", {
        model: "sim/dear",
        models: [MODEL],
        postern: { max_cost_usd: CEILING, on_max_cost: "shorten" },
      });
      expect([response.status, response.headers.get("x-postern-model")]).toEqual([200, MODEL]);
    });

    test.each<[more: Json, headers: Record<string, string>, param: string]>([
      [{ postern: { max_cost_usd: -1 } }, {}, "postern.max_cost_usd"],
      [{ postern: { max_cost_usd: "cheap" } }, {}, "postern.max_cost_usd"],
      [{ postern: { max_cost_usd: 0.00000000001 } }, {}, "postern.max_cost_usd"],
      [{ postern: { max_cost_usd: true } }, {}, "postern.max_cost_usd"],
      [{ postern: { max_cost: 1 } }, {}, "postern.max_cost"],
      [{ postern: { max_cost_usd: 1, on_max_cost: "stop" } }, {}, "postern.on_max_cost"],
      [{ postern: 1 }, {}, "postern"],
      [{}, { "x-postern-max-cost-usd": "$1" }, "x-postern-max-cost-usd"],
      [
        {},
        { "x-postern-max-cost-usd": "1", "x-postern-on-max-cost": "stop" },
        "x-postern-on-max-cost",
      ],
    ])("rejects %j with the headers %j", async (more, headers, param) => {
      const response = await call("chat", more, headers);
      const error = errorOf(await response.json());
      expect([response.status, error["param"]]).toEqual([400, param]);
    });

    test("no call is charged more than its ceiling", async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 0, max: 3_000_000 }),
          fc.option(fc.integer({ min: 1, max: 4_000 }), { nil: undefined }),
          fc.constantFrom("shorten", "refuse"),
          async (nano, limit, action) => {
            const max = `0.${String(nano).padStart(9, "0")}`;
            const response = await call("chat", {
              max_tokens: limit,
              postern: { max_cost_usd: max, on_max_cost: action },
            });
            await response.text();
            if (response.status === 200) expect(await costOf(response)).toBeLessThanOrEqual(nano);
            else expect(response.status).toBe(400);
          },
        ),
        { numRuns: runs(40) },
      );
    });
  });
}

describe("a provider that exceeds the limit that it was sent", () => {
  let provider: RawProvider;
  let gateway: Gateway;
  beforeAll(async () => {
    provider = await startRawProvider(() => ({
      body: JSON.stringify({
        id: "x",
        object: "chat.completion",
        model: "twin-0",
        choices: [
          { index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" },
        ],
        usage: { prompt_tokens: 10, completion_tokens: 700, total_tokens: 710 },
      }),
    }));
    gateway = await startGateway({
      providers: [],
      env: { SIM_BASE_URL: provider.url, SIM_API_KEY: "k", ...withModels(identicalModels(1)) },
    });
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });

  test("is not paid above the ceiling by the caller", async () => {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
    const response = await postCall(
      gateway,
      account,
      "chat",
      bodyOf("chat", "hello", { model: MODEL, postern: { max_cost_usd: CEILING } }),
    );
    expect(response.status).toBe(200);
    const reply = (await response.json()) as Json;
    expect((reply["usage"] as Json)["cost"]).toBe(CEILING);
    const record = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
    expect(Number(record["cost_nano"])).toBe(CEILING_NANO);
  });
});

describe("a provider that may ignore the output limit of a model that reasons", () => {
  const REASONING = "openrouter/vendor/thinker";
  const PLAIN = "openrouter/vendor/writer";
  const OUTPUT_MAX = 30_000;
  let provider: RawProvider;
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    provider = await startRawProvider(() => ({
      body: JSON.stringify({
        object: "chat.completion",
        choices: [
          { index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" },
        ],
        usage: { prompt_tokens: 10, completion_tokens: OUTPUT_MAX, cost: 0.06001 },
      }),
    }));
    const model = {
      wires: ["chat"],
      context_length: 100_000,
      max_output_tokens: OUTPUT_MAX,
      pricing: { tokens: { input: "1", output: "2" } },
    };
    gateway = await startGateway({
      providers: [],
      env: {
        OPENROUTER_BASE_URL: provider.url,
        OPENROUTER_API_KEY: "test-key-0123456789",
        ...withModels([
          { id: REASONING, ...model, supported: ["reasoning"] },
          { id: PLAIN, ...model, supported: ["tools"] },
        ]),
      },
    });
    account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
  });
  afterAll(async () => {
    await gateway.stop();
    await provider.stop();
  });

  const call = (api: (typeof STREAMED_APIS)[number], model: string, max: number) =>
    postCall(
      gateway,
      account,
      api,
      bodyOf(api, "hello", { model, [LIMIT_OF[api]]: 16, postern: { max_cost_usd: max } }),
    );

  for (const api of STREAMED_APIS)
    test(`is not called below what the model can produce, and the ceiling that fits is told: ${api}`, async () => {
      const refused = await call(api, REASONING, CEILING);
      const error = errorOf(await refused.json());
      expect([refused.status, error["param"], error["affordable_max_tokens"]]).toEqual([
        400,
        "postern.max_cost_usd",
        0,
      ]);
      expect(provider.requests).toEqual([]);
      const required = Number(error["required_usd"]);
      expect(required).toBeWithin(0.06, 0.07);
      const response = await call(api, REASONING, required);
      expect(response.status).toBe(200);
      const record = await usageRecordOf(gateway.server.db, response.headers.get("x-request-id"));
      expect(Number(record["cost_nano"])).toBeWithin(60_000_000, 60_020_000);
      provider.requests.length = 0;
    });

  test("is called with the limit that fits where the model does not reason", async () => {
    expect((await call("chat", PLAIN, CEILING)).status).toBe(200);
  });
});

test("examples/cost-ceiling.ts shortens a reply, and is told what would fit", async () => {
  const gateway = await startGateway();
  const output = await runExample("cost-ceiling.ts", gateway.url);
  expect(output).toMatch(/shortened: true, to \d+ tokens/);
  expect(output).toMatch(/refused: 400, and \d+ tokens would fit/);
  await gateway.stop();
});
