// Every built-in provider, kind of content and way of leaving: nothing costs less than the provider bills, where that is
// known, or more than the hold. The kinds and the provider's part are those of the table in docs/site/providers.md.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { createSimulator } from "@postern/simulator";
import { kindOfWire } from "@postern/wires";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { integer, type Row } from "../../../src/store/db.ts";
import { eventually } from "../../support/eventually.ts";
import { IS_FULL, testOn } from "../../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import {
  ABANDONED_KINDS,
  abandonedPart,
  nameAt,
} from "../../support/source/abandoned-calls-table.ts";
import { STORE_KINDS, type StoreKind } from "../../support/stores/stores.ts";
import {
  abandonedRequest,
  type ContentKind,
  CONTENT_KINDS,
  PACE_MS,
  STREAM_TEXTS,
  type StreamedApi,
} from "../support/abandoned-requests.ts";
import {
  expectSettledLedger,
  grantCredits,
  type Json,
  readWallet,
  postCall,
  STREAMED_APIS,
  USD,
  usageRecordsOf,
  waitUntil,
} from "../support/harness.ts";
import { withModels } from "../support/models-file.ts";
import { openSocketClient } from "../support/socket-client.ts";
import { type Leave, WAYS_OF_LEAVING } from "../support/ways-of-leaving.ts";

const INPUT_NANO = 2_000n;

/** A provider, one of its wires, and the API that is called: the same one, or Chat Completions, which is translated. */
interface Target {
  readonly id: string;
  readonly wire: string;
  readonly api: StreamedApi;
}

const TARGETS: readonly Target[] = PROVIDERS.flatMap(({ id, paths }) =>
  Object.keys(paths)
    // Text completions are relayed, with tests of their own.
    .filter((wire) => kindOfWire(wire) === "chat" && !/^(?:count_tokens|completions)$/.test(wire))
    .map((wire) => ({ id, wire, api: STREAMED_APIS.find((api) => api === wire) ?? "chat" })),
);
const modelOf = ({ id, wire }: Target): string => `${id}/${nameAt(id)}-on-${wire}`;

/** By marker: resolves when the provider has the request. */
const arrivals = new Map<string, () => void>();
let upstream: { readonly url: string; readonly stop: () => Promise<void> };
beforeAll(() => {
  upstream = startProviders();
});
afterAll(() => upstream.stop());

function startProviders(): typeof upstream {
  const simulator = createSimulator({ now: Date.now, acceptsAnyModel: true });
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: async (request) => {
      if (request.url.endsWith("/token"))
        return Response.json({ access_token: "t", expires_in: 3_599, token_type: "Bearer" });
      const text = await request.text();
      arrivals.get(/case-\d+/.exec(text)?.[0] ?? "")?.();
      // As at the providers that report usage without being asked.
      const added = request.url.endsWith("/chat/completions")
        ? { stream_options: { include_usage: true } }
        : { model: "model-on-messages" };
      const body = JSON.stringify({ ...(JSON.parse(text) as Json), ...added });
      const url = request.url.replace(/\/projects\/.*RawPredict$/, "/messages");
      return simulator.fetch(
        new Request(url, {
          method: "POST",
          headers: request.headers,
          body,
          signal: request.signal,
        }),
      );
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) };
}

function providerSettings(url: string): Record<string, string> {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 });
  const settings: Record<string, string> = {
    VERTEX_CREDENTIALS: JSON.stringify({
      type: "service_account",
      project_id: "matrix",
      private_key_id: "key",
      private_key: privateKey.export({ type: "pkcs8", format: "pem" }),
      client_email: "gateway@matrix.iam.gserviceaccount.com",
      token_uri: `${url}/token`,
    }),
  };
  for (const { envPrefix, cloudAuth, paths } of PROVIDERS) {
    const isChat = paths.chat?.startsWith("/chat") === true;
    settings[`${envPrefix}_BASE_URL`] = isChat ? `${url}/v1` : url;
    if (cloudAuth !== "google") settings[`${envPrefix}_API_KEY`] = "test-key-0123456789";
  }
  return settings;
}

function startMatrixGateway(store: StoreKind): Promise<Gateway> {
  return startGateway({
    store,
    providers: [],
    logLevel: "warn",
    env: {
      ...providerSettings(upstream.url),
      ...withModels(
        TARGETS.map((target) => ({
          id: modelOf(target),
          wires: [target.wire],
          context_length: 1_000_000,
          max_output_tokens: 32_000,
          input_modalities: ["text", "image", "file", "audio"],
          supported: ["tools"],
          pricing: { tokens: { input: "2", output: "8" } },
        })),
      ),
    },
  });
}

interface Call {
  readonly account: TestAccount;
  readonly marker: string;
}

let cases = 0;
async function newCall(gateway: Gateway): Promise<Call> {
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
  return { account, marker: `case-${++cases}` };
}

async function recordOf(gateway: Gateway, { account }: Call): Promise<Row> {
  return await eventually(async () => (await usageRecordsOf(gateway.server.db, account.id))[0], {
    timeoutMs: 120_000,
    // Hundreds of calls wait at once, so each checks rarely.
    pollMs: 5 * PACE_MS,
  });
}

/** The price of the same call that is not abandoned; undefined if the provider cannot take this content. */
async function fullCostOf(
  gateway: Gateway,
  target: Target,
  kind: ContentKind,
): Promise<bigint | undefined> {
  const { api } = target;
  if (kind.parts !== undefined && kind.parts[api] === undefined) return undefined;
  const call = await newCall(gateway);
  const body = abandonedRequest(api, modelOf(target), kind, call.marker);
  const response = await postCall(gateway, call.account, api, body);
  const text = await response.text();
  if (response.status === 400) return undefined;
  const { last } = STREAM_TEXTS[api];
  expect([target, response.status, text]).toEqual([target, 200, expect.stringContaining(last)]);
  return BigInt(integer(await recordOf(gateway, call), "cost_nano"));
}

interface Abandoned {
  readonly cost: bigint;
  readonly held: bigint;
  readonly isExact: boolean;
}

async function abandon(
  gateway: Gateway,
  target: Target,
  kind: ContentKind,
  leave: Leave,
): Promise<Abandoned> {
  const { api } = target;
  const call = await newCall(gateway);
  const arrived = new Promise<void>((resolve) => arrivals.set(call.marker, resolve));
  const body = abandonedRequest(api, modelOf(target), kind, call.marker);
  const client = openSocketClient(gateway, call.account, api, body);
  await arrived;
  const { held } = await readWallet(gateway.server.db, call.account.id);
  await leave(client, STREAM_TEXTS[api]);
  const record = await recordOf(gateway, call);
  client.disconnect();
  return {
    cost: BigInt(integer(record, "cost_nano")),
    held,
    isExact: integer(record, "exact") === 1,
  };
}

test("the kinds are those of the documented table", () => {
  expect(Object.keys(ABANDONED_KINDS)).toEqual(expect.arrayContaining(Object.keys(CONTENT_KINDS)));
});

/** In the short form, each kind of content at each provider is left in two ways; at several providers, in each. */
const WAYS_OF_CASE = 2;

function waysOf(target: number, kind: number): readonly (readonly [way: string, leave: Leave])[] {
  const ways = Object.entries(WAYS_OF_LEAVING);
  const groups = ways.length / WAYS_OF_CASE;
  return ways.filter(
    (_, index) => IS_FULL || Math.floor(index / WAYS_OF_CASE) === (target + kind) % groups,
  );
}

/** The charged shares of the full price, by kind and way, where the call is not read to its end. */
const shares = new Map<string, number[]>();
afterAll(() => {
  const percent = (share: number): string => (share * 100).toFixed(0);
  const rows = [...shares].map(
    ([name, all]) => `  ${name}: ${percent(Math.min(...all))} to ${percent(Math.max(...all))} %`,
  );
  console.log(`» charged share where a disconnect ends the bill:\n${rows.toSorted().join("\n")}`);
});

async function checkKind(
  gateway: Gateway,
  target: Target,
  [name, kind]: readonly [string, ContentKind],
  ways: readonly (readonly [way: string, leave: Leave])[],
): Promise<void> {
  const fullCost = await fullCostOf(gateway, target, kind);
  const part = abandonedPart(target.id, name, target.wire);
  expect({ name, isRefused: fullCost === undefined }).toEqual({
    name,
    isRefused: part === "refused",
  });
  if (fullCost === undefined) return;
  await Promise.all(
    ways.map(async ([way, leave]) => {
      const { cost, held, isExact } = await abandon(gateway, target, kind, leave);
      const where = `${name}, ${way}`;
      expect({ where, isAboveHold: cost > held }).toEqual({ where, isAboveHold: false });
      if (part === "100%") {
        expect({ where, cost, isExact }).toEqual({ where, cost: fullCost, isExact: true });
        return;
      }
      const leastInput = BigInt(kind.countedMin ?? kind.inputTokens);
      const isBelowInput = cost < leastInput * INPUT_NANO;
      const isAboveFull = cost > fullCost;
      expect({ where, isBelowInput, isAboveFull }).toEqual({
        where,
        isBelowInput: false,
        isAboveFull: false,
      });
      shares.set(where, [...(shares.get(where) ?? []), Number(cost) / Number(fullCost)]);
    }),
  );
}

/** One provider of each kind is enough for the second store. */
const POSTGRES_PROVIDERS: ReadonlySet<string> = new Set(
  IS_FULL ? ["openai", "anthropic", "mistral"] : ["openai"],
);

for (const store of STORE_KINDS)
  describe(`a stream that its caller leaves, on ${store}`, () => {
    const testOnce = testOn(store);
    let gateway: Gateway;
    beforeAll(async () => {
      gateway = await startMatrixGateway(store);
    });
    afterAll(() => gateway.stop());

    test.concurrent.each(
      TARGETS.filter(({ id }) => store === "sqlite" || POSTGRES_PROVIDERS.has(id)),
    )("pays the provider's bill and at most the hold, at $id on $wire", async (target) => {
      const kinds = Object.entries(CONTENT_KINDS);
      await Promise.all(
        kinds.map((kind, index) =>
          checkKind(gateway, target, kind, waysOf(TARGETS.indexOf(target), index)),
        ),
      );
    });

    testOnce(
      "32 prompts of 9,000 tokens, left before their replies, cost their usage",
      async () => {
        const call = await newCall(gateway);
        const text = `${"word ".repeat(9_000)} [[sim: latency=${10 * PACE_MS} input=9000 output=40]]`;
        const clients = Array.from({ length: 32 }, () => {
          const marker = `case-${++cases}`;
          const arrived = new Promise<void>((resolve) => arrivals.set(marker, resolve));
          const body = {
            model: "openai/gpt-4.1-on-chat",
            max_tokens: 1_000,
            messages: [{ role: "user", content: `${marker} ${text}` }],
          };
          return { client: openSocketClient(gateway, call.account, "chat", body), arrived };
        });
        await Promise.all(
          clients.map(async ({ client, arrived }) => {
            await arrived;
            client.disconnect();
          }),
        );
        const records = await waitUntil(
          () => usageRecordsOf(gateway.server.db, call.account.id),
          ({ length }) => length === 32,
        );
        const cost = 9_000n * INPUT_NANO + 40n * 8_000n;
        expect(records.map((record) => BigInt(integer(record, "cost_nano")))).toEqual(
          Array.from({ length: 32 }, () => cost),
        );
      },
    );

    test("leaves nothing held and a consistent ledger", async () => {
      await expectSettledLedger(gateway.server.db);
    });
  });
