// The key of the playground: capped, short-lived, one a person, and only for people who may create keys.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { TestUser } from "../billing/console-user.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { createConsoleFixture, type ConsoleFixture, listAudit } from "./console-fixture.ts";

describe.each([...STORE_KINDS])("the playground on %s", (store) => {
  let fixture: ConsoleFixture;
  beforeAll(async () => {
    fixture = await createConsoleFixture(store);
  });
  afterAll(() => fixture.gateway.stop());

  const path = (): string => `${fixture.gateway.url}/console/${fixture.account.id}/playground`;
  const createKey = (user: TestUser): Promise<Response> =>
    fetch(path(), {
      method: "POST",
      headers: { cookie: user.cookie, origin: fixture.gateway.url },
      body: new URLSearchParams({ csrf: user.csrf }),
      redirect: "manual",
    });
  const call = (key: string): Promise<Response> =>
    fetch(`${fixture.gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({
        model: "sim/echo",
        max_tokens: 20,
        messages: [{ role: "user", content: "Hello." }],
      }),
    });

  test("calls models, reads their usage, and is listed with its limit", async () => {
    const response = await createKey(fixture.owner);
    expect(response.status).toBe(200);
    expect(response.headers.get("cache-control")).toBe("no-store");
    const { api_key: key } = (await response.json()) as { readonly api_key: string };
    const reply = await call(key);
    expect(reply.status).toBe(200);
    const usage = await fetch(
      `${fixture.gateway.url}/v1/usage/${reply.headers.get("x-request-id")}`,
      { headers: { authorization: `Bearer ${key}` } },
    );
    expect(usage.status).toBe(200);
    const keys = await (
      await fetch(`${fixture.gateway.url}/v1/keys`, { headers: fixture.account.headers })
    ).json();
    expect(keys).toMatchObject({
      data: expect.arrayContaining([
        expect.objectContaining({
          name: "Playground",
          limit_usd: 1,
          expires_at: expect.any(String),
        }),
      ]),
    });
    const entries = await listAudit(fixture.gateway, fixture.account, "action=key.created");
    expect(entries).toContainEqual(
      expect.objectContaining({ actor: expect.objectContaining({ id: fixture.owner.personId }) }),
    );
  });

  test("replaces the person's earlier key", async () => {
    const [first, second] = [await createKey(fixture.owner), await createKey(fixture.owner)];
    const { api_key: earlier } = (await first.json()) as { readonly api_key: string };
    const { api_key: current } = (await second.json()) as { readonly api_key: string };
    expect([(await call(earlier)).status, (await call(current)).status]).toEqual([401, 200]);
  });

  test("counts against a developer's allowance, and is refused to others", async () => {
    expect((await createKey(fixture.developer)).status).toBe(200);
    expect((await createKey(fixture.otherOwner)).status).toBe(404);
    const page = await fetch(path(), { headers: { cookie: fixture.owner.cookie } });
    expect(await page.text()).toContain("Playground");
    const other = await fetch(path(), { headers: { cookie: fixture.otherOwner.cookie } });
    expect(other.status).toBe(404);
  });
});
