// Every form of the console keeps what was typed, and says beside the field what is wrong.

import { afterAll, describe, expect, test } from "bun:test";
import { createUser, makeDeveloper, visitPage } from "../billing/console-user.ts";
import { startWorkspaceHarness } from "./workspace-harness.ts";

let keyId: string;
const harness = await startWorkspaceHarness();
const workspace = await harness.newWorkspace();
({ id: keyId } = await workspace.api("POST", "/v1/keys", { name: "production" }));
await workspace.claim();
const developer = await createUser(harness.gateway, "dev");
await makeDeveloper(harness.gateway, workspace.account.id, developer);
afterAll(() => harness.gateway.stop());

interface BadForm {
  /** Below the workspace's pages, unless it begins with `/console/`. */
  readonly page: string;
  readonly form: Readonly<Record<string, string>>;
  /** The field with the error. */
  readonly field: string;
  readonly message: RegExp;
}

/** Hidden, or a secret that no page repeats. */
const NOT_SHOWN = new Set(["do", "once", "person", "api_key"]);
const ONCE = "0123456789abcdef0123456789abcdef";

const BAD_FORMS: readonly BadForm[] = [
  {
    page: "/console/workspaces",
    form: { name: "x".repeat(81) },
    field: "name",
    message: /80 characters/,
  },
  {
    page: "/keys",
    form: { do: "mint", name: "x".repeat(101), limit_usd: "5" },
    field: "name",
    message: /100 characters/,
  },
  {
    page: "/keys",
    form: { do: "mint", name: "ci", limit_usd: "ten" },
    field: "limit_usd",
    message: /US dollars/,
  },
  {
    page: "/keys",
    form: { do: "mint", name: "ci", last_day: "2001-02-03" },
    field: "last_day",
    message: /future|past/,
  },
  {
    page: "/keys",
    form: { do: "mint", name: "ci", requests_per_minute: "-4" },
    field: "requests_per_minute",
    message: /whole number|at least/,
  },
  {
    page: "/keys",
    form: { do: "mint", name: "ci", max_price_per_million_usd: "cheap" },
    field: "max_price_per_million_usd",
    message: /US dollars|number/,
  },
  {
    page: "/keys",
    form: { do: "mint", name: "ci", limit_usd: "5", alert_percents: "half" },
    field: "alert_percents",
    message: /percent|number/i,
  },
  {
    page: "/provider-keys",
    form: { do: "add", provider: "openai", api_key: "sk-typed", name: "team" },
    field: "api_key",
    message: /at least 16 characters/,
  },
  {
    page: "/members",
    form: { do: "invite", email: "olga@nowhere", role: "viewer" },
    field: "email",
    message: /email/i,
  },
  {
    page: "/webhooks",
    form: { do: "add", url: "ftp://example.com/hook" },
    field: "url",
    message: /https/,
  },
  {
    page: "/budgets",
    form: { daily_usd: "a lot", monthly_usd: "400" },
    field: "daily_usd",
    message: /US dollars/,
  },
  {
    page: "/budgets",
    form: { daily_usd: "4", monthly_usd: "9".repeat(60) },
    field: "monthly_usd",
    message: /at most/,
  },
  {
    page: "/settings",
    form: { name: "x".repeat(81) },
    field: "name",
    message: /80 characters/,
  },
  {
    page: "/closing",
    form: { do: "close", confirm: "something else" },
    field: "confirm",
    message: /Type/,
  },
  {
    page: "/responses",
    form: { store: "by_default", retention_days: "4000" },
    field: "retention_days",
    message: /30/,
  },
  {
    page: "/billing",
    form: { do: "buy", amount_usd: "0.1", once: ONCE },
    field: "amount_usd",
    message: /from \$1\.00 to/,
  },
  {
    page: "/billing",
    form: { do: "alert", low_usd: "some" },
    field: "low_usd",
    message: /US dollar amount/,
  },
];

describe.each(BAD_FORMS.map((bad) => [`${bad.page} with a bad ${bad.field}`, bad] as const))(
  "%s",
  (_, bad) => {
    test("keeps the fields, and names the error beside the field", () => expectFieldError(bad));
  },
);

test("the form of a key keeps the fields, and names the error beside the field", () =>
  expectFieldError({
    page: `/keys/${keyId}`,
    form: { do: "change", name: "production", limit_usd: "5 EUR" },
    field: "limit_usd",
    message: /US dollars/,
  }));

test("the form of a member keeps the fields, and names the error beside the field", () =>
  expectFieldError({
    page: "/members",
    form: {
      do: "change",
      person: developer.personId,
      role: "developer",
      allowance_usd: "a bit",
      allowance_window: "day",
    },
    field: "allowance_usd",
    message: /US dollars/,
  }));

async function expectFieldError({ page, form, field, message }: BadForm): Promise<void> {
  const path = page.startsWith("/console/") ? page : workspace.path + page;
  const { status, text } = await visitPage(harness.gateway, path, harness.owner, form);
  expect(status).toBe(400);
  const control = controlOf(text, field);
  expect(control).toContain('aria-invalid="true"');
  const id = / id="([^"]+)"/.exec(control)?.[1] ?? "";
  const error = new RegExp(`<p id="${id}-error"[^>]*>([^<]*)`).exec(text)?.[1];
  expect(error).toMatch(message);
  for (const [name, value] of Object.entries(form))
    if (!NOT_SHOWN.has(name)) expect(valueOf(text, name)).toBe(value);
}

/** The opening tag of the last input, select or text area with the name. */
function controlOf(html: string, name: string): string {
  return (
    html.match(new RegExp(`<(?:input|select|textarea)[^>]* name="${name}"[^>]*>`, "g"))?.at(-1) ??
    ""
  );
}

function valueOf(html: string, name: string): string | undefined {
  const control = controlOf(html, name);
  const after = html.slice(html.lastIndexOf(control) + control.length);
  if (control.startsWith("<textarea")) return after.slice(0, after.indexOf("</textarea>"));
  if (!control.startsWith("<select")) return / value="([^"]*)"/.exec(control)?.[1];
  const options = after.slice(0, after.indexOf("</select>"));
  return /<option value="([^"]*)" selected/.exec(options)?.[1];
}

test("amounts of money may have a dollar sign, and commas between thousands", async () => {
  const { gateway, owner } = harness;
  const send = async (page: string, form: Readonly<Record<string, string>>): Promise<void> => {
    const sent = await visitPage(gateway, `${workspace.path}${page}`, owner, form);
    expect([page, form, sent.status]).toEqual([page, form, 303]);
  };
  await send("/budgets", { daily_usd: "$20", monthly_usd: "1,000" });
  await send("/billing", { do: "alert", low_usd: "$1,000.50" });
  await send(`/keys/${keyId}`, { do: "change", limit_usd: "$2,500" });
  await send("/members", {
    do: "change",
    person: developer.personId,
    role: "developer",
    allowance_usd: "US$10",
    allowance_window: "month",
  });
  const { db } = gateway.server;
  const [wallet] = await db.all(
    "select day_budget, month_budget, low_at from wallet where account_id = ?",
    [workspace.account.id],
  );
  expect(Object.values(wallet ?? {}).map(Number)).toEqual([20e9, 1_000e9, 1_000.5e9]);
  const [key] = await db.all("select limit_nano from api_key where id = ?", [keyId]);
  expect(Number(key?.["limit_nano"])).toBe(2_500e9);
});
