// What was dropped is named by the fields that the caller sent.
import { expect, test } from "bun:test";
import { namedAsSent, sentGeminiPath } from "../../src/gemini/request/sent-gemini-path.ts";
import type { JsonObject } from "../../src/json-fields.ts";

const BODY: JsonObject = {
  contents: [
    { role: "user", parts: [{ fileData: { fileUri: "gs://a/b" }, mediaResolution: {} }] },
    { role: "model", parts: [{ functionCall: { name: "f", willContinue: true } }] },
    { role: "user", parts: [{ functionResponse: { name: "f", response: { error: "no" } } }] },
  ],
  tools: [{ functionDeclarations: [{ name: "f", parameters: {} }] }],
  toolConfig: { functionCallingConfig: { mode: "VALIDATED" } },
  generationConfig: { responseMimeType: "application/json", responseSchema: {} },
};
const SNAKE: JsonObject = {
  contents: { parts: { inline_data: { display_name: "a.pdf" } } },
  generation_config: { top_k: 3, thinking_config: { include_thoughts: true } },
};

test("fields that the body has keep their names", () => {
  for (const path of ["toolConfig", "contents[0].parts[0].fileData.fileUri", "tools[0]"])
    expect(sentGeminiPath(BODY, path)).toBe(path);
});

test("the gateway's own names become those of the API", () => {
  const named: readonly (readonly [path: string, sent: string])[] = [
    ["contents[0].parts[0].detail", "contents[0].parts[0].mediaResolution"],
    ["contents[1].parts[0].willContinue", "contents[1].parts[0].functionCall.willContinue"],
    ["contents[2].parts[0].is_error", "contents[2].parts[0].functionResponse.response.error"],
    ["tools[0].functionDeclarations[0].schema", "tools[0].functionDeclarations[0].parameters"],
    ["tools[0].functionDeclarations[0].strict", "toolConfig.functionCallingConfig.mode"],
    ["generationConfig.responseMimeType.schema", "generationConfig.responseSchema"],
  ];
  for (const [path, sent] of named) expect(sentGeminiPath(BODY, path)).toBe(sent);
});

test("names in snake_case, and one object for a list, are found", () => {
  expect(sentGeminiPath(SNAKE, "generationConfig.topK")).toBe("generation_config.top_k");
  expect(sentGeminiPath(SNAKE, "generationConfig.thinkingConfig")).toBe(
    "generation_config.thinking_config",
  );
  expect(sentGeminiPath(SNAKE, "contents[0].parts[0].filename")).toBe(
    "contents[0].parts[0].inline_data.display_name",
  );
});

test("another path is cut after what the body has of it", () => {
  expect(sentGeminiPath(BODY, "contents[0].parts[0].citations")).toBe("contents[0].parts[0]");
  expect(sentGeminiPath(BODY, "store")).toBe("store");
});

test("an error's path has the caller's names, as far as the body has it", () => {
  expect(namedAsSent(SNAKE, "generationConfig.topK")).toBe("generation_config.top_k");
  expect(namedAsSent(SNAKE, "generationConfig.seed")).toBe("generation_config.seed");
  expect(namedAsSent(SNAKE, "safetySettings[0]")).toBe("safetySettings[0]");
});
