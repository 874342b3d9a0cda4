// Times every page of the console over HTTP with a session, as a person with a browser waits for it.

import { claimWorkspace } from "../src/accounts/members.ts";
import { secret as asSecret } from "../src/base/crypto/secret.ts";
import { DAY_MS } from "../src/base/time.ts";
import { loadMasterSecret } from "../src/config/master-secret.ts";
import { recordPerson } from "../src/people/people.ts";
import { createSessions } from "../src/people/sessions.ts";
import { type Db, text } from "../src/store/db.ts";

const VISITS = 15;

export interface PageOwner {
  readonly cookie: string;
  readonly accountId: string;
  readonly callId: string;
  readonly keyId: string;
}

export interface PageTime {
  readonly page: string;
  readonly p50: number;
  readonly fastest: number;
  readonly max: number;
}

interface OwnerOptions {
  readonly accountId: string;
  readonly keyId: string;
  readonly secret: string;
  readonly folder: string;
}

/** Claims the account for a person with a session. */
export async function createPageOwner(db: Db, options: OwnerOptions): Promise<PageOwner> {
  const { accountId, keyId, secret, folder } = options;
  const master = loadMasterSecret({ secret: asSecret(secret) }, folder);
  const sessions = createSessions({ db, master, baseUrl: "http://127.0.0.1" });
  const now = Date.now();
  const email = "bench@example.com";
  const identity = { issuer: "https://id.test", subject: "bench", email, name: "Bench" };
  const setCookie = await db.write(async (tx) => {
    const { id: personId } = await recordPerson(tx, identity, now);
    const isOwned = await tx.get("select 1 as found from membership where account_id = ?", [
      accountId,
    ]);
    if (isOwned === undefined) await claimWorkspace(tx, { accountId, personId, via: "bench", now });
    const session = { personId, network: "bench", browser: "bench", cookies: null, now };
    return sessions.begin(tx, session);
  });
  const call = await db.get(
    "select id from usage_record where account_id = ? order by id desc limit 1",
    [accountId],
  );
  const callId = call === undefined ? "" : text(call, "id");
  return { cookie: setCookie.split(";")[0] ?? "", accountId, keyId, callId };
}

function pagesOf({ accountId, callId, keyId }: PageOwner): readonly string[] {
  const now = Date.now();
  const day = (at: number): string => new Date(at).toISOString().slice(0, 10);
  const custom = `from=${day(now - 20 * DAY_MS)}&to=${day(now - 3 * DAY_MS)}`;
  const workspace = [
    "",
    "/usage",
    "/usage?range=24h",
    "/usage?range=7d&unit=hour&by=key",
    "/usage?range=90d&by=provider",
    "/usage?range=30d&by=label&tz=Europe/Berlin",
    `/usage?${custom}&by=api`,
    "/logs",
    "/logs?range=90d&outcome=failed",
    "/logs?range=90d&model=sim/rare",
    "/logs?range=30d&label=team%3Da&status=502",
    `/logs?request=${callId}`,
    `/logs/${callId}`,
    "/playground",
    "/keys",
    `/keys/${keyId}`,
    "/provider-keys",
    "/budgets",
    "/responses",
    "/members",
    "/webhooks",
    "/audit",
    "/billing",
    "/settings",
    "/search?q=echo",
  ];
  return [
    ...workspace.map((page) => `/console/${accountId}${page}`),
    "/console?all=true",
    "/sessions",
    "/emails",
    "/models",
    "/models/sim/echo",
  ];
}

export async function timePages(url: string, owner: PageOwner): Promise<readonly PageTime[]> {
  const times: PageTime[] = [];
  for (const path of pagesOf(owner)) {
    const visits: number[] = [];
    // The first visit compiles the page and is not counted: a gateway runs for weeks.
    for (let visit = 0; visit <= VISITS; visit++) {
      const began = performance.now();
      const response = await fetch(url + path, {
        headers: { cookie: owner.cookie, accept: "text/html" },
        redirect: "manual",
      });
      const body = await response.text();
      if (response.status !== 200) throw new Error(`${path}: ${response.status} ${body}`);
      if (visit > 0) visits.push(performance.now() - began);
    }
    visits.sort((one, other) => one - other);
    const page = path.replace(`/console/${owner.accountId}`, "/console/…");
    times.push({
      page: page.replace(owner.callId, "req_…").replace(owner.keyId, "key_…"),
      p50: visits[Math.floor(visits.length / 2)] ?? 0,
      fastest: visits[0] ?? 0,
      max: visits.at(-1) ?? 0,
    });
  }
  return times;
}
