// Idempotency keys of model calls after a failure of the store and after the end of a process.

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { secret } from "../../../src/base/secret.ts";
import {
  createIdempotency,
  type IdempotentResponse,
} from "../../../src/idempotency/idempotency.ts";
import type { CallInput } from "../../../src/inference/lifecycle/call.ts";
import { withIdempotency } from "../../../src/inference/lifecycle/with-idempotency.ts";
import { sweepHolds } from "../../../src/ledger/sweep.ts";
import { type Db, UNAVAILABLE } from "../../../src/store/db.ts";
import { eventually } from "../../support/eventually.ts";
import { describeEachStore, openStore } from "../../support/stores/stores.ts";
import { openAccount, startLedger } from "../../ledger/fixtures.ts";

// The first test starts PostgreSQL, possibly on a busy machine.
setDefaultTimeout(60_000);

const now = Date.now();
const idempotency = createIdempotency(secret("the master secret of this test"));
const call = (holdId: string) => ({ scope: "acct_1 chat", key: "a-key", body: "{}", now, holdId });
const lost = (): Error => Object.assign(new Error("connection lost"), { [UNAVAILABLE]: true });

describeEachStore((kind, open) => {
  describe(`a key, on ${kind}`, () => {
    test("is free at once when the hold of its call was swept", async () => {
      const { db, close } = await open();
      await db.write(async (tx) => {
        await openAccount(tx, "acct_1", ["key_1"], now);
        await idempotency.begin(tx, call("req_1"));
      });
      const ledger = await startLedger(db, "killed", now);
      const held = await ledger.hold({
        id: "req_1",
        accountId: "acct_1",
        keyId: "key_1",
        amount: 0n,
        now,
        expiresAt: now + 60_000,
      });
      expect(held.status).toBe("held");
      const repeat = (): Promise<IdempotentResponse | undefined> =>
        db.write((tx) => idempotency.begin(tx, call("req_2")));
      expect(await repeat().catch((error: unknown) => String(error))).toContain("still running");
      await startLedger(db, "killed", now);
      expect(await sweepHolds(db, now)).toBe(1);
      expect(await repeat()).toBeUndefined();
      await close();
    });
  });
});

describe("a key whose claim or release met a failing store", () => {
  const run = async (failWrite: (writes: number) => "before" | "after" | undefined) => {
    const { db, close } = await openStore("sqlite");
    let writes = 0;
    const failing: Db = {
      ...db,
      write: async (work, durability) => {
        writes += 1;
        const failure = failWrite(writes);
        if (failure === "before") throw lost();
        const result = await db.write(work, durability);
        if (failure === "after") throw lost();
        return result;
      },
    };
    const deps = {
      ...idempotency,
      db: failing,
      now: () => now,
      isKeyActive: async () => true,
    };
    const attempt = (requestId: string, reply: () => Promise<Response>): Promise<unknown> => {
      // Only these members are read.
      const input = { text: "{}", caller: { keyId: "key_1" }, requestId } as unknown as CallInput;
      return withIdempotency(deps, input, call(requestId), reply).catch((error: unknown) => error);
    };
    const first = await attempt("req_1", () => Promise.reject(new Error("the call failed")));
    await eventually(async () => {
      const again = await attempt("req_2", async () => new Response("served"));
      return again instanceof Response && again.status === 200;
    });
    await close();
    return String(first);
  };

  test("is released when the reply to its claim was lost", async () => {
    expect(await run((writes) => (writes === 1 ? "after" : undefined))).toContain(
      "connection lost",
    );
  });

  test("is released later when its release failed", async () => {
    expect(await run((writes) => (writes === 2 || writes === 3 ? "before" : undefined))).toContain(
      "the call failed",
    );
  });
});
