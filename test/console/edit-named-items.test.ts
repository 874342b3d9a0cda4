// A guardrail, sink or MCP server that is opened from the list and saved again stays as it was, also in what its form does not show.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { closeWindows, sharedBrowser } from "../support/browser/chromium.ts";
import {
  startWorkspaceHarness,
  withBrowserPage,
  type WorkspaceHarness,
} from "./workspace-harness.ts";

let harness: WorkspaceHarness;
beforeAll(async () => {
  harness = await startWorkspaceHarness();
});
afterAll(async () => {
  await closeWindows(await sharedBrowser());
  await harness.gateway.stop();
});

const ITEMS = {
  "guardrails/no-secrets": {
    type: "patterns",
    entities: ["email", "iban"],
    action: "deny",
    phases: ["output"],
  },
  "guardrails/judge": {
    type: "hook",
    url: "https://example.com/guard?token=1",
    phases: ["input"],
    on_failure: "allow",
    timeout_ms: 900,
  },
  "guardrails/off-topic": {
    type: "topics",
    topics: ["legal advice", "weapons"],
    threshold: 0.7,
    on_failure: "allow",
    phases: ["input"],
  },
  "sinks/traces": {
    type: "otlp",
    url: "https://example.com/v1/traces",
    include_texts: false,
    headers: { authorization: "Basic a-secret" },
  },
  "sinks/files": {
    type: "s3",
    url: "https://s3.example.com/",
    bucket: "usage-of-acme",
    prefix: "postern/",
    region: "eu-central-1",
    access_key_id: "AKIA-TEST",
    secret_access_key: "a-secret",
    format: "csv",
    every: "hour",
  },
  "mcp-servers/docs": {
    url: "https://mcp.example.com/mcp",
    allowed_tools: ["search", "read"],
    headers: { authorization: "Bearer a-secret", "x-team": "docs" },
  },
} as const;

test("saving an opened guardrail, sink or MCP server changes nothing, and keeps its secrets", async () => {
  const { account, path, api, claim } = await harness.newWorkspace();
  for (const [item, settings] of Object.entries(ITEMS)) await api("POST", `/v1/${item}`, settings);
  const before = await Promise.all(Object.keys(ITEMS).map((item) => api("GET", `/v1/${item}`)));
  const { db } = harness.gateway.server;
  const secrets = () =>
    db.all(
      "select sealed from sink where account_id = ? union all select sealed from mcp_server where account_id = ?",
      [account.id, account.id],
    );
  const sealed = await secrets();
  await claim();
  await withBrowserPage(harness.gateway, harness.owner, async (page) => {
    for (const item of Object.keys(ITEMS)) {
      const [list = "", name = ""] = item.split("/");
      await page.goto(`${harness.gateway.url}${path}/${list}`);
      await page.getByRole("link", { name, exact: true }).click();
      await page
        .locator(":is(details[open], div.card) form:has([name=name]) [type=submit]")
        .click();
      await page.getByText("is saved.").waitFor();
    }
  });
  const after = await Promise.all(Object.keys(ITEMS).map((item) => api("GET", `/v1/${item}`)));
  const settingsOf = (records: readonly object[]) =>
    records.map((record) => ({ ...record, updated_at: undefined }));
  expect(settingsOf(after)).toEqual(settingsOf(before));
  expect(await secrets()).toEqual(sealed);
});

test("a sink keeps its headers at its URL, needs them again at another one, and loses them if they are removed", async () => {
  const { path, api, claim } = await harness.newWorkspace();
  const { url } = ITEMS["sinks/traces"];
  await api("POST", "/v1/sinks/traces", ITEMS["sinks/traces"]);
  await claim();
  const settings = async () => (await api("GET", "/v1/sinks/traces")) as object;
  await withBrowserPage(harness.gateway, harness.owner, async (page) => {
    await page.goto(`${harness.gateway.url}${path}/sinks`);
    await page.getByRole("link", { name: "traces", exact: true }).click();
    const form = page.locator("details[open] form:has([name=headers])");
    await form.locator("[name=url]").fill(`${url}/new`);
    await form.locator("[type=submit]").click();
    await page.getByText("belong to its former URL").waitFor();
    expect(await settings()).toMatchObject({ settings: { url, headers: ["authorization"] } });
    await form.locator("[name=headers]").fill("x-other:");
    await form.locator("[type=submit]").click();
    await page.getByText("Enter the value of the header x-other.").waitFor();
    await form.locator("[name=headers]").fill("");
    await form.locator("[type=submit]").click();
    await page.getByText("is saved.").waitFor();
    expect(await settings()).toMatchObject({ settings: { url: `${url}/new`, headers: [] } });
  });
});
