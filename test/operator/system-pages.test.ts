// The system page and the page of grants and abuse.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { newId } from "../../src/base/id.ts";
import { DAY_MS } from "../../src/base/time.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { rollUpUsage } from "../../src/usage/rollup/roll-up.ts";
import { textOf } from "../billing/console-user.ts";
import { publishAt } from "../ledger-proofs/fixtures.ts";
import { usageRecord } from "../ledger/fixtures.ts";
import { demoUsage } from "../support/demo/demo-usage.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch-folder.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import {
  fetchPage,
  type OperatorHarness,
  type OperatorSession,
  signInOperator,
  startOperatorHarness,
} from "./harness.ts";

const SECRETS = {
  POSTERN_SECRET: "a-master-secret-that-no-page-may-show-0001",
  POSTERN_METRICS_TOKEN: "a-metrics-token-that-no-page-may-show-0002",
  OPENAI_API_KEY: "no-page-may-show-this-provider-key-0003",
};

const modelsFile = path.join(scratchFolder("operator-models"), "models.json");
writeFileSync(
  modelsFile,
  JSON.stringify({
    credentials: [{ provider: "groq", name: "eu", api_key_env: "SECOND_GROQ_KEY", weight: 2 }],
  }),
);

const LEDGER_JOBS = [
  "heartbeat",
  "sweep holds",
  "reconcile holds",
  "check the files of the store",
] as const;

describeEachStore((store) => {
  describe(`operator pages of the system on ${store}`, () => {
    let harness: OperatorHarness;
    let session: OperatorSession;
    beforeAll(async () => {
      harness = await startOperatorHarness(store, {
        ...SECRETS,
        POSTERN_GRANT_USD_PER_DAY: "5",
        POSTERN_VERIFIED_AGENTS: "https://agents.example;20;0.25",
        GROQ_API_KEY: "no-page-may-show-this-provider-key-0004",
        SECOND_GROQ_KEY: "no-page-may-show-this-provider-key-0005",
        POSTERN_MODELS_FILE: modelsFile,
      });
      session = await signInOperator(harness);
    });
    afterAll(() => harness.gateway.stop());
    const visit = (path: string) => fetchPage(harness, path, session);

    test("show jobs with their last run, queues, and the health and cost of each provider", async () => {
      const { db } = harness.gateway.server;
      const { id } = await registerAccount(harness.gateway);
      const { now } = harness.clock;
      const usage = { accountId: id, keyIds: ["key_1"], now, seed: 3, volume: 1 };
      const calls = demoUsage(usage).slice(-20);
      await db.write((tx) =>
        insertUsage(
          tx,
          calls.map((call) => ({ ...call, createdAt: now })),
        ),
      );
      await rollUpUsage(db);
      await eventually(async () =>
        /roll up usage ok/.test(textOf(await visit("/operator/system"))),
      );
      const system = textOf(await visit("/operator/system"));
      expect(system).toContain("Webhook deliveries to send 0");
      // Without these jobs, a failure of a process or of its store would last.
      for (const job of LEDGER_JOBS) expect(system).toContain(job);
      const text = textOf(await visit("/operator/providers"));
      expect(text).toMatch(/anthropic (up|degraded) \d+ \d+ [\d.]+% .* \$\d/);
      expect(text).toMatch(/sim no calls 0 0 – – – \$0\.00/);
      expect(text).toMatch(/Charged today \$\d/);
      expect(text).toContain("None. A circuit opens for 10 seconds");
    });

    test("show the newest roots of the ledger", async () => {
      const { gateway, clock } = harness;
      expect(textOf(await visit("/operator/system"))).toContain("No roots yet");
      await registerAccount(gateway);
      const [day = ""] = await publishAt(gateway, clock.now + 2 * DAY_MS);
      const system = textOf(await visit("/operator/system"));
      expect(system).toContain(`Last day ${day}`);
      expect(system).toMatch(/Records in the log 1 Balances of all accounts \$\d/);
    });

    test("show the figures of each key of a provider that has several", async () => {
      const { db } = harness.gateway.server;
      const { now } = harness.clock;
      const call = (id: string, credential?: string) =>
        usageRecord({
          id,
          accountId: "acct_keys",
          keyId: "key_1",
          provider: "groq",
          model: "groq/keys",
          createdAt: now,
          cost: 10_000_000n,
          attempts: [
            { provider: "groq", model: "groq/keys", status: 429, ms: 1 },
            {
              provider: "groq",
              model: "groq/keys",
              status: 200,
              ms: 1,
              ...(credential && { credential }),
            },
          ],
        });
      const calls = [call("req_keys_1"), call("req_keys_2", "eu"), call("req_keys_3", "eu")];
      await db.write((tx) => insertUsage(tx, calls));
      await rollUpUsage(db);
      const text = textOf(await visit("/operator/providers"));
      expect(text).toMatch(/groq gateway \S+ 1 1 3 \$0\.01/);
      expect(text).toMatch(/groq eu up 2 2 0 \$0\.02/);
    });

    test("list settings without secrets", async () => {
      const page = await visit("/operator/system");
      expect(textOf(page)).toContain("POSTERN_GRANT_USD_PER_DAY 5");
      expect(textOf(page)).toContain("POSTERN_METRICS_TOKEN set");
      for (const value of [...Object.values(SECRETS), "upstream-test-key"])
        expect(page.text).not.toContain(value);
    });

    test("show starting credit and accounts by network", async () => {
      harness.clock.now += 10;
      const { id } = await registerAccount(harness.gateway);
      const text = textOf(await visit("/operator/grants?days=1"));
      expect(text).toMatch(/Starting credit today \$0\.\d+ of \$5\.00 a day/);
      expect(text).toMatch(/127\.0\.0\.1\S* \d+ 0% \$0\.\d+ \$0\.00/);
      expect(text).toContain(id);
      expect((await visit("/operator/grants")).status).toBe(200);
      expect((await visit("/operator/grants?days=2")).status).toBe(400);
    });

    test("show listed operators of verified agents with their accounts of the day", async () => {
      const { db } = harness.gateway.server;
      harness.clock.now += 10;
      const empty = textOf(await visit("/operator/grants"));
      expect(empty).toMatch(/https:\/\/agents\.example 0 0% \$0\.00 0 of 20 \$0\.25 –/);
      const { now } = harness.clock;
      const startOfDay = now - (now % DAY_MS);
      const ids = [newId("acct", now), newId("acct", startOfDay), newId("acct", startOfDay - 1)];
      for (const [index, id] of ids.entries())
        await db.write((tx) =>
          tx.run(
            "insert into account (id, created_at, created_from, claimed_at, verified_agent) values (?, ?, 'test', ?, ?)",
            [id, now, index === 0 ? now : null, "https://agents.example"],
          ),
        );
      const text = textOf(await visit("/operator/grants"));
      expect(text).toMatch(/https:\/\/agents\.example 2 50% \$0\.00 [12] of 20 \$0\.25/);
      expect(text).toContain(ids[0] ?? "");
    });

    test("need an operator session", async () => {
      for (const path of ["/operator/system", "/operator/providers", "/operator/grants"])
        expect((await fetchPage(harness, path)).location).toContain("/operator/signin");
    });
  });
});
