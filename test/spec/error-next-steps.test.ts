// A crawler of errors: for every code of the table of errors it provokes the error, sends each step of `next` with the key
// that was refused, and expects that none ends in another error. An error without steps can be repeated, and then succeeds.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { FaultCode } from "../../src/base/fault.ts";
import { createUser, makeOwner } from "../billing/console-user.ts";
import { openRawConnection, parseResponses } from "../http/raw-client.ts";
import { startShortTimeoutGateway } from "../http/short-timeout-gateway.ts";
import { startFacilitator } from "../support/fakes/x402-facilitator.ts";
import { casesOn } from "../support/full.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { STORE_KINDS } from "../support/stores/stores.ts";
import {
  type ApiRequest,
  type ApiResponse,
  call,
  chat,
  createFakeClock,
  type Json,
  listAt,
  textAt,
  valueAt,
} from "./api-client.ts";

const HUMAN = "human@example.com";
const FORM = { "content-type": "application/x-www-form-urlencoded" };
const SPENDS_MOST = { messages: [{ role: "user", content: "[[sim: tokens=10000]] hello" }] };

interface Refusal {
  readonly response: ApiResponse;
  /** The key that was refused; undefined for a request without one. */
  readonly key?: string | undefined;
  /** The gateway that refused, if it is not that of the other tests. */
  readonly at?: Gateway;
  /** The body that was refused. */
  readonly sent?: Json;
  /** What the message asks to send with the next step. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Repeats the request once its cause is gone. */
  readonly repeat?: () => Promise<ApiResponse>;
}

describe.each(STORE_KINDS)("following next on %s", (store) => {
  const clock = createFakeClock();
  const facilitator = startFacilitator();
  const stops: (() => Promise<unknown>)[] = [];
  let gateway: Gateway;
  let people = 0;
  beforeAll(async () => {
    gateway = await startGateway({ store, env: facilitator.env, now: clock.now });
    stops.push(gateway.stop);
  });
  afterAll(async () => {
    for (const stop of stops) await stop();
    await facilitator.stop();
  });

  const start = async (options: Parameters<typeof startGateway>[0]): Promise<Gateway> => {
    const started = await startGateway({ store, now: clock.now, ...options });
    stops.push(started.stop);
    return started;
  };
  const register = async (): Promise<string> => (await registerAccount(gateway)).key;
  const accountOf = async (key: string): Promise<string> =>
    textAt((await call(gateway, "GET /v1/account", { key })).body, "account.id");
  const createKey = async (key: string, body: Json): Promise<string> => {
    const created = await call(gateway, "POST /v1/keys", { key, body });
    expect([created.status, created.text.slice(0, 300)]).toEqual([201, expect.any(String)]);
    return textAt(created.body, "api_key");
  };
  const claim = async (key: string): Promise<void> => {
    people += 1;
    await makeOwner(gateway, await accountOf(key), await createUser(gateway, `owner${people}`));
  };
  const write = (sql: string, params: readonly string[]): Promise<unknown> =>
    gateway.server.db.write((tx) => tx.run(sql, params));
  const spend = async (key: string): Promise<void> => {
    for (let times = 0; times < 2; times++)
      await chat(gateway, key, { ...SPENDS_MOST, max_tokens: 10_000 });
  };

  /** Sends a step as a program would that fills in the placeholders of its body. */
  async function send(step: Json, refusal: Refusal): Promise<ApiResponse> {
    const { at = gateway, key, headers = {} } = refusal;
    const { sent } = refusal;
    // A step that sends a body and has none repeats the refused request, such as with a payment.
    const isRepeated = step["method"] === "POST" && step["body"] === undefined;
    const isClaim = valueAt(step, "body.email") !== undefined;
    const body = isClaim ? { email: HUMAN } : isRepeated ? sent : step["body"];
    const url = new URL(textAt(step, "url"), at.url);
    const request: ApiRequest = {
      headers,
      ...(key === undefined ? {} : { key }),
      ...(body === undefined ? {} : { body }),
    };
    return await call(at, `${textAt(step, "method")} ${url.pathname}${url.search}`, request);
  }

  function stepsOf({ body }: ApiResponse): readonly Json[] {
    const next = valueAt(body, "error.next") ?? body["next"];
    return next === undefined ? [] : listAt({ next }, "next");
  }

  /** Returns the steps that were followed. */
  async function follow(refusal: Refusal): Promise<readonly string[]> {
    const { response, repeat } = refusal;
    const steps = stepsOf(response);
    for (const step of steps) {
      const reply = await send(step, refusal);
      const isPayable = reply.status === 402 && reply.headers.has("payment-required");
      const isAccepted = reply.status < 400 || isPayable;
      expect([textAt(step, "url"), isAccepted ? "" : reply.text]).toEqual([
        textAt(step, "url"),
        "",
      ]);
    }
    if (steps.length === 0) {
      expect(response.headers.get("x-should-retry")).not.toBe("false");
      expect((await repeat?.())?.status).toBeOneOf([200, 201]);
    }
    return steps.map((step) => textAt(step, "url"));
  }

  const completion = { model: "sim/echo", messages: [{ role: "user", content: "hello" }] };
  const withContent = (content: string): Json => ({
    max_tokens: 20,
    messages: [{ role: "user", content }],
  });

  const EXPENSIVE = { ...completion, max_tokens: 16_000, postern: { hold: "full" } };
  const refuseExpensive = async (key: string): Promise<Refusal> => ({
    key,
    sent: EXPENSIVE,
    response: await chat(gateway, key, EXPENSIVE),
  });

  const PROVOKE: Readonly<Record<FaultCode, () => Promise<Refusal>>> = {
    invalid_request: async () => {
      const key = await register();
      return { key, response: await call(gateway, "POST /v1/keys", { key, body: { nam: "x" } }) };
    },
    invalid_api_key: async () => ({ response: await call(gateway, "GET /v1/account") }),
    insufficient_credits: async () => {
      const key = await register();
      await spend(key);
      return await refuseExpensive(key);
    },
    payment_required: async () => {
      const key = await register();
      const body = { amount_usd: 10 };
      const invoice = await call(gateway, "POST /v1/billing/invoice", { key, body });
      const line = `POST /v1/billing/invoice/${textAt(invoice.body, "id")}/x402`;
      const response = await call(gateway, line, { key });
      // The header is the next step: a wallet signs it. test/billing/x402 pays.
      expect(response.headers.has("payment-required")).toBe(true);
      return { key, response, repeat: () => call(gateway, "GET /v1/billing/invoices", { key }) };
    },
    forbidden: async () => {
      const key = await createKey(await register(), { scopes: ["models:write"] });
      return { key, response: await call(gateway, "GET /v1/usage", { key }) };
    },
    proof_of_work_required: async () => {
      const at = await start({
        env: { POSTERN_PROOF_OF_WORK_BITS: "8", POSTERN_SECRET: "s".repeat(40) },
      });
      const response = await call(at, "POST /v1/accounts", { body: {} });
      const challenge = textAt(response.body, "error.proof_of_work.challenge");
      const sha256 = (text: string) => new Bun.CryptoHasher("sha256").update(text).digest();
      const proof = Array.from({ length: 10_000 }, (_, number) => `${challenge}.${number}`).find(
        (text) => sha256(text)[0] === 0,
      );
      return { at, response, headers: { "proof-of-work": proof ?? "" } };
    },
    key_limit_reached: async () => {
      const key = await createKey(await register(), { limit_usd: 0.001 });
      return { key, response: await chat(gateway, key, EXPENSIVE) };
    },
    session_limit_reached: async () => {
      const key = await register();
      const headers = { "x-postern-session": "s1", "x-postern-session-limit-usd": "0.000001" };
      return { key, response: await chat(gateway, key, {}, headers) };
    },
    session_stopped: async () => {
      const key = await register();
      const headers = { "x-postern-session": "s2" };
      await chat(gateway, key, {}, headers);
      await call(gateway, "DELETE /v1/sessions/s2", { key });
      return { key, response: await chat(gateway, key, {}, headers) };
    },
    workspace_budget_reached: async () => {
      const key = await register();
      const body = { daily_usd: 0.000001 };
      await call(gateway, "PATCH /v1/account/budgets", { key, body });
      return { key, response: await chat(gateway, key) };
    },
    workspace_frozen: async () => {
      const key = await register();
      await call(gateway, "DELETE /v1/account", { key });
      return { key, response: await chat(gateway, key) };
    },
    guardrail_denied: async () => {
      const key = await register();
      const body = { type: "patterns", entities: ["email"], action: "deny" };
      await call(gateway, "POST /v1/guardrails/no-addresses", { key, body });
      const response = await chat(gateway, key, withContent("Write to ada@example.com"));
      return { key, response, repeat: () => chat(gateway, key, withContent("Write to Ada")) };
    },
    not_found: async () => ({ response: await call(gateway, "GET /v1/nothing") }),
    model_not_found: async () => {
      const key = await register();
      return { key, response: await chat(gateway, key, { model: "openai/no-such" }) };
    },
    method_not_allowed: async () => ({
      response: await call(gateway, "PUT /v1/models", { body: {} }),
    }),
    request_timeout: async () => {
      const at = await startShortTimeoutGateway({ store });
      stops.push(at.stop);
      const connection = await openRawConnection(at);
      await connection.write(
        "POST /v1/accounts HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
      );
      const { text } = await connection.until((sent) => parseResponses(sent).length > 0);
      connection.socket.destroy();
      const [reply] = parseResponses(text);
      const body = JSON.parse(reply?.body ?? "{}") as Json;
      const response = { status: reply?.status ?? 0, headers: new Headers(), text, body };
      return { at, response, repeat: () => call(at, "POST /v1/accounts", { body: {} }) };
    },
    conflict: async () => {
      const key = await register();
      const headers = { "idempotency-key": "5f1c0b7a9d3e4826b0c4d8e1f2a36795" };
      await call(gateway, "POST /v1/keys", { key, headers, body: { name: "first" } });
      const body = { name: "second" };
      return { key, response: await call(gateway, "POST /v1/keys", { key, headers, body }) };
    },
    payload_too_large: async () => {
      const key = await register();
      const body = { ...completion, user: "x".repeat(33 * 1024 * 1024) };
      return { key, response: await call(gateway, "POST /v1/chat/completions", { key, body }) };
    },
    unsupported_media_type: async () => {
      const key = await register();
      const headers = { "content-type": "text/plain" };
      return { key, response: await call(gateway, "POST /v1/keys", { key, raw: "x", headers }) };
    },
    rate_limited: async () => {
      const at = await start({ env: { POSTERN_ACCOUNTS_PER_HOUR: "1" } });
      const create = () => call(at, "POST /v1/accounts", { body: {} });
      await create();
      const response = await create();
      const repeat = (): Promise<ApiResponse> => {
        clock.advance(Number(response.headers.get("retry-after")) * 1_000);
        return create();
      };
      return { at, response, repeat };
    },
    internal: async () => {
      const key = await register();
      const list = () => call(gateway, "GET /v1/webhooks", { key });
      await write("alter table webhook rename to webhook_gone", []);
      const response = await list();
      await write("alter table webhook_gone rename to webhook", []);
      return { key, response, repeat: list };
    },
    upstream_error: async () => {
      const key = await register();
      const response = await chat(gateway, key, withContent("[[sim: status=500]] hello"));
      return { key, response, repeat: () => chat(gateway, key) };
    },
    provider_not_configured: async () => {
      const key = await register();
      const models = listAt((await call(gateway, "GET /v1/models?available=false")).body, "data");
      const off = models.find(({ available }) => available === false);
      return { key, response: await chat(gateway, key, { model: off?.["id"] }) };
    },
    overloaded: async () => {
      const at = await start({});
      at.server.startDraining();
      const line = "GET /v1/models";
      // Another process takes the request.
      return { response: await call(at, line), repeat: () => call(gateway, line) };
    },
    upstream_timeout: async () => {
      const key = await register();
      const response = await chat(gateway, key, withContent("[[sim: status=504]] hello"));
      return { key, response, repeat: () => chat(gateway, key) };
    },
  };

  test.each(casesOn(store, Object.keys(PROVOKE) as FaultCode[]))(
    "of %s never ends in another error",
    async (code) => {
      const refusal = await PROVOKE[code]();
      const { body } = refusal.response;
      expect(valueAt(body, "error.code") ?? body["code"]).toBe(code);
      await follow(refusal);
    },
  );

  /** Keys that may do less than the first key of an account. */
  const NARROW_KEYS = {
    "with a limit": { limit_usd: 5 },
    "for model calls": { scopes: ["models:write"] },
    "with a policy": { allowed_models: ["sim/*", "openai/*"] },
  } as const;

  describe.each(casesOn(store, Object.entries(NARROW_KEYS)))("of a key %s", (_name, settings) => {
    let key: string;
    let parent: string;
    beforeAll(async () => {
      parent = await register();
      key = await createKey(parent, settings);
    });

    test("without credits never ends in another error", async () => {
      const broke = await register();
      const child = await createKey(broke, settings);
      await spend(broke);
      const refusal = await refuseExpensive(child);
      expect(valueAt(refusal.response.body, "error.code")).toBe("insufficient_credits");
      await follow(refusal);
    });

    test("for a missing scope, an unknown key and a webhook never ends in another error", async () => {
      for (const line of [
        "POST /v1/webhooks",
        "GET /v1/webhooks/hook_none",
        "GET /v1/keys/key_none",
        "GET /v1/usage/req_none",
        "GET /v1/responses/resp_none",
        "GET /v1/sessions/none",
        "GET /v1/billing/invoice/inv_none",
        "PATCH /v1/account/budgets",
        "POST /v1/billing/invoice",
        "POST /agent/identity/claim",
      ]) {
        const sent = line.startsWith("GET") ? {} : { body: {} };
        const response = await call(gateway, line, { key, ...sent });
        expect([line, response.status >= 400]).toEqual([line, true]);
        if (stepsOf(response).length > 0) await follow({ response, key });
      }
    });

    test("in a claimed account never ends in another error", async () => {
      const root = await register();
      const child = await createKey(root, settings);
      await claim(root);
      await spend(root);
      await follow(await refuseExpensive(child));
      for (const response of [
        await chat(gateway, child, { model: "openai/no-such" }),
        await call(gateway, "DELETE /v1/account", { key: child }),
      ]) {
        expect(response.status).toBeGreaterThan(399);
        await follow({ response, key: child });
      }
    });
  });

  describe("of claim errors", () => {
    const startClaim = async (key: string): Promise<void> => {
      const body = { email: HUMAN };
      expect((await call(gateway, "POST /agent/identity/claim", { key, body })).status).toBe(200);
    };
    const poll = (key: string, grant = "urn:postern:agent-auth:grant-type:claim") =>
      call(gateway, "POST /oauth2/token", { key, headers: FORM, raw: `grant_type=${grant}` });
    const change = async (key: string, column: "declined_at" | "expires_at"): Promise<void> => {
      const account = await accountOf(key);
      await write(`update claim_attempt set ${column} = 1 where account_id = ?`, [account]);
    };
    const CLAIM_ERRORS: Readonly<Record<string, (key: string) => Promise<ApiResponse>>> = {
      claim_pending: async (key) => {
        await startClaim(key);
        return await poll(key);
      },
      claim_polled_too_fast: async (key) => {
        await startClaim(key);
        await poll(key);
        return await poll(key);
      },
      claim_expired: async (key) => {
        await startClaim(key);
        await change(key, "expires_at");
        return await poll(key);
      },
      claim_denied: async (key) => {
        await startClaim(key);
        await change(key, "declined_at");
        return await poll(key);
      },
      claim_not_found: (key) => poll(key),
      invalid_request: (key) => poll(key, "password"),
    };

    test.each(casesOn(store, Object.keys(CLAIM_ERRORS)))(
      "%s never ends in another error",
      async (code) => {
        const key = await register();
        const response = await (CLAIM_ERRORS[code]?.(key) ?? Promise.reject(new Error(code)));
        expect([response.status, response.body["code"]]).toEqual([400, code]);
        expect((await follow({ response, key })).length).toBeGreaterThan(0);
      },
    );

    test("a key that may only poll is not told to start a claim", async () => {
      const key = await createKey(await register(), { limit_usd: 1 });
      const response = await poll(key);
      expect(response.body["code"]).toBe("claim_not_found");
      expect(await follow({ response, key })).toEqual(["/v1/keys/self"]);
    });

    test("a start without an email never ends in another error", async () => {
      const key = await register();
      const response = await call(gateway, "POST /agent/identity/claim", { key, body: {} });
      expect(await follow({ response, key })).toEqual(["/docs/api/start-claim.md"]);
    });

    test("of a revoked key is the page about keys", async () => {
      const key = await register();
      const child = await createKey(key, {});
      const own = textAt((await call(gateway, "GET /v1/keys/self", { key: child })).body, "id");
      await call(gateway, `DELETE /v1/keys/${own}`, { key });
      const response = await poll(child);
      expect([response.status, response.body["error"]]).toEqual([401, "invalid_client"]);
      expect(await follow({ response })).toEqual(["/docs/keys.md"]);
    });
  });

  test("of an account that closes leads its keys to reopen it, and those of an owner to the console", async () => {
    const claimed = await register();
    await claim(claimed);
    const account = await accountOf(claimed);
    await write("update wallet set closing_at = 1 where account_id = ?", [account]);
    for (const response of [
      await chat(gateway, claimed),
      await call(gateway, "POST /v1/keys", { key: claimed, body: {} }),
      await call(gateway, "DELETE /v1/account", { key: claimed }),
    ])
      expect(await follow({ response, key: claimed })).toEqual([`/console/${account}/settings`]);
  });
});
