// Accounts share circuits: what one account's calls cause must not close a model for the others.

import { afterEach, describe, expect, test } from "bun:test";
import { assert, array, asyncProperty, constantFrom, integer, record } from "fast-check";
import { OPEN_MS } from "../../../src/inference/routing/circuit-breaker.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS } from "../../support/stores/stores.ts";
import {
  addPaidCredits,
  bodyOf,
  errorOf,
  grantCredits,
  type Json,
  PATHS,
  postCall,
  STREAMED_APIS,
  USD,
} from "../support/harness.ts";
import { identicalModels, withModels } from "../support/models-file.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";

const SSE = { "content-type": "text/event-stream" };
const WHOLE: Readonly<Record<string, Json>> = {
  [PATHS.chat]: {
    id: "c",
    model: "m",
    choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 10, completion_tokens: 5 },
  },
  [PATHS.messages]: {
    id: "m",
    type: "message",
    role: "assistant",
    model: "m",
    content: [{ type: "text", text: "hi" }],
    stop_reason: "end_turn",
    usage: { input_tokens: 10, output_tokens: 5 },
  },
  [PATHS.responses]: {
    id: "resp_1",
    object: "response",
    status: "completed",
    model: "m",
    output: [
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "hi" }] },
    ],
    usage: { input_tokens: 10, output_tokens: 5 },
  },
};

/** Errors of the caller that providers send with status 200. */
const CALLER_ERRORS: readonly Json[] = [
  { error: { type: "invalid_request_error", message: "bad" } },
  { error: { code: "invalid_prompt", message: "bad" } },
  { error: { code: 400, message: "bad" } },
  { error: { code: "422", message: "bad" } },
  { error: { status: "INVALID_ARGUMENT", message: "bad" } },
  { error: { message: "<400> InternalError.Algo.InvalidParameter: bad" } },
  { error: { code: "context_length_exceeded", message: "bad" } },
  { type: "error", error: { type: "invalid_request_error", message: "bad" } },
];
const CHOICE_ERROR = {
  choices: [{ finish_reason: "error", message: { content: "" }, error: { code: 400 } }],
};

let gateway: Gateway;
let provider: RawProvider;
let now = Date.now();

afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

/** The prompt is a JSON object with the provider's reply; without it, the provider replies as it should. */
async function start(store: "sqlite" | "postgres" = "sqlite"): Promise<void> {
  provider = await startRawProvider(({ path, body }) => {
    const prompt = /<<(.*)>>/.exec(body)?.[1];
    if (prompt === undefined) return { body: JSON.stringify(WHOLE[path]) };
    // Safe: only this test writes it.
    return JSON.parse(Buffer.from(prompt, "base64").toString()) as RawReply;
  });
  gateway = await startGateway({
    store,
    now: () => now,
    providers: [],
    env: { SIM_BASE_URL: provider.url, SIM_API_KEY: "k", ...withModels(identicalModels(2)) },
  });
}

const promptFor = (reply: RawReply): string =>
  `<<${Buffer.from(JSON.stringify(reply)).toString("base64")}>>`;

async function unfundedAccounts(count: number): Promise<readonly TestAccount[]> {
  const accounts = [];
  for (let index = 0; index < count; index++) {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, USD);
    accounts.push(account);
  }
  return accounts;
}

describe("a provider's 200 with an error of the caller", () => {
  for (const api of STREAMED_APIS)
    test(`is a 400 over ${api}, and closes the model for no other account`, async () => {
      await start();
      const attackers = await unfundedAccounts(2);
      const errors = api === "chat" ? [...CALLER_ERRORS, CHOICE_ERROR] : CALLER_ERRORS;
      for (const error of errors)
        for (const stream of [false, true]) {
          const body = stream ? `data: ${JSON.stringify(error)}\n\n` : JSON.stringify(error);
          const reply = { body, ...(stream ? { headers: SSE } : {}) };
          for (const attacker of attackers) {
            const sent = bodyOf(api, promptFor(reply), { stream, model: "sim/twin-0" });
            const response = await postCall(gateway, attacker, api, sent);
            const { code } = errorOf(await response.json());
            const status = JSON.stringify(error).includes("422") ? 422 : 400;
            expect([error, stream, response.status]).toEqual([error, stream, status]);
            expect(["invalid_request", "context_length_exceeded"]).toContain(String(code));
          }
        }
      // The callers' own circuits are closed as well: the provider did not fail.
      for (const account of [...attackers, ...(await unfundedAccounts(1))])
        expect(await statusOf(account, "hello", { api })).toBe(200);
    });
});

interface CallOptions {
  readonly api?: (typeof STREAMED_APIS)[number];
  readonly model?: string;
}

async function statusOf(
  account: TestAccount,
  prompt: string,
  { api = "chat", model = "sim/twin-0" }: CallOptions = {},
): Promise<number> {
  return (await postCall(gateway, account, api, bodyOf(api, prompt, { model }))).status;
}

const FAILED = promptFor({ status: 500, body: '{"error":{"message":"secret of the prompt"}}' });

describe.each(STORE_KINDS)("failures on %s", (store) => {
  test("of unfunded accounts close a model for themselves only", async () => {
    await start(store);
    const attackers = await unfundedAccounts(3);
    for (const attacker of attackers)
      for (let call = 0; call < 3; call++) expect(await statusOf(attacker, FAILED)).toBe(500);
    const [attacker, ...others] = [...attackers, ...(await unfundedAccounts(1))];
    const victim = others.at(-1);
    if (attacker === undefined || victim === undefined) throw new Error("no account");
    const requests = provider.requests.length;
    expect(await statusOf(attacker, "hello")).toBe(500);
    expect(provider.requests.length).toBe(requests);
    expect(await statusOf(victim, "hello")).toBe(200);
    await addPaidCredits(gateway, victim, 5n * USD);
    expect(await statusOf(victim, "hello")).toBe(200);
  });

  test("of accounts with cents of paid credit close a model for themselves only", async () => {
    await start(store);
    const attackers = await unfundedAccounts(4);
    for (const attacker of attackers) await addPaidCredits(gateway, attacker, 5n * USD - 1n);
    for (let call = 0; call < 4; call++)
      for (const attacker of attackers) expect(await statusOf(attacker, FAILED)).toBe(500);
    const [free, paid] = await unfundedAccounts(2);
    if (free === undefined || paid === undefined) throw new Error("no account");
    await addPaidCredits(gateway, paid, 5n * USD);
    for (const victim of [free, paid]) expect(await statusOf(victim, "hello")).toBe(200);
  });

  test("of two paying accounts close a model for all, with the last error and a short wait", async () => {
    await start(store);
    const accounts = await unfundedAccounts(3);
    const [first, second, third] = accounts;
    if (first === undefined || second === undefined || third === undefined)
      throw new Error("no account");
    for (const account of accounts) await addPaidCredits(gateway, account, 5n * USD);
    for (let call = 0; call < 2; call++)
      for (const account of [first, second]) await statusOf(account, FAILED);
    const requests = provider.requests.length;
    for (const account of accounts) {
      const response = await postCall(
        gateway,
        account,
        "chat",
        bodyOf("chat", "hello", { model: "sim/twin-0" }),
      );
      const wait = Number(response.headers.get("retry-after"));
      expect([response.status, wait >= 1, wait <= OPEN_MS / 1_000 + 2]).toEqual([500, true, true]);
      const { message } = errorOf(await response.json());
      // Only the account itself gets the text, which may quote its prompt.
      if (account === third) expect(message).toContain("answered recent calls with 500");
      else expect(message).toContain("secret of the prompt");
    }
    expect(provider.requests.length).toBe(requests);
    expect(await statusOf(third, "hello", { model: "sim/twin-1" })).toBe(200);
    now += OPEN_MS;
    expect(await statusOf(third, "hello")).toBe(200);
  });

  test("to connect close a model for all, also those of unfunded accounts", async () => {
    await start(store);
    const [first, second] = await unfundedAccounts(2);
    if (first === undefined || second === undefined) throw new Error("no account");
    await provider.stop();
    for (let call = 0; call < 3; call++) expect(await statusOf(first, "hello")).toBe(502);
    const response = await postCall(
      gateway,
      second,
      "chat",
      bodyOf("chat", "hello", { model: "sim/twin-0" }),
    );
    expect([response.status, response.headers.has("retry-after")]).toEqual([502, true]);
    expect(errorOf(await response.json())["message"]).toContain("could not be reached");
  });
});

const REPLIES: readonly RawReply[] = [
  { body: JSON.stringify(WHOLE[PATHS.chat]) },
  { status: 500, body: "{}" },
  { status: 429, body: "{}" },
  { status: 400, body: "{}" },
  { body: "no JSON" },
  { body: "{", ending: "cut", length: 10 },
  { body: JSON.stringify({ error: { message: "failed" } }) },
  { headers: SSE, body: 'data: {"error":{"code":400}}\n\n' },
];

test("no sequence of calls of accounts that paid little or nothing changes what another account's calls do", async () => {
  await start();
  const attackers = await unfundedAccounts(6);
  // Some have bought a little.
  const balances = [1n, USD, 5n * USD - 1n];
  for (const [index, amount] of balances.entries()) {
    const attacker = attackers[index];
    if (attacker !== undefined) await addPaidCredits(gateway, attacker, amount);
  }
  const call = record({
    account: integer({ min: 0, max: attackers.length - 1 }),
    reply: constantFrom(...REPLIES),
    stream: constantFrom(true, false),
    again: integer({ min: 1, max: 4 }),
  });
  await assert(
    asyncProperty(array(call, { maxLength: 12 }), async (calls) => {
      for (const { account, reply, stream, again } of calls) {
        const attacker = attackers[account];
        if (attacker === undefined) throw new Error("no account");
        const sent = bodyOf("chat", promptFor(reply), { model: "sim/twin-0", stream });
        await Promise.all(
          Array.from({ length: again }, async () =>
            (await postCall(gateway, attacker, "chat", sent)).text(),
          ),
        );
      }
      const [free, paid] = await unfundedAccounts(2);
      if (free === undefined || paid === undefined) throw new Error("no account");
      await addPaidCredits(gateway, paid, 5n * USD);
      for (const victim of [free, paid]) expect(await statusOf(victim, "hello")).toBe(200);
      const response = await fetch(`${gateway.url}/v1/models/sim/twin-0/endpoints`);
      const { data } = (await response.json()) as { data: Json[] };
      expect(data[0]).toMatchObject({ status: "up" });
      now += OPEN_MS;
    }),
    { numRuns: 6 },
  );
});
