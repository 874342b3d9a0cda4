// The claim pages over HTTP: what each state shows, what is rejected and what is not revealed.

import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { renameAccount } from "../../src/accounts/accounts.ts";
import { transferOwnership, removeMember, roleOf } from "../../src/accounts/members.ts";
import { HOUR_MS } from "../../src/base/time.ts";
import { actIn, addDeveloper, personActIn } from "../support/act.ts";
import { openStore } from "../support/stores/stores.ts";
import {
  type Agent,
  balanceOf,
  claimAs,
  createBrowser,
  confirmFields,
  createHarness,
  csrfOf,
  linkOf,
  type Page,
  readJson,
  register,
  signedIn,
  type StartResponse,
  startedClaim,
  textOf,
  titleOf,
  type Harness,
} from "./harness.ts";

let harness: Harness;
let agent: Agent;
let email: string;
let start: StartResponse;

const store = await openStore("sqlite");
afterAll(() => store.close());
beforeEach(async () => {
  harness = createHarness(store.db);
  agent = await register(harness);
  email = `human-${crypto.randomUUID()}@example.com`;
  start = await startedClaim(agent.start(email));
});

async function statusOfPoll(): Promise<number> {
  return (await agent.poll()).status;
}

/** The rows that a claim could change. */
async function readState(): Promise<unknown> {
  const tables = ["claim_attempt", "membership", "human_grant", "transfer", "account"];
  return Promise.all(tables.map((table) => store.db.all(`select * from ${table} order by 1, 2`)));
}

describe("the link", () => {
  test("redirects to a path without query and sets a short-lived HttpOnly cookie", async () => {
    const response = await createBrowser(harness).go(linkOf(start));
    expect(response.status).toBe(303);
    expect(response.headers.get("location")).toBe("/claim");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(response.headers.get("referrer-policy")).toBe("no-referrer");
    const [cookie = ""] = response.headers.getSetCookie();
    expect(cookie).toMatch(/^postern_claim=[^;]+; Path=\/; Max-Age=900; HttpOnly; SameSite=Lax$/);
    const token = new URL(linkOf(start)).searchParams.get("token") ?? "";
    expect(cookie).not.toContain(token);
    expect(cookie).not.toContain(start.claim_attempt.user_code);
  });

  test("binds its cookie to the host on https", async () => {
    const secure = createHarness(store.db, { baseUrl: "https://gateway.test" });
    const response = await createBrowser(secure).go("/claim?token=x&user_code=123456");
    const [cookie = ""] = response.headers.getSetCookie();
    expect(cookie).toMatch(
      /^__Host-postern_claim=.*; Path=\/; .*; HttpOnly; SameSite=Lax; Secure$/,
    );
  });

  test("asks for sign-in and reveals nothing about the account", async () => {
    const page = await createBrowser(harness).visit(linkOf(start));
    expect(page.status).toBe(200);
    expect(titleOf(page)).toBe("An agent needs your decision");
    expect(page.text).toContain("/signin?return_to=%2Fclaim");
    expect(page.text).not.toContain(agent.accountId);
    expect(page.text).not.toContain(email);
    expect(page.text).not.toContain("<form");
  });

  test.each([
    "/claim?token=&user_code=123456",
    `/claim?token=${"A".repeat(43)}&user_code=123456`,
    "/claim?user_code=123456",
    "/claim?token=%20",
  ])("%s is not valid", async (path) => {
    for (const browser of [createBrowser(harness), await signedIn(harness, { email })]) {
      const page = await browser.visit(path);
      expect([page.status, titleOf(page)]).toEqual([404, "This link is not valid"]);
    }
  });

  test("rejects a forged cookie", async () => {
    const browser = await signedIn(harness, { email });
    browser.cookies.set("postern_claim", btoa(`${start.claim_attempt_id} 123456`));
    expect((await browser.visit("/claim")).status).toBe(404);
  });
});

describe("the page", () => {
  test("shows the account, its balance, the bonus, the risk and the code", async () => {
    const page = await (await signedIn(harness, { email })).visit(linkOf(start));
    const code = start.claim_attempt.user_code;
    expect(page.status).toBe(200);
    for (const shown of [
      agent.accountId,
      email,
      `${code.slice(0, 3)} ${code.slice(3)}`,
      "$0.05",
      "$1.00",
      "203.0.113.0/24",
      "Take over the account",
      "Decline",
      "Anyone who has one of its keys can spend this balance",
      "Used by the agent that asks",
    ])
      expect(page.text).toContain(shown);
    expect(page.text).not.toContain("203.0.113.7");
    expect(page.text).not.toContain(agent.key);
    expect(page.text).not.toContain("<script");
  });

  test("cannot be framed, cached or leaked by referrer", async () => {
    for (const browser of [createBrowser(harness), await signedIn(harness, { email })]) {
      const page = await browser.visit(linkOf(start));
      expect(page.headers.get("cache-control")).toBe("no-store");
      expect(page.headers.get("referrer-policy")).toBe("no-referrer");
      expect(page.headers.get("x-frame-options")).toBe("DENY");
      expect(page.headers.get("x-content-type-options")).toBe("nosniff");
      const policy = page.headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toContain("script-src");
      expect(policy).not.toContain("unsafe");
    }
  });

  test("rejects another person before any form and masks the named email", async () => {
    const page = await (await signedIn(harness, { email: "eve@example.com" })).visit(linkOf(start));
    expect(page.status).toBe(403);
    expect(titleOf(page)).toBe("This is for another account");
    expect(page.text).toContain("h•••@example.com");
    expect(page.text).not.toContain(email);
    expect(page.text).not.toContain(agent.accountId);
    expect(page.text).not.toContain("user_code");
  });

  test("ignores letter case and nothing else", async () => {
    expect(
      (await (await signedIn(harness, { email: email.toUpperCase() })).visit(linkOf(start))).status,
    ).toBe(200);
    expect(
      (await (await signedIn(harness, { email: email.replace("@", "+x@") })).visit(linkOf(start)))
        .status,
    ).toBe(403);
  });

  test("a GET changes nothing", async () => {
    const before = await readState();
    const token = new URL(linkOf(start)).searchParams.get("token") ?? "";
    for (const browser of [
      createBrowser(harness),
      await signedIn(harness, { email }),
      await signedIn(harness, { email: "eve@example.com" }),
    ])
      for (const path of [
        linkOf(start),
        "/claim",
        `/claim?token=${token}&user_code=000000&decision=confirm`,
        `/claim?token=${token}&decision=decline`,
      ]) {
        await browser.visit(path);
        await browser.go(path, { method: "HEAD" });
      }
    expect(await readState()).toEqual(before);
  });

  test("offers no bonus to a person who already had it", async () => {
    await claimAs(harness, { email }, start);
    const second = await register(harness);
    const page = await (
      await signedIn(harness, { email })
    ).visit(linkOf(await startedClaim(second.start(email))));
    expect(page.text).not.toContain("bonus");
  });
});

describe("deciding", () => {
  let browser: Awaited<ReturnType<typeof signedIn>>;
  let page: Page;
  beforeEach(async () => {
    browser = await signedIn(harness, { email });
    page = await browser.visit(linkOf(start));
  });
  const fields = (more: Record<string, string> = {}) => ({
    ...confirmFields(page, start),
    ...more,
  });

  test("confirming shows what changed and can be repeated", async () => {
    const done = await browser.post("/claim", fields());
    expect([done.status, titleOf(done)]).toEqual([200, "The account is yours"]);
    expect(done.path).toBe("/claim");
    expect(done.text).toContain("A bonus of $1.00 was added");
    expect(done.text).toContain("$1.05");
    expect(done.text).toContain(`href="/console/${agent.accountId}"`);
    const again = await browser.post("/claim", fields());
    expect(titleOf(again)).toBe("The account is yours");
    expect(await balanceOf(harness, agent.accountId)).toBe(1_050_000_000n);
    expect(await statusOfPoll()).toBe(200);
  });

  test("name the workspace before and after the claim, and to an invited person", async () => {
    const { accountId } = agent;
    await harness.db.write((tx) =>
      renameAccount(tx, actIn(accountId, harness.clock.now), "Acme <production>"),
    );
    const name = "<bdi>Acme &lt;production&gt;</bdi>";
    const review = await browser.visit(linkOf(start));
    const done = await browser.post("/claim", fields());
    const invited = `invited-${email}`;
    const invitation = await startedClaim(agent.start(invited));
    const guest = await signedIn(harness, { email: invited });
    const asked = await guest.visit(linkOf(invitation));
    const joined = await guest.post("/claim", {
      csrf: csrfOf(asked),
      attempt: invitation.claim_attempt_id,
      user_code: invitation.claim_attempt.user_code,
      decision: "confirm",
    });
    for (const page of [review, done, asked, joined]) {
      expect(page.status).toBe(200);
      expect(page.text).toContain(name);
      expect(page.text).toContain(accountId);
    }
  });

  test("the link shows the workspace according to the current role", async () => {
    await browser.post("/claim", fields());
    const { accountId } = agent;
    const { personId } = browser.session;
    const heir = await signedIn(harness, { email: `heir-${crypto.randomUUID()}@example.com` });
    await harness.db.write(async (tx) => {
      const { personId: to } = heir.session;
      await addDeveloper(tx, { accountId, personId: to, via: "test", now: harness.clock.now });
      await transferOwnership(tx, personActIn(accountId, personId, harness.clock.now), to);
    });
    const developer = await browser.visit(linkOf(start));
    expect([developer.status, titleOf(developer)]).toEqual([200, "You have joined the workspace"]);
    expect(developer.text).toContain(heir.session.email);
    expect(developer.text).not.toContain("$1.05");
    await harness.db.write((tx) => removeMember(tx, actIn(accountId, harness.clock.now), personId));
    const former = await browser.visit(linkOf(start));
    expect([former.status, titleOf(former)]).toEqual([403, "You have left this workspace"]);
    for (const secret of ["$1.05", accountId, heir.session.email, agent.key.slice(0, 12)])
      expect(former.text).not.toContain(secret);
    expect(titleOf(await browser.post("/claim", fields()))).toBe("You have left this workspace");
    expect(await roleOf(harness.db, accountId, personId)).toBeUndefined();
  });

  test("lists webhooks and provider keys before and after the claim", async () => {
    const { accountId } = agent;
    expect(page.text).not.toContain("Also set up");
    await store.db.write(async (tx) => {
      for (const [id, url, status] of [
        ["wh_1", "https://hooks.example.net:8443/path-canary?token=canary", "active"],
        ["wh_2", "https://gone.example.net/", "deleted"],
      ] as const)
        await tx.run(
          `insert into webhook (id, account_id, url, events, status, former_until, created_at)
           values (?, ?, ?, '[]', ?, 0, 1)`,
          [`${id}_${accountId}`, accountId, url, status],
        );
      const url = "https://otlp.example.net/canary";
      const settings = { type: "otlp", url, headers: [], include_texts: true };
      await tx.run(
        `insert into sink (account_id, name, created_at, updated_at, kind, settings, queue, status, due_at, tries)
         values (?, 'canary', 1, 1, 'otlp', ?, 'q', 'active', 1, 0)`,
        [accountId, JSON.stringify(settings)],
      );
      for (const [provider, status] of [
        ["openai", "active"],
        ["google", "deleted"],
      ] as const)
        await tx.run(
          `insert into provider_key (id, account_id, provider, last4, status, created_at)
           values (?, ?, ?, 'canary', ?, 1)`,
          [`pk_${provider}_${accountId}`, accountId, provider, status],
        );
    });
    page = await browser.visit("/claim");
    for (const shown of [page, await browser.post("/claim", fields())]) {
      expect(shown.status).toBe(200);
      expect(shown.text).toContain(
        "Webhooks send events and member changes to hooks.example.net:8443",
      );
      expect(shown.text).toContain(
        "Sinks send the usage of all calls to otlp.example.net with prompts",
      );
      expect(shown.text).toContain("Calls to openai use a provider key that the agent added");
      expect(shown.text).not.toMatch(/canary|gone\.example|google/);
    }
  });

  test("declining is final", async () => {
    const done = await browser.post("/claim", fields({ decision: "decline" }));
    expect([done.status, titleOf(done)]).toEqual([200, "You declined"]);
    const tried = await browser.post("/claim", fields());
    expect(titleOf(tried)).toBe("You declined");
    expect(await statusOfPoll()).toBe(400);
  });

  test("accepts a code with a space", async () => {
    const code = start.claim_attempt.user_code;
    const done = await browser.post(
      "/claim",
      fields({ user_code: `${code.slice(0, 3)} ${code.slice(3)}` }),
    );
    expect(titleOf(done)).toBe("The account is yours");
  });

  test("disables the link after five wrong codes", async () => {
    const wrong = start.claim_attempt.user_code === "111111" ? "222222" : "111111";
    for (const left of [4, 3, 2, 1]) {
      const tried = await browser.post("/claim", fields({ user_code: wrong }));
      expect(tried.status).toBe(400);
      expect(tried.text).toContain(`${left} more wrong ${left === 1 ? "code" : "codes"}`);
      expect(tried.text).toContain('role="alert"');
    }
    const locked = await browser.post("/claim", fields({ user_code: wrong }));
    expect([locked.status, titleOf(locked)]).toEqual([410, "Too many wrong codes"]);
    expect(titleOf(await browser.post("/claim", fields()))).toBe("Too many wrong codes");
    expect(await statusOfPoll()).toBe(400);
  });

  test("does not count input that is not a code", async () => {
    for (const typed of ["", "12345", "abcdef", "1234567"]) {
      const tried = await browser.post("/claim", fields({ user_code: typed }));
      expect(tried.status).toBe(400);
      expect(tried.text).toContain("The code must have six digits.");
    }
    expect(titleOf(await browser.post("/claim", fields()))).toBe("The account is yours");
  });

  test("rejects a link with a wrong code in it", async () => {
    const token = new URL(linkOf(start)).searchParams.get("token") ?? "";
    const code = start.claim_attempt.user_code === "111111" ? "222222" : "111111";
    const crafted = await browser.visit(`/claim?token=${token}&user_code=${code}`);
    const tried = await browser.post("/claim", fields({ csrf: csrfOf(crafted), user_code: code }));
    expect(tried.status).toBe(400);
    expect(await statusOfPoll()).toBe(400);
  });

  test("isolates a key name with direction marks", async () => {
    const name = "\u202eyek ruoy si siht";
    await store.db.write((tx) =>
      tx.run("update api_key set name = ? where account_id = ?", [name, agent.accountId]),
    );
    const shown = await browser.visit("/claim");
    expect(shown.text).toContain(`<bdi>${name}</bdi>`);
    const keys = await readJson<{ data: { id: string }[] }>(agent.get("/v1/keys"));
    const id = keys.data[0]?.id ?? "";
    const done = await browser.post(
      "/claim",
      fields({ [`key.${id}`]: "keep", [`usd.${id}`]: "3" }),
    );
    expect(titleOf(done)).toBe("The account is yours");
    expect(done.text).toContain(`<bdi>${name}</bdi>`);
  });

  test("revokes all unlisted keys together", async () => {
    for (let count = 0; count < 14; count++)
      await harness.db.write((tx) =>
        harness.keys.create(tx, actIn(agent.accountId, harness.clock.now), {}),
      );
    const long = await browser.visit("/claim");
    expect(long.text).toContain("Revoke the 3 keys not listed here");
    const listed = [...long.text.matchAll(/name="(key\.[^"]+)" value="keep"/g)].map(
      ([, name = ""]) => name,
    );
    expect(listed).toHaveLength(12);
    const choices = Object.fromEntries(listed.map((name) => [name, "keep"]));
    page = long;
    await browser.post("/claim", fields({ ...choices, others: "revoke" }));
    const live = await store.db.all(
      "select id from api_key where account_id = ? and revoked_at is null",
      [agent.accountId],
    );
    expect(live.map((row) => `key.${String(row["id"])}`).sort()).toEqual(listed.sort());
  });

  test("an invalid limit changes nothing and is shown again", async () => {
    const keys = await readJson<{ data: { id: string }[] }>(agent.get("/v1/keys"));
    const id = keys.data[0]?.id ?? "";
    const tried = await browser.post(
      "/claim",
      fields({ [`key.${id}`]: "keep", [`usd.${id}`]: `"><b>lots`, [`window.${id}`]: "week" }),
    );
    expect(tried.status).toBe(400);
    expect(tried.text).toContain("Enter the limit in US dollars");
    expect(tried.text).toContain("&quot;&gt;&lt;b&gt;lots");
    expect(tried.text).toContain(`aria-describedby="usd.${id}.wrong" autofocus`);
    expect(tried.text).toContain(`id="usd.${id}.wrong"`);
    for (const typed of ["1.000,50", "1,2,3", ",5"]) {
      const limit = { [`key.${id}`]: "keep", [`usd.${id}`]: typed };
      expect([typed, (await browser.post("/claim", fields(limit))).status]).toEqual([typed, 400]);
    }
    expect(await statusOfPoll()).toBe(400);
  });

  test("a form decides only on its own claim, not on the link opened last", async () => {
    const other = await register(harness);
    const newer = await startedClaim(other.start(email));
    const shown = await browser.visit(linkOf(newer));
    expect(shown.text).toContain(other.accountId);
    const before = await readState();
    for (const decision of ["decline", "confirm"]) {
      const code = newer.claim_attempt.user_code;
      for (const sent of [{ decision }, { decision, user_code: code }, { decision, attempt: "" }]) {
        const tried = await browser.post("/claim", fields(sent));
        expect([tried.status, titleOf(tried)]).toEqual([
          409,
          "An agent wants to hand you its account",
        ]);
        expect(tried.text).toContain("Nothing was changed.");
        expect(tried.text).toContain(other.accountId);
        expect(tried.text).not.toContain(agent.accountId);
      }
    }
    expect(await readState()).toEqual(before);
    const form = { csrf: csrfOf(shown), attempt: newer.claim_attempt_id, decision: "decline" };
    expect(titleOf(await browser.post("/claim", form))).toBe("You declined");
    // The claim of the older tab can still be decided after its own link is opened again.
    const late = await browser.post("/claim", fields({ decision: "decline" }));
    expect([late.status, titleOf(late)]).toEqual([409, "You declined"]);
    expect(late.text).toContain("Nothing was changed.");
    await browser.visit(linkOf(start));
    expect(titleOf(await browser.post("/claim", fields()))).toBe("The account is yours");
  });

  test("cannot revoke a key of another account", async () => {
    const other = await register(harness);
    const keys = await readJson<{ data: { id: string }[] }>(other.get("/v1/keys"));
    await browser.post("/claim", fields({ [`key.${keys.data[0]?.id ?? ""}`]: "revoke" }));
    expect((await other.get("/v1/account")).status).toBe(200);
  });

  test("an invited person joins and cannot change keys", async () => {
    await browser.post("/claim", fields());
    const invited = `invited-${email}`;
    const invitation = await startedClaim(agent.start(invited));
    const guest = await signedIn(harness, { email: invited });
    const asked = await guest.visit(linkOf(invitation));
    expect(titleOf(asked)).toBe("An agent invites you to a workspace");
    expect(asked.text).toContain(email);
    expect(asked.text).not.toContain("fieldset");
    const keys = await readJson<{ data: { id: string }[] }>(agent.get("/v1/keys"));
    const done = await guest.post("/claim", {
      csrf: csrfOf(asked),
      attempt: invitation.claim_attempt_id,
      user_code: invitation.claim_attempt.user_code,
      decision: "confirm",
      [`key.${keys.data[0]?.id ?? ""}`]: "revoke",
    });
    expect([done.status, titleOf(done)]).toEqual([200, "You have joined the workspace"]);
    expect((await agent.get("/v1/account")).status).toBe(200);
  });

  test("shows the claimed page after the expiry of the link", async () => {
    await browser.post("/claim", fields());
    harness.clock.now += HOUR_MS;
    expect(titleOf(await browser.visit("/claim"))).toBe("The account is yours");
  });

  test("shows another person with the same address that the link was used", async () => {
    await browser.post("/claim", fields());
    const twin = await signedIn(harness, { email, subject: "another subject" });
    const seen = await twin.visit(linkOf(start));
    expect([seen.status, titleOf(seen)]).toEqual([409, "Already claimed"]);
    // Also if the twin repeats the form of the person who claimed, with a token of its own session.
    const repeated = await twin.post("/claim", { ...fields(), csrf: twin.session.csrf });
    expect([repeated.status, titleOf(repeated)]).toEqual([409, "Already claimed"]);
    expect(repeated.text).not.toContain(agent.accountId);
  });

  test("shows a page for expired, superseded and otherwise claimed links", async () => {
    const expired = async () => [
      await browser.visit(linkOf(start)),
      await createBrowser(harness).visit(linkOf(start)),
    ];
    harness.clock.now += 900_000;
    for (const seen of await expired())
      expect([seen.status, titleOf(seen)]).toEqual([410, "This link has expired"]);
    const other = await startedClaim(agent.start(`other-${email}`));
    for (const seen of await expired())
      expect([seen.status, titleOf(seen)]).toEqual([410, "There is a newer link"]);
    await claimAs(harness, { email: `other-${email}` }, other);
    const seen = await browser.visit(linkOf(start));
    expect([seen.status, titleOf(seen)]).toEqual([409, "Claimed by someone else"]);
  });
});

describe("forged posts", () => {
  test.each([
    ["from another site", { "sec-fetch-site": "cross-site", origin: "https://evil.test" }],
    ["from a sibling host", { "sec-fetch-site": "same-site", origin: "http://sub.127.0.0.1" }],
    ["from the address bar", { "sec-fetch-site": "none" }],
    ["with a foreign origin only", { origin: "https://evil.test" }],
    ["with an opaque origin only", { origin: "null" }],
    ["without origin headers", {}],
  ])("%s are rejected and change nothing", async (_where, headers) => {
    const browser = await signedIn(harness, { email });
    const csrf = csrfOf(await browser.visit(linkOf(start)));
    const before = await readState();
    for (const decision of ["confirm", "decline"]) {
      const fields = { csrf, decision, user_code: start.claim_attempt.user_code };
      const response = await browser.post("/claim", fields, headers);
      expect(response.status).toBe(403);
      expect(titleOf(response)).toBe("Something went wrong");
    }
    expect(await readState()).toEqual(before);
  });

  test("a matching origin alone is accepted", async () => {
    const browser = await signedIn(harness, { email });
    const fields = confirmFields(await browser.visit(linkOf(start)), start);
    expect((await browser.post("/claim", fields, { origin: harness.baseUrl })).status).toBe(200);
  });

  test("without the token of the session are rejected", async () => {
    const browser = await signedIn(harness, { email });
    await browser.visit(linkOf(start));
    const eve = await signedIn(harness, { email: "eve@example.com" });
    const before = await readState();
    for (const csrf of ["", "x", eve.session.csrf]) {
      const fields = { csrf, decision: "confirm", user_code: start.claim_attempt.user_code };
      expect((await browser.post("/claim", fields)).status).toBe(403);
    }
    expect(await readState()).toEqual(before);
  });

  test("as JSON, as plain text or with repeated fields are rejected", async () => {
    const browser = await signedIn(harness, { email });
    const csrf = csrfOf(await browser.visit(linkOf(start)));
    const body = new URLSearchParams({
      csrf,
      decision: "confirm",
      user_code: start.claim_attempt.user_code,
    });
    for (const [type, text] of [
      ["application/json", JSON.stringify(Object.fromEntries(body))],
      ["text/plain", body.toString()],
      ["application/x-www-form-urlencoded", `${body.toString()}&decision=decline`],
    ] as const) {
      const response = await browser.go("/claim", {
        method: "POST",
        headers: { "content-type": type, "sec-fetch-site": "same-origin" },
        body: text,
      });
      expect([400, 415]).toContain(response.status);
    }
    expect(await statusOfPoll()).toBe(400);
  });

  test("without a session or by another person are rejected", async () => {
    const anonymous = createBrowser(harness);
    await anonymous.visit(linkOf(start));
    const response = await anonymous.go("/claim", {
      method: "POST",
      headers: {
        "content-type": "application/x-www-form-urlencoded",
        "sec-fetch-site": "same-origin",
      },
      body: "decision=confirm",
    });
    expect(response.status).toBe(403);
    const eve = await signedIn(harness, { email: "eve@example.com" });
    await eve.visit(linkOf(start));
    const before = await readState();
    for (const decision of ["confirm", "decline"]) {
      const fields = { csrf: eve.session.csrf, decision, user_code: start.claim_attempt.user_code };
      expect((await eve.post("/claim", fields)).status).toBe(403);
    }
    expect(await readState()).toEqual(before);
  });

  test("of a session that signed out are rejected", async () => {
    const browser = await signedIn(harness, { email });
    const csrf = csrfOf(await browser.visit(linkOf(start)));
    const cookie = browser.cookies.get("postern_session") ?? "";
    await browser.post("/signout", { csrf });
    browser.cookies.set("postern_session", cookie);
    const fields = { csrf, decision: "confirm", user_code: start.claim_attempt.user_code };
    const response = await browser.go("/claim", {
      method: "POST",
      headers: {
        "content-type": "application/x-www-form-urlencoded",
        "sec-fetch-site": "same-origin",
      },
      body: new URLSearchParams(fields).toString(),
    });
    expect(response.status).toBe(403);
    expect(await statusOfPoll()).toBe(400);
  });
});

describe("the code without the link", () => {
  test("finds the claim that names the signed-in address", async () => {
    const browser = await signedIn(harness, { email });
    const empty = await browser.visit("/claim");
    expect(titleOf(empty)).toBe("Enter the code");
    const found = await browser.post("/claim/code", {
      csrf: csrfOf(empty),
      user_code: start.claim_attempt.user_code,
    });
    expect(titleOf(found)).toBe("An agent wants to hand you its account");
  });

  test("lists the claims that wait for the verified address, which still ask for their code", async () => {
    const browser = await signedIn(harness, { email: email.toUpperCase() });
    await harness.db.write((tx) =>
      renameAccount(tx, actIn(agent.accountId, harness.clock.now), "Research agent"),
    );
    const other = await register(harness);
    await startedClaim(other.start(`other-${email}`));
    const listed = await browser.visit("/claim");
    expect(titleOf(listed)).toBe("Enter the code");
    expect(textOf(listed)).toContain(
      `Take over the account Research agent ( ${agent.accountId} ), requested less than a minute ago from the network 203.0.113.0/24`,
    );
    expect(listed.text).not.toContain(other.accountId);
    expect(listed.text).not.toContain(start.claim_attempt.user_code);
    const review = await browser.visit(`/claim?attempt=${start.claim_attempt_id}`);
    expect(titleOf(review)).toBe("An agent wants to hand you its account");
    const without = { ...confirmFields(review, start), user_code: "" };
    expect((await browser.post("/claim", without)).status).toBe(400);
    const wrong = {
      ...without,
      user_code: String(1_000_000 - Number(start.claim_attempt.user_code))
        .padStart(6, "0")
        .slice(-6),
    };
    for (let time = 0; time < 5; time++) await browser.post("/claim", wrong);
    expect(titleOf(await browser.visit("/claim"))).toBe("Too many wrong codes");
    expect((await browser.visit("/claim/code")).text).toContain("No claim waits for");
  });

  test("confirms a claim that was opened from the list", async () => {
    const browser = await signedIn(harness, { email });
    const review = await browser.visit(`/claim?attempt=${start.claim_attempt_id}`);
    expect(titleOf(await browser.post("/claim", confirmFields(review, start)))).toBe(
      "The account is yours",
    );
  });

  test("does not open the claim of another address by its id", async () => {
    const eve = await signedIn(harness, { email: `eve-${email}` });
    for (const id of [start.claim_attempt_id, "claim_none", ""]) {
      const page = await eve.visit(`/claim?attempt=${id}`);
      expect([id, page.status, titleOf(page)]).toEqual([id, 404, "This link is not valid"]);
      expect(page.text).not.toContain(email.slice(0, 12));
    }
    const anonymous = await createBrowser(harness).visit(
      `/claim?attempt=${start.claim_attempt_id}`,
    );
    expect(titleOf(anonymous)).toBe("Take over an agent&#39;s account");
  });

  test("takes another code while the link of an ended claim is open", async () => {
    const browser = await signedIn(harness, { email });
    await browser.visit(linkOf(start));
    const newer = await startedClaim(agent.start(email));
    const ended = await browser.visit("/claim");
    expect(titleOf(ended)).toBe("There is a newer link");
    expect(ended.text).toContain('href="/claim/code"');
    const entry = await browser.visit("/claim/code");
    const { user_code } = newer.claim_attempt;
    const found = await browser.post("/claim/code", { csrf: csrfOf(entry), user_code });
    expect(titleOf(found)).toBe("An agent wants to hand you its account");
  });

  test("finds nothing for another person, and five guesses are the limit", async () => {
    const eve = await signedIn(harness, { email: `eve-${email}` });
    const csrf = csrfOf(await eve.visit("/claim"));
    const guess = async () =>
      (await eve.post("/claim/code", { csrf, user_code: start.claim_attempt.user_code })).status;
    expect(await guess()).toBe(404);
    await startedClaim(agent.start(`eve-${email}`));
    const statuses = [];
    for (let time = 0; time < 5; time++) statuses.push(await guess());
    expect(statuses).toEqual([404, 404, 404, 404, 429]);
    const fields = { csrf, user_code: start.claim_attempt.user_code };
    const refused = await eve.post("/claim/code", fields);
    const seconds = Number(refused.headers.get("retry-after"));
    expect([refused.status, seconds > 0, seconds <= 600]).toEqual([429, true, true]);
    harness.clock.now += 600_000;
    expect(await guess()).toBe(404);
  });

  test("counts concurrent guesses", async () => {
    const eve = await signedIn(harness, { email: `eve-${email}` });
    const csrf = csrfOf(await eve.visit("/claim"));
    const guesses = Array.from({ length: 20 }, (_, index) =>
      eve.post("/claim/code", { csrf, user_code: String(100_000 + index) }),
    );
    const statuses = (await Promise.all(guesses)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 404)).toHaveLength(5);
    expect(statuses.filter((status) => status === 429)).toHaveLength(15);
  });
});
