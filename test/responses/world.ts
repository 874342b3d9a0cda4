// What the tests of stored responses share: a gateway on either store with every kind of provider, and calls to it.

import { checkResponsesStream } from "../../src/inference/wires/responses/grammar.ts";
import type { GatewayOptions } from "../support/gateway.ts";
import { type Account, type Gateway, register, startGateway } from "../support/gateway.ts";
import { fund, type Json, until, USD } from "../inference/world.ts";

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

export async function richAccount(gateway: Gateway): Promise<Account> {
  const account = await register(gateway);
  await fund(gateway, account, 100n * USD);
  return account;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: Json;
}

export async function call(
  gateway: Pick<Gateway, "url">,
  account: Account,
  route: string,
  sent: { readonly body?: Json; readonly headers?: Record<string, string> } = {},
): Promise<Answer> {
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
export async function create(
  gateway: Pick<Gateway, "url">,
  account: Account,
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
    const wrong = checkResponsesStream(events.map(([, name = "", data = ""]) => ({ name, data })));
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

export async function get(
  gateway: Pick<Gateway, "url">,
  account: Account,
  id: unknown,
  rest = "",
): Promise<Answer> {
  return await call(gateway, account, `GET /v1/responses/${String(id)}${rest}`);
}

/** Polls until the response is no longer in progress. */
export async function ended(gateway: Gateway, account: Account, id: unknown): Promise<Json> {
  return await until(
    async () => (await get(gateway, account, id)).json,
    ({ status }) => status !== "in_progress",
    10_000,
  );
}

export async function cancel(
  gateway: Pick<Gateway, "url">,
  account: Account,
  id: unknown,
): Promise<Answer> {
  return await call(gateway, account, `POST /v1/responses/${String(id)}/cancel`);
}
