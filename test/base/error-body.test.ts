import { describe, expect, test } from "bun:test";
import { responsesErrorFields } from "@postern/wires";
import { errorBody, publicError } from "../../src/base/error-body.ts";
import { invalid } from "../../src/base/fault.ts";

const error = {
  code: "overloaded",
  message: 'Say "wait".',
  param: "model",
  fields: { provider: "openai" },
} as const;

describe("an error body", () => {
  test("has OpenAI's envelope, with the request id in the error object", () => {
    expect(errorBody("openai", error, "req_1")).toEqual({
      error: {
        message: 'Say "wait".',
        type: "overloaded_error",
        code: "overloaded",
        param: "model",
        request_id: "req_1",
        provider: "openai",
      },
    });
  });

  test("has Anthropic's envelope, with the request id beside the error object", () => {
    expect(errorBody("messages", error, "req_1")).toEqual({
      type: "error",
      error: {
        type: "overloaded_error",
        message: 'Say "wait".',
        code: "overloaded",
        param: "model",
        provider: "openai",
      },
      request_id: "req_1",
    });
  });

  test("has RFC 6749's fields, with a description in its characters", () => {
    expect(errorBody("oauth", error, "req_1")).toEqual({
      code: "overloaded",
      request_id: "req_1",
      error: "temporarily_unavailable",
      error_description: "Say 'wait'.",
      provider: "openai",
    });
  });

  test("says the fields flat and nested in an event of the Responses API", () => {
    const { error: nested } = errorBody("openai", publicError(invalid("n", "Too many.")), "req_1");
    expect(responsesErrorFields(Object(nested))).toMatchObject({
      code: "invalid_request",
      message: "Too many.",
      param: "n",
      error: { type: "invalid_request_error", request_id: "req_1" },
    });
  });
});
