// Several keys of the gateway at one provider: accounts are spread over them by weight, and a call whose key fails is made with
// the next one.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { createSimulator } from "@postern/simulator";
import { secret } from "../../../src/base/crypto/secret.ts";
import { MINUTE_MS } from "../../../src/base/time.ts";
import type { Credential } from "../../../src/inference/providers/credentials.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import type { Candidate } from "../../../src/inference/routing/candidates.ts";
import { createCredentialOrder } from "../../../src/inference/routing/credential-order.ts";
import { builtInModels, catalogOf, findModel } from "../../../src/models/catalog.ts";
import { eventuallyPasses } from "../../support/eventually.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { scratchFolder } from "../../support/scratch-folder.ts";
import {
  addPaidCredits,
  bodyOf,
  expectSettledLedger,
  type Json,
  postCall,
  STREAMED_APIS,
  USD,
  usageRecordsOf,
} from "../support/harness.ts";

const KEYS = {
  gateway: "key-of-the-settings",
  eu: "key-in-a-file-eu",
  spare: "key-in-a-file-spare",
};
type KeyName = keyof typeof KEYS;

const folder = scratchFolder("keys");
const pathOf = (name: string): string => path.join(folder, name);
/** The status that the provider returns to a key. */
const failing = new Map<string, { readonly status: number; readonly headers?: Json }>();
const received: string[] = [];
/** Moved on before each test, so that no key is skipped because of an earlier one. */
let skewMs = 0;
let gateway: Gateway;
let provider: ReturnType<typeof startProvider>;
let account: TestAccount;

function startProvider() {
  const simulator = createSimulator({ now: Date.now, acceptsAnyModel: true });
  return Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      const key = request.headers.get("authorization")?.replace("Bearer ", "") ?? "";
      received.push(key);
      const failure = failing.get(key);
      if (failure === undefined) return simulator.fetch(request);
      return Response.json(
        { error: { message: `refused ${key}`, type: "invalid_request_error" } },
        { status: failure.status, headers: failure.headers as Record<string, string> },
      );
    },
  });
}

beforeAll(async () => {
  provider = startProvider();
  writeFileSync(pathOf("eu"), `${KEYS.eu}\n`);
  writeFileSync(pathOf("spare"), KEYS.spare);
  const credentials = [
    { provider: "openai", name: "eu", api_key_file: pathOf("eu"), weight: 1 },
    { provider: "openai", name: "spare", api_key_file: pathOf("spare"), weight: 0 },
  ];
  writeFileSync(pathOf("models.json"), JSON.stringify({ credentials }));
  gateway = await startGateway({
    providers: [],
    now: () => Date.now() + skewMs,
    env: {
      OPENAI_API_KEY: KEYS.gateway,
      OPENAI_BASE_URL: `http://127.0.0.1:${provider.port}`,
      POSTERN_MODELS_FILE: pathOf("models.json"),
    },
  });
});
afterAll(async () => {
  await gateway.stop();
  await provider.stop(true);
});
beforeEach(async () => {
  failing.clear();
  skewMs += 2 * MINUTE_MS;
  account = await registerAccount(gateway);
  await addPaidCredits(gateway, account, 10n * USD);
  received.length = 0;
});

async function call(api: (typeof STREAMED_APIS)[number] = "chat", more: Json = {}) {
  const from = received.length;
  const body = bodyOf(api, "hello", { model: "openai/gpt-5-mini", ...more });
  const response = await postCall(gateway, account, api, body);
  const text = await response.text();
  return { status: response.status, text, keys: received.slice(from) };
}

/** The key that this account's calls go to. */
async function ownKey(): Promise<string> {
  const { keys } = await call();
  expect(keys).toHaveLength(1);
  return keys[0] ?? "";
}

describe("a call at a provider with several keys", () => {
  test("goes to the same key as the account's other calls, and not to one of weight 0", async () => {
    const own = await ownKey();
    expect(own).not.toBe(KEYS.spare);
    for (const api of STREAMED_APIS)
      expect(await call(api)).toMatchObject({ status: 200, keys: [own] });
  });

  for (const api of STREAMED_APIS)
    for (const stream of [false, true])
      test(`is made with the next key after a 401, and charged once: ${api}${stream ? " streamed" : ""}`, async () => {
        const own = await ownKey();
        failing.set(own, { status: 401 });
        const { status, text, keys } = await call(api, { stream });
        expect(status).toBe(200);
        expect(keys).toEqual([own, own === KEYS.eu ? KEYS.gateway : KEYS.eu]);
        for (const key of Object.values(KEYS)) expect(text).not.toContain(key);
        await expectSettledLedger(gateway.server.db);
        const records = await usageRecordsOf(gateway.server.db, account.id);
        expect(records).toHaveLength(2);
      });

  for (const status of [402, 429, 500, 503])
    test(`is made with the next key after a ${status}`, async () => {
      const own = await ownKey();
      failing.set(own, { status });
      expect(await call()).toMatchObject({ status: 200, keys: [own, expect.any(String)] });
    });

  test("is not repeated after an error in the caller's request", async () => {
    const own = await ownKey();
    failing.set(own, { status: 400 });
    expect(await call()).toMatchObject({ status: 400, keys: [own] });
  });

  for (const status of [401, 402, 429])
    test(`skips a key that a paying account's call got a ${status} with`, async () => {
      const own = await ownKey();
      failing.set(own, { status });
      await call();
      const { keys } = await call();
      expect(keys).toHaveLength(1);
      expect(keys).not.toContain(own);
    });

  test("tries all keys, and gets the last error without the text of a key", async () => {
    for (const key of Object.values(KEYS)) failing.set(key, { status: 401 });
    const { status, text, keys } = await call();
    expect(status).toBe(503);
    expect(keys.toSorted()).toEqual(Object.values(KEYS).toSorted());
    for (const key of Object.values(KEYS)) expect(text).not.toContain(key);
  });

  test("does not name the gateway's keys in its record", async () => {
    const own = await ownKey();
    failing.set(own, { status: 401 });
    await call();
    const response = await fetch(`${gateway.url}/v1/usage?limit=10`, { headers: account.headers });
    const text = await response.text();
    expect(text).toContain('"status":401');
    expect(text).not.toContain('"credential"');
    expect(text).not.toContain('"eu"');
  });
});

/** The last one of this gateway: its keys are others then. */
test("a key file is read again after a change, without a restart", async () => {
  for (const name of ["gateway", "spare"] satisfies KeyName[])
    failing.set(KEYS[name], { status: 401 });
  writeFileSync(pathOf("eu"), "the-next-key");
  await eventuallyPasses(async () => {
    expect((await call()).keys).toContain("the-next-key");
  });
});

describe("the order of keys", () => {
  const { model, upstreamName } = resolved();
  const ACCOUNTS = Array.from({ length: 3_000 }, (_, index) => `acct_${index}`);

  function resolved() {
    const found = findModel(catalogOf(builtInModels()), "openai/gpt-5-mini");
    if (found === undefined) throw new Error("no model");
    return found;
  }
  function candidate(label: string, weight?: number): Candidate {
    const [provider] = PROVIDERS;
    if (provider === undefined) throw new Error("no provider");
    const credential: Credential = {
      provider,
      baseUrl: "http://invalid",
      apiKey: secret(label),
      label,
      byok: false,
      ...(weight === undefined ? {} : { weight }),
    };
    return { wires: ["chat"], model, upstreamName, credential };
  }
  function orderWith(open: readonly string[] = []) {
    let now = 0;
    const order = createCredentialOrder({
      isOpen: (circuit) => open.some((label) => circuit.split(" ")[1] === label),
      now: () => now,
    });
    const first = (candidates: readonly Candidate[], accountId: string): string =>
      order.orderCredentials(candidates, accountId)[0]?.credential.label ?? "";
    return { ...order, first, advance: (ms: number) => (now += ms) };
  }
  const shareOf = (label: string, firsts: readonly string[]): number =>
    firsts.filter((first) => first === label).length / firsts.length;

  test("spreads accounts by weight; 1 if it is not set", () => {
    const { first } = orderWith();
    const candidates = [candidate("a"), candidate("b", 3), candidate("c", 0)];
    const firsts = ACCOUNTS.map((id) => first(candidates, id));
    expect(shareOf("a", firsts)).toBeCloseTo(0.25, 1);
    expect(shareOf("b", firsts)).toBeCloseTo(0.75, 1);
    expect(shareOf("c", firsts)).toBe(0);
  });

  test("moves only the accounts of a removed key", () => {
    const { first } = orderWith();
    const all = [candidate("a"), candidate("b"), candidate("c")];
    for (const id of ACCOUNTS) {
      const before = first(all, id);
      if (before !== "c") expect(first(all.slice(0, 2), id)).toBe(before);
    }
  });

  test("puts keys with an open circuit last, and keeps all of them", () => {
    const { orderCredentials } = orderWith(["a"]);
    for (const id of ACCOUNTS.slice(0, 50)) {
      const labels = orderCredentials([candidate("a"), candidate("b")], id).map(
        ({ credential }) => credential.label,
      );
      expect(labels).toEqual(["b", "a"]);
    }
  });

  test("puts a rate-limited key last until `retry-after`, at most for a minute", () => {
    const { orderCredentials, recordRefusal, first, advance } = orderWith();
    const candidates = [candidate("a"), candidate("b")];
    const [account = ""] = ACCOUNTS;
    const own = first(candidates, account);
    const refused = candidates.filter(({ credential }) => credential.label === own);
    for (const [retryAfterSeconds, ms] of [
      [7, 7_000],
      [86_400, 60_000],
      [undefined, 10_000],
    ] as const) {
      for (const one of refused)
        recordRefusal(one, { status: 429, retryAfterSeconds, now: advance(0) });
      advance(ms - 1);
      expect(orderCredentials(candidates, account)[1]?.credential.label).toBe(own);
      advance(1);
      expect(first(candidates, account)).toBe(own);
    }
  });

  test("limits the rate of each model apart, but refuses a key for all", () => {
    const { recordRefusal, first } = orderWith();
    const other = (label: string): Candidate => ({ ...candidate(label), upstreamName: "another" });
    const [account = ""] = ACCOUNTS;
    const own = first([candidate("a"), candidate("b")], account);
    recordRefusal(candidate(own), { status: 429, retryAfterSeconds: 30, now: 0 });
    expect(first([candidate("a"), candidate("b")], account)).not.toBe(own);
    expect(first([other("a"), other("b")], account)).toBe(own);
    recordRefusal(candidate(own), { status: 401, retryAfterSeconds: undefined, now: 0 });
    expect(first([other("a"), other("b")], account)).not.toBe(own);
  });
});
