// docs/translation.md is what the gateway does: every row was asked of every pair, and the cell says where it went.
// `POSTERN_WRITE_DOCS=1 bun test test/translation/translation-doc.test.ts` writes the file.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { isObject } from "../../src/base/json.ts";
import { checkExchanges } from "./support/check-exchanges.ts";
import { type Feature, FEATURES } from "./support/request-features.ts";
import {
  type Api,
  APIS,
  callApi,
  type Json,
  minimalBody,
  startHarness,
  type Wire,
  WIRES,
  type Harness,
} from "./support/harness.ts";
import { renderTranslationDoc, type FeatureOutcome } from "./support/translation-doc.ts";

const FILE = path.join(import.meta.dir, "..", "..", "docs", "translation.md");

let harness: Harness;

beforeAll(async () => {
  harness = await startHarness();
});
afterAll(async () => {
  await checkExchanges(harness, "every feature on every pair");
  await harness.stop();
});

describe("docs/translation.md", () => {
  test("says what is so", async () => {
    const outcomes: FeatureOutcome[] = [];
    for (const api of APIS)
      for (const wire of WIRES) {
        const plain = await sentBody(api, wire, {});
        for (const feature of FEATURES) {
          const said = feature.bodies[api];
          if (said !== undefined)
            outcomes.push(await featureOutcome(api, wire, { feature, said, plain: plain.body }));
        }
      }
    const text = renderTranslationDoc(outcomes);
    if (process.env["POSTERN_WRITE_DOCS"] === "1") writeFileSync(FILE, text);
    expect(readFileSync(FILE, "utf8")).toBe(text);
  }, 60_000);
});

interface FeatureRequest {
  readonly feature: Feature;
  readonly said: Json;
  readonly plain: Json;
}

async function sentBody(api: Api, wire: Wire, said: Json) {
  const before = harness.upstreamRequests.length;
  const answer = await callApi(harness, api, { ...minimalBody(api, wire, "hello"), ...said });
  return {
    answer,
    body: harness.upstreamRequests[before]?.body ?? {},
    wasSent: harness.upstreamRequests.length > before,
  };
}

async function featureOutcome(
  api: Api,
  wire: Wire,
  { feature, said, plain }: FeatureRequest,
): Promise<FeatureOutcome> {
  const { answer, body, wasSent } = await sentBody(api, wire, said);
  const dropped = answer.headers.get("x-postern-dropped")?.split(", ") ?? [];
  const error = answer.json["error"] as Json | undefined;
  const base = { api, wire, feature, dropped };
  if (!wasSent) {
    expect([feature.title, api, wire, answer.status]).toEqual([feature.title, api, wire, 400]);
    expect(typeof error?.["param"]).toBe("string");
    // What was refused goes through, without it, where the caller allows that.
    const lossy = await sentBody(api, wire, { ...said, postern: { lossy: true } });
    const kept = lossy.wasSent;
    expect([feature.title, api, wire, lossy.answer.status]).toEqual([
      feature.title,
      api,
      wire,
      kept ? 200 : 400,
    ]);
    if (kept) expect(lossy.answer.headers.get("x-postern-dropped")).not.toBeNull();
    return {
      ...base,
      kind: kept ? "refused" : "impossible",
      paths: [String(error?.["param"])],
    };
  }
  expect([feature.title, api, wire, answer.status, error?.["message"]]).toEqual([
    feature.title,
    api,
    wire,
    200,
    undefined,
  ]);
  const paths = api === wire ? [] : changedPaths(plain, body);
  return { ...base, kind: "carried", paths };
}

/** Where the second has something that the first has not. */
function changedPaths(first: unknown, second: unknown, at = ""): readonly string[] {
  if (Array.isArray(first) && Array.isArray(second)) {
    const longer = second.length > first.length ? second.slice(first.length) : [];
    const paths = [
      ...second.flatMap((one, place) =>
        place < first.length ? changedPaths(first[place], one, `${at}[]`) : [],
      ),
      ...longer.flatMap((one) => leafPaths(one, `${at}[]`)),
    ];
    return [...new Set(paths)];
  }
  if (isObject(first) && isObject(second))
    return Object.entries(second).flatMap(([key, one]) => {
      const below = at === "" ? key : `${at}.${key}`;
      return key in first ? changedPaths(first[key], one, below) : addedPaths(one, below);
    });
  return JSON.stringify(first) === JSON.stringify(second) ? [] : leafPaths(second, at);
}

/** What is new is named by its members where it is a mere holder of them. */
function addedPaths(value: unknown, at: string): readonly string[] {
  const isHolder = isObject(value) && value["type"] === undefined && !at.includes(".");
  return isHolder ? Object.keys(value).map((key) => `${at}.${key}`) : [at];
}

function leafPaths(value: unknown, at: string): readonly string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap((one) => leafPaths(one, `${at}[]`)))];
  if (!isObject(value)) return [at];
  const kind = value["type"] ?? value["role"];
  return [typeof kind === "string" ? `${at} (${kind})` : `${at}.${Object.keys(value).at(-1)}`];
}
