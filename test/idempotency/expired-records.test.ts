// The deletion of expired records of `Idempotency-Key`: a busy gateway has tens of thousands of them every ten minutes.

import { expect, test } from "bun:test";
import { MINUTE_MS, SECOND_MS } from "../../src/base/time.ts";
import { deleteExpiredResponses } from "../../src/idempotency/idempotency.ts";
import type { Db } from "../../src/store/db.ts";
import { describeEachStore } from "../support/stores/stores.ts";

const NOW = Date.UTC(2026, 10, 29, 12);
const RECORDS = 600;

describeEachStore((kind, open) => {
  test(`are deleted some at a time, and no others, on ${kind}`, async () => {
    const { db, close } = await open();
    const count = async (): Promise<number> =>
      (await db.all("select id from idempotent_answer")).length;
    await db.write(async (tx) => {
      const columns = [
        "account_id:text",
        "id:text",
        "fingerprint:text",
        "state:text",
        "created_at:bigint",
        "expires_at:bigint",
      ] as const;
      // One a second, the last one in a minute.
      const rows = Array.from({ length: RECORDS }, (_, index) => {
        const expiresAt = NOW + MINUTE_MS - index * SECOND_MS;
        return ["acct_a", `id-${index}`, "f", "done", NOW, expiresAt];
      });
      await tx.insertMany("idempotent_answer", columns, rows);
    });
    let most = 0;
    const write: Db["write"] = async (work, durability) => {
      const before = await count();
      const result = await db.write(work, durability);
      most = Math.max(most, before - (await count()));
      return result;
    };
    await deleteExpiredResponses({ ...db, write }, NOW);
    expect(await count()).toBe(60);
    expect(most).toBe(3);
    await close();
  });
});
