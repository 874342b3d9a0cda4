// A gateway with one model for each wire that goes out, each alone on its wire, and a provider behind it that keeps what
// it was sent. Official clients call through a `fetch` that keeps what they got, so that all of it is checked in the end.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { createSimulator } from "../../../src/simulator/simulator.ts";
import { grantCredits, USD } from "../../inference/support/harness.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";

export const APIS = ["chat", "responses", "messages"] as const;
export type Api = (typeof APIS)[number];
export const WIRES = ["chat", "responses", "messages", "gemini", "converse"] as const;
export type Wire = (typeof WIRES)[number];
export type Json = Record<string, unknown>;

/** What the provider was sent. */
export interface UpstreamRequest {
  /** The API that was called last, and so the one that led to this: tests call one after the other. */
  readonly api: Api;
  readonly wire: Wire | "count";
  readonly path: string;
  readonly body: Json;
  readonly headers: Headers;
  /** What it answered, as text: frames too, whose payloads are. */
  readonly reply: Promise<string>;
}

/** A call as the caller saw it. */
export interface ClientExchange {
  readonly api: Api;
  readonly request: Json;
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export interface Harness {
  readonly gateway: Gateway;
  readonly account: TestAccount;
  readonly unfundedAccount: TestAccount;
  readonly upstreamRequests: UpstreamRequest[];
  readonly exchanges: ClientExchange[];
  /** Answers the provider's next calls instead of the simulator, until it is undefined again. */
  providerResponse: ((request: Request) => Response) | undefined;
  readonly stop: () => Promise<void>;
}

/** The model that can only be reached over this wire. Each kind of token has a price of its own. */
export function modelOn(wire: Wire): string {
  return `on-${wire}/echo`;
}

/** The same at a price that nobody can pay who was not given money. */
export function expensiveModelOn(wire: Wire): string {
  return `on-${wire}/dear`;
}

export const PRICES = {
  input: 1_000n,
  cache_read: 100n,
  cache_write_5m: 1_250n,
  cache_write_1h: 2_000n,
  output: 5_000n,
  reasoning: 7_000n,
} as const;

/** What the providers call the models: the wires read from some names what the model can. */
const MODEL_NAMES: Readonly<Record<Wire, string>> = {
  chat: "echo",
  responses: "echo",
  messages: "claude-sonnet-4-6-echo",
  gemini: "gemini-3.1-flash-echo",
  converse: "anthropic.claude-sonnet-4-6-echo",
};

const PROVIDER_PATHS: Readonly<Record<Wire, string>> = {
  chat: "/v1",
  responses: "/v1",
  messages: "",
  gemini: "/v1beta",
  converse: "",
};

export async function startHarness(
  more: { readonly models?: readonly Json[] } = {},
): Promise<Harness> {
  const folder = mkdtempSync(path.join(tmpdir(), "postern-translation-"));
  const simulator = createSimulator({ now: Date.now, acceptsAnyModel: true });
  const upstreamRequests: UpstreamRequest[] = [];
  const upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: async (request) => {
      const text = await request.text();
      const again = new Request(request.url, {
        method: "POST",
        headers: request.headers,
        body: text,
      });
      const response = world.providerResponse?.(again) ?? (await simulator.fetch(again));
      const reply = response
        .clone()
        .text()
        .catch(() => "");
      upstreamRequests.push({ ...upstreamRequestOf(request, text), api: lastApi, reply });
      return response;
    },
  });
  const url = `http://127.0.0.1:${upstream.port}`;
  const file = path.join(folder, "models.json");
  writeFileSync(file, JSON.stringify(modelsFile(url, more.models ?? [])));
  const gateway = await startGateway({ providers: [], env: { POSTERN_MODELS_FILE: file } });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100_000n * USD);
  const world: Harness = {
    gateway,
    account,
    unfundedAccount: await registerAccount(gateway),
    upstreamRequests,
    exchanges: [],
    providerResponse: undefined,
    stop: async () => {
      await gateway.stop();
      await upstream.stop(true);
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return world;
}

function upstreamRequestOf(request: Request, text: string): Omit<UpstreamRequest, "reply" | "api"> {
  const { pathname: place } = new URL(request.url);
  return {
    wire: wireOfPath(place),
    path: place,
    body: JSON.parse(text) as Json,
    headers: request.headers,
  };
}

function wireOfPath(place: string): Wire | "count" {
  if (/count[-_]?tokens|input_tokens/i.test(place)) return "count";
  if (place.endsWith("/chat/completions")) return "chat";
  if (place.endsWith("/responses")) return "responses";
  if (place.endsWith("/messages")) return "messages";
  return place.includes("enerateContent") ? "gemini" : "converse";
}

function modelsFile(url: string, more: readonly Json[]): Json {
  const tokens = Object.fromEntries(
    Object.entries(PRICES).map(([meter, nanos]) => [meter, String(Number(nanos) / 1_000)]),
  );
  return {
    providers: WIRES.map((wire) => ({
      id: `on-${wire}`,
      base_url: url + PROVIDER_PATHS[wire],
      wires: [wire],
      stops_billing_on_abort: true,
    })),
    models: [
      ...WIRES.map((wire) => ({
        id: modelOn(wire),
        name: MODEL_NAMES[wire],
        context_length: 200_000,
        max_output_tokens: 32_000,
        input_modalities: ["text", "image", "file"],
        supported: ["tools", "parallel_tools", "structured_output", "reasoning", "vision"],
        wires: [wire],
        pricing: { tokens },
      })),
      ...WIRES.map((wire) => ({
        id: expensiveModelOn(wire),
        wires: [wire],
        pricing: { tokens: { input: "9000", output: "9000" } },
      })),
      ...more,
    ],
  };
}

// ---- Official clients

let lastApi: Api = "chat";

/** A `fetch` that keeps the exchange; the text of the whole answer is read beside the client. */
function recordingFetch(world: Harness): typeof fetch {
  const watched = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const place = new URL(input instanceof Request ? input.url : input).pathname;
    const api = place.endsWith("/chat/completions")
      ? "chat"
      : place.endsWith("/messages")
        ? "messages"
        : "responses";
    lastApi = api;
    const response = await fetch(input, init);
    const copy = response.clone();
    const request = JSON.parse(typeof init?.body === "string" ? init.body : "{}") as Json;
    pendingReads.push(
      copy.text().then(
        (text) => {
          world.exchanges.push({
            api,
            request,
            status: response.status,
            headers: response.headers,
            text,
          });
        },
        () => {},
      ),
    );
    return response;
  };
  return Object.assign(watched, { preconnect: fetch.preconnect });
}

const pendingReads: Promise<void>[] = [];

/** All that was asked so far has been answered, and is among the exchanges. */
export async function recordedExchanges(): Promise<void> {
  await Promise.all(pendingReads.splice(0));
}

export function openaiFor(world: Harness, apiKey = world.account.key): OpenAI {
  return new OpenAI({
    apiKey,
    baseURL: `${world.gateway.url}/v1`,
    maxRetries: 0,
    fetch: recordingFetch(world),
  });
}

export function anthropicFor(world: Harness, apiKey = world.account.key): Anthropic {
  return new Anthropic({
    apiKey,
    baseURL: world.gateway.url,
    maxRetries: 0,
    fetch: recordingFetch(world),
  });
}

/** The `ai` package's model for this API. */
export function aiModel(world: Harness, api: Api, model: string, apiKey = world.account.key) {
  const setting = { apiKey, baseURL: `${world.gateway.url}/v1`, fetch: recordingFetch(world) };
  switch (api) {
    case "chat":
      return createOpenAI(setting).chat(model);
    case "responses":
      return createOpenAI(setting).responses(model);
    case "messages":
      return createAnthropic(setting)(model);
  }
}

// ---- Raw calls

const API_PATHS: Readonly<Record<Api, string>> = {
  chat: "/v1/chat/completions",
  responses: "/v1/responses",
  messages: "/v1/messages",
};

export interface RawResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body, or undefined where it is a stream. */
  readonly json: Json;
}

export async function callApi(world: Harness, api: Api, body: Json): Promise<RawResponse> {
  const response = await recordingFetch(world)(world.gateway.url + API_PATHS[api], {
    method: "POST",
    headers: world.account.headers,
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const isStream = response.headers.get("content-type")?.includes("event-stream") === true;
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: isStream ? {} : (JSON.parse(text) as Json),
  };
}

/** The least body of this API that says this. */
export function minimalBody(api: Api, wire: Wire, text: string, extraFields: Json = {}): Json {
  const model = modelOn(wire);
  if (api === "responses") return { model, input: text, ...extraFields };
  const messages = [{ role: "user", content: text }];
  return api === "chat"
    ? { model, messages, ...extraFields }
    : { model, messages, max_tokens: 1_000, ...extraFields };
}
