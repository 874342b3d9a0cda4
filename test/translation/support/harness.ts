// A gateway with one model per wire, in front of a simulated provider. Records what the provider and the official clients
// receive, so that check-exchanges.ts can check all of it at the end.

import { rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { createSimulator, type Script } from "@postern/simulator";
import OpenAI from "openai";
import type { FetchFile } from "../../../src/inference/media/fetch-file.ts";
import { grantCredits, USD } from "../../inference/support/harness.ts";
import { fetchWithoutNetwork } from "../../support/file-server.ts";
import {
  type TestAccount,
  type Gateway,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { scratchFolder } from "../../support/scratch-folder.ts";

export const APIS = ["chat", "responses", "messages"] as const;
export type Api = (typeof APIS)[number];
/** With Google's, whose calls are not recorded: its streams have no grammar to check. */
export const CALLER_APIS = [...APIS, "gemini"] as const;
export type CallerApi = (typeof CALLER_APIS)[number];
export const WIRES = ["chat", "responses", "messages", "gemini", "converse"] as const;
export type Wire = (typeof WIRES)[number];
export type Json = Record<string, unknown>;

/** A request that the provider received. */
interface UpstreamRequest {
  /** The caller's API. Tests make one call at a time, so it is the API called last. */
  readonly api: CallerApi;
  readonly wire: Wire | "count";
  readonly path: string;
  readonly body: Json;
  readonly headers: Headers;
  /** The provider's reply decoded as text, even if it is binary frames. */
  readonly reply: Promise<string>;
}

/** A call as seen by the caller. */
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
  /** While set, replies to the gateway instead of the simulator. */
  providerResponse: ((request: Request) => Response) | undefined;
  readonly stop: () => Promise<void>;
}

/** A model with only this wire. Each kind of token has a different price. */
export function modelOn(wire: Wire): string {
  return `on-${wire}/echo`;
}

/** A model with only this wire that an account without credits cannot afford. */
export function expensiveModelOn(wire: Wire): string {
  return `on-${wire}/expensive`;
}

export const PRICES = {
  input: 1_000n,
  cache_read: 100n,
  cache_write_5m: 1_250n,
  cache_write_1h: 2_000n,
  output: 5_000n,
  reasoning: 7_000n,
} as const;

/** Prices of tools that the provider runs. */
const TOOL_FEES: Readonly<Partial<Record<Wire, Json>>> = {
  responses: { web_search: "0.01", container_minute: "0.0015" },
  messages: { web_search: "0.01", web_fetch: "0", code_execution: "0" },
  gemini: { grounding: "0.014", code_execution: "0", web_fetch: "0" },
};

/** The upstream model names, from which some wires derive abilities. */
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

export interface HarnessOptions {
  /** Further models of the models file. */
  readonly models?: readonly Json[];
  /** The models have prices for tools that their provider runs. */
  readonly sellsServerTools?: boolean;
  /** Built-in providers, whose models the gateway's simulator answers for. */
  readonly providers?: readonly string[];
  /** The harness's providers get fields and tools that the gateway does not know. */
  readonly allowUnknownFields?: boolean;
  readonly env?: Readonly<Record<string, string>>;
  /** Plays an agent in the simulator. */
  readonly script?: Script;
  /** By default every URL is a small image or PDF. */
  readonly fetchFile?: FetchFile;
}

export async function startHarness(more: HarnessOptions = {}): Promise<Harness> {
  const folder = scratchFolder("translation");
  const { script } = more;
  const simulator = createSimulator({
    now: Date.now,
    acceptsAnyModel: true,
    ...(script === undefined ? {} : { script }),
  });
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
      const response = harness.providerResponse?.(again) ?? (await simulator.fetch(again));
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
  writeFileSync(file, JSON.stringify(modelsFile(url, more)));
  const gateway = await startGateway({
    providers: more.providers ?? [],
    fetchFile: more.fetchFile ?? fetchWithoutNetwork,
    env: {
      ...more.env,
      POSTERN_MODELS_FILE: file,
      ...(more.allowUnknownFields === true && {
        POSTERN_ALLOW_UNKNOWN_FIELDS: WIRES.map((wire) => `on-${wire}`).join(),
      }),
    },
  });
  const account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100_000n * USD);
  const harness: Harness = {
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
  return harness;
}

function upstreamRequestOf(request: Request, text: string): Omit<UpstreamRequest, "reply" | "api"> {
  const { pathname } = new URL(request.url);
  return {
    wire: wireOfPath(pathname),
    path: pathname,
    body: JSON.parse(text) as Json,
    headers: request.headers,
  };
}

function wireOfPath(pathname: string): Wire | "count" {
  if (/count[-_]?tokens|input_tokens/i.test(pathname)) return "count";
  if (pathname.endsWith("/chat/completions")) return "chat";
  if (pathname.endsWith("/responses")) return "responses";
  if (pathname.endsWith("/messages")) return "messages";
  return pathname.includes("enerateContent") ? "gemini" : "converse";
}

function modelsFile(url: string, { models = [], sellsServerTools }: HarnessOptions): Json {
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
        pricing: { tokens, fees: sellsServerTools === true ? TOOL_FEES[wire] : undefined },
      })),
      ...WIRES.map((wire) => ({
        id: expensiveModelOn(wire),
        wires: [wire],
        pricing: { tokens: { input: "9000", output: "9000" } },
      })),
      ...models,
    ],
  };
}

// ---- Official clients

let lastApi: CallerApi = "chat";

/** A `fetch` that records the exchange from a clone of the response. */
function recordingFetch(harness: Harness): typeof fetch {
  const recordingFetch = async (
    input: RequestInfo | URL,
    init?: RequestInit,
  ): Promise<Response> => {
    const pathname = new URL(input instanceof Request ? input.url : input).pathname;
    const api = pathname.endsWith("/chat/completions")
      ? "chat"
      : pathname.endsWith("/messages")
        ? "messages"
        : "responses";
    lastApi = api;
    const response = await fetch(input, init);
    const copy = response.clone();
    const request = JSON.parse(typeof init?.body === "string" ? init.body : "{}") as Json;
    pendingReads.push(
      copy.text().then(
        (text) => {
          harness.exchanges.push({
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
  return Object.assign(recordingFetch, { preconnect: fetch.preconnect });
}

const pendingReads: Promise<void>[] = [];

/** Waits until all exchanges so far are recorded. */
export async function recordedExchanges(): Promise<void> {
  await Promise.all(pendingReads.splice(0));
}

export function openaiFor(harness: Harness, apiKey = harness.account.key): OpenAI {
  return new OpenAI({
    apiKey,
    baseURL: `${harness.gateway.url}/v1`,
    maxRetries: 0,
    fetch: recordingFetch(harness),
  });
}

export function anthropicFor(harness: Harness, apiKey = harness.account.key): Anthropic {
  return new Anthropic({
    apiKey,
    baseURL: harness.gateway.url,
    maxRetries: 0,
    fetch: recordingFetch(harness),
  });
}

/** The `ai` package's model for this API. */
export function aiModel(harness: Harness, api: Api, model: string, apiKey = harness.account.key) {
  const setting = { apiKey, baseURL: `${harness.gateway.url}/v1`, fetch: recordingFetch(harness) };
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
  /** The body; empty for a stream. */
  readonly json: Json;
}

/** The path and the body of a call. Google's API has the model and whether to stream in the path. */
export function requestOf(
  api: CallerApi,
  { model, stream, ...body }: Json,
): { readonly path: string; readonly body: Json } {
  if (api !== "gemini") return { path: API_PATHS[api], body: { model, stream, ...body } };
  const method = stream === true ? "streamGenerateContent?alt=sse" : "generateContent";
  return { path: `/v1beta/models/${String(model)}:${method}`, body };
}

/** The field that an error names, in the form of any API. */
export function errorParam(json: Json): unknown {
  const error = (json["error"] ?? {}) as Json;
  const { details } = error;
  const [info] = Array.isArray(details) ? (details as Json[]) : [];
  return error["param"] ?? (info?.["metadata"] as Json | undefined)?.["field"];
}

export async function callApi(harness: Harness, api: CallerApi, sent: Json): Promise<RawResponse> {
  const { path: pathname, body } = requestOf(api, sent);
  if (api === "gemini") lastApi = api;
  const send = api === "gemini" ? fetch : recordingFetch(harness);
  const response = await send(harness.gateway.url + pathname, {
    method: "POST",
    headers: harness.account.headers,
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

/** A minimal request body of the API with this text. */
export function minimalBody(
  api: CallerApi,
  wire: Wire,
  text: string,
  extraFields: Json = {},
): Json {
  const model = modelOn(wire);
  if (api === "gemini")
    return { model, contents: [{ role: "user", parts: [{ text }] }], ...extraFields };
  if (api === "responses") return { model, input: text, ...extraFields };
  const messages = [{ role: "user", content: text }];
  return api === "chat"
    ? { model, messages, ...extraFields }
    : { model, messages, max_tokens: 1_000, ...extraFields };
}
