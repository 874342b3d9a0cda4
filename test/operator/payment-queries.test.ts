// The number of queries of the operator's payments page does not depend on the number of invoices.

import { expect, test } from "bun:test";
import { createInvoice } from "../../src/billing/invoices/invoices.ts";
import {
  listInvoicesWithPayments,
  listUnclearPayments,
} from "../../src/operator/payments/payment-list.ts";
import type { Reader } from "../../src/store/db.ts";
import { actIn } from "../support/act.ts";
import { registerAccount } from "../support/gateway.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { insertUnclearPayment, startOperatorHarness } from "./harness.ts";

const INVOICES = 20;

function countQueries(reader: Reader): { readonly reader: Reader; readonly count: () => number } {
  let queries = 0;
  return {
    count: () => queries,
    reader: {
      kind: reader.kind,
      all: (sql, params) => {
        queries += 1;
        return reader.all(sql, params);
      },
      get: (sql, params) => {
        queries += 1;
        return reader.get(sql, params);
      },
    },
  };
}

describeEachStore((kind) => {
  test(`the payments page needs two queries per list on ${kind}`, async () => {
    const { gateway, clock } = await startOperatorHarness(kind);
    const { db } = gateway.server;
    for (let made = 0; made < INVOICES; made++) {
      const { id: accountId } = await registerAccount(gateway);
      const { now } = clock;
      await db.write((tx) => createInvoice(tx, actIn(accountId, now), 5_000_000));
      await insertUnclearPayment(db, accountId, now);
    }
    const { reader, count } = countQueries(db);
    const { data } = await listInvoicesWithPayments(reader, {
      limit: 2 * INVOICES,
      cursor: undefined,
    });
    expect([data.length, count()]).toEqual([2 * INVOICES, 2]);
    const unclear = await listUnclearPayments(reader);
    expect([unclear.length, count()]).toEqual([INVOICES, 4]);
    await gateway.stop();
  });
});
