// What a JSON body may contain by number is checked before it is parsed: the parser takes a second for half a million names. The
// text behind the first excess is neither read nor parsed, which its errors would show.

import { describe, expect, test } from "bun:test";
import { parseJsonBody } from "../../src/http/request/body.ts";
import { readFrame } from "../../src/responses/websocket/frames.ts";

const names = (count: number): string =>
  Array.from({ length: count }, (_, index) => `"f${index}":1`).join(",");
/** Invalid JSON, nested too deeply. */
const TAIL = `${"[".repeat(80)}"never read`;

describe("10,000 fields of an object", () => {
  test.each([
    ["at the top", `{${names(10_000)}}`],
    ["in an object", `{"metadata":{${names(10_000)}},"model":"a"}`],
    ["in each of several objects", `[{${names(9_000)}},{${names(9_000)}}]`],
    ["beside a long list", `{"input":[${"1,".repeat(400_000)}1]}`],
  ])("are accepted %s", (_, text) => {
    expect(parseJsonBody(text)).toEqual(JSON.parse(text));
  });

  test.each([
    ["at the top", `{${names(10_001)},${TAIL}`],
    ["in an object", `{"metadata":{${names(10_001)},${TAIL}`],
    ["in a list", `{"messages":[{"role":"user"},{${names(10_001)},${TAIL}`],
    ["after other objects", `{"a":{"b":[1,2]},${names(10_001)},${TAIL}`],
    ["with commas in texts", `{"a":",,,,,","b":"\\",",${names(10_001)},${TAIL}`],
  ])("are exceeded before anything is parsed: %s", (_, text) => {
    expect(() => parseJsonBody(text)).toThrow("at most 10000 fields");
    expect(() => readFrame(text, () => undefined)).toThrow("at most 10000 fields");
  });

  test("do not include commas in texts", () => {
    const text = JSON.stringify({ a: ",".repeat(60_000) });
    expect(parseJsonBody(text)).toEqual(JSON.parse(text));
  });
});
