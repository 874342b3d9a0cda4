// A gateway with one provider per wire, and calls to its Responses API.

import { validateResponsesStream } from "../../packages/wires/test/validate-responses-stream.ts";
import {
  countOpenHolds,
  grantCredits,
  type Json,
  lastSimulatorRequest,
  simStats,
  USD,
} from "../inference/support/harness.ts";
import { eventually } from "../support/eventually.ts";
import type { GatewayOptions } from "../support/gateway.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../support/gateway.ts";

/** One model per wire, and a simulated one. */
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
  request: { readonly body?: Json; readonly headers?: Record<string, string> } = {},
): Promise<ApiResponse> {
  const [method = "", path = ""] = route.split(" ");
  const response = await fetch(gateway.url + path, {
    method,
    headers: { ...account.headers, ...request.headers },
    ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: jsonOf(text) };
}

function jsonOf(text: string): Json {
  return text.startsWith("{") ? (JSON.parse(text) as Json) : {};
}

/** Creates a response and returns it, or the final one of its stream. */
export async function createResponse(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
  body: Json,
): Promise<Json> {
  const reply = await call(gateway, account, "POST /v1/responses", {
    body: { max_output_tokens: 400, ...body },
  });
  if (reply.status !== 200) throw new Error(`${reply.status} ${reply.text}`);
  if (body["stream"] !== true) return reply.json;
  // Validates translated streams; those of the Responses wire are passed through.
  if (!/^(openai|sim)\//.test(String(body["model"]))) {
    const events = [...reply.text.matchAll(/^event: (.*)\ndata: (.*)$/gm)];
    const problems = validateResponsesStream(
      events.map(([, name = "", data = ""]) => ({ name, data })),
    );
    if (problems.length > 0) throw new Error(problems.join("\n"));
  }
  return lastResponse(reply.text);
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
  return await eventually(async () => {
    const { json } = await getResponse(gateway, account, id);
    return json["status"] !== "in_progress" && json;
  });
}

/** Waits until the simulator has open streams, or none. */
export async function openStreams(gateway: Gateway, isOpen: boolean): Promise<void> {
  await eventually(async () => (await simStats(gateway)).open_streams > 0 === isOpen);
}

export async function noOpenHolds({ server }: Gateway): Promise<void> {
  await eventually(async () => (await countOpenHolds(server.db)) === 0);
}

/** The body of the newest request that the provider received. */
export async function providerRequestBody(gateway: Gateway): Promise<Json> {
  return JSON.parse((await lastSimulatorRequest(gateway)).body) as Json;
}

export async function cancelResponse(
  gateway: Pick<Gateway, "url">,
  account: TestAccount,
  id: unknown,
): Promise<ApiResponse> {
  return await call(gateway, account, `POST /v1/responses/${String(id)}/cancel`);
}
