// Batches that the gateway runs, of accounts that are frozen.

import { expect, test } from "bun:test";
import { setFreeze } from "../../src/ledger/freezes.ts";
import { call, fundedAccount, openGateway } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { chatRequest, createBatch, waitForEnd } from "./batch-harness.ts";

/** As many as a process runs at a time: of all accounts, and of one. */
const ACCOUNTS = 4;
const PER_ACCOUNT = 8;
/** More than a batch runs at a time. */
const ITEMS = 40;

test.each(STORE_KINDS)("do not keep those of others from running on %s", async (store) => {
  const gateway = await openGateway({ store });
  const { db } = gateway.server;
  const slow = Array.from({ length: ITEMS }, (_, index) =>
    chatRequest(`item-${index}`, "[[sim: latency=2000]]"),
  );
  const frozen = await Promise.all(Array.from({ length: ACCOUNTS }, () => fundedAccount(gateway)));
  const created = [];
  for (const account of frozen) {
    for (let index = 0; index < PER_ACCOUNT; index++)
      created.push({ account, batch: await createBatch(gateway, account, slow) });
    const freeze = { at: Date.now(), reason: "a test" };
    await db.write(async (tx) => {
      await tx.lockMany("wallet", "account_id", [account.id]);
      await setFreeze(tx, account.id, freeze);
    });
  }
  const other = await fundedAccount(gateway);
  const batch = await createBatch(gateway, other, [chatRequest("a")]);
  expect(await waitForEnd(gateway, other, batch["id"])).toMatchObject({ status: "completed" });
  const open = await db.all("select id from batch where ended_at is null");
  expect(open.length).toBeGreaterThan((ACCOUNTS - 1) * PER_ACCOUNT);
  // Canceled ones end although their account is frozen.
  const [first] = created;
  if (first === undefined) throw new Error("no batch");
  const { account } = first;
  for (const {
    batch: { id },
  } of created.filter((one) => one.account === account))
    await call(gateway, account, `POST /v1/batches/${String(id)}/cancel`);
  await eventually(async () => {
    const rows = await db.all("select id from batch where account_id = ? and ended_at is null", [
      account.id,
    ]);
    return rows.length === 0;
  });
  await gateway.stop();
});
