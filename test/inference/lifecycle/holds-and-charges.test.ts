import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { casesOn } from "../../support/full.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import { type GatedSimulator, startGatedSimulator } from "../support/gated-simulator.ts";
import {
  bodyOf,
  errorOf,
  expectSettledLedger,
  grantCredits,
  isCompleteStream,
  type Json,
  lastSimulatorRequest,
  postCall,
  releaseAfter,
  usageRecordsOf,
  STREAMED_APIS,
  waitUntil,
  USD,
  readWallet,
  withHeaders,
} from "../support/harness.ts";
import { identicalModels, withModels } from "../support/models-file.ts";

const CALLS = 64;
const AFFORDED = 10n;
const START = 50_000_000n;

const LIMIT_OF = {
  chat: "max_tokens",
  messages: "max_tokens",
  responses: "max_output_tokens",
} as const;

let gateway: Gateway;

for (const store of STORE_KINDS) {
  describe(`a balance that affords ${AFFORDED} calls, on ${store}`, () => {
    let gate: GatedSimulator;
    beforeAll(async () => {
      gate = startGatedSimulator();
      gateway = await startGateway({ store, env: { SIM_BASE_URL: gate.url } });
    });
    afterAll(async () => {
      await gateway.stop();
      await gate.stop();
    });

    for (const api of casesOn(store, STREAMED_APIS)) {
      for (const stream of [false, true]) {
        test(`serves exactly ${AFFORDED} of ${CALLS} concurrent calls, and rejects the others with 429 (${api}${stream ? ", streamed" : ""})`, async () => {
          gate.close();
          const whole = { "x-postern-hold": "full" };
          const account = withHeaders(await registerAccount(gateway), whole);
          const body = bodyOf(api, "[[sim: tokens=20]] once", { stream, [LIMIT_OF[api]]: 4_000 });
          // The reply of a caller that has left is still read, so the gate opens for it.
          const prober = withHeaders(await registerAccount(gateway), whole);
          const each = await holdOf(prober, api, body, gate.open);
          gate.close();
          await grantCredits(
            gateway,
            account,
            each * AFFORDED + each / 2n - (await available(account)),
          );
          let refused = 0;
          const pending = Promise.all(
            Array.from({ length: CALLS }, async () => {
              const response = await postCall(gateway, account, api, body);
              if (response.status === 429) refused += 1;
              return { status: response.status, text: await response.text() };
            }),
          );
          await waitUntil(
            () => refused,
            (count) => count >= CALLS - Number(AFFORDED),
          );
          gate.open();
          const responses = await pending;
          const served = responses.filter((response) => response.status === 200);
          expect([served.length, refused]).toEqual([Number(AFFORDED), CALLS - Number(AFFORDED)]);
          for (const { text } of served)
            expect(stream ? isCompleteStream(api, text) : text.includes('"cost":')).toBe(true);
          await expectSettledLedger(gateway.server.db);
          const { promo, paid, held } = await readWallet(gateway.server.db, account.id);
          const records = await usageRecordsOf(gateway.server.db, account.id);
          const charged = records.reduce(
            (sum, record) => sum + BigInt(String(record["cost_nano"])),
            0n,
          );
          expect(charged).toBeGreaterThan(0n);
          expect(held).toBe(0n);
          expect(promo + paid).toBe(each * AFFORDED + each / 2n - charged);
        });
      }
    }
  });
}

async function available(account: TestAccount): Promise<bigint> {
  const { promo, paid, held } = await readWallet(gateway.server.db, account.id);
  return promo + paid - held;
}

/** The amount that is held for this call while it is open. */
async function holdOf(
  account: TestAccount,
  api: "chat" | "messages" | "responses",
  body: Json,
  onLeft: () => void = () => {},
): Promise<bigint> {
  const client = new AbortController();
  const before = (await readWallet(gateway.server.db, account.id)).held;
  // A reply that is not streamed would be waited for without its caller.
  const streamed = { ...body, stream: true };
  const open = postCall(gateway, { ...account, signal: client.signal }, api, streamed).catch(
    () => {},
  );
  const held = await waitUntil(
    async () => (await readWallet(gateway.server.db, account.id)).held,
    (amount) => amount !== before,
  );
  client.abort();
  await open;
  onLeft();
  await expectSettledLedger(gateway.server.db);
  return held - before;
}

describe("the hold of a call", () => {
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await startGateway({
      env: withModels([
        ...identicalModels(1),
        {
          id: "sim/dear",
          wires: ["chat", "responses", "messages"],
          context_length: 200_000,
          max_output_tokens: 64_000,
          pricing: { tokens: { input: "10", output: "50" } },
        },
      ]),
    });
  });
  afterAll(() => gateway.stop());

  for (const api of ["chat", "responses"] as const) {
    test(`lowers the output limit to what the balance affords if a ${api} request has none`, async () => {
      account = await registerAccount(gateway);
      const body = bodyOf(api, "[[sim: tokens=5000]] talk", {
        model: "sim/dear",
        [LIMIT_OF[api]]: undefined,
      });
      const response = await postCall(gateway, account, api, body);
      expect(response.status).toBe(200);
      const limit = Number(response.headers.get("x-postern-max-tokens"));
      expect(limit).toBeGreaterThan(256);
      expect(limit).toBeLessThan(1_000);
      expect(JSON.parse((await lastSimulatorRequest(gateway)).body)[LIMIT_OF[api]]).toBe(limit);
      await expectSettledLedger(gateway.server.db);
      expect(await available(account)).toBeLessThan(START / 20n);
      expect(await available(account)).toBeGreaterThanOrEqual(0n);
    });
  }

  test("leaves the output limit open if the balance affords the model's maximum", async () => {
    account = await registerAccount(gateway);
    await grantCredits(gateway, account, 10n * USD);
    const response = await postCall(
      gateway,
      account,
      "chat",
      bodyOf("chat", "hello", { model: "sim/dear", max_tokens: undefined }),
    );
    expect([response.status, response.headers.get("x-postern-max-tokens")]).toEqual([200, null]);
    expect(JSON.parse((await lastSimulatorRequest(gateway)).body).max_tokens).toBeUndefined();
  });

  test("that exceeds the balance is a 402 with what is required, available and affordable, and how to buy credits", async () => {
    account = await registerAccount(gateway);
    for (const api of STREAMED_APIS) {
      const body = bodyOf(api, "hello", { model: "sim/dear", [LIMIT_OF[api]]: 20_000 });
      const response = await postCall(gateway, account, api, body);
      expect(response.status).toBe(402);
      const error = errorOf(await response.json());
      expect(error).toMatchObject({ code: "insufficient_credits", available_credits: 50_000 });
      // All of it is 1,000,000 credits, and the first part of its output 204,800.
      expect(Number(error["required_credits"])).toBeGreaterThan(200_000);
      expect(Number(error["required_credits"])).toBeLessThan(300_000);
      const affordable = Number(error["affordable_max_tokens"]);
      expect(affordable).toBeGreaterThan(900);
      const steps = error["next"] as { method: string; url: string; body: Json }[];
      expect(steps[0]).toMatchObject({
        method: "POST",
        url: "/v1/billing/invoice",
        // The smallest purchase that covers the call, in whole dollars.
        body: {
          amount_usd: Math.ceil((Number(error["required_credits"]) - 50_000) / 1_000_000),
        },
      });
      expect(steps[1]).toMatchObject({ method: "POST", url: "/agent/identity/claim" });
      const again = await postCall(gateway, account, api, {
        ...body,
        [LIMIT_OF[api]]: affordable,
      });
      expect([api, again.status]).toEqual([api, 200]);
      await again.text();
      const above = await postCall(gateway, account, api, {
        ...body,
        [LIMIT_OF[api]]: affordable + 40,
      });
      expect(above.status).toBe(402);
      await expectSettledLedger(gateway.server.db);
      account = await registerAccount(gateway);
    }
  });

  test("covers every requested choice", async () => {
    account = await registerAccount(gateway);
    const response = await postCall(
      gateway,
      account,
      "chat",
      bodyOf("chat", "hello", { model: "sim/dear", max_tokens: 500, n: 4 }),
    );
    expect(response.status).toBe(402);
    expect(Number(errorOf(await response.json())["affordable_max_tokens"])).toBeLessThan(260);
  });

  test("on an empty balance is a 402, and nothing is sent to a provider", async () => {
    account = await registerAccount(gateway);
    const spend = bodyOf("chat", "[[sim: tokens=960]] x", { model: "sim/dear", max_tokens: 960 });
    expect((await postCall(gateway, account, "chat", spend)).status).toBe(200);
    const recordsBefore = (await usageRecordsOf(gateway.server.db, account.id)).length;
    const responses = await Promise.all(
      STREAMED_APIS.map((api) =>
        postCall(gateway, account, api, bodyOf(api, "x", { model: "sim/dear" })),
      ),
    );
    expect(responses.map((response) => response.status)).toEqual([402, 402, 402]);
    expect((await usageRecordsOf(gateway.server.db, account.id)).length).toBe(recordsBefore);
  });
});

describe("a key", () => {
  beforeAll(async () => {
    gateway = await startGateway({ env: { POSTERN_OPEN_CALLS_PER_KEY: "5" } });
  });
  afterAll(() => gateway.stop());

  test("over its spending limit gets 403, while other keys of the account work", async () => {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
    const made = (await (
      await fetch(`${gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ name: "small", limit_usd: 0.0012 }),
      })
    ).json()) as { api_key: string };
    const small = {
      ...account,
      key: made.api_key,
      headers: { ...account.headers, authorization: `Bearer ${made.api_key}` },
    };
    const body = bodyOf("chat", "[[sim: tokens=200]] x", { max_tokens: 200 });
    const statuses: number[] = [];
    for (let tries = 0; tries < 4; tries++)
      statuses.push((await postCall(gateway, small, "chat", body)).status);
    expect(statuses).toEqual([200, 200, 403, 403]);
    const refused = errorOf(await (await postCall(gateway, small, "chat", body)).json());
    expect(refused).toMatchObject({ code: "key_limit_reached" });
    expect((await postCall(gateway, account, "chat", body)).status).toBe(200);
    await expectSettledLedger(gateway.server.db);
  });

  test("over its limit of concurrent calls gets 429 with `retry-after`", async () => {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
    const calls = Array.from({ length: 20 }, () =>
      postCall(gateway, account, "chat", bodyOf("chat", "[[sim: wait=open]] x")),
    );
    const responses = await releaseAfter(gateway, "open", { calls, responses: 15 });
    expect(responses.filter((response) => response.status === 200).length).toBe(5);
    const refused = responses.filter((response) => response.status === 429);
    expect(refused.length).toBe(15);
    expect(refused[0]?.headers.get("retry-after")).toBe("1");
    await expectSettledLedger(gateway.server.db);
  });

  test("makes no calls after it was revoked, even if it is cached", async () => {
    const account = await registerAccount(gateway);
    const made = (await (
      await fetch(`${gateway.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ name: "gone" }),
      })
    ).json()) as { id: string; api_key: string };
    const other = {
      ...account,
      headers: { ...account.headers, authorization: `Bearer ${made.api_key}` },
    };
    expect((await postCall(gateway, other, "chat", bodyOf("chat", "x"))).status).toBe(200);
    expect(
      (
        await fetch(`${gateway.url}/v1/keys/${made.id}`, {
          method: "DELETE",
          headers: account.headers,
        })
      ).status,
    ).toBe(200);
    expect((await postCall(gateway, other, "chat", bodyOf("chat", "x"))).status).toBe(401);
  });
});
