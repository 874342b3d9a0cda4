// Which tools a request calls, on every wire.

import { describe, expect, test } from "bun:test";
import { createClient, json, type Json } from "../simulator-harness.ts";

const send = createClient();
const schema = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer", minimum: 2 } },
  required: ["city", "days"],
};
const TOOL_NAMES = ["get_weather", "get_time"];

type Choice = "auto" | "none" | "required" | "get_time";
interface ToolCase {
  readonly text: string;
  readonly choice: Choice;
  readonly parallel?: boolean;
  readonly called: readonly string[];
}

const CASES: readonly ToolCase[] = [
  { text: "hello", choice: "auto", called: [] },
  { text: "call get_time now", choice: "auto", called: ["get_time"] },
  { text: "forget_time is another word", choice: "auto", called: [] },
  { text: "please use a tool", choice: "auto", called: ["get_weather"] },
  { text: "please use two tools", choice: "auto", called: ["get_weather", "get_time"] },
  { text: "call get_time twice", choice: "auto", called: ["get_time", "get_time"] },
  { text: "call get_weather and get_time", choice: "auto", called: ["get_weather", "get_time"] },
  {
    text: "call get_weather and get_time",
    choice: "auto",
    parallel: false,
    called: ["get_weather"],
  },
  {
    text: "x [[sim: calls=3]]",
    choice: "auto",
    called: ["get_weather", "get_time", "get_weather"],
  },
  { text: "call get_time", choice: "none", called: [] },
  { text: "hello", choice: "required", called: ["get_weather"] },
  { text: "hello get_time", choice: "required", called: ["get_time"] },
  { text: "hello", choice: "get_time", called: ["get_time"] },
];

interface WireCase {
  readonly name: string;
  readonly choices: readonly Choice[];
  readonly call: (
    toolCase: ToolCase,
  ) => Promise<{ readonly name: string; readonly input: unknown }[]>;
}

const WIRE_CASES: readonly WireCase[] = [
  {
    name: "chat",
    choices: ["auto", "none", "required", "get_time"],
    async call({ text, choice, parallel }) {
      const tools = TOOL_NAMES.map((name) => ({
        type: "function",
        function: { name, parameters: schema },
      }));
      const tool_choice =
        choice === "get_time" ? { type: "function", function: { name: choice } } : choice;
      const reply = await json(
        send("/v1/chat/completions", {
          model: "sim/echo",
          messages: [{ role: "user", content: text }],
          tools,
          tool_choice,
          parallel_tool_calls: parallel,
        }),
      );
      const calls = reply.choices[0].message.tool_calls ?? [];
      expect(reply.choices[0].finish_reason).toBe(calls.length > 0 ? "tool_calls" : "stop");
      expect(new Set(calls.map((call: { id: string }) => call.id)).size).toBe(calls.length);
      return calls.map((call: Json) => ({
        name: call.function.name,
        input: JSON.parse(call.function.arguments),
      }));
    },
  },
  {
    name: "responses",
    choices: ["auto", "none", "required", "get_time"],
    async call({ text, choice, parallel }) {
      const tools = TOOL_NAMES.map((name) => ({ type: "function", name, parameters: schema }));
      const tool_choice = choice === "get_time" ? { type: "function", name: choice } : choice;
      const reply = await json(
        send("/v1/responses", {
          model: "sim/echo",
          input: text,
          tools,
          tool_choice,
          parallel_tool_calls: parallel,
        }),
      );
      return reply.output
        .filter((item: Json) => item.type === "function_call")
        .map((item: Json) => ({ name: item.name, input: JSON.parse(item.arguments) }));
    },
  },
  {
    name: "messages",
    choices: ["auto", "none", "required", "get_time"],
    async call({ text, choice, parallel }) {
      const tools = TOOL_NAMES.map((name) => ({ name, input_schema: schema }));
      const kind =
        choice === "get_time"
          ? { type: "tool", name: choice }
          : { type: choice === "required" ? "any" : choice };
      const tool_choice = parallel === false ? { ...kind, disable_parallel_tool_use: true } : kind;
      const reply = await json(
        send("/v1/messages", {
          model: "sim/echo",
          max_tokens: 500,
          messages: [{ role: "user", content: text }],
          tools,
          tool_choice,
        }),
      );
      const calls = reply.content.filter((block: Json) => block.type === "tool_use");
      expect(reply.stop_reason).toBe(calls.length > 0 ? "tool_use" : "end_turn");
      return calls.map((block: Json) => ({ name: block.name, input: block.input }));
    },
  },
  {
    name: "gemini",
    choices: ["auto", "none", "required", "get_time"],
    async call({ text, choice }) {
      const functionCallingConfig =
        choice === "get_time"
          ? { mode: "ANY", allowedFunctionNames: [choice] }
          : { mode: { auto: "AUTO", none: "NONE", required: "ANY" }[choice] };
      const tools = [
        { functionDeclarations: TOOL_NAMES.map((name) => ({ name, parameters: schema })) },
      ];
      const reply = await json(
        send("/v1beta/models/echo:generateContent", {
          contents: [{ role: "user", parts: [{ text }] }],
          tools,
          toolConfig: { functionCallingConfig },
        }),
      );
      const parts = reply.candidates[0].content.parts.filter((part: Json) => part.functionCall);
      return parts.map((part: Json) => ({
        name: part.functionCall.name,
        input: part.functionCall.args,
      }));
    },
  },
  {
    name: "converse",
    choices: ["auto", "required", "get_time"],
    async call({ text, choice }) {
      const tools = TOOL_NAMES.map((name) => ({
        toolSpec: { name, inputSchema: { json: schema } },
      }));
      const toolChoice =
        choice === "get_time"
          ? { tool: { name: choice } }
          : { [choice === "required" ? "any" : "auto"]: {} };
      const reply = await json(
        send("/model/echo/converse", {
          messages: [{ role: "user", content: [{ text }] }],
          toolConfig: { tools, toolChoice },
        }),
      );
      const blocks = reply.output.message.content.filter((block: Json) => block.toolUse);
      return blocks.map((block: Json) => ({
        name: block.toolUse.name,
        input: block.toolUse.input,
      }));
    },
  },
];

for (const wire of WIRE_CASES) {
  const cases = CASES.filter(
    (entry) =>
      wire.choices.includes(entry.choice) &&
      (entry.parallel === undefined || !["gemini", "converse"].includes(wire.name)),
  );
  describe(`tool choice on ${wire.name}`, () => {
    test.each(
      cases.map(
        (entry) =>
          [
            `${entry.choice}${entry.parallel === false ? ", not parallel" : ""}: ${entry.text}`,
            entry,
          ] as const,
      ),
    )("%s", async (_, entry) => {
      const calls = await wire.call(entry);
      expect(calls.map((call) => call.name)).toEqual([...entry.called]);
      if (calls.length > 0) expect(calls[0]?.input).toEqual({ city: "example city", days: 2 });
    });
  });
}
