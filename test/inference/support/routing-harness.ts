// One model at three providers, each a simulator on a port of its own that can be told to fail.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createSimulator } from "../../../src/simulator/simulator.ts";
import { bodyOf, postCall } from "./harness.ts";
import {
  type Gateway,
  type GatewayOptions,
  registerAccount,
  startGateway,
} from "../../support/gateway.ts";

export interface FaultyProvider {
  readonly url: string;
  /** What is answered instead of the simulator's reply, as long as it is set. */
  failure: { readonly status: number; readonly body?: unknown } | undefined;
  delayMs: number;
  /** The bodies that came, with the path. */
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
      if (host.delayMs > 0) await Bun.sleep(host.delayMs);
      const { failure } = host;
      if (failure !== undefined)
        return Response.json(failure.body ?? { error: { message: "told to fail" } }, {
          status: failure.status,
        });
      return simulator.fetch(
        new Request(request.url, { method: "POST", headers: request.headers, body }),
      );
    },
  });
  const host: FaultyProvider = {
    url: `http://127.0.0.1:${server.port}`,
    failure: undefined,
    delayMs: 0,
    requests,
    stop: () => server.stop(true),
  };
  return host;
}

export const PROVIDER_IDS = ["alpha", "beta", "gamma"] as const;
export type ProviderId = (typeof PROVIDER_IDS)[number];

/** US dollars for a million tokens of input and of output. */
export const PRICES: Readonly<Record<ProviderId, readonly [input: string, output: string]>> = {
  alpha: ["4", "8"],
  beta: ["2", "4"],
  gamma: ["1", "20"],
};

const CIRCUIT_OPEN_MS = 30_000;

export interface RoutingHarness {
  readonly gateway: Gateway;
  readonly providers: Readonly<Record<ProviderId, FaultyProvider>>;
  /** Moves the gateway's clock on. */
  readonly advanceClock: (ms: number) => void;
  /** Makes all hosts well again and forgets what they saw; circuits that were open are closed. */
  readonly resetProviders: () => Promise<void>;
  readonly stop: () => Promise<void>;
}

export async function startRoutingHarness(options: GatewayOptions = {}): Promise<RoutingHarness> {
  const folder = mkdtempSync(path.join(tmpdir(), "postern-routing-"));
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
  let clockOffsetMs = 0;
  const gateway = await startGateway({
    now: () => Date.now() + clockOffsetMs,
    ...options,
    env: { ...options.env, POSTERN_MODELS_FILE: file },
  });
  return {
    gateway,
    providers: faultyProviders,
    advanceClock: (ms) => {
      clockOffsetMs += ms;
    },
    resetProviders: async () => {
      clockOffsetMs += CIRCUIT_OPEN_MS + 1_000;
      const account = await registerAccount(gateway);
      for (const id of PROVIDER_IDS) {
        faultyProviders[id].failure = undefined;
        faultyProviders[id].delayMs = 0;
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
      await Promise.all(Object.values(faultyProviders).map((host) => host.stop()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
