// The agent's endpoints of a claim, on both stores.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { deriveKey, fingerprint } from "../../src/base/crypto/encryption.ts";
import { newId } from "../../src/base/id.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";
import {
  type Agent,
  agentOf,
  balanceOf,
  claimAs,
  createHarness,
  csrfOf,
  GRANT,
  linkOf,
  readJson,
  register,
  signedIn,
  startedClaim,
  type Harness,
} from "./harness.ts";

interface TokenError {
  readonly error: string;
  readonly error_description: string;
  readonly interval?: number;
}

interface AccountState {
  readonly account: { readonly claimed_at: string | null };
  readonly balance: { readonly credits: number };
  readonly members: readonly { readonly email: string; readonly role: string }[];
}

describeEachStore((kind, open) => {
  describe(`claim endpoints on ${kind}`, () => {
    let store: TestStore;
    let harness: Harness;
    let agent: Agent;
    let email: string;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());
    beforeEach(async () => {
      harness = createHarness(store.db);
      agent = await register(harness);
      email = `human-${crypto.randomUUID()}@example.com`;
    });

    test("a start returns the attempt, its link and its code", async () => {
      const response = await agent.start(email);
      expect(response.status).toBe(200);
      const start = await startedClaim(Promise.resolve(response));
      expect(start).toEqual({
        claim_attempt_id: expect.stringMatching(/^claim_[0-9a-z]{26}$/),
        status: "initiated",
        expires_at: "2026-11-21T09:45:00.000Z",
        claim_attempt: {
          user_code: expect.stringMatching(/^\d{6}$/),
          expires_in: 900,
          interval: 5,
          verification_uri: `${harness.baseUrl}/claim`,
          verification_uri_complete: expect.any(String),
        },
        next: [expect.objectContaining({ url: "/oauth2/token", body: { grant_type: GRANT } })],
      });
      const link = new URL(linkOf(start));
      expect(`${link.origin}${link.pathname}`).toBe(start.claim_attempt.verification_uri);
      expect(link.searchParams.get("user_code")).toBe(start.claim_attempt.user_code);
      expect(link.searchParams.get("token")).toMatch(/^[0-9A-Za-z]{43}$/);
      expect(response.headers.get("cache-control")).toBe("no-store");
    });

    test("the store holds neither the token nor the code", async () => {
      const start = await startedClaim(agent.start(email));
      const row = await store.db.get("select * from claim_attempt where id = ?", [
        start.claim_attempt_id,
      ]);
      const kept = JSON.stringify(row, (_key, value: unknown) =>
        typeof value === "bigint" ? Number(value) : value,
      );
      const token = new URL(linkOf(start)).searchParams.get("token") ?? "missing";
      expect(kept).not.toContain(token);
      expect(kept).not.toContain(`"${start.claim_attempt.user_code}"`);
    });

    test.each([
      ["nothing", undefined],
      ["a number", 7],
      ["no address", "example"],
      ["a space inside", "a b@example.com"],
      ["a trailing dot", "a.@example.com"],
      ["no domain", "a@"],
      ["a bare host", "a@localhost"],
      ["an invisible character", "a\u200Bb@example.com"],
      ["a direction mark", "a\u202Eb@example.com"],
      ["mixed scripts", "p\u0430ypal@example.com"],
      ["mixed scripts in the domain", "a@ex\u0430mple.com"],
      ["a decomposed letter", "jose\u0301@example.com"],
      ["a long local part", `${"a".repeat(250)}@example.com`],
      ["a line end", "a@example.com\r\nbcc: b@example.com"],
      ["a NUL", "a@example.com\u0000"],
      ["a path after the domain", "ops@example.com/.evil.com"],
      ["an encoded dot", "ops@example.com%2eevil.com"],
      ["a soft hyphen in the domain", "ops@exam\u00ADple.com"],
    ])("rejects a start with %s", async (_what, wrong) => {
      const response = await agent.start(wrong);
      expect(response.status).toBe(400);
      expect((await readJson<TokenError>(response)).error).toBe("invalid_request");
      const polled = await agent.poll();
      expect((await readJson<TokenError>(polled)).error).toBe("invalid_request");
    });

    test("rejects an unknown field, a wrong content type and malformed JSON", async () => {
      for (const [body, type] of [
        [JSON.stringify({ email, claim_token: "x" }), "application/json"],
        [`email=${email}`, "application/x-www-form-urlencoded"],
        ["{", "application/json"],
      ] as const) {
        const response = await harness.handle(
          new Request(`${harness.baseUrl}/agent/identity/claim`, {
            method: "POST",
            headers: { authorization: `Bearer ${agent.key}`, "content-type": type },
            body,
          }),
        );
        expect([400, 415]).toContain(response.status);
        expect((await readJson<TokenError>(response)).error).toBe("invalid_request");
      }
    });

    test.each(["/agent/identity/claim", "/oauth2/token"])(
      "%s without a valid key returns 401 with a challenge",
      async (path) => {
        const metadata = `resource_metadata="${harness.baseUrl}/.well-known/oauth-protected-resource"`;
        for (const [headers, challenge] of [
          [{}, `Bearer ${metadata}`],
          [
            { authorization: "Bearer pst-rt-nonsense" },
            `Bearer error="invalid_token", ${metadata}`,
          ],
        ] as const) {
          const response = await harness.handle(
            new Request(`${harness.baseUrl}${path}`, { method: "POST", headers }),
          );
          expect(response.status).toBe(401);
          expect(response.headers.get("www-authenticate")).toBe(challenge);
          expect(response.headers.get("cache-control")).toBe("no-store");
          expect(response.headers.get("pragma")).toBe("no-cache");
          expect((await readJson<TokenError>(response)).error).toBe("invalid_client");
        }
      },
    );

    test("a revoked key can neither start nor poll", async () => {
      await startedClaim(agent.start(email));
      const keys = await readJson<{ data: { id: string }[] }>(agent.get("/v1/keys"));
      await store.db.write((tx) =>
        tx.run("update api_key set revoked_at = 1 where id = ?", [keys.data[0]?.id ?? ""]),
      );
      expect((await agent.start(email)).status).toBe(401);
      expect((await agent.poll()).status).toBe(401);
    });

    test.each([
      ["an empty body", "", "invalid_request"],
      ["no grant type", "foo=bar", "invalid_request"],
      ["an empty grant type", "grant_type=", "invalid_request"],
      ["a repeated grant type", `grant_type=${GRANT}&grant_type=${GRANT}`, "invalid_request"],
      ["a repeated unknown parameter", `grant_type=${GRANT}&a=1&a=2`, "invalid_request"],
      [
        "another vendor",
        "grant_type=urn:workos:agent-auth:grant-type:claim",
        "unsupported_grant_type",
      ],
      ["another case", `grant_type=${GRANT.toUpperCase()}`, "unsupported_grant_type"],
      ["another grant", "grant_type=authorization_code&code=x", "unsupported_grant_type"],
      ["no attempt", `grant_type=${GRANT}`, "invalid_request"],
      ["an unknown attempt", `grant_type=${GRANT}&claim_attempt_id=claim_x`, "invalid_request"],
    ])("rejects a poll with %s", async (_what, form, error) => {
      const response = await agent.poll(form);
      expect(response.status).toBe(400);
      expect(response.headers.get("cache-control")).toBe("no-store");
      expect(response.headers.get("pragma")).toBe("no-cache");
      const body = await readJson<TokenError>(response);
      expect(body.error).toBe(error);
      expect(body.error_description).toMatch(/^[\x20\x21\x23-\x5b\x5d-\x7e]+$/);
    });

    test("a poll ignores unknown parameters and rejects JSON", async () => {
      await startedClaim(agent.start(email));
      const polled = await agent.poll({ grant_type: GRANT, resource: "x", client_id: "y" });
      expect((await readJson<TokenError>(polled)).error).toBe("authorization_pending");
      const json = await harness.handle(
        new Request(`${harness.baseUrl}/oauth2/token`, {
          method: "POST",
          headers: { authorization: `Bearer ${agent.key}`, "content-type": "application/json" },
          body: JSON.stringify({ grant_type: GRANT }),
        }),
      );
      expect((await readJson<TokenError>(json)).error).toBe("invalid_request");
    });

    test("a poll ignores the idempotency key", async () => {
      const start = await startedClaim(agent.start(email));
      const poll = () =>
        harness.handle(
          new Request(`${harness.baseUrl}/oauth2/token`, {
            method: "POST",
            headers: {
              authorization: `Bearer ${agent.key}`,
              "content-type": "application/x-www-form-urlencoded",
              "idempotency-key": "the same each time",
            },
            body: new URLSearchParams({ grant_type: GRANT }).toString(),
          }),
        );
      expect((await poll()).status).toBe(400);
      await claimAs(harness, { email }, start);
      expect((await poll()).status).toBe(200);
    });

    test("polls return pending, slow_down and then claimed each time", async () => {
      const start = await startedClaim(agent.start(email));
      expect((await readJson<TokenError>(agent.poll())).error).toBe("authorization_pending");
      const fast = await readJson<TokenError>(agent.poll());
      expect(fast).toMatchObject({
        error: "slow_down",
        interval: 10,
        code: "claim_polled_too_fast",
        next: [{ method: "GET", url: "/docs/api/poll-claim.md" }],
      });
      harness.clock.now += 10_000;
      expect((await readJson<TokenError>(agent.poll())).error).toBe("authorization_pending");
      const page = await claimAs(harness, { email }, start);
      expect(page.status).toBe(200);
      for (let time = 0; time < 2; time++) {
        const response = await agent.poll();
        expect(response.status).toBe(200);
        expect(response.headers.get("cache-control")).toBe("no-store");
        expect(response.headers.get("pragma")).toBe("no-cache");
        expect(await readJson<unknown>(response)).toEqual({
          status: "claimed",
          account: {
            id: agent.accountId,
            name: null,
            email: null,
            created_at: "2026-11-21T09:30:00.000Z",
            claimed_at: "2026-11-21T09:30:10.000Z",
            origin: "agent",
            receipts: false,
            data_policy: null,
            prompt_retention_days: null,
          },
        });
      }
    });

    test("a claimed account has its key, an owner and the bonus", async () => {
      await claimAs(harness, { email }, await startedClaim(agent.start(email)));
      const state = await readJson<AccountState>(agent.get("/v1/account"));
      expect(state.balance.credits).toBe(1_050_000);
      expect(state.members).toEqual([{ email, role: "owner" }]);
      expect(state.account.claimed_at).not.toBeNull();
      expect(await harness.auditedActions(agent.accountId)).toEqual([
        "key.created",
        "account.created",
        "claim.started",
        "account.claimed",
      ]);
    });

    test("polls distinguish expired, declined, superseded and claimed by someone else", async () => {
      const first = await startedClaim(agent.start(email));
      harness.clock.now += 900_000;
      expect((await readJson<TokenError>(agent.poll())).error).toBe("expired_token");

      const second = await startedClaim(agent.start(email));
      const browser = await signedIn(harness, { email });
      const page = await browser.visit(linkOf(second));
      await browser.post("/claim", {
        csrf: csrfOf(page),
        attempt: second.claim_attempt_id,
        decision: "decline",
      });
      expect((await readJson<TokenError>(agent.poll())).error).toBe("access_denied");

      const third = await startedClaim(agent.start(email));
      const other = `other-${email}`;
      const fourth = await startedClaim(agent.start(other));
      const pollThird = () =>
        agent.poll({ grant_type: GRANT, claim_attempt_id: third.claim_attempt_id });
      expect((await readJson<TokenError>(pollThird())).error).toBe("expired_token");
      await claimAs(harness, { email: other }, fourth);
      expect((await readJson<TokenError>(pollThird())).error).toBe("access_denied");
      expect((await agent.poll()).status).toBe(200);
      const pollFirst = agent.poll({ grant_type: GRANT, claim_attempt_id: first.claim_attempt_id });
      expect((await readJson<TokenError>(pollFirst)).error).toBe("access_denied");
    });

    test("each key polls the attempt that it started", async () => {
      const minted = await harness.handle(
        new Request(`${harness.baseUrl}/v1/keys`, {
          method: "POST",
          headers: { authorization: `Bearer ${agent.key}` },
        }),
      );
      const second = agentOf(
        harness,
        (await readJson<{ api_key: string }>(minted)).api_key,
        agent.accountId,
      );
      await startedClaim(agent.start(email));
      const start = await startedClaim(second.start(`other-${email}`));
      await claimAs(harness, { email: `other-${email}` }, start);
      expect((await second.poll()).status).toBe(200);
      expect((await readJson<TokenError>(agent.poll())).error).toBe("access_denied");
    });

    test("an attempt of another account is unknown", async () => {
      const start = await startedClaim(agent.start(email));
      const stranger = await register(harness);
      const response = await stranger.poll({
        grant_type: GRANT,
        claim_attempt_id: start.claim_attempt_id,
      });
      expect((await readJson<TokenError>(response)).error).toBe("invalid_request");
    });

    test("a second person joins as a developer, and the key keeps working", async () => {
      await claimAs(harness, { email }, await startedClaim(agent.start(email)));
      const invited = `invited-${email}`;
      const start = await startedClaim(agent.start(invited));
      expect((await readJson<TokenError>(agent.poll())).error).toBe("authorization_pending");
      await claimAs(harness, { email: invited }, start);
      expect((await agent.poll()).status).toBe(200);
      const state = await readJson<AccountState>(agent.get("/v1/account"));
      expect(state.members).toEqual([
        { email, role: "owner" },
        { email: invited, role: "developer" },
      ]);
      expect(state.balance.credits).toBe(1_050_000);
      await claimAs(harness, { email: invited }, await startedClaim(agent.start(invited)));
      expect((await agent.poll()).status).toBe(200);
      expect(
        (await harness.auditedActions(agent.accountId)).filter(
          (action) => action === "member.added",
        ),
      ).toHaveLength(1);
    });

    test("a human who claims two accounts gets two workspaces and one bonus", async () => {
      await claimAs(harness, { email }, await startedClaim(agent.start(email)));
      const second = await register(harness);
      await claimAs(harness, { email }, await startedClaim(second.start(email)));
      expect(await balanceOf(harness, agent.accountId)).toBe(1_050_000_000n);
      expect(await balanceOf(harness, second.accountId)).toBe(50_000_000n);
      const rows = await store.db.all(
        "select account_id, role from membership join person on person.id = membership.person_id where email = ?",
        [email],
      );
      expect(new Set(rows.map((row) => row["account_id"]))).toEqual(
        new Set([agent.accountId, second.accountId]),
      );
      expect(rows.every((row) => row["role"] === "owner")).toBe(true);
    });

    test("all spellings of a mailbox and all addresses of a subject share one bonus", async () => {
      const name = crypto.randomUUID().replaceAll("-", "");
      const spellings: [string, string][] = [
        [`${name}@gmail.com`, "one"],
        [`${name.slice(0, 9)}.${name.slice(9)}+x@googlemail.com`, "two"],
        [`else-${name}@example.com`, "one"],
      ];
      const balances = [];
      for (const [address, subject] of spellings) {
        const another = await register(harness);
        const start = await startedClaim(another.start(address));
        const page = await claimAs(
          harness,
          { email: address, subject: `${name} ${subject}` },
          start,
        );
        expect(page.status).toBe(200);
        balances.push(await balanceOf(harness, another.accountId));
      }
      expect(balances).toEqual([1_050_000_000n, 50_000_000n, 50_000_000n]);
    });

    test("limits starts per account and hour", async () => {
      harness = createHarness(store.db, { limits: { startsPerAccount: 3, bonusPerDay: 0n } });
      agent = await register(harness);
      const statuses = [];
      for (let time = 0; time < 4; time++) statuses.push((await agent.start(email)).status);
      expect(statuses).toEqual([200, 200, 200, 429]);
      const refused = await agent.start(`other-${email}`);
      expect(refused.status).toBe(429);
      expect(Number(refused.headers.get("retry-after"))).toBe(1_800);
      harness.clock.now += 1_800_000;
      expect((await agent.start(email)).status).toBe(200);
    });

    test("starts by other accounts do not exhaust the limit for an address", async () => {
      harness = createHarness(store.db, { limits: { startsPerAccount: 3, bonusPerDay: 0n } });
      agent = await register(harness);
      for (let accounts = 0; accounts < 12; accounts++) {
        const stranger = await register(harness);
        for (let time = 0; time < 4; time++) await stranger.start(email);
      }
      const start = await startedClaim(agent.start(email.toUpperCase()));
      expect((await claimAs(harness, { email }, start)).status).toBe(200);
    });

    test("finds a claim by its code among hundreds that name the same address", async () => {
      const mine = await startedClaim(agent.start(email));
      await store.db.write(async (tx) => {
        for (let index = 0; index < 330; index++)
          await tx.run(
            `insert into claim_attempt (id, account_id, ordinal, key_id, email, email_folded, token_hash, code_hash,
               network, invitation, created_at, expires_at, interval_ms, wrong_codes, bonus)
             select ?, account_id, ordinal + ?, key_id, email, email_folded, ?, ?, network, invitation, created_at,
               expires_at, interval_ms, 0, 0 from claim_attempt where id = ?`,
            [
              newId("claim", harness.clock.now + 1),
              index + 1,
              `t${email}${index}`,
              `c${index}`,
              mine.claim_attempt_id,
            ],
          );
      });
      const browser = await signedIn(harness, { email });
      const entered = await browser.post("/claim/code", {
        csrf: csrfOf(await browser.visit("/claim")),
        user_code: mine.claim_attempt.user_code,
      });
      expect([entered.status, entered.text.includes(agent.accountId)]).toEqual([200, true]);
    });

    test("finds neither of two open claims with the same code", async () => {
      const mine = await startedClaim(agent.start(email));
      const code = mine.claim_attempt.user_code;
      let twin = await startedClaim((await register(harness)).start(email));
      const find = (id: string) =>
        store.db.write((tx) => {
          const claimer = { personId: id, issuer: "i", subject: id, email };
          return harness.claims.findByCode(tx, claimer, code, harness.clock.now);
        });
      for (let time = 0; twin.claim_attempt.user_code === code && time < 5; time++)
        twin = await startedClaim((await register(harness)).start(email));
      expect((await find("before"))?.id).toBe(mine.claim_attempt_id);
      await store.db.write((tx) =>
        tx.run("update claim_attempt set code_hash = ? where id = ?", [
          fingerprint(
            deriveKey(harness.master, "claim-code/v1"),
            `${twin.claim_attempt_id} ${code}`,
          ),
          twin.claim_attempt_id,
        ]),
      );
      expect(await find("after")).toBeUndefined();
    });

    test("a start does not reveal whether an address is known", async () => {
      await claimAs(harness, { email }, await startedClaim(agent.start(email)));
      const another = await register(harness);
      const known = await another.start(email);
      const unknown = await another.start(`unknown-${email}`);
      const shape = async (response: Response) =>
        JSON.stringify(await response.json()).replaceAll(/[0-9a-zA-Z]{26,43}|"\d{6}"|=\d{6}/g, "…");
      expect(known.status).toBe(unknown.status);
      expect(await shape(known)).toBe(await shape(unknown));
    });

    test("a start can be retried with its idempotency key", async () => {
      const headers = { "idempotency-key": crypto.randomUUID() };
      const first = await startedClaim(agent.start(email, headers));
      expect(await startedClaim(agent.start(email, headers))).toEqual(first);
    });
  });
});
