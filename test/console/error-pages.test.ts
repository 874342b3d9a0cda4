// Errors of pages: HTML for a browser, JSON for a program.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { textOf, visitPage } from "../billing/console-user.ts";
import { sharedBrowser, closeWindows } from "../support/browser/chromium.ts";
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
    expect(text).toContain(path.startsWith("/operator") ? 'href="/operator"' : 'href="/console"');
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

describe("an error within a workspace", () => {
  test("keeps the sidebar, says what the role cannot see and who can help, and leads back", async () => {
    const { gateway, account, owner, developer } = fixture;
    const path = `/console/${account.id}`;
    const page = await visitPage(gateway, `${path}/webhooks`, developer);
    expect(page.status).toBe(403);
    expect(page.text).toContain(`You cannot see Webhooks in ${account.id}`);
    expect(textOf(page)).toContain("Your role in this workspace is developer");
    expect(textOf(page)).toContain(`${owner.email} owns this workspace`);
    expect(page.text).toContain(`href="${path}/keys"`);
    expect(page.text).toContain('class="sidebar"');
  });

  test("of a record that does not exist leads back to its list", async () => {
    const { gateway, account, owner } = fixture;
    const path = `/console/${account.id}`;
    const page = await visitPage(gateway, `${path}/keys/key_none`, owner);
    expect(page.status).toBe(404);
    expect(page.text).toContain("Back to Keys");
    expect(page.text).toContain('class="sidebar"');
    expect(textOf(page)).toContain("Request id");
  });

  test("says nothing about a workspace to a person who is not a member", async () => {
    const { gateway, account, otherOwner } = fixture;
    const page = await visitPage(gateway, `/console/${account.id}/webhooks`, otherOwner);
    expect(page.status).toBe(404);
    expect(page.text).not.toContain('class="sidebar"');
    expect(page.text).toContain('href="/console"');
  });
});

test("a session that ends while the playground is open offers the sign-in, keeps the input and goes on", async () => {
  const { gateway, account, owner, developer } = fixture;
  const browser = await sharedBrowser();
  try {
    const context = await browser.newContext();
    const signIn = async (cookie: string): Promise<void> => {
      const [name = "", value = ""] = cookie.split("=");
      await context.addCookies([{ name, value, url: gateway.url }]);
    };
    await signIn(developer.cookie);
    const page = await context.newPage();
    await page.goto(`${gateway.url}/console/${account.id}/playground`);
    await page.fill("#message", "Hello there");
    await context.clearCookies();
    await page.getByRole("button", { name: "Run" }).click();
    const error = page.locator("[data-run=model] [data-error]");
    await error.getByRole("link", { name: "Sign in" }).waitFor();
    expect(await error.textContent()).toContain("Your session has ended");
    expect(await page.inputValue("#message")).toBe("Hello there");
    // Another session has another form token.
    await signIn(owner.cookie);
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByText("You said: Hello there").first().waitFor();
    expect(await error.isVisible()).toBe(false);
  } finally {
    await closeWindows(browser);
  }
});
