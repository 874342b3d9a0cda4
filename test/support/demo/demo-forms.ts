// What the pages of the demonstration show beyond a workspace's own history: open claims, sign-ins, invoices and the work of
// operators. Each function returns the path of a page.

import { newFormToken } from "../../../src/idempotency/form-submission.ts";
import {
  fetchPage,
  hiddenFields,
  type OperatorHarness,
  type OperatorSession,
} from "../../operator/harness.ts";
import { type Gateway, registerAccount } from "../gateway.ts";
import { pkce, queryOf } from "../pkce.ts";
import type { Demo } from "./demo-store.ts";

const APP_URL = "http://127.0.0.1:9/callback";

async function post<T>(
  gateway: Gateway,
  path: string,
  { headers, body }: { readonly headers?: HeadersInit; readonly body: object | URLSearchParams },
): Promise<T> {
  const response = await fetch(gateway.url + path, {
    method: "POST",
    headers:
      headers ?? (body instanceof URLSearchParams ? {} : { "content-type": "application/json" }),
    body: body instanceof URLSearchParams ? body : JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
  // Safe because the callers name fields that the documented responses have.
  return (await response.json()) as T;
}

const pathOf = (url: string): string => url.slice(new URL(url).origin.length);

/** The review of a claim by the person whose address the agent named. */
export async function claimPath(gateway: Gateway, { owner }: Demo): Promise<string> {
  const { headers } = await registerAccount(gateway);
  const { claim_attempt: attempt } = await post<{
    readonly claim_attempt: { readonly verification_uri_complete: string };
  }>(gateway, "/agent/identity/claim", { headers, body: { email: owner.email } });
  return pathOf(attempt.verification_uri_complete);
}

export async function devicePath(gateway: Gateway): Promise<string> {
  const { verification_uri_complete: url } = await post<{
    readonly verification_uri_complete: string;
  }>(gateway, "/oauth/device_authorization", {
    body: new URLSearchParams({ surface: "claude_code" }),
  });
  return pathOf(url);
}

export async function authorizePath(gateway: Gateway): Promise<string> {
  const { client_id: clientId } = await post<{ readonly client_id: string }>(
    gateway,
    "/mcp/register",
    { body: { client_name: "Code editor", redirect_uris: [APP_URL] } },
  );
  const query = new URLSearchParams({
    response_type: "code",
    client_id: clientId,
    redirect_uri: APP_URL,
    state: "abc",
    code_challenge: pkce().challenge,
    code_challenge_method: "S256",
  });
  return `/mcp/authorize?${query.toString()}`;
}

export async function connectPath(): Promise<string> {
  const query = queryOf({
    callback_url: APP_URL,
    code_challenge: pkce().challenge,
    code_challenge_method: "S256",
    limit: "3",
  });
  return `/connect?${query}`;
}

export async function payPath(gateway: Gateway, { account }: Demo): Promise<string> {
  const { pay_url: url } = await post<{ readonly pay_url: string }>(
    gateway,
    "/v1/billing/invoice",
    { headers: account.headers, body: { amount_usd: 25 } },
  );
  return pathOf(url);
}

/** Incidents, blocks and a change that waits for a second operator. */
export async function createOperatorRecords(
  harness: OperatorHarness,
  operator: OperatorSession,
  accountId: string,
): Promise<void> {
  const send = async (path: string, fields: Readonly<Record<string, string>>): Promise<void> => {
    const form = { csrf: operator.csrf, form: newFormToken(), ...fields };
    const { status, text } = await fetchPage(harness, path, operator, { form });
    if (status !== 303) throw new Error(`${path}: ${status} ${text.slice(0, 300)}`);
  };
  await send("/operator/incidents", {
    incident: "",
    title: "Slow replies of Anthropic's models",
    impact: "degraded",
    state: "investigating",
    message: "Replies start later than usual. We send calls to other regions.",
  });
  await send("/operator/controls", {
    do: "block",
    kind: "network",
    value: "203.0.113.0/24",
    reason: "registers accounts by the hundred",
  });
  await send("/operator/controls", {
    do: "block",
    kind: "email_domain",
    value: "disposable.example",
    reason: "throw-away addresses",
  });
  const path = `/operator/accounts/${accountId}`;
  await send(path, {
    ...hiddenFields(await fetchPage(harness, path, operator), "grant"),
    usd: "12.50",
    reason: "compensation for the outage of November 3",
    confirm: "yes",
  });
}
