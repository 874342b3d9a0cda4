// Rotation of the master secret in the modules: each reads what the previous secret made, and nothing of another secret.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { deriveKey, fingerprints, type MasterSecret } from "../../src/base/crypto/encryption.ts";
import { secret } from "../../src/base/crypto/secret.ts";
import { createPayLinks } from "../../src/billing/invoices/pay-link.ts";
import { bonusStateOf, grantBonus } from "../../src/claims/claim-bonus.ts";
import { createSessions } from "../../src/people/sessions.ts";
import { UNCHECKED } from "../../src/provider-keys/key-check.ts";
import { PROVIDER_DATA_KEYS } from "../../src/provider-keys/provider-key-encryption.ts";
import { createProviderKeys } from "../../src/provider-keys/provider-keys.ts";
import { reencryptRows } from "../../src/store/reencrypt-rows.ts";
import { createHarness, signedIn, T0 } from "../claims/harness.ts";
import { actIn } from "../support/act.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

const OLD: MasterSecret = secret("a secret of the tests that is long enough");
const NEW: MasterSecret = secret("the new secret, which is long enough too");
const BOTH: MasterSecret = { ...NEW, previous: OLD };
const BASE_URL = "http://127.0.0.1:8787";

describe("pay links", () => {
  test("of the previous secret work while both are accepted", () => {
    const url = createPayLinks(OLD, BASE_URL).urlFor("inv_01kah5t3mq7d2c9w4e6r8t0yax");
    const token = url.split("/").at(-1) ?? "";
    const invoiceIdBy = (master: MasterSecret) =>
      createPayLinks(master, BASE_URL).verifyToken(token);
    expect([invoiceIdBy(BOTH), invoiceIdBy(NEW)]).toEqual([
      "inv_01kah5t3mq7d2c9w4e6r8t0yax",
      undefined,
    ]);
  });
});

describeEachStore((kind, open) => {
  describe(`rotation of the master secret on ${kind}`, () => {
    let store: TestStore;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    test("keeps people signed in", async () => {
      const browser = await signedIn(createHarness(store.db), { email: "a@example.com" });
      const cookies = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
      const found = (master: MasterSecret) =>
        createSessions({ db: store.db, master, baseUrl: BASE_URL }).find(cookies, T0);
      expect((await found(BOTH))?.email).toBe("a@example.com");
      expect(await found(NEW)).toBeUndefined();
    });

    test("moves provider keys, and names those that neither secret decrypts", async () => {
      const keysBy = (master: MasterSecret) =>
        createProviderKeys({
          db: store.db,
          master,
          providers: () => ["openai"],
          check: async () => UNCHECKED,
        });
      const add = (master: MasterSecret, apiKey: string, now: number) =>
        store.db.write((tx) =>
          keysBy(master).add(tx, actIn("acct_rotated", now), {
            provider: "openai",
            apiKey: secret(apiKey),
            name: null,
            addedBy: null,
            apiKeyIds: null,
            allowStore: false,
            checkResult: UNCHECKED,
          }),
        );
      const lost = await add(secret("x".repeat(40)), "sk-lost-0123456789", T0);
      await add(OLD, "sk-old-0123456789", T0 + 1);
      expect(await reencryptRows(store.db, BOTH, PROVIDER_DATA_KEYS)).toEqual({
        read: 2,
        moved: 1,
        unreadable: [lost.id],
      });
      const user = { accountId: "acct_rotated", keyId: "key_any" };
      const found = await keysBy(NEW).findNewestKey(user, "openai", T0);
      expect(found?.apiKey.reveal()).toBe("sk-old-0123456789");
    });

    test("grants the bonus of a claim once per mailbox", async () => {
      const recipientBy = (master: MasterSecret, subject: string) => ({
        issuer: "https://issuer.example",
        subject,
        mailboxes: fingerprints(deriveKey(master, "claim-mailbox/v1"), "person@example.com"),
      });
      const limits = { bonusPerDay: 0n, now: T0 };
      await store.db.write((tx) =>
        tx.run(
          `insert into human_grant (id, issuer, subject, mailbox, account_id, amount, granted_at)
           values ('tr_old', 'https://issuer.example', 'one', ?, 'acct_one', 1, 1)`,
          [recipientBy(OLD, "one").mailboxes[0] ?? ""],
        ),
      );
      const other = recipientBy(BOTH, "two");
      expect(await bonusStateOf(store.db, other, limits)).toBe("already_granted");
      const granted = await store.db.write((tx) =>
        grantBonus(tx, other, { ...limits, accountId: "acct_two" }),
      );
      expect(granted).toBe(0n);
      expect(await bonusStateOf(store.db, recipientBy(NEW, "three"), limits)).toBe(
        "already_granted",
      );
    });
  });
});
