// A forced tool call at a model that rejects it, in a request that is passed through.

import { describe, expect, test } from "bun:test";
import { adaptSettings } from "@postern/wires";
import { builtInModels } from "../../../src/models/catalog.ts";
import { abilitiesOf } from "../../../src/models/model-abilities.ts";

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
    const json = { tool_choice: choice, system };
    const { members } = adaptSettings("messages", json, abilitiesOf(model));
    expect(JSON.parse(members["system"] ?? "")).toEqual(expected);
    expect(JSON.parse(members["tool_choice"] ?? "")).toEqual({ ...choice, type: "auto" });
  });
});
