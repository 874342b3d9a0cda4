// docs/translation.md is what the gateway does: every row was asked of every pair, and the cell says where it went.
// `POSTERN_WRITE_DOCS=1 bun test test/translation/document.test.ts` writes the file.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { conclude } from "./conclude.ts";
import { type Feature, FEATURES } from "./features.ts";
import {
  type Api,
  APIS,
  call,
  type Json,
  saying,
  startWorld,
  type Wire,
  WIRES,
  type World,
} from "./world.ts";
import { documentOf, type Outcome } from "./document.ts";

const FILE = path.join(import.meta.dir, "..", "..", "docs", "translation.md");

let world: World;

beforeAll(async () => {
  world = await startWorld();
});
afterAll(async () => {
  await conclude(world, "every feature on every pair");
  await world.stop();
});

describe("docs/translation.md", () => {
  test("says what is so", async () => {
    const outcomes: Outcome[] = [];
    for (const api of APIS)
      for (const wire of WIRES) {
        const plain = await bodySent(api, wire, {});
        for (const feature of FEATURES) {
          const said = feature.said[api];
          if (said !== undefined)
            outcomes.push(await outcomeOf(api, wire, { feature, said, plain: plain.body }));
        }
      }
    const text = documentOf(outcomes);
    if (process.env["POSTERN_WRITE_DOCS"] === "1") writeFileSync(FILE, text);
    expect(readFileSync(FILE, "utf8")).toBe(text);
  }, 60_000);
});

interface Asked {
  readonly feature: Feature;
  readonly said: Json;
  readonly plain: Json;
}

async function bodySent(api: Api, wire: Wire, said: Json) {
  const before = world.sent.length;
  const answer = await call(world, api, { ...saying(api, wire, "hello"), ...said });
  return { answer, body: world.sent[before]?.body ?? {}, wasSent: world.sent.length > before };
}

async function outcomeOf(api: Api, wire: Wire, { feature, said, plain }: Asked): Promise<Outcome> {
  const { answer, body, wasSent } = await bodySent(api, wire, said);
  const dropped = answer.headers.get("x-postern-dropped")?.split(", ") ?? [];
  const error = answer.json["error"] as Json | undefined;
  const base = { api, wire, feature, dropped };
  if (!wasSent) {
    expect([feature.title, api, wire, answer.status]).toEqual([feature.title, api, wire, 400]);
    expect(typeof error?.["param"]).toBe("string");
    // What was refused goes through, without it, where the caller allows that.
    const lossy = await bodySent(api, wire, { ...said, postern: { lossy: true } });
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
      at: [String(error?.["param"])],
    };
  }
  expect([feature.title, api, wire, answer.status, error?.["message"]]).toEqual([
    feature.title,
    api,
    wire,
    200,
    undefined,
  ]);
  const at = api === wire ? [] : changesIn(plain, body);
  return { ...base, kind: "carried", at };
}

/** Where the second has something that the first has not. */
function changesIn(first: unknown, second: unknown, at = ""): readonly string[] {
  if (Array.isArray(first) && Array.isArray(second)) {
    const longer = second.length > first.length ? second.slice(first.length) : [];
    const paths = [
      ...second.flatMap((one, place) =>
        place < first.length ? changesIn(first[place], one, `${at}[]`) : [],
      ),
      ...longer.flatMap((one) => leavesOf(one, `${at}[]`)),
    ];
    return [...new Set(paths)];
  }
  if (isObject(first) && isObject(second))
    return Object.entries(second).flatMap(([key, one]) => {
      const below = at === "" ? key : `${at}.${key}`;
      return key in first ? changesIn(first[key], one, below) : newIn(one, below);
    });
  return JSON.stringify(first) === JSON.stringify(second) ? [] : leavesOf(second, at);
}

/** What is new is named by its members where it is a mere holder of them. */
function newIn(value: unknown, at: string): readonly string[] {
  const isHolder = isObject(value) && value["type"] === undefined && !at.includes(".");
  return isHolder ? Object.keys(value).map((key) => `${at}.${key}`) : [at];
}

function leavesOf(value: unknown, at: string): readonly string[] {
  if (Array.isArray(value)) return [...new Set(value.flatMap((one) => leavesOf(one, `${at}[]`)))];
  if (!isObject(value)) return [at];
  const kind = value["type"] ?? value["role"];
  return [typeof kind === "string" ? `${at} (${kind})` : `${at}.${Object.keys(value).at(-1)}`];
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
