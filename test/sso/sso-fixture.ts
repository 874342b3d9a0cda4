// A gateway whose workspace has a verified domain and an identity provider.

import { createTxtResolver } from "../../src/base/network/dns-txt.ts";
import { recordName, recordValue, listDomains } from "../../src/sso/domains.ts";
import { createUser, makeOwner, type TestUser, visitPage } from "../billing/console-user.ts";
import { CLIENT, type FakeIssuer, startFakeIssuer } from "../people/fake-oidc-issuer.ts";
import { createHttpBrowser, type HttpBrowser } from "../support/browser/http-browser.ts";
import { type DnsServer, startDnsServer } from "../support/dns-server.ts";
import {
  type Gateway,
  type GatewayOptions,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";

export interface SsoFixture {
  readonly gateway: Gateway;
  readonly dns: DnsServer;
  readonly issuer: FakeIssuer;
  readonly close: () => Promise<void>;
  readonly newWorkspace: () => Promise<SsoWorkspace>;
}

export interface SsoWorkspace {
  readonly account: TestAccount;
  readonly owner: TestUser;
  readonly path: string;
  /** Sends the form of the single sign-on page as the owner. */
  readonly change: (form: Readonly<Record<string, string>>) => ReturnType<typeof visitPage>;
  /** Adds the domain, writes its record and checks it. */
  readonly verify: (domain: string) => Promise<void>;
  readonly connect: (issuer: FakeIssuer, more?: Readonly<Record<string, string>>) => Promise<void>;
}

let count = 0;

export async function startSsoFixture(options: GatewayOptions = {}): Promise<SsoFixture> {
  const [dns, issuer] = [await startDnsServer(), await startFakeIssuer()];
  const gateway = await startGateway({ resolveTxt: createTxtResolver([dns.address]), ...options });
  return {
    gateway,
    dns,
    issuer,
    close: async () => {
      await gateway.stop();
      await issuer.close();
      dns.close();
    },
    newWorkspace: async () => {
      const account = await registerAccount(gateway);
      count += 1;
      const owner = await createUser(gateway, `owner-${count}`);
      await makeOwner(gateway, account.id, owner);
      const path = `/console/${account.id}/sso`;
      const change: SsoWorkspace["change"] = (form) => visitPage(gateway, path, owner, form);
      return {
        account,
        owner,
        path,
        change,
        verify: async (domain) => {
          await change({ do: "add_domain", domain });
          await writeRecord({ gateway, dns }, account.id, domain);
          const checked = await change({ do: "check_domain", domain });
          if (checked.location?.includes("record_found") !== true)
            throw new Error(`not verified: ${checked.status} ${checked.text}`);
        },
        connect: async (to, more = {}) => {
          const form = { issuer: to.issuer, client_id: CLIENT.id, client_secret: CLIENT.secret };
          const saved = await change({ do: "save", default_role: "developer", ...form, ...more });
          if (saved.status !== 303) throw new Error(`not saved: ${saved.text}`);
        },
      };
    },
  };
}

export async function writeRecord(
  { gateway, dns }: Pick<SsoFixture, "gateway" | "dns">,
  accountId: string,
  domain: string,
): Promise<void> {
  const domains = await listDomains(gateway.server.db, accountId);
  const added = domains.find((own) => own.domain === domain);
  if (added === undefined) throw new Error(`no domain ${domain}`);
  dns.records.set(recordName(domain), ["another text", recordValue(added)]);
}

/** Signs in with the identity provider of a workspace, as the person whom it asserts. */
export async function signInWithSso(
  { gateway, issuer }: Pick<SsoFixture, "gateway" | "issuer">,
  accountId: string,
  claims: Readonly<Record<string, unknown>>,
): Promise<{
  readonly browser: HttpBrowser;
  readonly page: Awaited<ReturnType<HttpBrowser["visit"]>>;
}> {
  issuer.overrides = { claims };
  const browser = createHttpBrowser();
  const page = await browser.visit(`${gateway.url}/signin/sso/${accountId}`);
  issuer.overrides = {};
  return { browser, page };
}
