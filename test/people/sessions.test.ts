// The session cookie, the list of sessions and every way to end one.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { deriveKey, fingerprint } from "../../src/base/crypto/encryption.ts";
import { IDLE_MS, LIFETIME_MS, listSessions, sweepSessions } from "../../src/people/sessions.ts";
import { createHarness, csrfOf, signedIn, T0, type Harness } from "../claims/harness.ts";
import { describeEachStore, type TestStore } from "../support/stores/stores.ts";

describeEachStore((kind, open) => {
  describe(`sessions on ${kind}`, () => {
    let store: TestStore;
    let harness: Harness;
    let email: string;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());
    beforeEach(() => {
      harness = createHarness(store.db);
      email = `human-${crypto.randomUUID()}@example.com`;
    });
    const isIn = async (browser: { go: (path: string) => Promise<Response> }) =>
      (await browser.go("/sessions")).status === 200;

    test("binds the cookie to the host on https", async () => {
      const secure = createHarness(store.db, { baseUrl: "https://gateway.test" });
      const browser = await signedIn(secure, { email });
      expect([...browser.cookies.keys()]).toEqual(["__Host-postern_session"]);
      const cookie = await store.db.write((tx) =>
        secure.sessions.begin(tx, {
          personId: browser.session.personId,
          network: "n",
          browser: "b",
          cookies: null,
          now: T0,
        }),
      );
      expect(cookie).toMatch(
        /^__Host-postern_session=[0-9A-Za-z]{43}; Path=\/; Max-Age=604800; HttpOnly; SameSite=Lax; Secure$/,
      );
    });

    test("is recognized by its cookie alone", () => {
      expect(harness.sessions.hasCookie("theme=dark; postern_session=x")).toBe(true);
      expect(harness.sessions.hasCookie("not_postern_session=x")).toBe(false);
      expect(harness.sessions.hasCookie(null)).toBe(false);
    });

    test("stores only the fingerprint of the token", async () => {
      const browser = await signedIn(harness, { email });
      const token = browser.cookies.get("postern_session") ?? "missing";
      const rows = await store.db.all("select hash from session where person_id = ?", [
        browser.session.personId,
      ]);
      const hash = fingerprint(deriveKey(harness.master, "session/v1"), token);
      expect(rows.map((row) => row["hash"])).toEqual([hash]);
    });

    test("ends after twelve hours without use", async () => {
      const browser = await signedIn(harness, { email });
      harness.clock.now += IDLE_MS - 1;
      expect(await isIn(browser)).toBe(true);
      harness.clock.now += IDLE_MS - 1;
      expect(await isIn(browser)).toBe(true);
      harness.clock.now += IDLE_MS;
      expect(await isIn(browser)).toBe(false);
    });

    test("ends after a week, even if used", async () => {
      const browser = await signedIn(harness, { email });
      for (let at = 0; at + IDLE_MS / 2 < LIFETIME_MS; at += IDLE_MS / 2) {
        harness.clock.now = T0 + at;
        expect(await isIn(browser)).toBe(true);
      }
      harness.clock.now = T0 + LIFETIME_MS;
      expect(await isIn(browser)).toBe(false);
    });

    test("is replaced by the next sign-in", async () => {
      const browser = await signedIn(harness, { email });
      const token = browser.cookies.get("postern_session") ?? "";
      const cookie = await store.db.write((tx) =>
        harness.sessions.begin(tx, {
          personId: browser.session.personId,
          network: "n",
          browser: "b",
          cookies: `postern_session=${token}`,
          now: T0,
        }),
      );
      expect(cookie).not.toContain(token);
      expect(await isIn(browser)).toBe(false);
    });

    test("lists the sessions of a person, who can end each", async () => {
      const [first, second, third, eve] = [
        await signedIn(harness, { email }),
        await signedIn(harness, { email }),
        await signedIn(harness, { email }),
        await signedIn(harness, { email: `eve-${email}` }),
      ];
      const { personId } = first.session;
      expect(await listSessions(store.db, personId, T0)).toHaveLength(3);
      const csrf = csrfOf(await first.visit("/sessions"));

      const foreign = await eve.post("/sessions", {
        csrf: eve.session.csrf,
        session: second.session.sessionId,
      });
      expect(foreign.status).toBe(404);
      expect(await isIn(second)).toBe(true);

      await first.post("/sessions", { csrf, session: second.session.sessionId });
      expect([await isIn(first), await isIn(second), await isIn(third)]).toEqual([
        true,
        false,
        true,
      ]);
      await first.post("/sessions", { csrf, session: "others" });
      expect([await isIn(first), await isIn(third), await isIn(eve)]).toEqual([true, false, true]);
    });

    test("rejects a forged sign-out", async () => {
      const browser = await signedIn(harness, { email });
      const csrf = csrfOf(await browser.visit("/signout"));
      const evil = { "sec-fetch-site": "cross-site" };
      expect((await browser.post("/signout", { csrf }, evil)).status).toBe(403);
      expect((await browser.post("/signout", { csrf: "x" })).status).toBe(403);
      await browser.visit("/signout");
      expect(await isIn(browser)).toBe(true);
      const out = await browser.post("/signout", { csrf });
      expect(out.text).toContain("You are signed out");
      expect(browser.cookies.has("postern_session")).toBe(false);
      const again = await browser.post("/signout", { csrf });
      expect([again.status, again.text]).toEqual([
        200,
        expect.stringContaining("You are signed out"),
      ]);
      expect((await browser.post("/signout", { csrf }, evil)).status).toBe(403);
    });

    test("redirects to sign-in with the return path", async () => {
      const { cookies, go } = await signedIn(harness, { email });
      cookies.set("postern_session", "x".repeat(43));
      const answer = await go("/sessions?a=1");
      expect(answer.headers.get("location")).toBe("/signin?return_to=%2Fsessions%3Fa%3D1");
    });

    test("deletes expired sessions", async () => {
      const browser = await signedIn(harness, { email });
      await store.db.write((tx) => sweepSessions(tx, T0 + 2 * LIFETIME_MS + 1));
      const { personId } = browser.session;
      expect(await store.db.all("select id from session where person_id = ?", [personId])).toEqual(
        [],
      );
    });
  });
});
