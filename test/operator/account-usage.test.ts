import { expect, test } from "bun:test";
import { newId } from "../../src/base/id.ts";
import { insertUsage } from "../../src/usage/insert-usage.ts";
import { NANO_PER_USD } from "../billing/fixtures.ts";
import { usageRecordOf } from "../console/workspace-harness.ts";
import { registerAccount } from "../support/gateway.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { fetchPage, signInOperator, startOperatorHarness } from "./harness.ts";

describeEachStore((kind) => {
  test(`the account page on ${kind} lists the models by cost, highest first, and at most 100`, async () => {
    const harness = await startOperatorHarness(kind);
    const { gateway, clock } = harness;
    const { db } = gateway.server;
    const { id: accountId } = await registerAccount(gateway);
    const [key] = await db.all("select id from api_key where account_id = ?", [accountId]);
    const records = Array.from({ length: 103 }, (_, index) => {
      const model = `sim/${String.fromCodePoint(97 + (index % 26))}${index}`;
      const call = { id: newId("req", clock.now), keyId: String(key?.["id"]), model };
      const cost = BigInt(index % 51) * NANO_PER_USD;
      return { ...usageRecordOf(accountId, call), createdAt: clock.now, cost };
    });
    await db.write((tx) => insertUsage(tx, records));
    const session = await signInOperator(harness);
    const { text } = await fetchPage(harness, `/operator/accounts/${accountId}`, session);
    const card = /id="usage"[^]*?<\/table>/.exec(text)?.[0] ?? "";
    const costs = [...card.matchAll(/\$(\d+)\.00/g)].map(([, usd]) => Number(usd));
    expect(costs).toHaveLength(100);
    expect(costs[0]).toBe(50);
    expect(costs).toEqual(costs.toSorted((one, other) => other - one));
    expect(text).toContain("3 models with lower costs are not shown.");
    await gateway.stop();
  });
});
