// Service levels of a real gateway: the operator adds one, the public page shows it, and the account sees its credits.

import { afterAll, beforeAll, expect, test } from "bun:test";
import path from "node:path";
import { newId } from "../../src/base/id.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../src/base/time.ts";
import { newFormToken } from "../../src/idempotency/form-submission.ts";
import { deposit } from "../../src/ledger/ledger.ts";
import { evaluateServiceLevels } from "../../src/service-levels/evaluate-levels.ts";
import type { UsageRecord } from "../../src/usage/usage.ts";
import { makeOwner, createUser, textOf, visitPage } from "../billing/console-user.ts";
import { api } from "../billing/fixtures.ts";
import { promoDeposit, usageRecord } from "../ledger/fixtures.ts";
import {
  fetchPage,
  type OperatorHarness,
  type OperatorSession,
  readAudit,
  signInOperator,
  startOperatorHarness,
} from "../operator/harness.ts";
import { registerAccount, type TestAccount } from "../support/gateway.ts";
import { expectStatus } from "../support/source/tested-statuses.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { FAILED, MODEL, USD } from "./level-world.ts";

const PATH = "/operator/service-levels";
const EXAMPLE = path.join(import.meta.dir, "../../examples/service-credits.ts");
const QUIET = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

describeEachStore((kind) => {
  let harness: OperatorHarness;
  let session: OperatorSession;
  let account: TestAccount;
  beforeAll(async () => {
    harness = await startOperatorHarness(kind, { POSTERN_GRANT_USD_PER_DAY: "0.000001" });
    // The start of an hour, so that no test passes one.
    harness.clock.now += DAY_MS - (harness.clock.now % HOUR_MS);
    session = await signInOperator(harness);
    account = await registerAccount(harness.gateway);
  });
  afterAll(() => harness.gateway.stop());

  const send = (fields: Readonly<Record<string, string>>) =>
    fetchPage(harness, PATH, session, {
      form: { csrf: session.csrf, form: newFormToken(), ...fields },
    });
  const terms = {
    model: MODEL,
    metric: "availability",
    target: "99.95",
    period: "hour",
    credit_percent: "10",
    cap_usd: "25",
  };
  const readPublic = async (): Promise<readonly [html: string, json: Record<string, unknown>]> => {
    // The figures are read at most once a minute.
    harness.clock.now += MINUTE_MS;
    const { url } = harness.gateway;
    const json = await fetch(`${url}/v1/service-levels`);
    expectStatus("listServiceLevels", 200, json);
    const headers = { "if-none-match": json.headers.get("etag") ?? "" };
    expectStatus("listServiceLevels", 304, await fetch(`${url}/v1/service-levels`, { headers }));
    const html = await (await fetch(`${url}/docs/sla`)).text();
    return [html, (await json.json()) as Record<string, unknown>];
  };
  /** Calls of an hour that begins at this time: some of them failed. */
  const breach = async (at: number): Promise<void> => {
    const { db, ledger } = harness.gateway.server;
    const paid = promoDeposit(`buy.${at}`, account.id, 10n * USD, at);
    const from = "system:adjustment";
    await db.write((tx) => deposit(tx, { ...paid, bucket: "paid", from, kind: "adjustment" }));
    const key = await db.get("select id from api_key where account_id = ?", [account.id]);
    const settle = async (fields: Partial<UsageRecord>): Promise<void> => {
      const [id, cost] = [newId("req", at + 1), fields.cost ?? USD / 10n];
      const call = { id, accountId: account.id, keyId: String(key?.["id"]), now: at + 1 };
      await ledger.hold({ ...call, amount: cost, expiresAt: at + 2 });
      const served = { provider: "openai", model: MODEL, stream: true, firstTokenMs: 300 };
      const usage = usageRecord({ ...call, createdAt: at + 1, ...served, ...fields, cost });
      const record = { usage, idempotent: undefined, response: undefined, item: undefined };
      await ledger.settle({ ...call, cost, record });
    };
    await Promise.all([
      ...Array.from({ length: 25 }, () => settle({})),
      ...Array.from({ length: 5 }, () => settle(FAILED)),
    ]);
  };

  test("an account sees why it was credited, and an operator what a level costs", async () => {
    const [none, empty] = await readPublic();
    expect(none).toContain("This gateway has no service levels.");
    expect(empty).toMatchObject({ object: "service_levels", data: [], models: [] });

    const rejected = await send({ ...terms, do: "add", target: "100.1" });
    expect(rejected.status).toBe(400);
    expect(rejected.text).toContain("The availability must be more than 0 and at most 100 percent");
    expect(rejected.text).toContain('value="100.1"');
    expect((await send({ ...terms, do: "add", credit_percent: "1e1" })).status).toBe(400);

    const added = await send({ ...terms, do: "add" });
    expect(added).toMatchObject({ status: 303, location: `${PATH}?done=added` });
    const from = harness.clock.now - (harness.clock.now % HOUR_MS) + HOUR_MS;
    await breach(from);
    const { db } = harness.gateway.server;
    harness.clock.now = from + 3 * HOUR_MS;
    await evaluateServiceLevels({ db, log: QUIET }, harness.clock.now);
    session = await signInOperator(harness);

    const previewed = await send({ ...terms, do: "preview", credit_percent: "20" });
    expect(previewed.status).toBe(200);
    expect(previewed.text).toContain("it would have cost $0.50: 1 breach in 1 account");

    const [html, json] = await readPublic();
    expect(html).toContain(`Availability of ${MODEL} per hour is at least 99.95%.`);
    expect(html).toContain(
      "10% of what an account paid for the model in the hour, at most $25.00 a month",
    );
    expect(json).toMatchObject({
      data: [{ metric: "availability", target: 0.9995, credit_percent: 10, cap_usd: "25" }],
      models: [{ id: MODEL, availability: 0.8333 }],
    });

    const listed = await api(harness.gateway, account, ["GET", "/v1/billing/service-credits"]);
    expectStatus("listServiceCredits", 200, listed);
    expect(listed.body).toMatchObject({
      data: [{ object: "service_credit", model: MODEL, usd: 0.25, credits: 250_000 }],
      has_more: false,
    });
    const wrongCursor = ["GET", "/v1/billing/service-credits?cursor=inv_1"] as const;
    expectStatus("listServiceCredits", 400, await api(harness.gateway, account, wrongCursor));
    const user = await createUser(harness.gateway, "ada", harness.clock.now);
    await makeOwner(harness.gateway, account.id, user);
    const billing = await visitPage(harness.gateway, `/console/${account.id}/billing`, user);
    expect(textOf(billing)).toContain(
      "below 99.95% (5 of 30 calls failed): credit of 10% of $2.50.",
    );
    const operatorAccount = await fetchPage(harness, `/operator/accounts/${account.id}`, session);
    expect(operatorAccount.text).toContain("5 of 30 calls failed");

    const page = await fetchPage(harness, PATH, session);
    expect(page.text).toContain("1 to 1 account");
    const [level] = (json["data"] as readonly { readonly id: string }[]).map(({ id }) => id);
    expect((await send({ do: "end", id: level ?? "" })).location).toBe(`${PATH}?done=ended`);
    // The hour that has begun is still covered.
    expect((await readPublic())[0]).toContain("ends with the hour of");
    harness.clock.now += HOUR_MS;
    session = await signInOperator(harness);
    expect((await readPublic())[0]).toContain("This gateway has no service levels.");
    expect((await send({ do: "repeat", id: level ?? "" })).location).toBe(`${PATH}?done=added`);
    const actions = (await readAudit(db)).map(({ action }) => action);
    expect(actions.filter((action) => action.startsWith("service_"))).toEqual([
      "service_level.added",
      "service_credit.posted",
      "service_level.ended",
      "service_level.added",
    ]);
  });

  test("examples/service-credits.ts lists levels, and checks credits against usage", async () => {
    await readPublic();
    const child = Bun.spawn([process.execPath, EXAMPLE, harness.gateway.url, account.key], {
      stdout: "pipe",
      stderr: "pipe",
    });
    const output = await new Response(child.stdout).text();
    expect([await child.exited, await new Response(child.stderr).text()]).toEqual([0, ""]);
    expect(output).toContain(`Availability of ${MODEL} per hour is at least 99.95%. Credit: 10%`);
    expect(output).toContain("$0.25 for 30 calls that cost $2.5\n");
  });
});
