import { expect, test } from "bun:test";
import { type Api, parseRequest } from "../../../src/inference/request/parse-request.ts";

const messages = [{ role: "user", content: "hi" }];

test.each([
  [
    "responses",
    { messages },
    "`input` is required. `messages` is a field of POST /v1/chat/completions and POST /v1/messages.",
  ],
  ["chat", { input: "hi" }, "`messages` is required. `input` is a field of POST /v1/responses."],
  ["messages", { input: [] }, "`messages` is required. `input` is a field of POST /v1/responses."],
  ["chat", { prompt: "hi" }, "`messages` is required."],
  ["responses", {}, "`input` is required."],
  ["chat", { mesages: messages }, "Unknown field `mesages`. Did you mean `messages`?"],
  ["messages", { messages, max_token: 5 }, "Unknown field `max_token`. Did you mean `max_tokens`?"],
  ["responses", { imput: "hi" }, "Unknown field `imput`. Did you mean `input`?"],
  ["embeddings", { inputs: "hi" }, "Unknown field `inputs`. Did you mean `input`?"],
  [
    "messages",
    { messages, max_output_tokens: 5 },
    "`max_tokens` is required on POST /v1/messages.",
  ],
  [
    "messages",
    { messages, max_completion_tokens: 5 },
    "`max_tokens` is required on POST /v1/messages.",
  ],
] as const)("names the API that a field of %s belongs to: %j", (api: Api, fields, message) => {
  const text = JSON.stringify({ model: "sim/echo", ...fields });
  expect(() => parseRequest(api, text)).toThrow(
    expect.objectContaining({ options: expect.objectContaining({ message }) }),
  );
});

test("names a misspelt `model`", () => {
  const text = JSON.stringify({ modle: "sim/echo", messages });
  expect(() => parseRequest("chat", text)).toThrow(
    expect.objectContaining({ options: expect.objectContaining({ param: "modle" }) }),
  );
});
