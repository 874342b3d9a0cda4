// The URLs that a model may fetch.

import { describe, expect, test } from "bun:test";
import { urlsIn } from "@postern/wires";

describe("urlsIn", () => {
  test("finds URLs without the end of their sentence", () => {
    expect(
      urlsIn("See https://a.example/x?y=1, (http://b.example/)... or https://c.example!?"),
    ).toEqual(["https://a.example/x?y=1", "http://b.example/", "https://c.example"]);
  });

  test("finds the first 20,000 of a long text", () => {
    expect(urlsIn("http://a ".repeat(30_000))).toHaveLength(20_000);
  });

  test("reads a URL of many sentence ends once", () => {
    // With a square of each URL's length, the test would not end.
    const url = `http://a${".".repeat(1_900)}a `;
    expect(urlsIn(url.repeat(20_000))).toHaveLength(20_000);
  });
});
