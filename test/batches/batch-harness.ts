// Creates batches and waits for their end.

import { expect } from "bun:test";
import type { Json } from "../inference/support/harness.ts";
import { type ApiResponse, call } from "../responses/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { Gateway, TestAccount } from "../support/gateway.ts";

export interface SentRequest {
  readonly custom_id: string;
  readonly body: Json;
}

export function chatRequest(customId: string, content = "Hi", more: Json = {}): SentRequest {
  const messages = [{ role: "user", content }];
  return { custom_id: customId, body: { model: "sim/echo", messages, max_tokens: 50, ...more } };
}

export function chatRequests(count: number, content = "Hi"): readonly SentRequest[] {
  return Array.from({ length: count }, (_, index) => chatRequest(`item-${index}`, content));
}

export async function postBatch(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
  body: Json,
): Promise<ApiResponse> {
  const endpoint = "/v1/chat/completions";
  return await call(gateway, account, "POST /v1/batches", { body: { endpoint, ...body } });
}

/** Creates a batch of chat completions, unless `more` says another endpoint. */
export async function createBatch(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
  requests: readonly unknown[],
  more: Json = {},
): Promise<Json> {
  const reply = await postBatch(gateway, account, { requests, ...more });
  if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
  return reply.json;
}

export async function readBatch(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
  id: unknown,
): Promise<Json> {
  const { json, status } = await call(gateway, account, `GET /v1/batches/${String(id)}`);
  expect(status).toBe(200);
  return json;
}

const ENDED = new Set(["completed", "expired", "cancelled"]);

export async function waitForEnd(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
  id: unknown,
): Promise<Json> {
  return await eventually(async () => {
    const batch = await readBatch(gateway, account, id);
    return ENDED.has(String(batch["status"])) ? batch : undefined;
  });
}

export async function readLines(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
  path: string,
): Promise<readonly Json[]> {
  const response = await fetch(gateway.url + path, { headers: account.headers });
  expect(response.status).toBe(200);
  return (await response.text())
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Json);
}

/** A key that makes one call a minute: a batch of it goes on until it is canceled, however fast the machine is. */
export async function createSlowKey(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
): Promise<TestAccount> {
  const { json } = await call(gateway, account, "POST /v1/keys", {
    body: { requests_per_minute: 1 },
  });
  const authorization = `Bearer ${String(json["api_key"])}`;
  return { ...account, headers: { ...account.headers, authorization } };
}

/** Requests that OpenAI can run as a batch. */
export function openaiRequests(count: number): readonly SentRequest[] {
  return Array.from({ length: count }, (_, index) =>
    chatRequest(`item-${index}`, `Hi ${index}`, { model: "openai/gpt-5-mini", max_tokens: 64 }),
  );
}

/** Faults of the simulated batch APIs: see packages/simulator/src/simulated-batches.ts. */
export async function setBatchFaults(
  { simulatorUrl }: Pick<Gateway, "simulatorUrl">,
  faults: Json,
): Promise<void> {
  const body = JSON.stringify(faults);
  await fetch(`${simulatorUrl}/sim/batches`, { method: "POST", body });
}
