// Callers share circuits and provider accounts: one caller's requests must not affect the others.

import { afterEach, describe, expect, test } from "bun:test";
import { openRawConnection } from "../../http/raw-client.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import {
  bodyOf,
  grantCredits,
  type Json,
  PATHS,
  postCall,
  usageRecordOf,
  USD,
  withHeaders,
} from "../support/harness.ts";
import { identicalModels, withModels } from "../support/models-file.ts";
import {
  type RawProvider,
  type RawReply,
  type RawRequest,
  startRawProvider,
} from "../support/raw-provider.ts";

const SSE = { "content-type": "text/event-stream" };
const chunk = (delta: Json, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: "c", model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const USAGE = `data: ${JSON.stringify({ id: "c", model: "m", choices: [], usage: { prompt_tokens: 10, completion_tokens: 5 } })}`;
const WHOLE = JSON.stringify({
  id: "c",
  model: "m",
  choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 5 },
});

let gateway: Gateway;
let provider: RawProvider;
let account: TestAccount;
async function start(replyTo: (request: RawRequest) => RawReply): Promise<void> {
  provider = await startRawProvider(replyTo);
  gateway = await startGateway({
    providers: [],
    env: {
      SIM_BASE_URL: provider.url,
      SIM_API_KEY: "canary-key-0123456789",
      ...withModels(identicalModels(4)),
    },
  });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 10n * USD);
}
afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

describe("a caller", () => {
  test("that sends a control character in a header opens no circuit", async () => {
    await start(() => ({ body: WHOLE }));
    const body = JSON.stringify(bodyOf("chat", "x"));
    for (let again = 0; again < 3; again++) {
      const connection = await openRawConnection(gateway);
      connection.socket.write(
        `POST ${PATHS.chat} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${account.key}\r\ncontent-type: application/json\r\naccept-language: \x7f\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      expect((await connection.until(/HTTP\/1.1 (\d+)/)).text).toContain("HTTP/1.1 400");
      connection.socket.destroy();
    }
    const other = await registerAccount(gateway);
    expect((await postCall(gateway, other, "chat", bodyOf("chat", "x"))).status).toBe(200);
  });

  test("whose calls keep failing opens the circuit for itself only", async () => {
    await start(({ body }) =>
      body.includes("poison") ? { status: 500, body: "{}" } : { body: WHOLE },
    );
    const poison = () => postCall(gateway, account, "chat", bodyOf("chat", "poison"));
    for (let again = 0; again < 3; again++) expect((await poison()).status).toBe(500);
    const requestsBefore = provider.requests.length;
    expect((await poison()).headers.has("retry-after")).toBe(true);
    expect(provider.requests.length).toBe(requestsBefore);
    const other = await registerAccount(gateway);
    expect((await postCall(gateway, other, "chat", bodyOf("chat", "x"))).status).toBe(200);
  });

  test("whose token counts are rejected opens no circuit for calls", async () => {
    await start(({ path }) =>
      path.endsWith("count_tokens") ? { status: 429, body: "{}" } : { body: WHOLE },
    );
    for (let again = 0; again < 3; again++)
      await fetch(`${gateway.url}/v1/messages/count_tokens`, {
        method: "POST",
        headers: account.headers,
        body: JSON.stringify({ model: "sim/echo", messages: [{ role: "user", content: "x" }] }),
      });
    expect((await postCall(gateway, account, "chat", bodyOf("chat", "x"))).status).toBe(200);
  });
});

describe("a whole reply with a failed choice and no content", () => {
  test("is a failure and costs nothing, as in a stream", async () => {
    const bodies = [
      {
        status: "failed",
        output: [],
        error: { code: "server_error", message: "in org-Abcdefgh1234" },
        usage: { input_tokens: 100, output_tokens: 0 },
      },
      {
        choices: [{ finish_reason: "error", message: { content: "" } }],
        usage: { prompt_tokens: 100, completion_tokens: 0 },
      },
    ];
    let index = 0;
    await start(() => ({ body: JSON.stringify(bodies[index]) }));
    for (const api of ["responses", "chat"] as const) {
      const response = await postCall(
        gateway,
        account,
        api,
        bodyOf(api, "x", { model: `sim/twin-${index}` }),
      );
      expect(response.status).toBe(502);
      expect(await response.text()).not.toContain("Abcdefgh1234");
      expect(
        await usageRecordOf(gateway.server.db, response.headers.get("x-request-id")),
      ).toMatchObject({
        cost_nano: 0,
        outcome: "upstream_error",
      });
      index++;
    }
  });
});

describe("a passthrough stream", () => {
  const read = async (reply: RawReply, more: Json = {}): Promise<string> => {
    await start(() => reply);
    return (
      await postCall(gateway, account, "chat", bodyOf("chat", "x", { stream: true, ...more }))
    ).text();
  };

  test("that is cut within an event ends with an error event", async () => {
    const text = await read({
      headers: SSE,
      body: `${chunk({ content: "a" })}data: {"id":"c","cho`,
      ending: "cut",
    });
    for (const event of text.trim().split("\n\n"))
      expect(() => JSON.parse(event.slice(6))).not.toThrow();
    expect(text).toContain('"code":"upstream_error"');
  });

  test("gets a blank connection after an unfinished last event, before what the gateway adds", async () => {
    const text = await read(
      { headers: SSE, body: chunk({ content: "a" }) + chunk({}, "stop") + USAGE },
      { stream_options: { include_usage: true } },
    );
    expect(text).toEndWith("}}\n\ndata: [DONE]\n\n");
  });

  test("reveals neither key nor organization in a late error event", async () => {
    const error =
      'data: {"error":{"message":"limit in org-Abcdefgh1234, canary-key-0123456789"}}\n\n';
    const text = await read({ headers: SSE, body: chunk({ content: "a" }) + error });
    expect(text).toContain("limit in");
    expect(text).not.toMatch(/Abcdefgh1234|canary/);
  });

  test("that begins with an error is retried, even after comments and in small chunks", async () => {
    const body = ': hello\n\ndata: {"error":{"message":"overloaded","code":529}}\n\n';
    // The pieces must arrive one by one; no event tells when the gateway has read one.
    await start(() => ({ headers: SSE, body, cuts: [4, 20, 40], beforeNext: () => Bun.sleep(20) }));
    const response = await postCall(
      gateway,
      account,
      "chat",
      bodyOf("chat", "x", { stream: true }),
    );
    expect([response.status, provider.requests.length]).toEqual([529, 2]);
  });

  test("that begins with an id field is replayed as a stream", async () => {
    const body = `id: 1\n${chunk({ content: "a" })}${chunk({}, "stop")}${USAGE}\n\ndata: [DONE]\n\n`;
    await start(() => ({ headers: SSE, body }));
    const keyed = withHeaders(account, { "idempotency-key": "k" });
    const request = bodyOf("chat", "x", { stream: true });
    await (await postCall(gateway, keyed, "chat", request)).text();
    const again = await postCall(gateway, keyed, "chat", request);
    expect(again.headers.get("content-type")).toContain("text/event-stream");
  });
});
