import { expect, test } from "bun:test";
import { createUser, visitPage } from "../billing/console-user.ts";
import { startGateway } from "../support/gateway.ts";

test("the icon of the console, of narrow pages and of the site is the brand mark", async () => {
  const gateway = await startGateway();
  const { text: consolePage } = await visitPage(
    gateway,
    "/console",
    await createUser(gateway, "ada"),
  );
  const narrowPage = await (await fetch(`${gateway.url}/claim`)).text();
  const sitePage = await (await fetch(`${gateway.url}/docs`)).text();
  for (const text of [consolePage, narrowPage, sitePage]) {
    const brand = /class="(?:docs-)?brand"[^]*?<path d="([^"]+)"/.exec(text)?.[1] ?? "no brand";
    const icon = /<link rel="icon" href="data:image\/svg\+xml,([^"]+)"/.exec(text)?.[1] ?? "";
    expect(decodeURIComponent(icon)).toContain(`d="${brand}"`);
  }
  await gateway.stop();
});
