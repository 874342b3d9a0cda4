// A model replies in JSON if the prompt says so, also on APIs without a JSON mode.

import { expect, test } from "bun:test";
import { createClient, json } from "../simulator-harness.ts";

const send = createClient();
const INSTRUCTION = "Answer only with one JSON object, without any other text.";
const SCHEMA_INSTRUCTION = `Answer only with JSON that is valid against this JSON Schema:\n${JSON.stringify(
  { type: "object", properties: { days: { type: "integer" } }, required: ["days"] },
)}`;

async function messagesText(system: string): Promise<string> {
  const messages = [{ role: "user", content: "Hello" }];
  const body = { model: "sim/echo", max_tokens: 64, system, messages };
  return (await json(send("/v1/messages", body))).content[0].text;
}

async function converseText(text: string): Promise<string> {
  const messages = [{ role: "user", content: [{ text: "Hello" }] }];
  const reply = await json(send("/model/sim%2Fecho/converse", { system: [{ text }], messages }));
  return reply.output.message.content[0].text;
}

test.each([
  ["messages", messagesText],
  ["converse", converseText],
])("%s follows an instruction to reply in JSON", async (_wire, textOf) => {
  expect(JSON.parse(await textOf(INSTRUCTION))).toEqual({ you_said: "Hello" });
  expect(JSON.parse(await textOf(SCHEMA_INSTRUCTION))).toEqual({ days: 1 });
  expect(await textOf("You explain the JSON format.")).toBe("You said: Hello");
});
