// A script plays an agent: it decides the turns of requests that have tools.

import { expect, test } from "bun:test";
import { createSimulator } from "../../simulator.ts";

const simulator = createSimulator({
  now: Date.now,
  acceptsAnyModel: true,
  script: ({ toolResults }) =>
    toolResults.length === 0
      ? { text: "I look.", calls: [{ name: "look", input: '{"at":"sky"}' }] }
      : { text: `It is ${toolResults.join()}.` },
});

async function post(path: string, body: unknown): Promise<Record<string, unknown>> {
  const response = await simulator.fetch(
    new Request(`http://simulator.test/v1/${path}`, { method: "POST", body: JSON.stringify(body) }),
  );
  return (await response.json()) as Record<string, unknown>;
}

const LOOK = { type: "function", name: "look", parameters: { type: "object" } };
const USER = { type: "message", role: "user", content: "What color is it?" };

test("a script calls tools, and answers after their result", async () => {
  const { output } = await post("responses", { model: "any", input: [USER], tools: [LOOK] });
  const [text, call] = output as Record<string, unknown>[];
  expect(text).toMatchObject({ type: "message", content: [{ text: "I look." }] });
  expect(call).toMatchObject({ type: "function_call", name: "look", arguments: '{"at":"sky"}' });
  const result = { type: "function_call_output", call_id: call?.["call_id"], output: "blue" };
  const next = await post("responses", {
    model: "any",
    input: [USER, call, result],
    tools: [LOOK],
  });
  expect(next["output"]).toMatchObject([{ content: [{ text: "It is blue." }] }]);
});

test("a request without tools gets the usual reply", async () => {
  const { output } = await post("responses", { model: "any", input: [USER] });
  expect(output).toMatchObject([{ content: [{ text: "You said: What color is it?" }] }]);
});

test("a call of a tool in a namespace names it, also if an item of the input adds the tools", async () => {
  const tools = [{ type: "namespace", name: "sight", tools: [LOOK] }];
  for (const body of [
    { input: [USER], tools },
    { input: [{ type: "additional_tools", role: "developer", tools }, USER] },
  ]) {
    const { output } = await post("responses", { model: "any", ...body });
    expect((output as unknown[])[1]).toMatchObject({ name: "look", namespace: "sight" });
  }
});
