// The gateway that the fuzzer calls: a model on each wire in front of the simulator, funded accounts, and owners who are
// signed in.

import { createSimulator } from "@postern/simulator";
import { z } from "zod";
import { requiresSession } from "../../src/http/route.ts";
import { createUser, makeOwner, type TestUser } from "../billing/console-user.ts";
import { grantCredits, USD } from "../inference/support/harness.ts";
import { withModels } from "../inference/support/models-file.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import type { FuzzTarget, Operation } from "./requests.ts";
import { isJson, type Json } from "./values.ts";

export interface StartedTarget extends FuzzTarget {
  readonly gateway: Gateway;
  readonly remember: (text: string) => void;
  /** Makes an account in place of a key that no longer works. */
  readonly replaceKey: (key: string) => Promise<void>;
  readonly stop: () => Promise<void>;
}

const WIRES = ["chat", "responses", "messages", "gemini", "converse"] as const;
const BASE_PATHS = { chat: "/v1", responses: "/v1", messages: "", gemini: "/v1beta", converse: "" };
const ACCOUNTS = 3;
const IDS_MAX = 400;
/** Ids and the raw tokens of pages, as they appear in JSON and links. */
const ID_PATTERN =
  /\b(?:acct|key|claim|req|inv|pk|usr|evt|whk|dlv|aud|inst|resp|tup)_[0-9a-z]{26}\b/g;
/** Endless on purpose. */
const IGNORED_PATHS = new Set(["/signout"]);

export async function startTarget(store: "sqlite" | "postgres"): Promise<StartedTarget> {
  const simulator = createSimulator({
    now: Date.now,
    acceptsAnyModel: true,
    maxRecordedRequests: 0,
  });
  const upstream = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    fetch: simulator.fetch,
  });
  const gateway = await startGateway({
    store,
    logLevel: "warn",
    abandonedCallsPerMinute: 1_000_000,
    env: {
      ...modelSettings(`http://127.0.0.1:${upstream.port}`),
      POSTERN_ACCOUNTS_PER_HOUR: "0",
      POSTERN_CLAIMS_PER_HOUR: "0",
      POSTERN_OPEN_CALLS_PER_KEY: "0",
      POSTERN_REQUESTS_PER_MINUTE: "0",
    },
  });
  const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as Json;
  const keys: string[] = [];
  const sessions: TestUser[] = [];
  const addAccount = async (): Promise<string> => {
    const account = await registerAccount(gateway);
    await grantCredits(gateway, account, 1_000n * USD);
    keys.push(account.key);
    return account.id;
  };
  for (let count = 0; count < ACCOUNTS; count++) {
    const accountId = await addAccount();
    const user = await createUser(gateway, `owner-${count}`);
    // One account stays unclaimed.
    if (count > 0) await makeOwner(gateway, accountId, user);
    sessions.push(user);
  }
  // It can afford only some calls.
  const poor = await registerAccount(gateway);
  keys.push(poor.key);
  const ids: string[] = [];
  return {
    gateway,
    document,
    operations: [...documentedOperations(document), ...pageOperations(gateway)],
    models: [...WIRES.map((wire) => `on-${wire}/echo`), "sim/echo", "sim/embed", "sim/reason"],
    keys: () => keys,
    sessions,
    origin: gateway.url,
    ids: () => ids,
    remember: (text) => {
      for (const [id] of text.slice(0, 20_000).matchAll(ID_PATTERN))
        if (!ids.includes(id)) ids.push(id);
      ids.splice(0, ids.length - IDS_MAX);
    },
    replaceKey: async (key) => {
      const at = keys.indexOf(key);
      if (at === -1) return;
      keys.splice(at, 1);
      await addAccount();
    },
    stop: async () => {
      await gateway.stop();
      await upstream.stop(true);
    },
  };
}

function modelSettings(url: string): Readonly<Record<string, string>> {
  const tokens = { input: "1", cache_read: "0.1", cache_write_5m: "1.25", output: "5" };
  return withModels(
    WIRES.map((wire) => ({
      id: `on-${wire}/echo`,
      name: wire === "messages" ? "claude-sonnet-4-6-echo" : "echo",
      context_length: 200_000,
      max_output_tokens: 32_000,
      input_modalities: ["text", "image", "file"],
      supported: ["tools", "parallel_tools", "structured_output", "reasoning", "vision"],
      wires: [wire],
      pricing: { tokens },
    })),
    WIRES.map((wire) => ({
      id: `on-${wire}`,
      base_url: url + BASE_PATHS[wire],
      wires: [wire],
      stops_billing_on_abort: true,
    })),
  );
}

function documentedOperations(document: Json): readonly Operation[] {
  const paths = isJson(document["paths"]) ? document["paths"] : {};
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(isJson(item) ? item : {}).flatMap(([method, operation]): Operation[] => {
      if (!isJson(operation)) return [];
      const body = isJson(operation["requestBody"]) ? operation["requestBody"] : {};
      const [[contentType, media] = ["application/json", {}]] = Object.entries(
        isJson(body["content"]) ? body["content"] : {},
      );
      const parameters = Array.isArray(operation["parameters"]) ? operation["parameters"] : [];
      return [
        {
          method: method.toUpperCase(),
          path,
          contentType,
          body: isJson(media) ? media["schema"] : undefined,
          example: isJson(media) ? media["example"] : undefined,
          queries: parameters.flatMap((parameter: unknown) =>
            isJson(parameter) && parameter["in"] === "query" ? [String(parameter["name"])] : [],
          ),
          needsSession: false,
        },
      ];
    }),
  );
}

/** Pages and forms, which the OpenAPI description leaves out. */
function pageOperations(gateway: Gateway): readonly Operation[] {
  return gateway.server.routes
    .filter(({ hidden, path }) => hidden === true && !IGNORED_PATHS.has(path))
    .map((route) => ({
      method: route.method,
      path: route.path,
      contentType: "application/x-www-form-urlencoded",
      body: route.body === undefined ? undefined : jsonSchemaOf(route.body),
      example: route.requestExample,
      queries:
        route.query === undefined ? [] : Object.keys(propertiesOf(jsonSchemaOf(route.query))),
      needsSession: requiresSession(route) || route.kind.startsWith("open-"),
    }));
}

function jsonSchemaOf(schema: z.ZodType): Json {
  return z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
}

function propertiesOf(schema: Json): Json {
  return isJson(schema["properties"]) ? schema["properties"] : {};
}
