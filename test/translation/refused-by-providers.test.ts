// What providers refuse and callers send all the same: the simulator refuses it as the provider does, and the call is answered.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import {
  bodyOf,
  grantCredits,
  type Json,
  lastSimulatorRequest,
  postCall,
  USD,
} from "../inference/support/harness.ts";
import {
  type Gateway,
  registerAccount,
  startGateway,
  type TestAccount,
} from "../support/gateway.ts";

type Api = "chat" | "responses" | "messages";

let gateway: Gateway;
let account: TestAccount;

beforeAll(async () => {
  gateway = await startGateway({
    providers: ["sim", "openai", "anthropic", "deepseek", "mistral", "google"],
  });
  account = await registerAccount(gateway);
  await grantCredits(gateway, account, 50n * USD);
});
afterAll(() => gateway.stop());

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly dropped: readonly string[];
  /** What the provider got last. */
  readonly sent: Json;
}

async function call(api: Api, model: string, prompt: string, more: Json = {}): Promise<Answer> {
  const body = bodyOf(api, prompt, { model, ...more });
  const reply = await postCall(gateway, account, api, body);
  const text = await reply.text();
  // Safe because the gateway sends objects.
  const sent = JSON.parse((await lastSimulatorRequest(gateway)).body) as Json;
  return {
    status: reply.status,
    text,
    dropped: reply.headers.get("x-postern-dropped")?.split(", ") ?? [],
    sent,
  };
}

/** The simulator itself refuses the request. */
async function expectRefused(api: Api, model: string, more: Json): Promise<void> {
  const path = api === "chat" ? "chat/completions" : api;
  const reply = await fetch(`${gateway.simulatorUrl}/v1/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer x", "x-api-key": "x" },
    body: JSON.stringify(bodyOf(api, "hello", { model, ...more })),
  });
  expect({ model, more, isRefused: reply.status >= 400 && reply.status < 500 }).toEqual({
    model,
    more,
    isRefused: true,
  });
}

/** The text of a reply, or of the deltas of a stream. */
function textOf({ text }: Answer): string {
  const texts = text.matchAll(/"(?:content|text)":"((?:[^"\\]|\\.)*)"/g);
  return [...texts].map(([, part]) => part).join("");
}

const TOOLS = [
  { type: "function", function: { name: "look", parameters: { type: "object", properties: {} } } },
];

describe("efforts", () => {
  test.each(["gpt-6.2-sol", "gpt-6.1-terra", "gpt-6-astra"])(
    "that %s does not take become the nearest one, after the provider refused them",
    async (model) => {
      for (const effort of ["none", "minimal"]) {
        await expectRefused("chat", model, { reasoning_effort: effort });
        const chat = await call("chat", `openai/${model}`, "hello", { reasoning_effort: effort });
        expect([chat.status, chat.dropped]).toEqual([200, ["reasoning_effort"]]);
        const reasoning = { effort, summary: "auto" };
        const responses = await call("responses", `openai/${model}`, "hello", { reasoning });
        expect([responses.status, responses.dropped]).toEqual([200, ["reasoning.effort"]]);
        expect(responses.sent["reasoning"]).toEqual({ effort: "low", summary: "auto" });
      }
    },
  );

  test("are translated to one that the model takes", async () => {
    const thinking = { type: "disabled" };
    const answer = await call("messages", "openai/gpt-6.2-sol", "hello", { thinking });
    expect(answer.status).toBe(200);
    expect(answer.sent["reasoning"]).toMatchObject({ effort: "low" });
  });
});

describe("efforts at Gemini", () => {
  test.each(["gemini-3.8-flash", "gemini-4-argon", "gemini-4-carbon"])(
    "below low become low at %s",
    async (model) => {
      for (const effort of ["none", "minimal"]) {
        const answer = await call("responses", `google/${model}`, "hello", {
          reasoning: { effort },
        });
        expect([answer.status, answer.dropped]).toEqual([200, ["reasoning"]]);
        expect(JSON.stringify(answer.sent["generationConfig"])).toContain('"thinkingLevel":"LOW"');
      }
    },
  );

  test("are refused by the provider", async () => {
    const url = `${gateway.simulatorUrl}/v1beta/models/gemini-4-argon:generateContent`;
    const reply = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "x-goog-api-key": "x" },
      body: JSON.stringify({
        contents: [{ role: "user", parts: [{ text: "hello" }] }],
        generationConfig: { thinkingConfig: { thinkingLevel: "MINIMAL" } },
      }),
    });
    expect(reply.status).toBe(400);
  });
});

describe("stop sequences", () => {
  const prompt = "one two STOP three";

  test.each(["chat", "messages"] as const)(
    "end a reply of %s at models that do not take them",
    async (api) => {
      const model = "gpt-6-sol";
      await expectRefused("chat", model, { stop: ["STOP"] });
      const field = api === "chat" ? "stop" : "stop_sequences";
      const whole = await call(api, `openai/${model}`, prompt);
      expect(textOf(whole)).toContain("STOP three");
      for (const stream of [false, true]) {
        const more = { [field]: ["STOP", "never"], stream };
        const answer = await call(api, `openai/${model}`, prompt, more);
        expect([answer.status, answer.dropped]).toEqual([200, []]);
        expect(answer.sent["stop"]).toBeUndefined();
        expect(textOf(answer)).toBe("You said: one two ");
        expect(answer.text).toContain(api === "chat" ? '"finish_reason":"stop"' : "stop_sequence");
      }
    },
  );

  test("leave log probabilities out where the model has none", async () => {
    await expectRefused("chat", "gpt-6-sol", { logprobs: true });
    const more = { logprobs: true, top_logprobs: 2 };
    const answer = await call("chat", "openai/gpt-6-sol", "hello", more);
    expect([answer.status, answer.dropped]).toEqual([200, ["logprobs", "top_logprobs"]]);
  });
});

describe("forced tools at DeepSeek", () => {
  test.each([["required"], [{ type: "function", function: { name: "look" } }]])(
    "are asked for while the model thinks: %j",
    async (tool_choice) => {
      const more = { tools: TOOLS, tool_choice };
      await expectRefused("chat", "deepseek-v4-pro", more);
      const answer = await call("chat", "deepseek/deepseek-v4-pro", "hello", more);
      expect([answer.status, answer.dropped]).toEqual([200, ["tool_choice"]]);
      expect(answer.sent["tool_choice"]).toBe("auto");
      expect(JSON.stringify(answer.sent["messages"])).toContain("Answer by calling");
    },
  );

  test("are sent as they are if thinking is off, and translated otherwise", async () => {
    const off = { tools: TOOLS, tool_choice: "required", thinking: { type: "disabled" } };
    const plain = await call("chat", "deepseek/deepseek-v4-pro", "hello", off);
    expect([plain.status, plain.sent["tool_choice"]]).toEqual([200, "required"]);
    const tools = [{ name: "look", input_schema: { type: "object" } }];
    const translated = await call("messages", "deepseek/deepseek-v4-pro", "hello", {
      tools,
      tool_choice: { type: "any" },
    });
    expect([translated.status, translated.dropped]).toEqual([200, ["tool_choice"]]);
  });
});

describe("fields of OpenAI at Mistral", () => {
  const more = {
    seed: 7,
    store: false,
    metadata: { team: "a" },
    user: "u1",
    logit_bias: { 5: 1 },
    verbosity: "low",
    safety_identifier: "s",
  };

  test("are left out, and the seed has its own name", async () => {
    await expectRefused("chat", "mistral-large-latest", more);
    const model = "mistral/mistral-large-latest";
    const answer = await call("chat", model, "hello", {
      ...more,
      messages: [
        { role: "developer", content: "Be short." },
        { role: "user", content: "hello" },
      ],
    });
    expect([answer.status, answer.sent["random_seed"]]).toEqual([200, 7]);
    expect(answer.dropped).toEqual(expect.arrayContaining(["seed", "user", "verbosity"]));
    expect(JSON.stringify(answer.sent["messages"])).toContain('"role":"system"');
    for (const name of Object.keys(more)) expect(answer.sent[name]).toBeUndefined();
  });

  test("are left out in translation", async () => {
    const answer = await call("responses", "mistral/mistral-large-latest", "hello", {
      user: "u1",
      metadata: { team: "a" },
      store: false,
      service_tier: "flex",
    });
    expect(answer.status).toBe(200);
    for (const name of ["user", "metadata", "store"]) expect(answer.sent[name]).toBeUndefined();
  });
});

describe("service tiers", () => {
  test.each(["flex", "priority"])(
    "%s is a hint where the model has no price for it",
    async (service_tier) => {
      for (const [api, model] of [
        ["chat", "mistral/mistral-large-latest"],
        ["chat", "sim/echo"],
        ["messages", "sim/echo"],
      ] as const) {
        const answer = await call(api, model, "hello", { service_tier });
        expect([model, answer.status, answer.dropped]).toEqual([model, 200, ["service_tier"]]);
        expect(answer.sent["service_tier"]).toBeUndefined();
      }
    },
  );

  test("with a price are sent, and unknown ones are refused", async () => {
    const flex = await call("chat", "openai/gpt-5-mini", "hello", { service_tier: "flex" });
    expect([flex.status, flex.sent["service_tier"]]).toEqual([200, "flex"]);
    const unknown = await call("chat", "sim/echo", "hello", { service_tier: "scale" });
    expect(unknown.status).toBe(400);
  });
});

describe("a last message of the assistant", () => {
  const messages = [
    { role: "user", content: "hello" },
    { role: "assistant", content: "The answer" },
  ];

  test("is followed by a message of the user at Claude 4.6 and later", async () => {
    await expectRefused("messages", "claude-opus-4-6", { messages });
    const answer = await call("chat", "anthropic/claude-opus-4-6", "", { messages });
    expect([answer.status, answer.dropped]).toEqual([200, ["messages[1]"]]);
    expect(answer.sent["messages"]).toMatchObject([
      {},
      { role: "assistant" },
      { role: "user", content: "Continue." },
    ]);
  });

  test("is followed by one at Anthropic's own API, after the provider refused it", async () => {
    const answer = await call("messages", "anthropic/claude-opus-4-6", "", { messages });
    expect([answer.status, answer.dropped]).toEqual([200, ["messages[1]"]]);
    expect(answer.sent["messages"]).toHaveLength(3);
  });

  test("is continued by models that can", async () => {
    const answer = await call("chat", "anthropic/claude-haiku-4-5", "", { messages });
    expect([answer.status, answer.dropped]).toEqual([200, []]);
  });
});
