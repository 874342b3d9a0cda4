// The WebSocket on /v1/responses: the calls of POST /v1/responses, with the connection's last response kept in memory.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import {
  countOpenHolds,
  expectSettledLedger,
  type Json,
  lastSimulatorRequest,
  simStats,
  usageRecordsOf,
} from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import { testOn } from "../support/full.ts";
import { type Gateway, registerAccount, type TestAccount } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import { call, fundedAccount, openGateway } from "./harness.ts";
import { handshake, openSocket } from "./websocket-client.ts";

const MODEL = "sim/echo";

function responseOf(event: Json): Json {
  return (event["response"] ?? {}) as Json;
}

function errorOf(event: Json): Json {
  return (event["error"] ?? {}) as Json;
}

describe.each(STORE_KINDS)("a WebSocket on /v1/responses on %s", (store) => {
  const testOnce = testOn(store);
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await openGateway({ store });
    account = await fundedAccount(gateway);
  });
  afterAll(() => gateway.stop());

  async function sentInput(): Promise<readonly Json[]> {
    const { body } = await lastSimulatorRequest(gateway);
    return (JSON.parse(body) as { input: readonly Json[] }).input;
  }

  test("streams the events of a response, and charges it", async () => {
    const own = await fundedAccount(gateway);
    const socket = await openSocket(gateway, own.headers);
    const final = await socket.create({ model: MODEL, input: "Hello" });
    expect(final["type"]).toBe("response.completed");
    expect(socket.events[0]?.["type"]).toBe("response.created");
    expect(socket.events.some(({ type }) => type === "response.output_text.delta")).toBe(true);
    const [record, ...more] = await usageRecordsOf(gateway.server.db, own.id);
    expect(more).toEqual([]);
    expect(record).toMatchObject({ outcome: "completed", api: "responses" });
    const { usage } = responseOf(final) as { usage: { cost: number } };
    expect(usage.cost * 1e9).toBeCloseTo(Number(record?.["cost_nano"]), 0);
    socket.close();
  });

  testOnce("sends Codex's header of a request on, which is in its metadata here", async () => {
    const socket = await openSocket(gateway, account.headers);
    const name = "ws_request_header_x_openai_internal_codex_responses_lite";
    const liteOf = async (body: Json): Promise<unknown> => {
      const final = await socket.create({ model: MODEL, ...body });
      expect(final["type"]).toBe("response.completed");
      const { headers } = await lastSimulatorRequest(gateway);
      return headers["x-openai-internal-codex-responses-lite"];
    };
    expect(await liteOf({ input: "a", client_metadata: { [name]: "true" } })).toBe("true");
    expect(await liteOf({ input: "a" })).toBeUndefined();
    expect(await liteOf({ input: JSON.stringify({ [name]: "true" }) })).toBeUndefined();
    socket.close();
  });

  test("continues a stored response, on this connection and over HTTP", async () => {
    const socket = await openSocket(gateway, account.headers);
    const first = responseOf(await socket.create({ model: MODEL, input: "My name is Ada." }));
    const second = responseOf(
      await socket.create({ model: MODEL, input: "Hi", previous_response_id: first["id"] }),
    );
    expect(second["previous_response_id"]).toBe(first["id"]);
    expect(JSON.stringify(await sentInput())).toContain("My name is Ada.");
    const over = await call(gateway, account, "POST /v1/responses", {
      body: { model: MODEL, input: "And?", previous_response_id: second["id"] },
    });
    expect(over.status).toBe(200);
    expect(JSON.stringify(await sentInput())).toContain("My name is Ada.");
    socket.close();
  });

  testOnce("continues a response with `store: false` on its connection alone", async () => {
    const socket = await openSocket(gateway, account.headers);
    const base = { model: MODEL, store: false };
    const first = responseOf(await socket.create({ ...base, input: "My name is Ada." }));
    const second = responseOf(
      await socket.create({ ...base, input: "Two", previous_response_id: first["id"] }),
    );
    const third = responseOf(
      await socket.create({ ...base, input: "Three", previous_response_id: second["id"] }),
    );
    expect(third["status"]).toBe("completed");
    const input = await sentInput();
    expect(input.map(({ role }) => role)).toEqual([
      "user",
      "assistant",
      "user",
      "assistant",
      "user",
    ]);
    const other = await openSocket(gateway, account.headers);
    const lost = await other.create({ ...base, input: "Four", previous_response_id: third["id"] });
    expect(lost).toMatchObject({ type: "error", status: 400 });
    expect(errorOf(lost)["code"]).toBe("previous_response_not_found");
    // The first response is no longer the connection's last one.
    const old = await socket.create({ ...base, input: "Five", previous_response_id: first["id"] });
    expect(errorOf(old)["code"]).toBe("previous_response_not_found");
    socket.close();
    other.close();
  });

  testOnce("forgets a response with `store: false` when its continuation fails", async () => {
    const socket = await openSocket(gateway, account.headers);
    const base = { model: MODEL, store: false };
    const first = responseOf(await socket.create({ ...base, input: "My name is Ada." }));
    const next = { ...base, previous_response_id: first["id"] };
    const result = { type: "function_call_output", call_id: "call_unknown", output: "a" };
    const failed = await socket.create({ ...next, model: "sim/no-such-model", input: [result] });
    expect(failed).toMatchObject({ type: "error", status: 404 });
    const again = await socket.create({ ...next, input: "Two" });
    expect(errorOf(again)["code"]).toBe("previous_response_not_found");
    socket.close();
  });

  test("continues a stored response with responses that are not stored", async () => {
    const socket = await openSocket(gateway, account.headers);
    const stored = responseOf(await socket.create({ model: MODEL, input: "My name is Ada." }));
    const base = { model: MODEL, store: false };
    const second = responseOf(
      await socket.create({ ...base, input: "Two", previous_response_id: stored["id"] }),
    );
    await socket.create({ ...base, input: "Three", previous_response_id: second["id"] });
    const input = JSON.stringify(await sentInput());
    for (const text of ["My name is Ada.", "Two", "Three"]) expect(input).toContain(text);
    socket.close();
  });

  testOnce("keeps the input of `generate: false` without a call", async () => {
    const own = await fundedAccount(gateway);
    const socket = await openSocket(gateway, own.headers);
    const warm = await socket.create({
      model: MODEL,
      store: false,
      generate: false,
      input: "My name is Ada.",
      client_metadata: { turn: "1" },
    });
    expect(warm["type"]).toBe("response.completed");
    expect(responseOf(warm)["output"]).toEqual([]);
    expect(await usageRecordsOf(gateway.server.db, own.id)).toEqual([]);
    const { id } = responseOf(warm);
    await socket.create({ model: MODEL, store: false, input: "Hi", previous_response_id: id });
    expect((await sentInput()).length).toBe(2);
    expect((await lastSimulatorRequest(gateway)).body).not.toContain("client_metadata");
    socket.close();
  });

  testOnce("runs one response at a time, in order", async () => {
    const socket = await openSocket(gateway, account.headers);
    for (const input of ["One", "Two", "Three"])
      socket.send({ type: "response.create", model: MODEL, input });
    const completed = await eventually(() => {
      const found = socket.events.filter(({ type }) => type === "response.completed");
      return found.length === 3 && found;
    });
    const texts = completed.map((event) => JSON.stringify(responseOf(event)["output"]));
    for (const [index, text] of ["One", "Two", "Three"].entries())
      expect(texts[index]).toContain(text);
    const types = socket.events.map(({ type }) => type);
    expect(types.indexOf("response.created", 1)).toBeGreaterThan(
      types.indexOf("response.completed"),
    );
    socket.close();
  });

  testOnce("continues each stream of a connection, and forks one", async () => {
    const socket = await openSocket(gateway, account.headers);
    const base = { model: MODEL, store: false };
    const ada = responseOf(await socket.create({ ...base, stream_id: "a", input: "I am Ada." }));
    const bob = responseOf(await socket.create({ ...base, stream_id: "b", input: "I am Bob." }));
    expect(socket.events.map((event) => event["stream_id"])).not.toContain(undefined);
    const next = { ...base, input: "Two" };
    await socket.create({ ...next, stream_id: "a", previous_response_id: ada["id"] });
    expect(JSON.stringify(await sentInput())).toContain("I am Ada.");
    const forked = { ...next, stream_id: "c", previous_response_id: bob["id"] };
    expect(responseOf(await socket.create(forked))["status"]).toBe("completed");
    expect(JSON.stringify(await sentInput())).toContain("I am Bob.");
    await socket.create({ ...next, stream_id: "b", previous_response_id: bob["id"] });
    expect(JSON.stringify(await sentInput())).toContain("I am Bob.");
    expect(socket.events.at(-1)).toMatchObject({ type: "response.completed", stream_id: "b" });
    socket.close();
  });

  testOnce("refuses to steer a response at once, and goes on with it", async () => {
    const socket = await openSocket(gateway, account.headers);
    const input = "[[sim: slow=20]] one two three four five six seven eight";
    socket.send({ type: "response.create", model: MODEL, input });
    await eventually(() => socket.events.length > 1);
    socket.send({ type: "response.steer", previous_response_id: "resp_1", input: "Stop." });
    await eventually(() => socket.events.some(({ type }) => type === "response.completed"));
    const types = socket.events.map(({ type }) => type);
    expect(types).toContain("response.steer.failed");
    expect(types.indexOf("response.steer.failed")).toBeLessThan(
      types.indexOf("response.completed"),
    );
    socket.close();
  });

  test("reports a failure of the provider and of credits, and stays open", async () => {
    const poor = await registerAccount(gateway);
    const socket = await openSocket(gateway, poor.headers);
    const refused = await socket.create({ model: "openai/gpt-5-mini", input: "x".repeat(500_000) });
    expect(refused).toMatchObject({ type: "error", status: 402 });
    expect(errorOf(refused)["code"]).toBe("insufficient_credits");
    const failed = await socket.create({ model: MODEL, input: "Hi [[sim: status=429]]" });
    expect(failed).toMatchObject({ type: "error", status: 429 });
    expect(failed["headers"]).toHaveProperty("retry-after");
    expect((await socket.create({ model: MODEL, input: "Hi" }))["type"]).toBe("response.completed");
    socket.close();
  });

  test("settles a response whose client closes the connection", async () => {
    const own = await fundedAccount(gateway);
    const socket = await openSocket(gateway, own.headers);
    socket.send({ type: "response.create", model: MODEL, input: "[[sim: chunks=2000 pace=50]]" });
    await eventually(() => socket.events.length > 3);
    expect(await countOpenHolds(gateway.server.db)).toBe(1);
    socket.close();
    const records = await eventually(async () => {
      const found = await usageRecordsOf(gateway.server.db, own.id);
      return found.length > 0 && found;
    });
    expect(records[0]?.["outcome"]).toBe("client_aborted");
    await expectSettledLedger(gateway.server.db);
  });

  test("is closed when its key is revoked", async () => {
    const own = await fundedAccount(gateway);
    const created = await call(gateway, own, "POST /v1/keys", { body: { name: "socket" } });
    const { api_key: raw, id } = created.json as { api_key: string; id: string };
    const socket = await openSocket(gateway, { authorization: `Bearer ${raw}` });
    expect((await socket.create({ model: MODEL, input: "Hi" }))["type"]).toBe("response.completed");
    expect((await call(gateway, own, `DELETE /v1/keys/${id}`)).status).toBeLessThan(300);
    const refused = await socket.create({ model: MODEL, input: "Hi" });
    expect(refused).toMatchObject({ type: "error", status: 401 });
    expect((await socket.closed).code).toBe(1008);
  });
});

describe("a WebSocket on /v1/responses", () => {
  let gateway: Gateway;
  let account: TestAccount;
  beforeAll(async () => {
    gateway = await openGateway({});
    account = await fundedAccount(gateway);
  });
  afterAll(() => gateway.stop());

  const BAD_MESSAGES: readonly (readonly [what: string, message: Json | string, named: string])[] =
    [
      ["no JSON", "hello", "not a JSON object"],
      ["an unknown type", { type: "response.cancel" }, "`type`"],
      ["a duplicate field", '{"type":"response.create","model":"a","model":"b"}', "`model`"],
      [
        "a bad stream id",
        { type: "response.create", stream_id: "a b", model: MODEL },
        "`stream_id`",
      ],
      ["no model", { type: "response.create", input: "Hi" }, "`model`"],
    ];
  test.each(BAD_MESSAGES)("answers %s with an error event", async (_what, message, named) => {
    const socket = await openSocket(gateway, account.headers);
    socket.send(message);
    const [event] = await eventually(() => socket.events.length > 0 && socket.events);
    expect(event).toMatchObject({ type: "error", status: 400 });
    expect(String(errorOf(event ?? {})["message"])).toContain(named);
    socket.close();
  });

  test("ignores `response.processed`, and refuses too many waiting messages", async () => {
    const socket = await openSocket(gateway, account.headers);
    socket.send({ type: "response.processed", response_id: "resp_1" });
    const create = { type: "response.create", model: MODEL, input: "[[sim: chunks=50 pace=50]]" };
    for (let sent = 0; sent < 10; sent++) socket.send(create);
    const error = await eventually(() => socket.events.find(({ type }) => type === "error"));
    expect(error).toMatchObject({ status: 429 });
    socket.close();
    await expectSettledLedger(gateway.server.db);
  });

  test("stops reading the provider while the client does not read", async () => {
    const { hostname, port } = new URL(gateway.url);
    const socket = connect(Number(port), hostname);
    await new Promise((resolve) => socket.once("connect", resolve));
    socket.write(
      `GET /v1/responses HTTP/1.1\r\nHost: ${hostname}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: ${account.headers["authorization"]}\r\n\r\n`,
    );
    await new Promise((resolve) => socket.once("data", resolve));
    socket.pause();
    const before = await simStats(gateway);
    const input = "[[sim: kb=60000 chunks=2000]]";
    socket.write(
      maskedFrame(JSON.stringify({ type: "response.create", model: MODEL, input, store: false })),
    );
    await eventually(async () => (await simStats(gateway)).open_streams > before.open_streams);
    // Meanwhile, a client that reads gets all of the same stream.
    const reader = await openSocket(gateway, account.headers);
    await reader.create({ model: MODEL, input, store: false });
    expect(reader.events.length).toBeGreaterThan(2_000);
    await eventually(
      async () => (await simStats(gateway)).open_streams === before.open_streams + 1,
    );
    reader.close();
    socket.destroy();
    await expectSettledLedger(gateway.server.db);
  });

  test("refuses handshakes without a key, of another version and beyond the limit of the key", async () => {
    expect((await handshake(gateway, {})).status).toBe(401);
    const { authorization = "" } = account.headers;
    const old = await handshake(gateway, { authorization, "sec-websocket-version": "8" });
    expect([old.status, old.headers["sec-websocket-version"]]).toEqual([400, "13"]);
    const plain = await call(gateway, account, "GET /v1/responses");
    expect([plain.status, plain.headers.get("upgrade")]).toEqual([426, "websocket"]);
    expect((await handshake(gateway, { authorization })).status).toBe(101);
    const own = await fundedAccount(gateway);
    const sockets = await Promise.all(
      Array.from({ length: 32 }, () => openSocket(gateway, own.headers)),
    );
    const { authorization: ownKey = "" } = own.headers;
    const beyond = await handshake(gateway, { authorization: ownKey });
    expect([beyond.status, beyond.headers["retry-after"]]).toEqual([429, "5"]);
    sockets[0]?.close();
    await eventually(
      async () => (await handshake(gateway, { authorization: ownKey })).status === 101,
    );
    for (const socket of sockets) socket.close();
  });
});

describe("the end of a WebSocket on /v1/responses", () => {
  test("comes after its lifetime, and not before the response in progress has ended", async () => {
    const gateway = await openGateway({ webSocketLifetimeMs: 1_000 });
    const account = await fundedAccount(gateway);
    const idle = await openSocket(gateway, account.headers);
    const busy = await openSocket(gateway, account.headers);
    const final = busy.create({ model: MODEL, input: "[[sim: chunks=30 pace=100]]" });
    expect((await idle.closed).code).toBe(1000);
    expect(idle.events).toMatchObject([
      { type: "error", error: { code: "websocket_connection_limit_reached" } },
    ]);
    expect((await final)["type"]).toBe("response.completed");
    expect((await busy.closed).code).toBe(1000);
    expect(busy.events.at(-1)).toMatchObject({ type: "error", status: 400 });
    await gateway.stop();
  });

  test("comes at a shutdown, after the response in progress", async () => {
    const gateway = await openGateway({});
    const account = await fundedAccount(gateway);
    const idle = await openSocket(gateway, account.headers);
    const busy = await openSocket(gateway, account.headers);
    const final = busy.create({ model: MODEL, input: "[[sim: chunks=30 pace=50]]" });
    await eventually(() => busy.events.length > 2);
    gateway.server.startDraining();
    expect((await idle.closed).code).toBe(1012);
    expect((await final)["type"]).toBe("response.completed");
    expect((await busy.closed).code).toBe(1012);
    await gateway.stop();
  });
});

/** A text frame of a client (RFC 6455 §5.2), with a mask of zeros. */
function maskedFrame(text: string): Uint8Array {
  const payload = Buffer.from(text);
  const length = Buffer.alloc(2);
  length.writeUInt16BE(payload.length);
  const head = payload.length < 126 ? [0x80 | payload.length] : [0x80 | 126, ...length];
  return Buffer.concat([Buffer.from([0x81, ...head, 0, 0, 0, 0]), payload]);
}
