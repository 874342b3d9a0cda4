// Changes of accounts: confirmed before they are applied, and approved by a second operator where the settings require it.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { newFormToken } from "../../src/idempotency/form-submission.ts";
import { readWallet } from "../billing/fixtures.ts";
import { registerAccount, type TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  fetchPage,
  hiddenFields,
  OPERATOR_EMAIL,
  type OperatorHarness,
  type OperatorSession,
  OTHER_OPERATOR_EMAIL,
  type PageResponse,
  readAudit,
  signInOperator,
  startOperatorHarness,
} from "./harness.ts";

const STARTING_CREDIT = 50_000_000n;
const APPROVALS = "/operator/approvals";

describe.each(STORE_KINDS)("changes of accounts on %s", (store) => {
  let harness: OperatorHarness;
  let ada: OperatorSession;
  let ben: OperatorSession;
  let account: TestAccount;
  beforeAll(async () => {
    harness = await startOperatorHarness(store, { POSTERN_OPERATOR_APPROVAL: "two_person" });
    ada = await signInOperator(harness);
    ben = await signInOperator(harness, OTHER_OPERATOR_EMAIL);
  });
  afterAll(() => harness.gateway.stop());
  beforeEach(async () => {
    account = await registerAccount(harness.gateway);
  });

  const path = (): string => `/operator/accounts/${account.id}`;
  const post = (
    operator: OperatorSession,
    to: string,
    fields: Record<string, string>,
  ): Promise<PageResponse> => fetchPage(harness, to, operator, { form: fields });
  const grantForm = async (): Promise<Record<string, string>> => ({
    ...hiddenFields(await fetchPage(harness, path(), ada), "grant"),
    usd: "5",
    reason: "outage",
  });
  const request = async (): Promise<string> => {
    const sent = await post(ada, path(), { ...(await grantForm()), confirm: "yes" });
    expect(sent.location).toContain("done=requested");
    const rows = await harness.gateway.server.db.all(
      "select id from operator_request where account_id = ? and state = 'pending'",
      [account.id],
    );
    expect(rows).toHaveLength(1);
    return String(rows[0]?.["id"]);
  };
  const decide = (
    operator: OperatorSession,
    id: string,
    decision: "approve" | "reject",
  ): Promise<PageResponse> =>
    post(operator, APPROVALS, {
      csrf: operator.csrf,
      form: newFormToken(),
      request: id,
      decision,
    });
  const promo = async (): Promise<bigint> =>
    (await readWallet(harness.gateway.server.db, account.id)).promo;

  test("show what they do before they are sent, and change nothing until then", async () => {
    const asked = await post(ada, path(), await grantForm());
    expect(asked.status).toBe(200);
    expect(asked.text).toContain("Grant $5.00 of promotional credit?");
    expect(asked.text).toContain("Another operator must approve it.");
    expect(await promo()).toBe(STARTING_CREDIT);
    expect((await post(ada, path(), { ...(await grantForm()), usd: "x" })).status).toBe(400);
  });

  test("are applied when another operator approves them, once", async () => {
    const id = await request();
    expect(await promo()).toBe(STARTING_CREDIT);
    expect((await fetchPage(harness, APPROVALS, ben)).text).toContain("outage");
    expect((await decide(ada, id, "approve")).text).toContain("Another operator must approve");
    expect(await promo()).toBe(STARTING_CREDIT);
    expect((await decide(ben, id, "approve")).location).toContain("done=approved");
    expect((await decide(ben, id, "approve")).text).toContain("already decided");
    expect(await promo()).toBe(STARTING_CREDIT + 5_000_000_000n);
    const entry = (await readAudit(harness.gateway.server.db, "account.credited")).find(
      (each) => each.account_id === account.id,
    );
    expect(entry?.detail).toMatchObject({ requested_by: OPERATOR_EMAIL, reason: "outage" });
  });

  test("are not applied when they are rejected or withdrawn", async () => {
    for (const operator of [ben, ada]) {
      const id = await request();
      expect((await decide(operator, id, "reject")).location).toContain("done=rejected");
      expect((await decide(ben, id, "approve")).status).toBe(400);
    }
    expect(await promo()).toBe(STARTING_CREDIT);
  });

  test("are not in the account's own audit log while they wait", async () => {
    await request();
    const own = await fetch(`${harness.gateway.url}/v1/audit`, { headers: account.headers });
    expect(await own.text()).not.toContain("outage");
  });
});
