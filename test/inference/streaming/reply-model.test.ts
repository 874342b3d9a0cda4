// The model's name in a reply is an id of `GET /v1/models`, also where the provider's reply passes through; all other bytes stay.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createModelWriter, withModelId } from "../../../src/inference/translate/reply-model.ts";
import {
  answeredModelId,
  builtInModels,
  catalogOf,
  findModel,
} from "../../../src/models/catalog.ts";
import { postModern } from "../../mcp/raw-mcp.ts";
import { call, eventsOf } from "../../responses/harness.ts";
import { openSocket } from "../../responses/websocket-client.ts";
import { valueAt } from "../../spec/api-client.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../../support/gateway.ts";
import {
  type Api,
  bodyOf,
  grantCredits,
  type Json,
  postCall,
  STREAMED_APIS,
  USD,
} from "../support/harness.ts";
import { identicalModels, withModels } from "../support/models-file.ts";

const [twin] = identicalModels(1);
const MODELS = ["sim/echo", "sim/chat-only", "sim/responses-only", "sim/messages-only"];

let gateway: Gateway;
let account: TestAccount;
beforeAll(async () => {
  const oneWire = ["chat", "responses", "messages"].map((wire) => ({
    ...twin,
    id: `sim/${wire}-only`,
    wires: [wire],
  }));
  gateway = await startGateway({ env: withModels(oneWire) });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 100n * USD);
});
afterAll(() => gateway.stop());

const modelIn = (json: unknown): unknown =>
  valueAt(json, "response.model") ?? valueAt(json, "message.model") ?? valueAt(json, "model");

async function modelsOf(api: Api, more: Json): Promise<readonly unknown[]> {
  const response = await postCall(gateway, account, api, bodyOf(api, "hello", more));
  const text = await response.text();
  expect([response.status, text.slice(0, 200)]).toEqual([200, expect.any(String)]);
  const objects: readonly unknown[] = more["stream"] === true ? eventsOf(text) : [JSON.parse(text)];
  return [...new Set(objects.map(modelIn).filter((name) => name !== undefined))];
}

describe.each(MODELS)("the reply of %s", (model) => {
  test.each(STREAMED_APIS)("names it as the list does, streamed or not (%s)", async (api) => {
    expect(await modelsOf(api, { model })).toEqual([model]);
    expect(await modelsOf(api, { model, stream: true })).toEqual([model]);
  });
});

describe("the id of the list", () => {
  test("is in replies of embeddings, moderations, WebSockets, stored responses and the MCP tool", async () => {
    expect(await modelsOf("embeddings", {})).toEqual(["sim/embed"]);
    const body = { model: "sim/moderation", input: "hello" };
    const moderation = await call(gateway, account, "POST /v1/moderations", { body });
    expect(moderation.json["model"]).toBe("sim/moderation");
    const socket = await openSocket(gateway, account.headers);
    const final = await socket.create({ model: "sim/echo", input: "hello" });
    socket.close();
    expect(modelIn(final)).toBe("sim/echo");
    const stored = await call(
      gateway,
      account,
      `GET /v1/responses/${String(valueAt(final, "response.id"))}`,
    );
    expect(stored.json["model"]).toBe("sim/echo");
    const args = { model: "sim/echo", prompt: "hello", api_key: account.key };
    const params = { name: "send_message", arguments: args };
    const { body: result } = await postModern(gateway, { method: "tools/call", params });
    expect(valueAt(result, "result.structuredContent.model")).toBe("sim/echo");
  });

  test("is that of the model that answered, if the provider chose another one", () => {
    const catalog = catalogOf(builtInModels());
    const requested = findModel(catalog, "openai/gpt-5-mini");
    if (requested === undefined) throw new Error("no model");
    const idOf = (name: string): string => answeredModelId(catalog, requested, name);
    expect(idOf("gpt-5-mini-2025-08-07")).toBe("openai/gpt-5-mini");
    expect(idOf("gpt-5-nano-2025-08-07")).toBe("openai/gpt-5-nano");
    expect(idOf("a-name-of-the-operator")).toBe("openai/gpt-5-mini");
  });
});

const idOf = (name: string): string => `public/${name}`;

describe("a whole reply", () => {
  test.each([
    ['{"model":"m","content":"é"}', '{"model":"public/m","content":"é"}'],
    ['{\n  "id": 1,\n  "model": "m"\n}', '{\n  "id": 1,\n  "model": "public/m"\n}'],
    ['{"usage":[{"model":"m"}],"model":"m"}', '{"usage":[{"model":"m"}],"model":"public/m"}'],
    [
      String.raw`{"text":"\"model\":\"m\"","model":"m"}`,
      String.raw`{"text":"\"model\":\"m\"","model":"public/m"}`,
    ],
    ['{"usage":[{"model":"m"}]}', '{"usage":[{"model":"m"}]}'],
    ['{"model":null}', '{"model":null}'],
    ['{"model":"m","model":"m"}', '{"model":"m","model":"m"}'],
  ])("%s", (text, expected) => {
    expect(withModelId(text, JSON.parse(text), idOf)).toBe(expected);
  });
});

describe("the events of a stream", () => {
  const written = (path: readonly string[], events: readonly string[]): readonly string[] => {
    const write = createModelWriter(idOf, path);
    return events.map((event) => Buffer.from(write(new TextEncoder().encode(event))).toString());
  };

  test("of Chat Completions have the id where each of them has the name", () => {
    const chunk = (start: string, name: string, text: string): string =>
      `data: {"id":"${start}","model": "${name}","choices":[{"delta":{"content":"${text}"}}]}\n\n`;
    const sent = [
      chunk("1", "m", "é"),
      chunk("1", "m", String.raw`\"model\": \"m\"`),
      chunk("10", "m", "moved"),
      chunk("1", "other", "changed"),
      `data: {"choices":[{"delta":{"tool":{"model":"m"}}}]}\n\n`,
      ": comment\n\n",
      "data: [DONE]\n\n",
    ];
    const expected = sent.map((event) => event.replace(/("id":"\d+","model": ")/, "$1public/"));
    expect(written(["model"], sent)).toEqual(expected);
  });

  test("of Responses and Messages have it in the reply object alone", () => {
    const filler = "x".repeat(200);
    const sent = [
      `event: response.created\ndata: {"response":{"tools":[{"model":"m"}],"model":"m","id":"${filler}"}}\n\n`,
      `event: response.output_item.done\ndata: {"item":{"model":"m","id":"${filler}"}}\n\n`,
      `event: response.completed\r\ndata: {"response":{"id":"é${filler}","model":"m"}}\r\n\r\n`,
    ];
    expect(written(["response", "model"], sent)).toEqual([
      sent[0]?.replace('"model":"m","id"', '"model":"public/m","id"'),
      sent[1],
      sent[2]?.replace('"m"', '"public/m"'),
    ] as string[]);
  });
});
