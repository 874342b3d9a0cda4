// Verified domains, against a DNS server on loopback.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createTxtResolver } from "../../src/base/network/dns-txt.ts";
import { DAY_MS } from "../../src/base/time.ts";
import { findWorkspaceOfEmail, listDomains, recheckDomains } from "../../src/sso/domains.ts";
import { createUser, makeMember, textOf, visitPage } from "../billing/console-user.ts";
import { listAudit } from "../console/console-fixture.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { type SsoFixture, startSsoFixture, writeRecord } from "./sso-fixture.ts";

describe.each(STORE_KINDS)("verified domains on %s", (store) => {
  let fixture: SsoFixture;
  beforeAll(async () => {
    fixture = await startSsoFixture({ store });
  });
  afterAll(() => fixture.close());

  const recheck = (now: number) => {
    const { gateway, dns } = fixture;
    const resolveTxt = createTxtResolver([dns.address]);
    return recheckDomains({ db: gateway.server.db, resolveTxt }, now);
  };
  const holderOf = (email: string) => findWorkspaceOfEmail(fixture.gateway.server.db, email);

  test("verifies a domain only when its TXT record has the value of this workspace", async () => {
    const { gateway, dns } = fixture;
    const { account, change, owner, path } = await fixture.newWorkspace();
    await change({ do: "add_domain", domain: " Acme-1.Example. " });
    const page = textOf(await visitPage(gateway, path, owner));
    expect(page).toContain("_postern-challenge.acme-1.example");
    const missing = await change({ do: "check_domain", domain: "acme-1.example" });
    expect(missing.location).toContain("done=record_missing");
    dns.records.set("_postern-challenge.acme-1.example", [
      "postern-domain-verification=of-another",
    ]);
    await change({ do: "check_domain", domain: "acme-1.example" });
    expect(await holderOf("ada@acme-1.example")).toBeUndefined();
    await writeRecord(fixture, account.id, "acme-1.example");
    const found = await change({ do: "check_domain", domain: "acme-1.example" });
    expect(found.location).toContain("done=record_found");
    expect(await holderOf("Ada@ACME-1.example")).toBe(account.id);
    expect(await holderOf("ada@sub.acme-1.example")).toBeUndefined();
    const verified = await listAudit(gateway, account, "action=domain.verified");
    expect(verified).toMatchObject([{ target: "acme-1.example", actor: { id: owner.personId } }]);
  });

  test("gives a verified domain to one workspace", async () => {
    const [first, second] = [await fixture.newWorkspace(), await fixture.newWorkspace()];
    await first.verify("acme-2.example");
    await second.change({ do: "add_domain", domain: "acme-2.example" });
    await writeRecord(fixture, second.account.id, "acme-2.example");
    const refused = await second.change({ do: "check_domain", domain: "acme-2.example" });
    expect([refused.status, textOf(refused)]).toEqual([
      400,
      expect.stringContaining("Another workspace has verified acme-2.example"),
    ]);
    expect(await holderOf("ada@acme-2.example")).toBe(first.account.id);
    await first.change({ do: "remove_domain", domain: "acme-2.example" });
    await second.change({ do: "check_domain", domain: "acme-2.example" });
    expect(await holderOf("ada@acme-2.example")).toBe(second.account.id);
  });

  test("releases a domain whose record is missing for a week, and not while the DNS fails", async () => {
    const { dns } = fixture;
    const { account, verify } = await fixture.newWorkspace();
    await verify("acme-3.example");
    const name = "_postern-challenge.acme-3.example";
    const record = dns.records.get(name) ?? [];
    const start = Date.now();
    dns.isDown = true;
    await recheck(start + 2 * DAY_MS);
    await recheck(start + 12 * DAY_MS);
    dns.isDown = false;
    expect(await holderOf("ada@acme-3.example")).toBe(account.id);
    dns.records.delete(name);
    await recheck(start + 20 * DAY_MS);
    await recheck(start + 26 * DAY_MS);
    expect(await holderOf("ada@acme-3.example")).toBe(account.id);
    dns.records.set(name, record);
    await recheck(start + 28 * DAY_MS);
    dns.records.delete(name);
    await recheck(start + 30 * DAY_MS);
    await recheck(start + 36 * DAY_MS);
    expect(await holderOf("ada@acme-3.example")).toBe(account.id);
    await recheck(start + 38 * DAY_MS);
    expect(await holderOf("ada@acme-3.example")).toBeUndefined();
    const lost = await listAudit(fixture.gateway, account, "action=domain.lost");
    expect(lost).toMatchObject([{ target: "acme-3.example", actor: { type: "system" } }]);
    const [domain] = await listDomains(fixture.gateway.server.db, account.id);
    expect(domain?.verifiedAt).toBeNull();
  });

  test.each([
    ["gmail.com", "gives addresses to anyone"],
    ["localhost", "must be a domain name"],
    ["acme.example/evil", "must be a domain name"],
    ["127.0.0.1", "must be a domain name"],
    ["", "must be a domain name"],
  ])("refuses the domain %p", async (domain, message) => {
    const { change } = await fixture.newWorkspace();
    const refused = await change({ do: "add_domain", domain });
    expect(refused.status).toBe(400);
    expect(textOf(refused)).toContain(message);
  });

  test("lets an admin see the page and only the owner change it", async () => {
    const { gateway } = fixture;
    const { account, path } = await fixture.newWorkspace();
    const admin = await createUser(gateway, `admin-${store}`);
    await makeMember(gateway, account.id, admin, "admin");
    const page = await visitPage(gateway, path, admin);
    expect([page.status, page.text.includes('name="domain"')]).toEqual([200, false]);
    const form = { do: "add_domain", domain: "acme-4.example" };
    expect((await visitPage(gateway, path, admin, form)).status).toBe(403);
    const viewer = await createUser(gateway, `viewer-${store}`);
    await makeMember(gateway, account.id, viewer, "viewer");
    expect((await visitPage(gateway, path, viewer)).status).toBe(403);
    expect(await listDomains(gateway.server.db, account.id)).toEqual([]);
  });
});
