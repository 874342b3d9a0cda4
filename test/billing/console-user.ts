// People with a console session, and requests of console pages and forms.

import { changeMember, claimWorkspace, type MemberRole } from "../../src/accounts/members.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import { recordPerson } from "../../src/people/people.ts";
import { createSessions } from "../../src/people/sessions.ts";
import { actIn, addDeveloper } from "../support/act.ts";
import type { Gateway } from "../support/gateway.ts";

export interface TestUser {
  readonly personId: string;
  readonly email: string;
  readonly cookie: string;
  readonly csrf: string;
}

export interface PageResponse {
  readonly status: number;
  readonly text: string;
  readonly location: string | null;
  readonly headers: Headers;
}

export async function createUser(
  gateway: Gateway,
  name: string,
  now = Date.now(),
): Promise<TestUser> {
  const { db } = gateway.server;
  const { secret, store } = gateway.config;
  const master = loadMasterSecret({ secret }, store.dataDir);
  const sessions = createSessions({ db, master, baseUrl: gateway.config.baseUrl });
  const email = `${name}@example.com`;
  const identity = { issuer: "https://id.test", subject: name, email, name };
  const [personId, setCookie] = await db.write(async (tx) => {
    const { id } = await recordPerson(tx, identity, now);
    const session = { personId: id, network: "test", browser: "test", cookies: null, now };
    return [id, await sessions.begin(tx, session)] as const;
  });
  const cookie = setCookie.split(";")[0] ?? "";
  const session = await sessions.find(cookie, now);
  return { personId, email, cookie, csrf: session?.csrf ?? "" };
}

export async function makeOwner(
  gateway: Gateway,
  accountId: string,
  user: TestUser,
): Promise<void> {
  const claim = { accountId, personId: user.personId, via: "test", now: Date.now() };
  await gateway.server.db.write((tx) => claimWorkspace(tx, claim));
}

export async function makeDeveloper(
  gateway: Gateway,
  accountId: string,
  user: TestUser,
): Promise<void> {
  const member = { accountId, personId: user.personId, via: "test", now: Date.now() };
  await gateway.server.db.write((tx) => addDeveloper(tx, member));
}

export async function makeMember(
  gateway: Gateway,
  accountId: string,
  user: TestUser,
  role: MemberRole,
): Promise<void> {
  await makeDeveloper(gateway, accountId, user);
  const change = { role, allowance: undefined };
  await gateway.server.db.write((tx) =>
    changeMember(tx, actIn(accountId, Date.now()), user.personId, change),
  );
}

/** Requests a console page, or submits its form. */
export async function visitPage(
  gateway: Gateway,
  path: string,
  user: TestUser,
  form?: Readonly<Record<string, string>>,
): Promise<PageResponse> {
  const headers = { cookie: user.cookie, origin: gateway.url, "sec-fetch-site": "same-origin" };
  const response = await fetch(gateway.url + path, {
    redirect: "manual",
    ...(form === undefined
      ? { headers }
      : {
          method: "POST",
          headers: { ...headers, "content-type": "application/x-www-form-urlencoded" },
          body: new URLSearchParams({ csrf: user.csrf, ...form }).toString(),
        }),
  });
  return {
    status: response.status,
    text: (await response.text()).replaceAll("&#39;", "'"),
    location: response.headers.get("location"),
    headers: response.headers,
  };
}

/** The text of a page without its markup. */
export function textOf({ text }: PageResponse): string {
  return text.replaceAll(/<[^>]+>/g, " ").replaceAll(/\s+/g, " ");
}
