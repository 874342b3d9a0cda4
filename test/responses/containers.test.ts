// Containers in which a provider runs code lie in the gateway's account: whose they are is known from stored replies alone.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type RawProvider, startRawProvider } from "../inference/support/raw-provider.ts";
import {
  errorOf,
  expectSettledLedger,
  grantCredits,
  type Json,
  USD,
} from "../inference/support/harness.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { call, createResponse } from "./harness.ts";

const CONTAINER = "cntr_0123456789";
const CODE_INTERPRETER_REPLY = {
  id: "ci_1",
  type: "code_interpreter_call",
  status: "completed",
  code: "1 + 1",
  container_id: CONTAINER,
  outputs: null,
};
const MODEL = "openai/gpt-5-mini";
const tools = [{ type: "code_interpreter", container: { type: "auto" } }];

let provider: RawProvider;
let gateway: Gateway;
let account: TestAccount;

beforeAll(async () => {
  const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
  const reply = { id: "resp_1", object: "response", status: "completed", model: "gpt-5-mini" };
  const body = JSON.stringify({ ...reply, output: [CODE_INTERPRETER_REPLY], usage });
  provider = await startRawProvider(() => ({ body }));
  const env = { OPENAI_BASE_URL: provider.url, OPENAI_API_KEY: "sk-house-0123456789abcdef" };
  gateway = await startGateway({ providers: [], env });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 10n * USD);
});
afterAll(async () => {
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
  await provider.stop();
});

const lastProviderRequest = (): Json => JSON.parse(provider.requests.at(-1)?.body ?? "{}") as Json;

test("code goes on in the container of a stored reply, by its id and by its item", async () => {
  const first = await createResponse(gateway, account, {
    model: MODEL,
    input: "run",
    tools,
    store: true,
  });
  for (const more of [
    { previous_response_id: first["id"], input: "again" },
    { input: [{ type: "item_reference", id: "ci_1" }] },
  ]) {
    await createResponse(gateway, account, { model: MODEL, tools, ...more });
    expect(lastProviderRequest()["input"]).toContainEqual(CODE_INTERPRETER_REPLY);
  }
});

test("a container that a request brings is nobody's own, also once the request is stored", async () => {
  const foreign = { ...CODE_INTERPRETER_REPLY, id: "ci_2", container_id: "cntr_foreign" };
  const kept = await createResponse(gateway, account, {
    model: MODEL,
    input: [foreign],
    store: true,
  });
  const asked = provider.requests.length;
  const answer = await call(gateway, account, "POST /v1/responses", {
    body: { model: MODEL, tools, previous_response_id: kept["id"], input: "again" },
  });
  expect([answer.status, errorOf(answer.json)["param"]]).toEqual([400, "previous_response_id"]);
  expect(provider.requests.length).toBe(asked);
});

test("a refused reference is named by its place in the request itself", async () => {
  const first = await createResponse(gateway, account, { model: MODEL, input: "one", store: true });
  const content = [{ type: "input_file", file_id: "file-1" }];
  const answer = await call(gateway, account, "POST /v1/responses", {
    body: { model: MODEL, previous_response_id: first["id"], input: [{ role: "user", content }] },
  });
  const error = errorOf(answer.json);
  expect([answer.status, error["param"]]).toEqual([400, "input[0].content[0].file_id"]);
  expect(error["message"]).toStartWith("`input[0].content[0].file_id` refers");
});
