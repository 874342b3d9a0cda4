// Sends every feature over every pair of API and wire, and compares the outcomes with docs/site/translation.md
// and translation-gemini.md.
// `POSTERN_WRITE_DOCS=1 node bin/bun.js test test/translation/translation-doc.test.ts` writes the files, one at a time.

import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { isObject } from "../../src/base/json.ts";
import { checkExchanges } from "./support/check-exchanges.ts";
import {
  CALLER_APIS,
  callApi,
  type CallerApi,
  errorParam,
  type Json,
  minimalBody,
  startHarness,
  type Wire,
  WIRES,
} from "./support/harness.ts";
import { type Feature, FEATURES } from "./support/request-features.ts";
import {
  renderGeminiDoc,
  renderTranslationDoc,
  type FeatureOutcome,
} from "./support/translation-doc.ts";

const SITE = path.join(import.meta.dir, "..", "..", "docs", "site");

/** From here on the page is written by hand: the results of `npm run conformance`. */
const WRITTEN_SECTION = "## What is refused\n";

const harness = await startHarness({ sellsServerTools: true });
afterAll(async () => {
  await checkExchanges(harness, "every feature on every pair");
  await harness.stop();
});

describe("docs/site/translation.md", () => {
  test("matches the gateway's behavior", async () => {
    const outcomes: FeatureOutcome[] = [];
    for (const api of CALLER_APIS)
      for (const wire of WIRES) {
        const plain = await sentBody(api, wire, {});
        for (const feature of FEATURES) {
          const fields = feature.bodies[api];
          if (fields !== undefined)
            outcomes.push(await featureOutcome(api, wire, { feature, fields, plain: plain.body }));
        }
      }
    const pages = [
      ["translation.md", renderTranslationDoc(outcomes)],
      ["translation-gemini.md", renderGeminiDoc(outcomes)],
    ] as const;
    for (const [name, text] of pages) {
      const file = path.join(SITE, name);
      const current = readFileSync(file, "utf8");
      const start = current.indexOf(WRITTEN_SECTION);
      const written = start === -1 ? "" : `\n${current.slice(start)}`;
      const frontMatter = /^---\n[^]*?\n---\n/.exec(current)?.[0] ?? "";
      const page = `${frontMatter}${text}${written}`;
      if (process.env["POSTERN_WRITE_DOCS"] === "1") writeFileSync(file, page);
      expect(current).toBe(page);
    }
  });
});

interface FeatureRequest {
  readonly feature: Feature;
  readonly fields: Json;
  /** The provider's request without the feature. */
  readonly plain: Json;
}

async function sentBody(api: CallerApi, wire: Wire, fields: Json) {
  const before = harness.upstreamRequests.length;
  const response = await callApi(harness, api, { ...minimalBody(api, wire, "hello"), ...fields });
  return {
    response,
    body: harness.upstreamRequests[before]?.body ?? {},
    wasSent: harness.upstreamRequests.length > before,
  };
}

async function featureOutcome(
  api: CallerApi,
  wire: Wire,
  { feature, fields, plain }: FeatureRequest,
): Promise<FeatureOutcome> {
  const { response, body, wasSent } = await sentBody(api, wire, fields);
  const dropped = response.headers.get("x-postern-dropped")?.split(", ") ?? [];
  const error = response.json["error"] as Json | undefined;
  const base = { api, wire, feature, dropped };
  if (!wasSent) {
    expect([feature.title, api, wire, response.status]).toEqual([feature.title, api, wire, 400]);
    expect(typeof errorParam(response.json)).toBe("string");
    // With postern.lossy, the request is sent without the rejected field, unless the loss is fatal.
    const lossy = await sentBody(api, wire, { ...fields, postern: { lossy: true } });
    const isDroppable = lossy.wasSent;
    expect([feature.title, api, wire, lossy.response.status]).toEqual([
      feature.title,
      api,
      wire,
      isDroppable ? 200 : 400,
    ]);
    if (isDroppable) expect(lossy.response.headers.get("x-postern-dropped")).not.toBeNull();
    return {
      ...base,
      kind: isDroppable ? "rejected" : "fatal",
      paths: [String(errorParam(response.json))],
    };
  }
  expect([feature.title, api, wire, response.status, error?.["message"]]).toEqual([
    feature.title,
    api,
    wire,
    200,
    undefined,
  ]);
  if (api === "gemini")
    expect([feature.title, wire, dropped.filter((one) => !isSent(fields, one))]).toEqual([
      feature.title,
      wire,
      [],
    ]);
  const paths = api === wire ? [] : changedPaths(plain, body);
  return { ...base, kind: "supported", paths };
}

/** Whether the caller's body has the field. */
function isSent(body: Json, at: string): boolean {
  let value: unknown = body;
  for (const name of at.split(/[.[\]]+/).filter((one) => one !== "")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return false;
    value = (value as Json)[name]; // Safe because it has the name.
  }
  return true;
}

/** The paths of the second value that differ from the first. */
function changedPaths(first: unknown, second: unknown, at = ""): readonly string[] {
  if (Array.isArray(first) && Array.isArray(second)) {
    const longer = second.length > first.length ? second.slice(first.length) : [];
    const paths = [
      ...second.flatMap((one, index) =>
        index < first.length ? changedPaths(first[index], one, `${at}[]`) : [],
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

/** The path of an added value, or those of its members if it is a top-level object. */
function addedPaths(value: unknown, at: string): readonly string[] {
  const isContainer = isObject(value) && value["type"] === undefined && !at.includes(".");
  return isContainer ? Object.keys(value).map((key) => `${at}.${key}`) : [at];
}

function leafPaths(value: unknown, at: string): readonly string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap((one) => leafPaths(one, `${at}[]`)))];
  if (!isObject(value)) return [at];
  const kind = value["type"] ?? value["role"];
  return [typeof kind === "string" ? `${at} (${kind})` : `${at}.${Object.keys(value).at(-1)}`];
}
