// What the caller receives, and when, at the start of a stream.

import { afterEach, describe, expect, test } from "bun:test";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import { bodyOf, errorOf, grantCredits, type Json, postCall, USD } from "../support/harness.ts";
import { identicalModels, withModels } from "../support/models-file.ts";
import { type RawProvider, type RawReply, startRawProvider } from "../support/raw-provider.ts";

const COMMENT = ": working\n\n";
const EVENT =
  'data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n';
const END = `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}\n\ndata: [DONE]\n\n`;
const ERROR = 'data: {"error":{"message":"overloaded","code":529}}\n\n';
const HEADERS = { "content-type": "text/event-stream" };
const BODY = bodyOf("chat", "hello", { stream: true });

let provider: RawProvider;
let gateway: Gateway;
let account: TestAccount;

async function start(reply: RawReply, timeouts: Json = {}): Promise<void> {
  provider = await startRawProvider(() => reply);
  gateway = await startGateway({
    providers: [],
    env: { SIM_BASE_URL: provider.url, SIM_API_KEY: "k", ...withModels(identicalModels(1)) },
    timeouts,
  });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, USD);
}

afterEach(async () => {
  await gateway.stop();
  await provider.stop();
});

describe("a stream", () => {
  test("begins without an event if none comes for a while", async () => {
    const hasBegun = Promise.withResolvers<void>();
    const cuts = [COMMENT.length];
    const beforeNext = () => hasBegun.promise;
    const body = COMMENT + EVENT + END;
    await start({ headers: HEADERS, body, cuts, beforeNext }, { firstEventMs: 250 });
    const response = await postCall(gateway, account, "chat", BODY);
    expect(response.status).toBe(200);
    hasBegun.resolve();
    const text = await response.text();
    expect(text).toStartWith(COMMENT);
    expect(text).toContain("word ");
    expect(text).toContain("[DONE]");
  });

  test("is an HTTP error if its first event is an error, also after comments", async () => {
    await start({ headers: HEADERS, body: COMMENT + ERROR, cuts: [COMMENT.length] });
    const response = await postCall(gateway, account, "chat", BODY);
    expect(response.status).toBe(529);
    expect(errorOf(await response.json())).toMatchObject({ code: "overloaded" });
    // The attempt was repeated.
    expect(provider.requests.length).toBe(2);
  });

  test("that has begun without an event ends with the error that comes first", async () => {
    const hasBegun = Promise.withResolvers<void>();
    const cuts = [COMMENT.length];
    const beforeNext = () => hasBegun.promise;
    await start(
      { headers: HEADERS, body: COMMENT + ERROR, cuts, beforeNext },
      { firstEventMs: 250 },
    );
    const response = await postCall(gateway, account, "chat", BODY);
    expect(response.status).toBe(200);
    hasBegun.resolve();
    expect(await response.text()).toContain('"overloaded"');
    expect(provider.requests.length).toBe(1);
  });
});
