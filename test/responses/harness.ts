// What the tests of stored responses share: a gateway on either store with every kind of provider, and calls to it.

import { validateResponsesStream } from "../wires/validate-responses-stream.ts";
import type { GatewayOptions } from "../support/gateway.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";
import { grantCredits, type Json, waitUntil, USD } from "../inference/support/harness.ts";

/** One model on each wire that a Responses call may go out on. */
export const MODELS = {
  responses: "openai/gpt-5-mini",
  messages: "anthropic/claude-haiku-4-5",
  gemini: "google/gemini-2.5-flash",
  chat: "groq/llama-3.3-70b-versatile",
  simulated: "sim/reason",
} as const;

const PROVIDERS = ["openai", "anthropic", "google", "groq", "sim"] as const;

export async function openGateway(options: GatewayOptions): Promise<Gateway> {
  return await startGateway({ providers: PROVIDERS, ...options });
}

export async function fundedAccount(gateway: Gateway): Promise<TestAccount> {
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
  return account;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: Json;
}

export async function call(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
  route: string,
  sent: { readonly body?: Json; readonly headers?: Record<string, string> } = {},
): Promise<ApiResponse> {
  const [method = "", path = ""] = route.split(" ");
  const response = await fetch(gateway.url + path, {
    method,
    headers: { ...account.headers, ...sent.headers },
    ...(sent.body === undefined ? {} : { body: JSON.stringify(sent.body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: jsonOf(text) };
}

function jsonOf(text: string): Json {
  return text.startsWith("{") ? (JSON.parse(text) as Json) : {};
}

/** Creates a response and gives it as its caller sees it, whole or out of its stream. */
export async function createResponse(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
  body: Json,
): Promise<Json> {
  const answer = await call(gateway, account, "POST /v1/responses", {
    body: { max_output_tokens: 400, ...body },
  });
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`);
  if (body["stream"] !== true) return answer.json;
  // The simulator's own wire is relayed as it came; what the gateway writes itself must obey the grammar.
  if (!/^(openai|sim)\//.test(String(body["model"]))) {
    const events = [...answer.text.matchAll(/^event: (.*)\ndata: (.*)$/gm)];
    const wrong = validateResponsesStream(
      events.map(([, name = "", data = ""]) => ({ name, data })),
    );
    if (wrong.length > 0) throw new Error(wrong.join("\n"));
  }
  return lastResponse(answer.text);
}

function lastResponse(stream: string): Json {
  const events = eventsOf(stream);
  return events.at(-1)?.["response"] as Json;
}

export function eventsOf(stream: string): readonly Json[] {
  return [...stream.matchAll(/^data: (\{.*\})$/gm)].map(
    ([, data = "{}"]) => JSON.parse(data) as Json,
  );
}

export function textOf(response: Json): string {
  const items = response["output"] as readonly Json[];
  return items
    .filter(({ type }) => type === "message")
    .flatMap(({ content }) => content as readonly Json[])
    .map(({ text }) => String(text))
    .join("");
}

export async function getResponse(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
  id: unknown,
  rest = "",
): Promise<ApiResponse> {
  return await call(gateway, account, `GET /v1/responses/${String(id)}${rest}`);
}

/** Polls until the response is no longer in progress. */
export async function waitUntilEnded(
  gateway: Gateway,
  account: TestAccount,
  id: unknown,
): Promise<Json> {
  return await waitUntil(
    async () => (await getResponse(gateway, account, id)).json,
    ({ status }) => status !== "in_progress",
    10_000,
  );
}

export async function cancelResponse(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
  id: unknown,
): Promise<ApiResponse> {
  return await call(gateway, account, `POST /v1/responses/${String(id)}/cancel`);
}
