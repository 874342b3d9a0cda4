import { describe, expect, test } from "bun:test";
import { registerAccount, startGateway } from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  bodyOf,
  expectSettledLedger,
  grantCredits,
  isCompleteStream,
  countOpenHolds,
  postCall,
  releaseReplies,
  usageRecordsOf,
  STREAMED_APIS,
  waitUntil,
  USD,
} from "../support/harness.ts";

for (const store of STORE_KINDS) {
  describe(`a store that cannot write, on ${store}`, () => {
    test("lets no reply look complete, and leaves nothing held", async () => {
      const gateway = await startGateway({ store });
      const account = await registerAccount(gateway);
      await grantCredits(gateway, account, USD);
      const rename = (from: string, to: string) =>
        gateway.server.db.write((tx) => tx.run(`alter table ${from} rename to ${to}`));
      const pending = Promise.all(
        [...STREAMED_APIS].flatMap((api) =>
          [false, true].map(async (stream) => {
            const response = await postCall(
              gateway,
              account,
              api,
              bodyOf(api, "[[sim: wait=calls tokens=10 chunks=5 pace=20]] x", { stream }),
            );
            const text = await response.text().catch(() => "");
            return { api, stream, status: response.status, text };
          }),
        ),
      );
      await waitUntil(
        () => countOpenHolds(gateway.server.db),
        (count) => count === 6,
      );
      await rename("usage_record", "usage_elsewhere");
      await releaseReplies(gateway, "calls");
      const replies = await pending;
      await rename("usage_elsewhere", "usage_record");
      for (const { api, stream, status, text } of replies) {
        if (stream) expect([api, isCompleteStream(api, text)]).toEqual([api, false]);
        else expect([api, status]).toEqual([api, 500]);
      }
      for (const { text } of replies) expect(text).toContain('"code":"internal"');
      expect((await usageRecordsOf(gateway.server.db, account.id)).length).toBe(0);
      await expectSettledLedger(gateway.server.db);
      await gateway.stop();
    });
  });
}
