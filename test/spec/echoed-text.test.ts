// Errors repeat only the beginning of what the caller sent, so that an agent's context does not fill with its own text.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { type ApiRequest, call, type Json } from "./api-client.ts";

const LONG = "z".repeat(6_000);
const REPEATED_MAX = 200;
const ACCEPT = { accept: "application/json, text/event-stream" };

let gateway: Gateway;
let key: string;
beforeAll(async () => {
  gateway = await startGateway();
  key = (await registerAccount(gateway)).key;
});
afterAll(() => gateway.stop());

const callBody = (more: Json): ApiRequest => ({
  body: { model: "sim/echo", messages: [{ role: "user", content: "hello" }], ...more },
});
const tool = (params: Json): ApiRequest => ({
  headers: ACCEPT,
  body: { jsonrpc: "2.0", id: 1, method: "tools/call", params },
});
const CHAT = "POST /v1/chat/completions";

test.each<readonly [string, ApiRequest]>([
  [CHAT, callBody({ model: `sim/${LONG}` })],
  [CHAT, callBody({ provider: { [LONG]: 1 } })],
  [CHAT, callBody({ provider: { max_price: { [LONG]: 1 } } })],
  [CHAT, callBody({ provider: { only: [LONG] } })],
  [CHAT, callBody({ postern: { [LONG]: 1 } })],
  [CHAT, callBody({ service_tier: LONG })],
  [CHAT, { ...callBody({}), headers: { "x-postern-labels": `${LONG}=1` } }],
  [CHAT, { ...callBody({}), headers: { "x-postern-session": LONG } }],
  [CHAT, { ...callBody({}), headers: { "x-postern-max-cost-usd": LONG } }],
  ["POST /v1/responses", { body: { model: "sim/echo", input: "x", previous_response_id: LONG } }],
  ["POST /v1/keys", { body: { [LONG]: 1 } }],
  ["POST /v1/keys", { body: { scopes: [LONG] } }],
  ["POST /v1/keys", { raw: "x", headers: { "content-type": `text/${LONG}` } }],
  ["POST /v1/billing/invoice", { body: { amount_usd: LONG } }],
  ["POST /v1/provider-keys", { body: { provider: LONG, api_key: "sk-x" } }],
  ["POST /v1/webhooks", { body: { url: `https://${LONG}` } }],
  ["POST /agent/identity/claim", { body: { email: LONG } }],
  ["POST /oauth2/token", { body: { grant_type: LONG } }],
  [`GET /v1/usage?${LONG}=1`, {}],
  [`GET /v1/usage?outcome=${LONG}`, {}],
  [`GET /v1/models?fields=${LONG}`, {}],
  [`GET /v1/models/sim/${LONG}`, {}],
  [`GET /v1/${LONG}`, {}],
  [`DELETE /v1/sessions/${LONG}`, {}],
  ["POST /mcp", tool({ name: LONG })],
  ["POST /mcp", tool({ name: "get_usage", arguments: { [LONG]: 1 } })],
])("error %# repeats no long text", async (line, request) => {
  const { status, text } = await call(gateway, line, { key, ...request });
  expect([
    line.slice(0, 40),
    status >= 400 || text.includes('"error"') || text.includes("isError"),
  ]).toEqual([line.slice(0, 40), true]);
  expect(text.length).toBeLessThan(2_000);
  expect(text).not.toContain(LONG.slice(0, REPEATED_MAX + 1));
});
