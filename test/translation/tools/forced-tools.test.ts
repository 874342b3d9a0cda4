// A forced tool call at a model that rejects it: the instructions ask for the call.

import { describe, expect, test } from "bun:test";
import type { Loss, CanonicalRequest, ToolChoice } from "@postern/wires";
import {
  adaptToolChoice,
  askForTools,
} from "../../../src/inference/translate/tools/forced-tools.ts";
import { builtInModels } from "../../../src/models/catalog.ts";

const REQUEST: CanonicalRequest = {
  model: "m",
  turns: [
    { role: "system", parts: [{ type: "text", text: "Be brief." }] },
    { role: "user", parts: [{ type: "text", text: "hi" }] },
  ],
  tools: [{ type: "function", name: "look" }],
  names: { toolChoice: "tool_choice" },
};

function asked(toolChoice: ToolChoice, forcedTools: boolean | undefined) {
  const losses: Loss[] = [];
  const request = askForTools({ ...REQUEST, toolChoice }, { forcedTools }, losses);
  return { request, dropped: losses.map(({ path, hint }) => [path, hint]) };
}

describe("a translated request", () => {
  test("asks for the call after the caller's instructions", () => {
    const { request, dropped } = asked({ type: "tool", name: "look" }, false);
    expect(dropped).toEqual([["tool_choice", true]]);
    expect(request.toolChoice).toEqual({ type: "auto" });
    expect(request.turns.map(({ role }) => role)).toEqual(["system", "system", "user"]);
    expect(request.turns[1]?.parts).toEqual([
      { type: "text", text: "Answer by calling the tool look." },
    ]);
  });

  test("keeps the tools that are allowed", () => {
    const { request } = asked({ type: "allowed", mode: "required", names: ["look"] }, false);
    expect(request.toolChoice).toEqual({ type: "allowed", mode: "auto", names: ["look"] });
  });

  test("is unchanged at a model that takes the choice, or without a forced call", () => {
    expect(asked({ type: "required" }, undefined).dropped).toEqual([]);
    expect(asked({ type: "auto" }, false).dropped).toEqual([]);
  });
});

describe("a request that is passed through", () => {
  const model = builtInModels().find(({ id }) => id === "anthropic/claude-sonnet-5-5");
  if (model === undefined) throw new Error("no model");
  const choice = { type: "any", disable_parallel_tool_use: true };
  const text = "Answer by calling at least one of the tools.";

  test.each([
    [undefined, text],
    ["Be brief.", `Be brief.\n\n${text}`],
    [
      [{ type: "text", text: "Be brief." }],
      [
        { type: "text", text: "Be brief." },
        { type: "text", text },
      ],
    ],
  ])("asks after the instructions %j", (system, expected) => {
    const { members } = adaptToolChoice({ tool_choice: choice, system }, model) ?? {};
    expect(JSON.parse(members?.["system"] ?? "")).toEqual(expected);
    expect(JSON.parse(members?.["tool_choice"] ?? "")).toEqual({ ...choice, type: "auto" });
  });
});
