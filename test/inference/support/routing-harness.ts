// A gateway with one model at three providers, each a simulator on its own port that can be made to fail.

import { rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createSimulator } from "@postern/simulator";
import { OPEN_MS } from "../../../src/inference/routing/circuit-breaker.ts";
import {
  type Gateway,
  type GatewayOptions,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";
import { scratchFolder } from "../../support/scratch-folder.ts";
import { addPaidCredits, bodyOf, postCall, USD } from "./harness.ts";

export interface FaultyProvider {
  readonly url: string;
  /** While set, it is returned instead of the simulator's reply. */
  failure: { readonly status: number; readonly body?: unknown } | undefined;
  /** Called with each request, before the reply. */
  onRequest: () => void;
  /** While set, requests wait for it. */
  gate: Promise<void> | undefined;
  /** While set, all of a reply after its first chunk waits for it. */
  restGate: Promise<void> | undefined;
  /** Requests received so far. */
  readonly requests: { readonly path: string; readonly body: string }[];
  readonly stop: () => Promise<void>;
}

export function startFaultyProvider(): FaultyProvider {
  const simulator = createSimulator({ now: Date.now, acceptsAnyModel: true });
  const requests: FaultyProvider["requests"] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: async (request) => {
      if (request.method === "GET") return new Response(null, { status: 404 });
      const body = await request.text();
      requests.push({ path: new URL(request.url).pathname, body });
      provider.onRequest();
      await provider.gate;
      const { failure } = provider;
      if (failure !== undefined)
        return Response.json(failure.body ?? { error: { message: "injected failure" } }, {
          status: failure.status,
        });
      const reply = await simulator.fetch(
        new Request(request.url, { method: "POST", headers: request.headers, body }),
      );
      const { restGate } = provider;
      return restGate === undefined ? reply : withRestGate(reply, restGate);
    },
  });
  const provider: FaultyProvider = {
    url: `http://127.0.0.1:${server.port}`,
    failure: undefined,
    onRequest: () => {},
    gate: undefined,
    restGate: undefined,
    requests,
    stop: () => server.stop(true),
  };
  return provider;
}

/** The first chunk is sent at once, the others after the gate. */
function withRestGate(reply: Response, gate: Promise<void>): Response {
  let chunks = 0;
  const body = reply.body?.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform: async (chunk, controller) => {
        chunks += 1;
        if (chunks > 1) await gate;
        controller.enqueue(chunk);
      },
    }),
  );
  return new Response(body, reply);
}

const PROVIDER_IDS = ["alpha", "beta", "gamma"] as const;
export type ProviderId = (typeof PROVIDER_IDS)[number];

/** US dollars per million tokens of input and output. */
export const PRICES: Readonly<Record<ProviderId, readonly [input: string, output: string]>> = {
  alpha: ["4", "8"],
  beta: ["2", "4"],
  gamma: ["1", "20"],
};

export interface RoutingHarness {
  readonly gateway: Gateway;
  readonly providers: Readonly<Record<ProviderId, FaultyProvider>>;
  /** Advances the gateway's clock, which stands still otherwise: what a test measures does not depend on the machine. */
  readonly advanceClock: (ms: number) => void;
  /** Removes failures, delays and recorded requests of all providers, and closes open circuits. */
  readonly resetProviders: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

export async function startRoutingHarness(options: GatewayOptions = {}): Promise<RoutingHarness> {
  const folder = scratchFolder("routing");
  const faultyProviders = {
    alpha: startFaultyProvider(),
    beta: startFaultyProvider(),
    gamma: startFaultyProvider(),
  };
  const file = path.join(folder, "models.json");
  writeFileSync(
    file,
    JSON.stringify({
      providers: PROVIDER_IDS.map((id) => ({
        id,
        base_url: faultyProviders[id].url,
        wires: ["chat", "responses", "messages"],
        stops_billing_on_abort: true,
      })),
      models: [
        ...PROVIDER_IDS.map((id) => ({
          id: `${id}/echo`,
          context_length: 128_000,
          max_output_tokens: 1_000,
          supported: ["tools"],
          ...(id === "alpha" ? {} : { same_as: "alpha/echo" }),
          pricing: { tokens: { input: PRICES[id][0], output: PRICES[id][1] } },
        })),
        {
          id: "gamma/other",
          context_length: 128_000,
          max_output_tokens: 1_000,
          pricing: { tokens: { input: "1", output: "1" } },
        },
      ],
    }),
  );
  let now = Date.now();
  const gateway = await startGateway({
    now: () => now,
    ...options,
    env: { ...options.env, POSTERN_MODELS_FILE: file },
  });
  return {
    gateway,
    providers: faultyProviders,
    advanceClock: (ms) => {
      now += ms;
    },
    resetProviders: async () => {
      now += OPEN_MS;
      const account = await registerAccount(gateway);
      await addPaidCredits(gateway, account, 5n * USD);
      for (const id of PROVIDER_IDS) {
        faultyProviders[id].failure = undefined;
        faultyProviders[id].onRequest = () => {};
        faultyProviders[id].gate = undefined;
        faultyProviders[id].restGate = undefined;
        await postCall(
          gateway,
          account,
          "chat",
          bodyOf("chat", "hello", { model: `${id}/echo`, max_tokens: 5 }),
        );
        faultyProviders[id].requests.length = 0;
      }
    },
    stop: async () => {
      await gateway.stop();
      await Promise.all(Object.values(faultyProviders).map((provider) => provider.stop()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
