import { expect, test } from "bun:test";
import { Fault, type FaultOptions, invalid } from "../../src/base/fault.ts";
import { faultText } from "../../src/http/pages/fault-text.ts";

test.each([
  ["amount_usd", "`amount_usd` must be at least 5.", "The amount must be at least 5."],
  ["limit_usd", "limit_usd must be positive", "The limit must be positive."],
  ["url", "`url` and `name` are required.", "The URL and the name are required."],
  ["email", "`email` must be an email address.", "Email must be an email address."],
])("replaces API names with form labels: %s", (param, message, text) => {
  expect(faultText(invalid(param, message))).toBe(text);
});

test("leaves out advice for API clients", () => {
  expect(faultText(new Fault("not_found", ""))).toBe("Nothing exists at this URL.");
  const message = "There is no endpoint at /x. Did you mean GET /v1/models?";
  expect(faultText(new Fault("not_found", "", { message }))).toBe("Nothing exists at this URL.");
  expect(faultText(invalid("id", "There is no such key. List them with GET /v1/keys."))).toBe(
    "There is no such key.",
  );
});

test.each<[retryAfterSeconds: number | undefined, text: string]>([
  [undefined, "Too many requests. Try again later."],
  [0.2, "Too many requests. Try again in 1 second."],
  [30, "Too many requests. Try again in 30 seconds."],
])("replaces the retry-after header by a time: %p", (retryAfterSeconds, text) => {
  const options: FaultOptions = retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
  expect(faultText(new Fault("rate_limited", "", options))).toBe(text);
});

test("sends back to the page when the request has not come from its links and forms", () => {
  const options = { message: "`do` is required.", param: "do" };
  expect(faultText(new Fault("invalid_request", "", { ...options, malformed: "body" }))).toBe(
    "The form field “do” is missing or invalid. Nothing was changed. Go back, reload the page and submit its form again.",
  );
  expect(faultText(new Fault("invalid_request", "", { ...options, malformed: "query" }))).toBe(
    "This page does not exist under this URL. Go back and follow the links on the page.",
  );
});
