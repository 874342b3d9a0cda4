// Replies that the gateway ends, or that have no usage, are charged however they are called: by each API, streamed or whole,
// translated, over a WebSocket, as a background response, as a tool of MCP, and each time that they run under the same
// `Idempotency-Key`.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { integer } from "../../../src/store/db.ts";
import { postModern } from "../../mcp/raw-mcp.ts";
import { call, waitUntilEnded } from "../../responses/harness.ts";
import { openSocket } from "../../responses/websocket-client.ts";
import { eventually } from "../../support/eventually.ts";
import { IS_FULL } from "../../support/full.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { STORE_KINDS, type StoreKind } from "../../support/stores/stores.ts";
import {
  type Ending,
  INPUT,
  OUTPUT,
  streamedReply,
  wholeReply,
  type Wire,
  wireOf,
} from "../support/ending-replies.ts";
import {
  expectSettledLedger,
  grantCredits,
  type Json,
  PATHS,
  USD,
  usageRecordsOf,
  waitUntil,
} from "../support/harness.ts";
import { type RawProvider, startRawProvider } from "../support/raw-provider.ts";
import { openSocketClient } from "../support/socket-client.ts";

const MIB = 1_048_576;
const GPT = "openai/gpt-4.1";
const REASONING = "openai/gpt-5";
const CLAUDE = "anthropic/claude-haiku-4-5";
/** Nano-USD per token. */
const PRICES: Readonly<Record<string, readonly [input: number, output: number]>> = {
  [GPT]: [2_000, 8_000],
  [REASONING]: [1_250, 10_000],
  [CLAUDE]: [1_000, 5_000],
};
// The gateway reads up to half a MiB at once, and the limits apply between two reads.
const EVENT_MAX_BYTES = MIB;
const STREAM_MAX_BYTES = 2 * MIB;
const REPLY_MAX_BYTES = MIB;

/** A way to make a call. It resolves when the caller has what it gets. */
interface Entrance {
  readonly model: string;
  readonly isStreamed: boolean;
  readonly call: (gateway: Gateway, account: TestAccount, key: string) => Promise<unknown>;
}

const promptOf = ({ id }: TestAccount): string => `Write to ${id}.`;
const http =
  (api: Wire, model: string, isStreamed: boolean): Entrance["call"] =>
  (gateway, account, key) =>
    call(gateway, account, `POST ${PATHS[api]}`, {
      headers: { "idempotency-key": key },
      body: {
        model,
        stream: isStreamed,
        ...(api === "responses"
          ? { input: promptOf(account), max_output_tokens: 1_000, store: false }
          : { messages: [{ role: "user", content: promptOf(account) }], max_tokens: 1_000 }),
      },
    });

function httpEntrances(): Readonly<Record<string, Entrance>> {
  const entrances: Record<string, Entrance> = {};
  for (const api of ["chat", "responses", "messages"] as const)
    for (const model of [GPT, CLAUDE])
      for (const isStreamed of [true, false])
        entrances[`${api} to ${model}, ${isStreamed ? "streamed" : "whole"}`] = {
          model,
          isStreamed,
          call: http(api, model, isStreamed),
        };
  return entrances;
}

const background =
  (isStreamed: boolean): Entrance["call"] =>
  async (gateway, account, key) => {
    const { json, text } = await call(gateway, account, "POST /v1/responses", {
      headers: { "idempotency-key": key },
      body: {
        model: GPT,
        input: promptOf(account),
        max_output_tokens: 1_000,
        background: true,
        store: true,
        stream: isStreamed,
      },
    });
    const id = json["id"] ?? /"id":"(resp_[^"]+)"/.exec(text)?.[1];
    await waitUntilEnded(gateway, account, id);
  };

const mcp =
  (hasProgress: boolean): Entrance["call"] =>
  (gateway, account, key) =>
    postModern(gateway, {
      method: "tools/call",
      params: {
        name: "send_message",
        arguments: {
          model: GPT,
          prompt: promptOf(account),
          max_tokens: 1_000,
          idempotency_key: key,
        },
      },
      key: account.key,
      ...(hasProgress && { meta: { progressToken: 1 } }),
    });

const ENTRANCES: Readonly<Record<string, Entrance>> = {
  ...httpEntrances(),
  WebSocket: {
    model: GPT,
    isStreamed: true,
    call: async (gateway, account) => {
      const socket = await openSocket(gateway, account.headers);
      await socket.create({
        model: GPT,
        input: promptOf(account),
        max_output_tokens: 1_000,
        store: false,
      });
      socket.close();
      await socket.closed;
    },
  },
  // The provider's reply to it is streamed.
  background: { model: GPT, isStreamed: true, call: background(false) },
  "streamed background": { model: GPT, isStreamed: true, call: background(true) },
  MCP: { model: GPT, isStreamed: false, call: mcp(false) },
  "MCP with progress": { model: GPT, isStreamed: true, call: mcp(true) },
};

/** On PostgreSQL, in the short form: each kind of entrance once. */
const CALLED_ON_POSTGRES =
  /^(?:chat to openai\/.*|WebSocket|background|streamed background|MCP|MCP with progress)$/;

function isCalledOn(store: StoreKind, name: string): boolean {
  return IS_FULL || store === "sqlite" || CALLED_ON_POSTGRES.test(name);
}

interface Scenario {
  readonly ending: Ending;
  readonly outcome: string;
  readonly applies: (entrance: Entrance) => boolean;
  /** Whether a repetition gets the first reply. Undefined where that depends on whether it was read to its end. */
  readonly isReplayed: boolean | undefined;
  readonly isExact: boolean;
}

const isStreamed = (entrance: Entrance): boolean => entrance.isStreamed;

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "whose event exceeds the limit": {
    ending: { hasUsage: true, padding: 2 * EVENT_MAX_BYTES },
    outcome: "limit_exceeded",
    applies: isStreamed,
    isReplayed: false,
    isExact: true,
  },
  "that is longer than a stream may be": {
    ending: { hasUsage: true, padding: MIB / 4, events: 16 },
    outcome: "limit_exceeded",
    applies: isStreamed,
    isReplayed: undefined,
    // A bill that ends with the connection is counted.
    isExact: false,
  },
  "that falls silent": {
    ending: { hasUsage: false, isSilent: true },
    outcome: "upstream_timeout",
    applies: isStreamed,
    isReplayed: false,
    isExact: false,
  },
  "that is longer than a whole reply may be": {
    ending: { hasUsage: true, padding: 2 * REPLY_MAX_BYTES },
    outcome: "limit_exceeded",
    applies: (entrance) => !entrance.isStreamed,
    isReplayed: false,
    isExact: true,
  },
  "that is complete and has no usage": {
    ending: { hasUsage: false },
    outcome: "completed",
    applies: () => true,
    isReplayed: true,
    isExact: false,
  },
  "that reports an invalid number of tokens": {
    ending: { hasUsage: true, reported: -1 },
    outcome: "completed",
    applies: () => true,
    isReplayed: true,
    isExact: false,
  },
  "that is empty": {
    ending: { hasUsage: true, isEmpty: true },
    outcome: "empty_reply",
    applies: () => true,
    isReplayed: true,
    isExact: true,
  },
};

describe.each(STORE_KINDS)("a reply, on %s", (store) => {
  let patient: Gateway;
  /** Gives silent providers up. */
  let impatient: Gateway;
  let provider: RawProvider;
  let ending: Ending = { hasUsage: true };
  let goOn: PromiseWithResolvers<void> | undefined;

  beforeAll(async () => {
    provider = await startRawProvider(({ path, body }) => {
      const { stream, model } = JSON.parse(body) as Json;
      const wire = wireOf(path);
      const reply =
        stream === true
          ? streamedReply(wire, ending, goOn?.promise)
          : { body: JSON.stringify(wholeReply(wire, ending)) };
      return { ...reply, body: String(reply.body).replaceAll('"gpt-4.1"', JSON.stringify(model)) };
    });
    const env = {
      OPENAI_BASE_URL: provider.url,
      OPENAI_API_KEY: "test-key-0123456789",
      ANTHROPIC_BASE_URL: provider.url,
      ANTHROPIC_API_KEY: "test-key-0123456789",
    };
    const limits = {
      eventMaxBytes: EVENT_MAX_BYTES,
      streamMaxBytes: STREAM_MAX_BYTES,
      replyMaxBytes: REPLY_MAX_BYTES,
    };
    const options = { store, providers: [], env };
    patient = await startGateway({ ...options, timeouts: limits });
    const timeouts = { ...limits, idleMs: 1_500, drainMs: 1_000 };
    impatient = await startGateway({ ...options, timeouts });
  });
  afterAll(async () => {
    await patient.stop();
    await impatient.stop();
    await provider.stop();
  });

  /** The prompts name the account. */
  const requestsOf = ({ id }: TestAccount): number =>
    provider.requests.filter(({ body }) => body.includes(id)).length;

  /** Calls twice with the same key. */
  async function callTwice(
    gateway: Gateway,
    { call: send }: Entrance,
    account: TestAccount,
  ): Promise<void> {
    const count = async (calls: number): Promise<void> => {
      await waitUntil(
        () => usageRecordsOf(gateway.server.db, account.id),
        ({ length }) => length >= calls,
      );
    };
    await grantCredits(gateway, account, 10n * USD);
    await send(gateway, account, "first");
    await count(1);
    await send(gateway, account, "first");
    await count(requestsOf(account));
  }

  for (const [title, scenario] of Object.entries(SCENARIOS))
    test(`${title} is charged, and so is its repetition unless it is a replay`, async () => {
      ({ ending } = scenario);
      const gateway = ending.isSilent === true ? impatient : patient;
      const calls = await Promise.all(
        Object.entries(ENTRANCES)
          .filter(([name, entrance]) => scenario.applies(entrance) && isCalledOn(store, name))
          .map(async ([name, entrance]) => {
            const account = await registerAccount(gateway);
            await callTwice(gateway, entrance, account);
            return { name, entrance, account };
          }),
      );
      await expectSettledLedger(gateway.server.db);
      for (const { name, entrance, account } of calls) {
        const records = await usageRecordsOf(gateway.server.db, account.id);
        const found = records.map((row) => [name, row["outcome"], row["model"]]);
        const expected = [name, scenario.outcome, entrance.model];
        expect(found).toEqual(Array.from({ length: requestsOf(account) }, () => expected));
        const { isReplayed } = scenario;
        if (name === "WebSocket") expect(found).toHaveLength(2);
        else if (isReplayed || name.includes("background"))
          expect([name, found.length]).toEqual([name, 1]);
        else if (isReplayed === false) expect([name, found.length]).toEqual([name, 2]);
        for (const row of records) {
          const [least, most] = expectedCost(entrance, scenario);
          const cost = integer(row, "cost_nano");
          expect([name, least <= cost && cost <= most, cost]).toEqual([name, true, cost]);
        }
      }
    });

  async function leaveAll(gateway: Gateway): Promise<Readonly<Record<string, TestAccount>>> {
    const accounts: Record<string, TestAccount> = {};
    await Promise.all(
      Object.entries(LEAVING).map(async ([name, leave]) => {
        const account = await registerAccount(gateway);
        accounts[name] = account;
        await grantCredits(gateway, account, 10n * USD);
        await leave(gateway, account, () => eventually(() => requestsOf(account) === 1));
      }),
    );
    return accounts;
  }

  test("of a model that reasons costs its usage after its caller has left", async () => {
    ending = { hasUsage: true };
    goOn = Promise.withResolvers();
    const accounts = await leaveAll(patient);
    goOn.resolve();
    await expectSettledLedger(patient.server.db);
    const [input, output] = PRICES[REASONING] ?? [0, 0];
    for (const [name, account] of Object.entries(accounts)) {
      const records = await usageRecordsOf(patient.server.db, account.id);
      const costs = records.map((row) => [name, integer(row, "cost_nano")]);
      expect(costs).toEqual([[name, INPUT * input + OUTPUT * output]]);
    }
  });

  test("of a model that reasons costs the hold if its usage never arrives", async () => {
    ending = { hasUsage: false, isSilent: true };
    goOn = undefined;
    const accounts = await leaveAll(impatient);
    await expectSettledLedger(impatient.server.db);
    const [, output] = PRICES[REASONING] ?? [0, 0];
    for (const [name, account] of Object.entries(accounts)) {
      const records = await usageRecordsOf(impatient.server.db, account.id);
      const costs = records.map((row) => [name, integer(row, "cost_nano") >= 1_000 * output]);
      expect(costs).toEqual([[name, true]]);
    }
  });
});

function expectedCost(
  { model }: Entrance,
  { outcome, isExact }: Scenario,
): readonly [least: number, most: number] {
  const [input, output] = PRICES[model] ?? [0, 0];
  const whole = INPUT * input + OUTPUT * output;
  if (outcome === "empty_reply") return [0, 0];
  if (isExact) return [whole, whole];
  // A silent stream whose bill is open costs its hold, which covers 1,000 tokens of output.
  return [0.97 * OUTPUT * output, 400 * input + 1_000 * output];
}

/** Makes a call, and leaves once its provider has the request. `sent` resolves then. */
type Leave = (
  gateway: Gateway,
  account: TestAccount,
  sent: () => Promise<unknown>,
) => Promise<void>;

const leaveHttp =
  (api: Wire): Leave =>
  async (gateway, account, sent) => {
    const limits =
      api === "responses"
        ? { input: promptOf(account), max_output_tokens: 1_000, store: false }
        : { messages: [{ role: "user", content: promptOf(account) }], max_tokens: 1_000 };
    const body = { model: REASONING, stream: true, ...limits };
    const client = openSocketClient(gateway, account, api, body);
    await sent();
    client.disconnect();
  };

const LEAVING: Readonly<Record<string, Leave>> = {
  chat: leaveHttp("chat"),
  responses: leaveHttp("responses"),
  messages: leaveHttp("messages"),
  WebSocket: async (gateway, account, sent) => {
    const socket = await openSocket(gateway, account.headers);
    const body = { model: REASONING, input: promptOf(account), max_output_tokens: 1_000 };
    socket.send({ type: "response.create", ...body, store: false });
    await sent();
    socket.close();
    await socket.closed;
  },
  background: async (gateway, account, sent) => {
    const body = { model: REASONING, input: promptOf(account), max_output_tokens: 1_000 };
    const created = await call(gateway, account, "POST /v1/responses", {
      body: { ...body, background: true, store: true },
    });
    await sent();
    await call(gateway, account, `POST /v1/responses/${String(created.json["id"])}/cancel`);
  },
  MCP: async (gateway, account, sent) => {
    const leaving = new AbortController();
    const args = { model: REASONING, prompt: promptOf(account), max_tokens: 1_000 };
    const called = postModern(gateway, {
      method: "tools/call",
      params: { name: "send_message", arguments: args },
      key: account.key,
      meta: { progressToken: 1 },
      signal: leaving.signal,
    }).catch(() => {});
    await sent();
    leaving.abort();
    await called;
  },
};
