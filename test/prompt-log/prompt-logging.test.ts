// Prompt logging, on both stores: off by default, sealed, read by people with the role only, and deleted.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { deriveKey } from "../../examples/derived-keys/derive-key.ts";
import { eraseClosedAccounts } from "../../src/account-data/erasure.ts";
import { secret } from "../../src/base/crypto/secret.ts";
import { DAY_MS } from "../../src/base/time.ts";
import { loadMasterSecret } from "../../src/config/master-secret.ts";
import {
  createPromptLog,
  PROMPT_DATA_KEYS,
  sweepPrompts,
} from "../../src/prompt-log/prompt-log.ts";
import { bytesOrNull, integer } from "../../src/store/db.ts";
import { reencryptRows } from "../../src/store/reencrypt-rows.ts";
import { makeMember, createUser, textOf, visitPage } from "../billing/console-user.ts";
import {
  type ConsoleFixture,
  createConsoleFixture,
  listAudit,
} from "../console/console-fixture.ts";
import { call, type Json, textAt, valueAt } from "../spec/api-client.ts";
import { registerAccount } from "../support/gateway.ts";
import { describeEachStore } from "../support/stores/stores.ts";

const SECRET_TEXT = "the launch code is 0451";
const PATH = "/v1/chat/completions";

describeEachStore((store) => {
  describe(`prompt logging on ${store}`, () => {
    let fixture: ConsoleFixture;
    let logging: string;
    beforeAll(async () => {
      fixture = await createConsoleFixture(store);
      const { gateway, owner, account } = fixture;
      const form = { do: "mint", name: "logged", limit_usd: "5", prompt_logging: "true" };
      const created = await visitPage(gateway, `/console/${account.id}/keys`, owner, form);
      logging = /pst-rt-[\w-]+/.exec(created.text)?.[0] ?? "";
      expect(logging).not.toBe("");
    });
    afterAll(() => fixture.gateway.stop());

    const send = async (key: string, more: Json = {}) => {
      const body = {
        model: "sim/echo",
        max_tokens: 50,
        messages: [{ role: "user", content: SECRET_TEXT }],
        ...more,
      };
      const reply = await call(fixture.gateway, `POST ${PATH}`, { key, body });
      return { ...reply, id: reply.headers.get("x-request-id") ?? "" };
    };
    const idOf = async (key: string) =>
      textAt((await call(fixture.gateway, "GET /v1/keys/self", { key })).body, "id");
    const rows = (id: string) =>
      fixture.gateway.server.db.all("select * from prompt_log where id = ?", [id]);
    const visit = (id: string, user = fixture.owner, page = "/texts") =>
      visitPage(fixture.gateway, `/console/${fixture.account.id}/logs/${id}${page}`, user);

    test("keeps nothing of a key without it", async () => {
      const { id, status } = await send(fixture.account.key);
      expect(status).toBe(200);
      expect(await rows(id)).toEqual([]);
      expect((await visit(id)).status).toBe(404);
      expect(textOf(await visit(id, fixture.owner, ""))).toContain("only for keys with");
    });

    test("shows the request and the reply, whole or as a stream, and records who looked", async () => {
      for (const more of [{}, { stream: true }]) {
        const { id } = await send(logging, more);
        const link = `/console/${fixture.account.id}/logs/${id}/texts`;
        expect((await visit(id, fixture.owner, "")).text).toContain(`href="${link}"`);
        expect(await listAudit(fixture.gateway, fixture.account, `target=${id}`)).toEqual([]);
        const page = textOf(await visit(id));
        expect(page.split(SECRET_TEXT).length).toBeGreaterThan(1);
        expect(page).toContain("stream" in more ? "data:" : "chat.completion");
        const [viewed, ...others] = await listAudit(
          fixture.gateway,
          fixture.account,
          "action=prompt.viewed",
        );
        expect(viewed).toMatchObject({
          target: id,
          actor: { type: "person", id: fixture.owner.personId },
        });
        expect(others.length).toBe("stream" in more ? 1 : 0);
      }
    });

    test("stores the texts encrypted, bound to their account, and moves them to a new secret", async () => {
      const { id } = await send(logging);
      const [row = {}] = await rows(id);
      const sealed = [bytesOrNull(row, "sealed_request"), bytesOrNull(row, "sealed_reply")];
      for (const bytes of sealed) expect(Buffer.from(bytes ?? []).includes("launch")).toBe(false);
      const { db } = fixture.gateway.server;
      await db.write((tx) =>
        tx.run("update prompt_log set account_id = ? where id = ?", [fixture.otherAccount.id, id]),
      );
      const path = `/console/${fixture.otherAccount.id}/logs/${id}/texts`;
      expect((await visitPage(fixture.gateway, path, fixture.otherOwner)).status).toBe(500);
      await db.write((tx) => tx.run("delete from prompt_log where id = ?", [id]));
      const kept = await send(logging);
      const { secret: former, store } = fixture.gateway.config;
      const previous = loadMasterSecret({ secret: former }, store.dataDir);
      const next = secret("the next master secret of this test");
      const rotated = await reencryptRows(db, { ...next, previous }, PROMPT_DATA_KEYS);
      expect(rotated).toMatchObject({ moved: rotated.read, unreadable: [] });
      const log = createPromptLog(next, 30);
      const read = await log.read(db, fixture.account.id, [kept.id], Date.now());
      expect(read.get(kept.id)?.request).toContain(SECRET_TEXT);
      const back = await reencryptRows(db, { ...previous, previous: next }, PROMPT_DATA_KEYS);
      expect(back).toMatchObject({ moved: rotated.read, unreadable: [] });
    });

    test("is read by owners and admins, and by no developer, stranger or key", async () => {
      const { id } = await send(logging);
      const { gateway, account, developer, otherOwner } = fixture;
      const admin = await createUser(gateway, "adam");
      await makeMember(gateway, account.id, admin, "admin");
      expect((await visit(id, admin)).status).toBe(200);
      expect((await visit(id, developer)).status).toBe(403);
      expect((await visit(id, developer, "")).text).not.toContain("/texts");
      expect((await visit(id, otherOwner)).status).toBe(404);
      const own = `/console/${fixture.otherAccount.id}/logs/${id}/texts`;
      expect((await visitPage(gateway, own, otherOwner)).status).toBe(404);
      const path = `/console/${account.id}/logs/${id}/texts`;
      const { authorization = "" } = account.headers;
      const byKey = await fetch(gateway.url + path, {
        headers: { authorization },
        redirect: "manual",
      });
      expect(byKey.status).toBe(303);
    });

    test("cannot be turned on or off by a key, also not for a key that it creates or narrows", async () => {
      const { gateway, account } = fixture;
      const on = { body: { name: "child", prompt_logging: true } };
      const created = await call(gateway, "POST /v1/keys", { key: account.key, ...on });
      expect([created.status, valueAt(created.body, "error.param")]).toEqual([
        403,
        "prompt_logging",
      ]);
      const id = await idOf(logging);
      const off = { key: logging, body: { prompt_logging: null } };
      const self = await call(gateway, `PATCH /v1/keys/${id}`, off);
      expect(self.status).toBe(403);
      const child = await call(gateway, "POST /v1/keys", {
        key: logging,
        body: { name: "child", limit_usd: 1 },
      });
      expect(valueAt(child.body, "prompt_logging")).toBe(true);
      expect((await rows((await send(textAt(child.body, "api_key"))).id)).length).toBe(1);
      expect((await rows((await send(deriveKey(logging, { usd: "0.5" }))).id)).length).toBe(1);
      const plain = deriveKey(account.key, { usd: "0.5" });
      expect((await rows((await send(plain)).id)).length).toBe(0);
    });

    test("keeps the request of a call that failed, without a reply, and replays no call twice", async () => {
      const content = "[[sim: status=500]]";
      const failed = await send(logging, { messages: [{ role: "user", content }] });
      expect(failed.status).toBeGreaterThan(499);
      const kept = await rows(failed.id);
      expect(kept.map((row) => row["sealed_reply"])).toEqual([null]);
      const headers = { "idempotency-key": "one-of-the-prompt-log" };
      const body = {
        model: "sim/echo",
        max_tokens: 9,
        messages: [{ role: "user", content: "Hi" }],
      };
      const first = await call(fixture.gateway, `POST ${PATH}`, { key: logging, headers, body });
      const again = await call(fixture.gateway, `POST ${PATH}`, { key: logging, headers, body });
      expect(again.headers.get("idempotent-replayed")).toBe("true");
      expect((await rows(first.headers.get("x-request-id") ?? "")).length).toBe(1);
      expect(await rows(again.headers.get("x-request-id") ?? "none")).toEqual([]);
    });

    test("is deleted when it expires, earlier if the workspace shortens the time", async () => {
      const { gateway, account } = fixture;
      const { db } = gateway.server;
      const { id } = await send(logging);
      const times = async () => {
        const [row = {}] = await rows(id);
        return { at: integer(row, "created_at"), until: integer(row, "expires_at") };
      };
      const { at } = await times();
      const change = (days: number | null) =>
        call(gateway, "PATCH /v1/account", {
          key: account.key,
          body: { prompt_retention_days: days },
        });
      expect((await change(0)).status).toBe(400);
      const shorter = await change(1);
      expect(valueAt(shorter.body, "prompt_retention_days")).toBe(1);
      expect(await times()).toEqual({ at, until: at + DAY_MS });
      await sweepPrompts(db, at + DAY_MS - 1);
      expect((await rows(id)).length).toBe(1);
      await sweepPrompts(db, at + DAY_MS);
      expect(await rows(id)).toEqual([]);
      // More than the gateway allows is cut to its setting. A derived key is read from the store.
      await change(365);
      const [later = {}] = await rows((await send(deriveKey(logging, { usd: "0.4" }))).id);
      expect(integer(later, "expires_at") - integer(later, "created_at")).toBe(30 * DAY_MS);
    });

    test("is erased with the account", async () => {
      const { gateway } = fixture;
      const { db } = gateway.server;
      const closed = await registerAccount(gateway);
      const created = await call(gateway, "POST /v1/keys", {
        key: closed.key,
        body: { prompt_logging: true },
      });
      expect(created.status).toBe(201);
      const { id } = await send(textAt(created.body, "api_key"));
      expect((await rows(id)).length).toBe(1);
      await call(gateway, "DELETE /v1/account", { key: closed.key });
      expect(await eraseClosedAccounts(db, Date.now() + 15 * DAY_MS)).toEqual([closed.id]);
      expect(await rows(id)).toEqual([]);
    });
  });
});
