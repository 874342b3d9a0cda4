// Calls of images, audio and rerank in the console: their units, and a price that adds up.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { listPriceOf } from "../../src/usage/list-price.ts";
import { textOf, visitPage } from "../billing/console-user.ts";
import { grantCredits, type Json, USD } from "../inference/support/harness.ts";
import { type ConsoleFixture, createConsoleFixture } from "./console-fixture.ts";

let fixture: ConsoleFixture;
beforeAll(async () => {
  fixture = await createConsoleFixture("sqlite");
  await grantCredits(fixture.gateway, fixture.account, 10n * USD);
});
afterAll(() => fixture.gateway.stop());

const image = { prompt: "a lighthouse", size: "500x1000" };

test.each<[string, Json, string, string]>([
  [
    "/v1/images/generations",
    { ...image, model: "sim/image-each-pixel", n: 3 },
    "1.5 megapixels",
    "0.015",
  ],
  ["/v1/images/generations", { ...image, model: "sim/image-each", n: 2 }, "2 images", "0.04"],
  [
    "/v1/rerank",
    { model: "sim/rerank", query: "a", documents: ["b", "c"] },
    "1 search unit",
    "0.002",
  ],
  [
    "/v1/audio/speech",
    { model: "sim/speech", input: "Hello", voice: "alloy" },
    "5 characters",
    "0.000075",
  ],
])("%s with %j shows its units", async (path, body, units, usd) => {
  const { gateway, account, owner } = fixture;
  const response = await fetch(gateway.url + path, {
    method: "POST",
    headers: account.headers,
    body: JSON.stringify(body),
  });
  await response.arrayBuffer();
  expect(response.headers.get("x-postern-cost-usd")).toBe(usd);
  const id = response.headers.get("x-request-id") ?? "";
  const logs = `/console/${account.id}/logs`;
  expect(textOf(await visitPage(gateway, `${logs}?request=${id}`, owner))).toContain(units);
  const call = textOf(await visitPage(gateway, `${logs}/${id}`, owner));
  expect(call).toContain(units);
  expect(call).toContain(`Total at list prices ${usd}`);
});

test("a fractional count costs its fraction, rounded up to a millionth", () => {
  expect(listPriceOf([{ meter: "audio_second", count: 10.5, usd: "0.0001" }])).toBe(1_050_000n);
  expect(listPriceOf([{ meter: "megapixel", count: 1.0000001, usd: "0.01" }])).toBe(10_000_010n);
  expect(listPriceOf([{ meter: "input", count: 3, usd: "0.0000000001" }])).toBe(1n);
});
