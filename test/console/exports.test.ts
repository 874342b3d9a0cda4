// What a workspace downloads: the audit log, the invoices and the ledger proof.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/base/time.ts";
import { createUser, makeMember, type TestUser, visitPage } from "../billing/console-user.ts";
import { buyCredits, submitForm } from "../billing/fixtures.ts";
import { publishAt } from "../ledger-proofs/fixtures.ts";
import { describeEachStore } from "../support/stores/stores.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

describeEachStore((store) => {
  describe(`exports on ${store}`, () => {
    let fixture: ConsoleFixture;
    beforeAll(async () => {
      fixture = await createConsoleFixture(store);
    });
    afterAll(() => fixture.gateway.stop());

    const linesOf = async (page: string): Promise<readonly string[]> => {
      const { gateway, account, owner } = fixture;
      const csv = await visitPage(gateway, `/console/${account.id}${page}`, owner);
      expect(csv.headers.get("content-type")).toBe("text/csv; charset=utf-8");
      return csv.text.trim().split("\r\n");
    };

    test("list the invoices with number, fee, tax and total", async () => {
      const { gateway, account } = fixture;
      const paid = await buyCredits(gateway, account, 10);
      await submitForm(paid.pay_url, { decision: "pay" });
      const open = await buyCredits(gateway, account, 20);
      const [head, first = "", second = ""] = await linesOf("/billing/invoices.csv");
      expect(head).toBe(
        "number,id,status,created_at,paid_at,credits,credits_usd,fee_usd,tax_usd,total_usd",
      );
      expect(first).toStartWith(`,${open.id},open,`);
      expect(first).toEndWith(",20000000,20,1,0.00,21.00");
      expect(second).toStartWith(`INV-000001,${paid.id},paid,`);
      expect(second).toEndWith(",10000000,10,0.5,0.00,10.50");
    });

    test("have the newest ledger proof once one is published", async () => {
      const { gateway, account, owner } = fixture;
      const billing = `/console/${account.id}/billing`;
      const proofPath = `${billing}/ledger-proof.json`;
      expect((await visitPage(gateway, billing, owner)).text).not.toContain(proofPath);
      expect((await visitPage(gateway, proofPath, owner)).status).toBe(404);
      const [day] = await publishAt(gateway, Date.now() + 2 * DAY_MS);
      expect((await visitPage(gateway, billing, owner)).text).toContain(proofPath);
      const proof = await visitPage(gateway, proofPath, owner);
      expect(proof.headers.get("content-disposition")).toContain("ledger-proof.json");
      expect(JSON.parse(proof.text)).toMatchObject({ account: account.id, day });
    });

    test("list the audit log with names, and keep the filter", async () => {
      const { account, gateway, owner } = fixture;
      await visitPage(gateway, `/console/${account.id}/keys`, owner, { do: "mint", name: "=1+1" });
      const [head, ...entries] = await linesOf("/audit.csv?action=key.created");
      expect(head).toBe(
        "id,created_at,actor_type,actor_id,actor_name,action,target,target_name,detail,ip",
      );
      const [newest = ""] = entries;
      expect(newest).toContain(`,person,${owner.personId},${owner.email},key.created,key_`);
      expect(newest).toContain(",'=1+1,");
      expect(entries.every((entry) => entry.includes(",key.created,"))).toBe(true);
      const page = await visitPage(
        gateway,
        `/console/${account.id}/audit?action=key.created`,
        owner,
      );
      expect(page.text).toContain("/audit.csv?action=key.created");
    });

    test("list the audit log as JSON lines, with addresses for the owner alone", async () => {
      const { account, gateway, owner } = fixture;
      const admin = await createUser(gateway, `auditor-${store}`);
      await makeMember(gateway, account.id, admin, "admin");
      await visitPage(gateway, `/console/${account.id}/keys`, owner, { do: "mint", name: "ip" });
      const path = `/console/${account.id}/audit`;
      const query = "?action=key.created";
      const read = async (user: TestUser) => {
        const { text, headers } = await visitPage(gateway, `${path}.jsonl${query}`, user);
        expect(headers.get("content-type")).toBe("application/x-ndjson");
        return text.trim().split("\n");
      };
      const [newest = ""] = await read(owner);
      expect(JSON.parse(newest)).toMatchObject({
        object: "audit_entry",
        action: "key.created",
        actor: { type: "person", id: owner.personId },
        ip: "127.0.0.1",
      });
      expect((await read(admin)).join()).not.toContain("127.0.0.1");
      expect((await visitPage(gateway, path + query, owner)).text).toContain("127.0.0.1");
      expect((await visitPage(gateway, path + query, admin)).text).not.toContain("127.0.0.1");
      const csv = await visitPage(gateway, `${path}.csv${query}`, admin);
      expect(csv.text).not.toContain("127.0.0.1");
      const api = await fetch(`${gateway.url}/v1/audit${query}`, { headers: account.headers });
      expect(await api.text()).not.toContain("127.0.0.1");
    });
  });
});
