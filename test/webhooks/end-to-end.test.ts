import { afterAll, expect, test } from "bun:test";
import { claimWorkspace } from "../../src/accounts/members.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import { recordPerson } from "../../src/people/people.ts";
import { createSessions } from "../../src/people/sessions.ts";
import { eventually } from "../support/eventually.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";
import { isValidSignature } from "./verify-signature.ts";
import { startReceiver } from "./webhook-receiver.ts";

const receiver = startReceiver();

const gateway = await startGateway();
const account = await registerAccount(gateway);
afterAll(async () => {
  await gateway.stop();
  await receiver.close();
});

async function call(method: string, path: string, body?: unknown) {
  const response = await fetch(`${gateway.url}${path}`, {
    method,
    headers: { ...account.headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return {
    status: response.status,
    body: (await response.json()) as Readonly<Record<string, unknown>>,
  };
}

async function waitForEvents(count: number): Promise<void> {
  await eventually(() => receiver.received.length >= count);
  expect(receiver.received.length).toBe(count);
}

test("sends signed events of changes that keys make, and audits them", async () => {
  const { body: hook } = await call("POST", "/v1/webhooks", { url: receiver.url });
  const { body: key } = await call("POST", "/v1/keys", { name: "ci" });
  await call("DELETE", `/v1/keys/${String(key["id"])}`);
  await call("PATCH", "/v1/account/balance-alert", { low_usd: 0.05 });
  const response = await call("POST", "/v1/chat/completions", {
    model: "sim/tiny",
    messages: [{ role: "user", content: "hello" }],
  });
  expect(response.status).toBe(200);
  await waitForEvents(3);
  expect(receiver.received.map(({ event }) => event["type"])).toEqual([
    "key.created",
    "key.revoked",
    "balance.low",
  ]);
  for (const { headers, body } of receiver.received)
    expect(isValidSignature(String(hook["secret"]), headers, body, Date.now())).toBe(true);
  const { body: audit } = await call("GET", "/v1/audit");
  const actions = (audit["data"] as readonly { action: string }[]).map(({ action }) => action);
  expect(actions.slice(0, 4)).toEqual([
    "balance_alert.changed",
    "key.revoked",
    "key.created",
    "webhook.created",
  ]);
  // Both have the same time.
  expect(actions.slice(4).sort()).toEqual(["account.created", "key.created"]);
  const canary = String(hook["secret"]).slice(6, -1);
  expect(gateway.logLines.filter((line) => line.includes(canary))).toEqual([]);
});

test("sends events of changes that people make in the console, and audits them", async () => {
  const { db } = gateway.server;
  const now = Date.now();
  const sessions = createSessions({
    db,
    master: loadMasterSecret(gateway.config, gateway.config.store.dataDir),
    baseUrl: gateway.url,
  });
  const people = await db.write(async (tx) => {
    const signedIn = [];
    for (const name of ["olga", "dev"]) {
      const email = `${name}@example.com`;
      const identity = { issuer: "https://id.test", subject: name, email, name };
      const { id } = await recordPerson(tx, identity, now);
      const session = { personId: id, network: "test", browser: "test", cookies: null, now };
      const cookie = (await sessions.begin(tx, session)).split(";")[0] ?? "";
      signedIn.push({ id, email, cookie });
    }
    return signedIn;
  });
  const [owner, developer] = people;
  if (owner === undefined || developer === undefined) throw new Error("not signed in");
  await db.write((tx) =>
    claimWorkspace(tx, { accountId: account.id, personId: owner.id, via: "test", now }),
  );
  const post = async (who: typeof owner, path: string, form: Record<string, string>) => {
    const csrf = (await sessions.find(who.cookie, Date.now()))?.csrf ?? "";
    const response = await fetch(`${gateway.url}${path}`, {
      method: "POST",
      headers: {
        cookie: who.cookie,
        origin: gateway.url,
        "sec-fetch-site": "same-origin",
        "content-type": "application/x-www-form-urlencoded",
      },
      body: new URLSearchParams({ csrf, ...form }).toString(),
      redirect: "manual",
    });
    expect([200, 303]).toContain(response.status);
    const changedAt = Date.now();
    // The next change must have another millisecond: events and audit entries are sorted by time.
    await eventually(() => Date.now() > changedAt);
  };
  const console = `/console/${account.id}`;
  await post(owner, `${console}/keys`, { do: "mint", name: "by hand" });
  const { body: keys } = await call("GET", "/v1/keys?limit=1");
  const [key] = keys["data"] as readonly { id: string }[];
  const minted = key?.id ?? "";
  await post(owner, `${console}/keys/${minted}`, { do: "change", limit_usd: "3" });
  await post(owner, `${console}/keys/${minted}`, { do: "revoke" });
  await post(owner, `${console}/keys/${minted}`, { do: "revoke" });
  await post(owner, `${console}/members`, { do: "invite", email: developer.email });
  const row = await db.get("select id from invitation");
  const invitation = String(row?.["id"]);
  await post(developer, "/console/invitations", { invitation, answer: "accept" });
  await post(owner, `${console}/members`, { do: "hand_over", person: developer.id });
  await post(developer, `${console}/members`, { do: "remove", person: owner.id });
  await post(developer, "/signout", {});
  const audited = await db.all(
    "select action, actor_id, target from audit where actor_type = 'person' order by id",
  );
  expect(audited.map((entry) => [entry["action"], entry["actor_id"], entry["target"]])).toEqual([
    ["key.created", owner.id, minted],
    ["key.changed", owner.id, minted],
    ["key.revoked", owner.id, minted],
    ["member.invited", owner.id, invitation],
    ["member.added", developer.id, developer.id],
    ["owner.changed", owner.id, developer.id],
    ["member.removed", developer.id, owner.id],
    ["session.ended", developer.id, expect.stringMatching(/^ses_/)],
  ]);
  await waitForEvents(7);
  expect(receiver.received.slice(3).map(({ event }) => [event["type"], event["data"]])).toEqual([
    ["key.created", expect.objectContaining({ key_id: minted, by: owner.id })],
    ["key.revoked", expect.objectContaining({ key_id: minted, by: owner.id })],
    [
      "member.invited",
      {
        invitation_id: invitation,
        email: developer.email,
        role: "developer",
        by: owner.email,
      },
    ],
    ["member.added", { claim_attempt_id: null, email: developer.email, role: "developer" }],
  ]);
  // A key sees who made the change, but not from which network.
  const { body: audit } = await call("GET", "/v1/audit?action=key.created&limit=1");
  expect(audit["data"]).toMatchObject([{ actor: { type: "person", id: owner.id }, network: null }]);
});
