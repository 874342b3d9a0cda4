// Calls that need credits which only open calls hold: they wait for them in turn, and get a 429 after that.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  createHeldCredit,
  type HoldAttempt,
} from "../../../src/inference/lifecycle/hold/held-credit.ts";
import { heldBy } from "../../../src/inference/lifecycle/hold/hold-faults.ts";
import type { HoldOutcome } from "../../../src/ledger/decide.ts";
import { runs } from "../../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  bodyOf,
  countOpenHolds,
  errorOf,
  expectSettledLedger,
  grantCredits,
  postCall,
  readWallet,
  releaseReplies,
  usageRecordsOf,
  USD,
  waitUntil,
  withHeaders,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";

describe("calls that wait for held credits", () => {
  const accountId = "acct";

  test("take turns by key, and in order for each key", async () => {
    const heldCredit = createHeldCredit(60_000);
    const order: string[] = [];
    let free = 0;
    const attempt = (name: string) => async (): Promise<HoldAttempt> => {
      if (free === 0) return "held_by_account";
      free -= 1;
      order.push(name);
      return "done";
    };
    const waits = ["a1", "a2", "a3", "b1", "c1"].map((name) =>
      heldCredit.wait({ accountId, keyId: name.slice(0, 1) }, attempt(name)),
    );
    expect(heldCredit.isAwaited(accountId)).toBe(true);
    free = 5;
    heldCredit.release(accountId);
    expect(await Promise.all(waits)).toEqual([true, true, true, true, true]);
    expect(order).toEqual(["a1", "b1", "c1", "a2", "a3"]);
    expect(heldCredit.isAwaited(accountId)).toBe(false);
  });

  test("of a key at its limit do not keep other keys waiting", async () => {
    const heldCredit = createHeldCredit(60_000);
    let isFree = false;
    const limited = heldCredit.wait({ accountId, keyId: "a" }, async () =>
      isFree ? "done" : "held_by_key",
    );
    const other = heldCredit.wait({ accountId, keyId: "b" }, async () => "done");
    heldCredit.release(accountId);
    expect(await other).toBe(true);
    isFree = true;
    heldCredit.release(accountId);
    expect(await limited).toBe(true);
  });

  test("stop after their time, and when an attempt throws", async () => {
    const heldCredit = createHeldCredit(1);
    expect(await heldCredit.wait({ accountId, keyId: "a" }, async () => "held_by_key")).toBe(false);
    const broken = createHeldCredit(60_000);
    const failing = broken.wait({ accountId, keyId: "a" }, () =>
      Promise.reject(new Error("no store")),
    );
    broken.release(accountId);
    expect(failing).rejects.toThrow("no store");
    await failing.catch(() => {});
    expect([heldCredit.isAwaited(accountId), broken.isAwaited(accountId)]).toEqual([false, false]);
  });
});

/** A full hold of $1 and a cost of $0.10: 100,000 and 10,000 tokens at 10 US dollars per million. */
const MODEL = {
  id: "sim/dime",
  wires: ["chat"],
  context_length: 1_000_000,
  max_output_tokens: 100_000,
  pricing: { tokens: { input: "0", output: "10" } },
};
const CAP = 5n * USD;

describe("a refusal", () => {
  const session = { sessionId: "s-1", affordable: 0n };
  const blocked = { window: "day", held: 60n, remaining: 0n, endsAt: 0 } as const;
  const held: readonly (readonly [HoldOutcome, ReturnType<typeof heldBy>])[] = [
    [{ status: "insufficient_credits", available: 0n, posted: 100n }, "held_by_account"],
    [
      { status: "key_limit", remaining: 40n, held: 60n, affordable: 0n, windowEndsAt: null },
      "held_by_key",
    ],
    [{ status: "session_limit", ...session, limit: 150n, spent: 50n, held: 60n }, "held_by_key"],
    [{ status: "budget", blocked: { ...blocked, limit: 150n, used: 50n } }, "held_by_account"],
  ];
  for (const [outcome, holder] of held)
    test(`by ${outcome.status} waits only for what open calls hold`, () => {
      expect([heldBy(outcome, { amount: 100n }), heldBy(outcome, { amount: 101n })]).toEqual([
        holder,
        undefined,
      ]);
      // The smallest useful hold, or the first part of a stream, is enough.
      expect(heldBy(outcome, { amount: 500n, minimum: 100n })).toBe(holder);
      expect(heldBy(outcome, { amount: 500n, upfront: 100n })).toBe(holder);
    });
});

for (const store of STORE_KINDS)
  describe(`held credits on ${store}`, () => {
    let gateway: Gateway;
    let patient: Gateway;
    beforeAll(async () => {
      const env = { ...withModels([MODEL]), POSTERN_REQUESTS_PER_MINUTE: "0" };
      gateway = await startGateway({ store, env });
      patient = await startGateway({ store, env, creditWaitMs: 600_000 });
    });
    afterAll(async () => {
      for (const one of [gateway, patient]) {
        await expectSettledLedger(one.server.db);
        await one.stop();
      }
    });

    const limitedKey = async (
      target: Gateway,
      account: TestAccount,
      limit_usd: number,
    ): Promise<TestAccount> => {
      const minted = await fetch(`${target.url}/v1/keys`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ limit_usd }),
      });
      const { api_key: key } = (await minted.json()) as { api_key: string };
      return withHeaders({ ...account, key }, { authorization: `Bearer ${key}` });
    };
    /** Without a limit the hold covers the longest reply, or the longest that is affordable. */
    const call = (target: Gateway, caller: TestAccount, text: string, max_tokens?: number) =>
      postCall(target, caller, "chat", bodyOf("chat", text, { model: "sim/dime", max_tokens }));

    test("are awaited: many calls at once spend the cap and never more", async () => {
      const account = await registerAccount(patient);
      await grantCredits(patient, account, 100n * USD);
      const key = await limitedKey(patient, account, 5);
      const answers = await Promise.all(
        Array.from({ length: store === "sqlite" ? 1_000 : runs(1_000) }, async () => {
          const response = await call(patient, key, "[[sim: tokens=10000]] go");
          await response.text();
          return response.status;
        }),
      );
      const records = await usageRecordsOf(patient.server.db, account.id);
      const served = records.filter(({ outcome }) => outcome === "completed").length;
      const { promo } = await readWallet(patient.server.db, account.id);
      const spent = 100n * USD + 50_000_000n - promo;
      expect(spent).toBeLessThanOrEqual(CAP);
      expect(served).toBeGreaterThanOrEqual(45);
      expect(new Set(answers)).toEqual(new Set([200, 403]));
    });

    test("lead to a 429 that says by how many calls, and what is held", async () => {
      const account = await registerAccount(gateway);
      await grantCredits(gateway, account, USD);
      const first = call(gateway, account, "[[sim: wait=first]] go", 100_000);
      await waitUntil(
        () => countOpenHolds(gateway.server.db),
        (count) => count === 1,
      );
      const refused = await call(gateway, account, "go", 100_000);
      const error = errorOf(await refused.json());
      expect([refused.status, error["code"], refused.headers.get("retry-after")]).toEqual([
        429,
        "rate_limited",
        "1",
      ]);
      expect(error).toMatchObject({
        open_calls: 1,
        held_credits: 1_000_000,
        available_credits: 50_000,
      });
      expect(error["message"]).toContain("held by 1 open call");
      const key = await limitedKey(gateway, account, 0.01);
      const final = await call(gateway, key, "go", 100_000);
      expect([final.status, errorOf(await final.json())["code"]]).toEqual([
        403,
        "key_limit_reached",
      ]);
      await releaseReplies(gateway, "first");
      await (await first).text();
    });
  });
