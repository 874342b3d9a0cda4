// Images in Codex: the tool `image_generation` of the Responses API, which OpenAI runs, and Codex's own tool `imagegen`, which calls
// the Images API at the provider of the model, with the name of OpenAI's model. The bodies are those of Codex 0.171.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Script } from "@postern/simulator";
import {
  addPaidCredits,
  errorOf,
  expectSettledLedger,
  type Json,
  readWallet,
  usageRecordsOf,
  USD,
} from "../inference/support/harness.ts";
import { withModels } from "../inference/support/models-file.ts";
import { type RawProvider, startRawProvider } from "../inference/support/raw-provider.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";
import { skipUnless } from "../support/skip.ts";
import { findClient } from "./client-programs.ts";
import { CODEX_WITH_IMAGES, GPT } from "./clients.ts";
import { createCodingTask } from "./coding-task.ts";
import { runClient } from "./run-client.ts";

const IMAGE =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const TOOL = { type: "image_generation", output_format: "png" };
const HEADERS = {
  "session-id": "01a0b1c2-0000-7000-8000-000000000001",
  "thread-id": "01a0b1c2-0000-7000-8000-000000000001",
  "x-openai-actor-authorization": "postern",
};
/** As Codex writes them. */
const GENERATION = {
  prompt: "a red fox in a field",
  background: "auto",
  model: "gpt-image-2",
  quality: "auto",
  size: "auto",
};
const EDIT = {
  images: [{ image_url: `data:image/png;base64,${IMAGE}` }],
  prompt: "add a red hat",
  background: "auto",
  model: "gpt-image-2",
  quality: "auto",
  size: "auto",
};
const IMAGES_REPLY = {
  created: 1_778_832_973,
  background: "opaque",
  data: [{ b64_json: IMAGE }],
  output_format: "png",
  quality: "medium",
  size: "1024x1536",
  usage: {
    input_tokens: 1_474,
    input_tokens_details: { image_tokens: 1_457, text_tokens: 17 },
    output_tokens: 1_372,
    output_tokens_details: { image_tokens: 1_372, text_tokens: 0 },
    total_tokens: 2_846,
  },
};

const call = {
  type: "image_generation_call",
  id: "ig_1",
  status: "completed",
  background: "opaque",
  output_format: "png",
  quality: "medium",
  revised_prompt: "A red fox.",
  result: IMAGE,
  size: "1024x1024",
};
const message = {
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: "Here.", annotations: [] }],
};
const response = {
  id: "resp_1",
  object: "response",
  created_at: 1,
  model: "gpt-5.5",
  status: "completed",
  output: [call, message],
  tools: [{ ...TOOL, background: "auto", n: 1, quality: "auto", size: "auto" }],
  usage: { input_tokens: 2_000, output_tokens: 50, total_tokens: 2_050 },
  tool_usage: {
    image_gen: {
      input_tokens: 200,
      input_tokens_details: { image_tokens: 0, text_tokens: 200 },
      output_tokens: 1_056,
      output_tokens_details: { image_tokens: 1_056, text_tokens: 0 },
      total_tokens: 1_256,
    },
  },
};
const EVENTS: readonly Json[] = [
  {
    type: "response.created",
    response: { ...response, status: "in_progress", output: [], usage: null },
  },
  {
    type: "response.output_item.added",
    output_index: 0,
    item: { type: call.type, id: call.id, status: "in_progress" },
  },
  { type: "response.image_generation_call.in_progress", output_index: 0, item_id: call.id },
  { type: "response.image_generation_call.generating", output_index: 0, item_id: call.id },
  { type: "response.output_item.done", output_index: 0, item: call },
  { type: "response.output_item.added", output_index: 1, item: { ...message, content: [] } },
  { type: "response.output_item.done", output_index: 1, item: message },
  { type: "response.completed", response },
];

let provider: RawProvider;
let gateway: Gateway;
let account: TestAccount;
beforeAll(async () => {
  provider = await startRawProvider(({ path, body }) => {
    if (path.includes("/images/")) return { body: JSON.stringify(IMAGES_REPLY) };
    if ((JSON.parse(body) as Json)["stream"] !== true) return { body: JSON.stringify(response) };
    const lines = EVENTS.map(
      (event) => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`,
    );
    return { headers: { "content-type": "text/event-stream" }, body: lines.join("") };
  });
  const chatOnly = {
    id: "on-chat/echo",
    wires: ["chat"],
    supported: ["tools"],
    context_length: 128_000,
    max_output_tokens: 16_384,
    pricing: { tokens: { input: "1", output: "2" } },
  };
  gateway = await startGateway({
    providers: [],
    env: {
      OPENAI_BASE_URL: `${provider.url}/v1`,
      OPENAI_API_KEY: "sk-gateway-0123456789",
      ANTHROPIC_BASE_URL: provider.url,
      ANTHROPIC_API_KEY: "sk-gateway-0123456789",
      ...withModels(
        [chatOnly],
        [{ id: "on-chat", base_url: `${provider.url}/v1`, wires: ["chat"] }],
      ),
    },
  });
  account = await registerAccount(gateway);
  await addPaidCredits(gateway, account, 100n * USD);
});
afterAll(async () => {
  await expectSettledLedger(gateway.server.db);
  await gateway.stop();
  await provider.stop();
});

const post = (path: string, body: Json): Promise<Response> =>
  fetch(gateway.url + path, {
    method: "POST",
    headers: { ...account.headers, ...HEADERS },
    body: JSON.stringify(body),
  });
const spent = async (during: () => Promise<unknown>): Promise<bigint> => {
  const balance = async (): Promise<bigint> => {
    const { promo, paid } = await readWallet(gateway.server.db, account.id);
    return promo + paid;
  };
  const before = await balance();
  await during();
  await expectSettledLedger(gateway.server.db);
  return before - (await balance());
};
const request = (model: string): Json => ({
  model,
  instructions: "You are Codex.",
  input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "Draw it." }] }],
  tools: [{ type: "function", name: "exec_command", strict: false, parameters: {} }, TOOL],
  tool_choice: "auto",
  parallel_tool_calls: false,
  store: false,
  stream: true,
  include: ["reasoning.encrypted_content"],
});

describe("the tool that OpenAI runs", () => {
  test("is passed on as it is, and its image is charged by its tokens", async () => {
    let text = "";
    const cost = await spent(async () => {
      const streamed = await post("/v1/responses", request("openai/gpt-5.5"));
      expect(streamed.status).toBe(200);
      text = await streamed.text();
    });
    const sent = JSON.parse(provider.requests.at(-1)?.body ?? "{}") as { tools: Json[] };
    expect(sent.tools[1]).toEqual(TOOL);
    // The first has the name of the model here, and the last the cost.
    for (const event of EVENTS.slice(1, -1)) expect(text).toContain(JSON.stringify(event));
    expect(text).toContain(`"result":"${IMAGE}"`);
    // Text at $5 and $30, an image at $5 for its prompt and $30.
    expect(cost).toBe(2_000n * 5_000n + 50n * 30_000n + 200n * 5_000n + 1_056n * 30_000n);
    const [record] = (await usageRecordsOf(gateway.server.db, account.id)).slice(-1);
    const { price } = JSON.parse(String(record?.["detail"])) as { price: readonly Json[] };
    expect(price).toContainEqual(
      expect.objectContaining({ meter: "output_image", count: 1_056, model: "gpt-image-2" }),
    );
  });

  test("is held for before the call", async () => {
    const quoted = await post("/v1/quote?api=responses", request("openai/gpt-5.5"));
    const quote = (await quoted.json()) as Json;
    // Up to ten images of $0.25.
    expect(Number(quote["cost_usd_max"])).toBeGreaterThan(2.5);
  });

  test.each(["on-chat/echo", "anthropic/claude-opus-5-5"])(
    "is a 400 at %s that says what to do",
    async (model) => {
      const before = provider.requests.length;
      const refused = await post("/v1/responses", request(model));
      expect(refused.status).toBe(400);
      const { message: said, param } = errorOf(await refused.json());
      expect(param).toBe("tools[1]");
      expect(said).toContain("image_generation");
      expect(said).toContain("image_generation = false");
      expect(provider.requests.length).toBe(before);
    },
  );
});

describe("Codex's own tool", () => {
  test.each([
    ["/v1/images/generations", GENERATION],
    ["/v1/images/edits", EDIT],
  ])("gets the image of %s from OpenAI, at the price of its tokens", async (path, body) => {
    let reply: Json = {};
    const cost = await spent(async () => {
      const replied = await post(path, body);
      expect(replied.status).toBe(200);
      reply = (await replied.json()) as Json;
    });
    const sent = provider.requests.at(-1);
    expect([sent?.path, JSON.parse(sent?.body ?? "{}")]).toEqual([path, body]);
    expect(JSON.stringify(sent?.headers)).not.toContain("actor-authorization");
    expect(reply).toMatchObject({ created: IMAGES_REPLY.created, data: IMAGES_REPLY.data });
    expect(cost).toBe(17n * 5_000n + 1_457n * 8_000n + 1_372n * 30_000n);
  });

  test("is told where the gateway has no model of that name", async () => {
    const bare = await startGateway();
    const caller = await registerAccount(bare);
    const refused = await fetch(`${bare.url}/v1/images/generations`, {
      method: "POST",
      headers: caller.headers,
      body: JSON.stringify(GENERATION),
    });
    expect(refused.status).toBeGreaterThanOrEqual(400);
    expect(refused.status).toBeLessThan(600);
    expect(String(errorOf(await refused.json())["message"])).toMatch(/OpenAI|provider/);
    await bare.stop();
  });
});

const program = findClient("codex");
const isMissing = skipUnless(
  program !== undefined,
  "codex is not installed: npm run clients installs it",
);

test.skipIf(isMissing)("Codex creates an image and edits it through the gateway", async () => {
  if (program === undefined) return;
  const run = await runClient(program, CODEX_WITH_IMAGES, GPT, (home) => {
    const task = createCodingTask(home, CODEX_WITH_IMAGES.tools);
    const picture = join(home, "fox.png");
    writeFileSync(picture, Buffer.from(IMAGE, "base64"));
    return { ...task, script: drawTwice(picture) };
  });
  expect(run.output).toContain("both-images-are-made");
  const calls = run.exchanges.filter(({ path }) => path.includes("/images/"));
  expect(calls.map(({ path, status }) => [path, status])).toEqual([
    ["/v1/images/generations", 200],
    ["/v1/images/edits", 200],
  ]);
});

/** The model calls the tool, has it edit a picture, and answers. */
function drawTwice(picture: string): Script {
  let turn = 0;
  const steps = [
    { prompt: GENERATION.prompt },
    { prompt: EDIT.prompt, referenced_image_paths: [picture] },
  ];
  return ({ tools }) => {
    const step = steps[turn];
    turn += 1;
    if (step === undefined) return { text: "both-images-are-made" };
    const own = tools.find(({ name }) => name.endsWith("imagegen"));
    if (own !== undefined) return { calls: [{ name: own.name, input: JSON.stringify(step) }] };
    const code = `generatedImage(await tools.image_gen__imagegen(${JSON.stringify(step)}));`;
    return { calls: [{ name: "exec", input: code }] };
  };
}
