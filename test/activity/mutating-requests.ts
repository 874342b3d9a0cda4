// A valid request of each route that changes something.

import { expect } from "bun:test";
import { newFormToken } from "../../src/idempotency/form-submission.ts";
import { listChangeRequests, requestChange } from "../../src/operator/accounts/change-requests.ts";
import { createSlowKey, waitForEnd } from "../batches/batch-harness.ts";
import {
  createUser,
  makeOwner,
  type PageResponse,
  type TestUser,
  visitPage,
} from "../billing/console-user.ts";
import {
  fetchPage,
  hiddenFields,
  insertUnclearPayment,
  OPERATOR_EMAIL,
  type OperatorSession,
  signInOperator,
} from "../operator/harness.ts";
import { chat, textAt } from "../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import type { StoreKind } from "../support/stores/stores.ts";

/** Whom the requests are about. */
export interface World {
  readonly gateway: Gateway;
  /** Without an owner. */
  readonly account: TestAccount;
  /** Owned by `owner`. */
  readonly workspace: TestAccount;
  readonly owner: TestUser;
  readonly operator: OperatorSession;
}

type Json = Readonly<Record<string, unknown>>;
type Send = () => Promise<{ readonly status: number }>;

/** Prepares a valid request of each route that leaves an audit entry, and returns the function that sends it. */
export const REQUESTS: Readonly<Record<string, (world: World) => Promise<Send> | Send>> = {
  createAccount: (world) => () => send(world, "POST", "/v1/accounts", {}),
  changeAccountSettings: (world) => () => send(world, "PATCH", "/v1/account", { name: "Acme" }),
  closeAccount: async ({ gateway }) => {
    const account = await registerAccount(gateway);
    return () => send({ gateway, account }, "DELETE", "/v1/account");
  },
  reopenAccount: async ({ gateway }) => {
    const account = await registerAccount(gateway);
    await send({ gateway, account }, "DELETE", "/v1/account");
    return () => send({ gateway, account }, "POST", "/v1/account/reopen");
  },
  changeBudgets: (world) => () => send(world, "PATCH", "/v1/account/budgets", { daily_usd: 5 }),
  changeResponseStorage: (world) => () =>
    send(world, "PATCH", "/v1/account/response-storage", { retention_days: 7 }),
  changeBalanceAlert: (world) => () =>
    send(world, "PATCH", "/v1/account/balance-alert", { low_usd: 5 }),
  changeBillingDetails: (world) => () =>
    send(world, "PATCH", "/v1/billing/details", { name: "Example Ltd" }),
  saveMcpServer: (world) => () => send(world, "POST", "/v1/mcp-servers/docs", MCP_SERVER),
  deleteMcpServer: async (world) => {
    await send(world, "POST", "/v1/mcp-servers/docs", MCP_SERVER);
    return () => send(world, "DELETE", "/v1/mcp-servers/docs");
  },
  saveGuardrail: (world) => () => send(world, "POST", "/v1/guardrails/no-mail", GUARDRAIL),
  deleteGuardrail: async (world) => {
    await send(world, "POST", "/v1/guardrails/no-mail", GUARDRAIL);
    return () => send(world, "DELETE", "/v1/guardrails/no-mail");
  },
  savePreset: (world) => () => send(world, "POST", "/v1/presets/reviewer", { temperature: 0 }),
  deletePreset: async (world) => {
    await send(world, "POST", "/v1/presets/reviewer", {});
    return () => send(world, "DELETE", "/v1/presets/reviewer");
  },
  saveSink: (world) => () => send(world, "POST", "/v1/sinks/traces", SINK),
  deleteSink: async (world) => {
    await send(world, "POST", "/v1/sinks/traces", SINK);
    return () => send(world, "DELETE", "/v1/sinks/traces");
  },
  createKey: (world) => () => send(world, "POST", "/v1/keys", { name: "ci" }),
  changeKey: async (world) => {
    const { id } = await create(world, "/v1/keys", { name: "ci" });
    return () => send(world, "PATCH", `/v1/keys/${id}`, { scopes: ["models:write"] });
  },
  revokeKey: async (world) => {
    const { id } = await create(world, "/v1/keys", { name: "ci" });
    return () => send(world, "DELETE", `/v1/keys/${id}`);
  },
  addProviderKey: (world) => () => send(world, "POST", "/v1/provider-keys", PROVIDER_KEY),
  changeProviderKey: async (world) => {
    const { id } = await create(world, "/v1/provider-keys", PROVIDER_KEY);
    return () => send(world, "PATCH", `/v1/provider-keys/${id}`, { name: "team" });
  },
  deleteProviderKey: async (world) => {
    const { id } = await create(world, "/v1/provider-keys", PROVIDER_KEY);
    return () => send(world, "DELETE", `/v1/provider-keys/${id}`);
  },
  stopAgentSession: async (world) => {
    await callInSession(world.gateway, world.account, "one");
    return () => send(world, "DELETE", "/v1/sessions/one");
  },
  createBatch: (world) => () => send(world, "POST", "/v1/batches", BATCH),
  cancelBatch: async (world) => {
    const { id } = await createSlowly(world, "/v1/batches", BATCH);
    return () => send(world, "POST", `/v1/batches/${id}/cancel`);
  },
  createMessageBatch: (world) => () => send(world, "POST", "/v1/messages/batches", MESSAGE_BATCH),
  cancelMessageBatch: async (world) => {
    const { id } = await createSlowly(world, "/v1/messages/batches", MESSAGE_BATCH);
    return () => send(world, "POST", `/v1/messages/batches/${id}/cancel`);
  },
  deleteMessageBatch: async (world) => {
    const { id } = await create(world, "/v1/messages/batches", MESSAGE_BATCH);
    await waitForEnd(world.gateway, world.account, id);
    return () => send(world, "DELETE", `/v1/messages/batches/${id}`);
  },
  uploadFile: (world) => () => uploadFile(world),
  deleteFile: async (world) => {
    const { id } = (await (await uploadFile(world)).json()) as { readonly id: string };
    return () => send(world, "DELETE", `/v1/files/${id}`);
  },
  createWebhook: (world) => () => send(world, "POST", "/v1/webhooks", WEBHOOK),
  changeWebhook: async (world) => {
    const { id } = await create(world, "/v1/webhooks", WEBHOOK);
    return () => send(world, "PATCH", `/v1/webhooks/${id}`, { description: "ours" });
  },
  deleteWebhook: async (world) => {
    const { id } = await create(world, "/v1/webhooks", WEBHOOK);
    return () => send(world, "DELETE", `/v1/webhooks/${id}`);
  },
  rotateKey: async (world) => {
    const { id } = await create(world, "/v1/keys", {});
    return () => send(world, "POST", `/v1/keys/${id}/rotate`);
  },
  rotateWebhookSecret: async (world) => {
    const { id } = await create(world, "/v1/webhooks", WEBHOOK);
    return () => send(world, "POST", `/v1/webhooks/${id}/rotate`);
  },
  testWebhook: async (world) => {
    const { id } = await create(world, "/v1/webhooks", WEBHOOK);
    return () => send(world, "POST", `/v1/webhooks/${id}/test`);
  },
  replayWebhookDelivery: async (world) => {
    const { id } = await create(world, "/v1/webhooks", WEBHOOK);
    const delivery = await create(world, `/v1/webhooks/${id}/test`);
    return () => send(world, "POST", `/v1/webhooks/${id}/deliveries/${delivery.id}/replay`);
  },
  createInvoice: (world) => () => send(world, "POST", "/v1/billing/invoice", { amount_usd: 10 }),
  voidInvoice: async (world) => {
    const { id } = await create(world, "/v1/billing/invoice", { amount_usd: 10 });
    return () => send(world, "POST", `/v1/billing/invoice/${id}/void`);
  },
  changeAutoTopUp: async (world) => {
    const account = await workspaceWithTopUp(world);
    const change = { monthly_ceiling_usd: 50 };
    return () => send({ ...world, account }, "PATCH", "/v1/billing/auto-top-up", change);
  },
  disableAutoTopUp: async (world) => {
    const account = await workspaceWithTopUp(world);
    return () => send({ ...world, account }, "DELETE", "/v1/billing/auto-top-up");
  },
  startClaim: (world) => () =>
    send(world, "POST", "/agent/identity/claim", { email: "ada@example.com" }),
  decideClaim: async (world) => {
    const { gateway, owner } = world;
    const account = await registerAccount(gateway);
    const started = await create({ gateway, account }, "/agent/identity/claim", {
      email: owner.email,
    });
    // Safe because the response of the endpoint has these fields.
    const attempt = started["claim_attempt"] as Readonly<Record<string, string>>;
    const link = new URL(attempt["verification_uri_complete"] ?? "");
    const opened = await visitPage(gateway, link.pathname + link.search, owner);
    const linkCookie = opened.headers.get("set-cookie")?.split(";")[0] ?? "";
    const viewer = { ...owner, cookie: `${owner.cookie}; ${linkCookie}` };
    const page = await visitPage(gateway, "/claim", viewer);
    const [, id = ""] = /name="attempt" value="([^"]+)"/.exec(page.text) ?? [];
    return () => visitPage(gateway, "/claim", viewer, { decision: "decline", attempt: id });
  },
  decideDeviceSignIn: async (world) => {
    const { user_code: code } = await startDeviceSignIn(world);
    return () => approveDevice(world, code);
  },
  decideAppSignIn: (world) => () => approveAppSignIn(world),
  redeemAppCode: async (world) => {
    const { location } = await approveAppSignIn(world);
    return () => redeemAppCode(world, location);
  },
  revokeConnectedApp: async (world) => {
    const { location } = await approveAppSignIn(world);
    await redeemAppCode(world, location);
    const { workspace } = world;
    const row = await world.gateway.server.db.get(
      "select id from api_key where account_id = ? and app is not null and revoked_at is null",
      [workspace.id],
    );
    return () => post(world, "/connected-apps", { key: String(row?.["id"]) });
  },
  changeMcpServers: (world) => () =>
    post(world, "/mcp-servers", {
      do: "save",
      name: "docs",
      url: "https://mcp.example.com/mcp",
      allowed_tools: "",
      header_name: "",
      header_value: "",
    }),
  changeGuardrails: (world) => () =>
    post(world, "/guardrails", {
      do: "patterns",
      name: "no-mail",
      action: "mask",
      input: "on",
      email: "on",
    }),
  changeSinks: (world) => () =>
    post(world, "/sinks", { do: "otlp", name: "traces", url: SINK.url }),
  changePresets: (world) => () =>
    post(world, "/presets", {
      do: "save",
      name: "reviewer",
      model: "sim/echo",
      system: "",
      more: '{"temperature": 0}',
    }),
  decideMcpSignIn: async (world) => {
    const { page } = await openMcpSignIn(world);
    return () => approveMcpSignIn(world, page);
  },
  redeemMcpCode: async (world) => {
    const { page, clientId, verifier } = await openMcpSignIn(world);
    const { location } = await approveMcpSignIn(world, page);
    const form = {
      grant_type: "authorization_code",
      code: new URL(location ?? "").searchParams.get("code") ?? "",
      client_id: clientId,
      redirect_uri: MCP_REDIRECT,
      code_verifier: verifier,
    };
    return () =>
      fetch(`${world.gateway.url}/mcp/token`, { method: "POST", body: new URLSearchParams(form) });
  },
  pollDeviceSignIn: async (world) => {
    const { user_code: code, device_code: deviceCode } = await startDeviceSignIn(world);
    await approveDevice(world, code);
    return () =>
      fetch(`${world.gateway.url}/oauth/token`, {
        method: "POST",
        body: new URLSearchParams({
          grant_type: "urn:ietf:params:oauth:grant-type:device_code",
          device_code: deviceCode,
        }),
      });
  },
  signOut: async ({ gateway }) => {
    const user = await createUser(gateway, "leaving");
    return () => visitPage(gateway, "/signout", user, {});
  },
  endSession: async ({ gateway }) => {
    const [user] = [await createUser(gateway, "twice"), await createUser(gateway, "twice")];
    return () => visitPage(gateway, "/sessions", user, { session: "others" });
  },
  changeEmailSettings:
    ({ gateway, owner }) =>
    () =>
      visitPage(gateway, "/emails", owner, { balance: "on" }),
  createWorkspace:
    ({ gateway, owner }) =>
    () =>
      visitPage(gateway, "/console/workspaces", owner, { name: "New" }),
  answerInvitation: async (world) => {
    const { gateway, workspace } = world;
    const guest = await createUser(gateway, "guest");
    await post(world, "/members", { do: "invite", email: guest.email });
    const row = await gateway.server.db.get(
      "select id from invitation where account_id = ? and email = ?",
      [workspace.id, guest.email],
    );
    const answer = { invitation: String(row?.["id"]), answer: "decline" };
    return () => visitPage(gateway, "/console/invitations", guest, answer);
  },
  createPlaygroundKey: (world) => () => post(world, "/playground", {}),
  stopWorkspaceAgentSession: async (world) => {
    await callInSession(world.gateway, world.workspace, "two");
    return () => post(world, "/agent-sessions/two", {});
  },
  cancelWorkspaceBatch: async (world) => {
    const ofWorkspace = { ...world, account: world.workspace };
    const { id } = await createSlowly(ofWorkspace, "/v1/batches", BATCH);
    return () => post(world, `/batches/${id}`, {});
  },
  createWorkspaceKey: (world) => () => post(world, "/keys", { do: "mint", name: "ci" }),
  changeWorkspaceKey: async (world) => {
    const { id } = await create({ ...world, account: world.workspace }, "/v1/keys", {});
    return () => post(world, `/keys/${id}`, { do: "change", name: "cd" });
  },
  changeWorkspaceProviderKeys: (world) => () =>
    post(world, "/provider-keys", { do: "add", use: "all", ...PROVIDER_KEY }),
  changeWorkspaceMembers: (world) => () =>
    post(world, "/members", { do: "invite", email: "kim@example.com" }),
  changeWorkspaceSso: (world) => () =>
    post(world, "/sso", { do: "add_domain", domain: "acme.example" }),
  changeAuditStream: (world) => () =>
    post(world, "/audit/stream", { do: "save", kind: "webhook", url: WEBHOOK.url }),
  changeDirectorySync: (world) => () => post(world, "/directory-sync", { do: "create_token" }),
  createScimUser: async (world) => {
    const call = await scimCaller(world);
    return () => call("POST", "/Users", { userName: "ada@acme.example" });
  },
  replaceScimUser: async (world) => {
    const call = await scimCaller(world);
    const { id } = await call("POST", "/Users", { userName: "bea@acme.example" });
    return () => call("PUT", `/Users/${id}`, { userName: "bea@acme.example", displayName: "Bea" });
  },
  changeScimUser: async (world) => {
    const call = await scimCaller(world);
    const { id } = await call("POST", "/Users", { userName: "cid@acme.example" });
    const body = { Operations: [{ op: "replace", path: "active", value: false }] };
    return () => call("PATCH", `/Users/${id}`, body);
  },
  deleteScimUser: async (world) => {
    const call = await scimCaller(world);
    const { id } = await call("POST", "/Users", { userName: "dan@acme.example" });
    return () => call("DELETE", `/Users/${id}`);
  },
  createScimGroup: async (world) => {
    const call = await scimCaller(world);
    return () => call("POST", "/Groups", { displayName: "One" });
  },
  replaceScimGroup: async (world) => {
    const call = await scimCaller(world);
    const { id } = await call("POST", "/Groups", { displayName: "Two" });
    return () => call("PUT", `/Groups/${id}`, { displayName: "Two again" });
  },
  changeScimGroup: async (world) => {
    const call = await scimCaller(world);
    const { id } = await call("POST", "/Groups", { displayName: "Three" });
    const body = { Operations: [{ op: "replace", path: "displayName", value: "3" }] };
    return () => call("PATCH", `/Groups/${id}`, body);
  },
  deleteScimGroup: async (world) => {
    const call = await scimCaller(world);
    const { id } = await call("POST", "/Groups", { displayName: "Four" });
    return () => call("DELETE", `/Groups/${id}`);
  },
  changeWorkspaceBudgets: (world) => () =>
    post(world, "/budgets", { daily_usd: "5", monthly_usd: "" }),
  changeWorkspaceBilling: (world) => () => post(world, "/billing", { do: "alert", low_usd: "3" }),
  saveDevelopmentCard: (world) => () => post(world, "/billing/card", { card: "works" }),
  changeStoredResponses: (world) => () =>
    post(world, "/responses", { store: "on_request", retention_days: "3" }),
  changeWorkspaceWebhooks: (world) => () => post(world, "/webhooks", { do: "add", ...WEBHOOK }),
  changeWorkspaceWebhook: async (world) => {
    const account = world.workspace;
    const { id } = await create({ ...world, account }, "/v1/webhooks", WEBHOOK);
    const delivery = await create({ ...world, account }, `/v1/webhooks/${id}/test`);
    return () => post(world, `/webhooks/${id}`, { do: "replay", delivery: delivery.id });
  },
  renameWorkspace: (world) => () => post(world, "/settings", { name: "Acme" }),
  closeWorkspace: async (world) => {
    const workspace = await registerAccount(world.gateway);
    await makeOwner(world.gateway, workspace.id, world.owner);
    return () => post({ ...world, workspace }, "/closing", { do: "close", confirm: workspace.id });
  },
  signOperatorOut: async (world) => {
    const session = await signIn(world.gateway);
    return () => submit(world, "/operator/signout", { csrf: session.csrf }, session);
  },
  changeAccount: async (world) => {
    const path = `/operator/accounts/${world.account.id}`;
    const page = await fetchPage(harnessOf(world.gateway), path, world.operator);
    const fields = { ...hiddenFields(page, "grant"), usd: "1", reason: "gift", confirm: "yes" };
    return () => submit(world, path, fields);
  },
  changeControls: (world) => {
    const fields = { do: "block", kind: "network", value: "203.0.113.0/24", reason: "abuse" };
    const { csrf } = world.operator;
    return () => submit(world, "/operator/controls", { ...fields, csrf, form: newFormToken() });
  },
  decideApproval: async (world) => {
    const act = { operator: "other@operator.example", network: null, now: Date.now() };
    const fields = { do: "freeze", reason: "abuse" };
    const { db } = world.gateway.server;
    const accountId = world.account.id;
    await db.write((tx) => requestChange(tx, act, { accountId, fields }));
    const requests = await listChangeRequests(db);
    const requested = requests.find((request) => request.accountId === accountId);
    const { csrf } = world.operator;
    const decision = { request: requested?.id ?? "", decision: "reject", form: newFormToken() };
    return () => submit(world, "/operator/approvals", { ...decision, csrf });
  },
  changeServiceLevels: (world) => {
    const terms = { model: "*", metric: "availability", target: "99.9", period: "day" };
    const fields = { ...terms, do: "add", credit_percent: "10", cap_usd: "10" };
    const { csrf } = world.operator;
    const path = "/operator/service-levels";
    return () => submit(world, path, { ...fields, csrf, form: newFormToken() });
  },
  postIncidentUpdate: (world) => {
    const path = "/operator/incidents";
    const fields = { title: "Slow", impact: "degraded", state: "investigating", message: "Slow." };
    const { csrf } = world.operator;
    return () => submit(world, path, { ...fields, csrf, form: newFormToken(), incident: "" });
  },
  changePayment: async (world) => {
    const { id } = await insertUnclearPayment(
      world.gateway.server.db,
      world.account.id,
      Date.now(),
    );
    const path = "/operator/payments";
    const page = await fetchPage(harnessOf(world.gateway), path, world.operator);
    const fields = hiddenFields(page, "mark_absent");
    return () => submit(world, path, { ...fields, payment: id, reason: "not found" });
  },
};

/** Calls the SCIM endpoints with a new token of the workspace. */
async function scimCaller(world: World) {
  const { gateway } = world;
  const { text } = await post(world, "/directory-sync", { do: "create_token" });
  const [token = ""] = /scim_[0-9A-Za-z]{43}/.exec(text) ?? [];
  return async (method: string, path: string, body?: Json) => {
    const response = await fetch(`${gateway.url}/scim/v2${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/scim+json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const sent = await response.text();
    const { id = "" } = sent === "" ? {} : (JSON.parse(sent) as { readonly id?: string });
    return { status: response.status, id };
  };
}

const PROVIDER_KEY = { provider: "openai", api_key: "sk-test-0000000000000000000000" };
const MCP_SERVER = { url: "https://mcp.example.com/mcp" };
const GUARDRAIL = { type: "patterns", entities: ["email"] };
const SINK = { type: "otlp", url: "https://otlp.example.com/v1/traces" };
const WEBHOOK = { url: "https://hooks.example.com/postern" };

export async function openWorld(store: StoreKind): Promise<World> {
  const env = { POSTERN_OPERATORS: OPERATOR_EMAIL };
  const gateway = await startGateway({ store, providers: ["sim", "openai"], env });
  const [account, workspace] = [await registerAccount(gateway), await registerAccount(gateway)];
  const owner = await createUser(gateway, "olga");
  await makeOwner(gateway, workspace.id, owner);
  return { gateway, account, workspace, owner, operator: await signIn(gateway) };
}

function harnessOf(gateway: Gateway) {
  return { gateway, clock: { now: Date.now() } };
}

function signIn(gateway: Gateway): Promise<OperatorSession> {
  return signInOperator(harnessOf(gateway), OPERATOR_EMAIL);
}

function send(
  { gateway, account }: Pick<World, "gateway" | "account">,
  method: string,
  path: string,
  body?: Json,
): Promise<Response> {
  const { headers } = account;
  const json = body === undefined ? {} : { body: JSON.stringify(body) };
  return fetch(gateway.url + path, { method, headers, ...json });
}

async function create(
  world: Pick<World, "gateway" | "account">,
  path: string,
  body?: Json,
): Promise<Json & { readonly id: string }> {
  const response = await send(world, "POST", path, body);
  expect(response.status).toBeLessThan(300);
  // Safe because each endpoint that creates something returns its id, and the claim is read by its own fields.
  return (await response.json()) as Json & { readonly id: string };
}

/** With a key that makes one call a minute: a batch of it runs until it is canceled. */
async function createSlowly(
  { gateway, account }: Pick<World, "gateway" | "account">,
  path: string,
  body: Json,
): Promise<{ readonly id: string }> {
  return await create({ gateway, account: await createSlowKey(gateway, account) }, path, body);
}

const CALL = { model: "sim/echo", max_tokens: 16, messages: [{ role: "user", content: "hello" }] };
const CUSTOM_IDS = ["one", "two", "three"];
const BATCH = {
  endpoint: "/v1/chat/completions",
  requests: CUSTOM_IDS.map((id) => ({ custom_id: id, body: CALL })),
};
const MESSAGE_BATCH = { requests: CUSTOM_IDS.map((id) => ({ custom_id: id, params: CALL })) };

function uploadFile({ gateway, account }: Pick<World, "gateway" | "account">): Promise<Response> {
  const body = new FormData();
  body.set("purpose", "batch");
  body.set("file", new Blob(["{}"]), "requests.jsonl");
  const { authorization = "" } = account.headers;
  return fetch(`${gateway.url}/v1/files`, { method: "POST", headers: { authorization }, body });
}

interface DeviceCodes {
  readonly user_code: string;
  readonly device_code: string;
}

async function startDeviceSignIn({ gateway }: World): Promise<DeviceCodes> {
  const url = `${gateway.url}/oauth/device_authorization`;
  // Safe because the response of the endpoint has these fields.
  return (await (
    await fetch(url, { method: "POST", body: new URLSearchParams({ client_id: "tool" }) })
  ).json()) as DeviceCodes;
}

function approveDevice({ gateway, workspace, owner }: World, code: string) {
  const form = { do: "approve", user_code: code, account: workspace.id, limit_usd: "5" };
  return visitPage(gateway, "/device", owner, form);
}

const VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

function approveAppSignIn({ gateway, workspace, owner }: World) {
  return visitPage(gateway, "/connect", owner, {
    do: "approve",
    callback_url: "https://app.example/callback",
    code_challenge: CHALLENGE,
    code_challenge_method: "S256",
    account: workspace.id,
    limit: "5",
    days: "30",
  });
}

function redeemAppCode({ gateway }: World, location: string | null) {
  const code = new URL(location ?? "").searchParams.get("code");
  return fetch(`${gateway.url}/v1/auth/keys`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code, code_verifier: VERIFIER }),
  });
}

const MCP_REDIRECT = "http://127.0.0.1:5000/callback";

async function openMcpSignIn({ gateway, owner }: World) {
  const registered = await fetch(`${gateway.url}/mcp/register`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ redirect_uris: [MCP_REDIRECT] }),
  });
  const clientId = textAt(await registered.json(), "client_id");
  const query = new URLSearchParams({
    response_type: "code",
    client_id: clientId,
    redirect_uri: MCP_REDIRECT,
    code_challenge: CHALLENGE,
    code_challenge_method: "S256",
  });
  const page = await visitPage(gateway, `/mcp/authorize?${query.toString()}`, owner);
  return { clientId, verifier: VERIFIER, page };
}

function approveMcpSignIn({ gateway, workspace, owner }: World, page: PageResponse) {
  const { request = "" } = hiddenFields(page, "approve");
  const form = { request, do: "approve", account: workspace.id, limit_usd: "5", limit_window: "" };
  return visitPage(gateway, "/mcp/authorize", owner, form);
}

/** Sends a form of the owner's workspace. */
function post({ gateway, workspace, owner }: World, path: string, form: Record<string, string>) {
  return visitPage(gateway, `/console/${workspace.id}${path}`, owner, form);
}

function submit(
  { gateway, operator }: World,
  path: string,
  form: Record<string, string>,
  session = operator,
) {
  return fetchPage(harnessOf(gateway), path, session, { form });
}

async function callInSession(
  gateway: Gateway,
  account: TestAccount,
  session: string,
): Promise<void> {
  const called = await chat(gateway, account.key, {}, { "x-claude-code-session-id": session });
  expect(called.status).toBe(200);
}

async function workspaceWithTopUp(world: World): Promise<TestAccount> {
  const workspace = await registerAccount(world.gateway);
  await makeOwner(world.gateway, workspace.id, world.owner);
  const rules = { threshold_usd: "5", amount_usd: "10", monthly_ceiling_usd: "100" };
  for (const [path, form] of [
    ["/billing/card", { card: "works" }],
    ["/billing", { do: "allow", ...rules }],
  ] as const)
    expect((await post({ ...world, workspace }, path, form)).status).toBe(303);
  return workspace;
}
