// Errors of pages: HTML for a browser, JSON for a program.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { visitPage } from "../billing/console-user.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

const HTML = "text/html,application/xhtml+xml,*/*;q=0.8";

let fixture: ConsoleFixture;
beforeAll(async () => {
  fixture = await createConsoleFixture("sqlite");
});
afterAll(() => fixture.gateway.stop());

describe("an unknown path or method", () => {
  test.each([
    ["/console/acct_none/keys/", 404],
    ["/console/acct_none/nope", 404],
    ["/operator/nope", 404],
    ["/console/acct_none/time-zone", 405],
    ["/pay/a/b/c/d", 404],
    ["/nope", 404],
    ["/docs-nope", 404],
    ["/v1beta", 404],
  ])("returns HTML to a browser and JSON to a program: %s", async (path, status) => {
    const request = (accept: string) => fetch(fixture.gateway.url + path, { headers: { accept } });
    const page = await request(HTML);
    expect([page.status, page.headers.get("content-type")]).toEqual([
      status,
      "text/html; charset=utf-8",
    ]);
    const text = await page.text();
    expect(text).not.toMatch(/openapi|`allow`/);
    expect(text.includes('href="/console"')).toBe(status === 404);
    const json = await request("*/*");
    expect([json.status, json.headers.get("content-type")]).toEqual([status, "application/json"]);
  });

  test.each(["/v1", "/v1/nope", "/agent/nope", "/oauth2/nope", "/.well-known/nope"])(
    "returns JSON even to a browser below the API's paths: %s",
    async (path) => {
      const response = await fetch(fixture.gateway.url + path, {
        headers: { accept: "text/html" },
      });
      expect([response.status, response.headers.get("content-type")]).toEqual([
        404,
        "application/json",
      ]);
    },
  );
});

test("an invalid query parameter tells the user to go back", async () => {
  const { gateway, account, owner } = fixture;
  const path = `/console/${account.id}/billing?cursor=zzz`;
  const { status, text } = await visitPage(gateway, path, owner);
  expect(status).toBe(400);
  expect(text).toContain("Go back");
  expect(text).not.toMatch(/next_cursor|query cursor/);
});
