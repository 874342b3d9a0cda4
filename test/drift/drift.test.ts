// The short form of `npm run drift`, without a network: everything that the installed SDKs can send, and the reader of types.

import { afterAll, describe, expect, test } from "bun:test";
import { startHarness } from "../translation/support/harness.ts";
import { findDrift, INSTALLED, isFailure } from "./drift.ts";
import { readTypes } from "./read-types.ts";
import { literalsOf, sampleObject, variantsOf } from "./sample-value.ts";

const harness = await startHarness({ sellsServerTools: true });
afterAll(() => harness.stop());

/** Each package is compared once. */
const findings = new Map<string, ReturnType<typeof findDrift>>();
function findingsOf(name: string): ReturnType<typeof findDrift> {
  const found = findings.get(name) ?? findDrift(harness, name, { newest: INSTALLED });
  findings.set(name, found);
  return found;
}

describe("drift", () => {
  test.each([
    { name: "openai", fields: 250, events: 100, endpoints: 100 },
    { name: "@anthropic-ai/sdk", fields: 250, events: 6, endpoints: 50 },
    { name: "@google/genai", fields: 60, events: 15, endpoints: 0 },
  ])("finds nothing in the installed $name that is refused without a reason", async (least) => {
    const found = await findingsOf(least.name);
    expect(found.filter(isFailure)).toEqual([]);
    const count = (kind: string): number => found.filter((one) => one.kind === kind).length;
    expect(count("field")).toBeGreaterThanOrEqual(least.fields);
    expect(count("event")).toBeGreaterThanOrEqual(least.events);
    expect(count("endpoint")).toBeGreaterThanOrEqual(least.endpoints);
    const verdicts = new Set(found.map(({ own }) => own.verdict));
    if (least.fields > 0) expect(verdicts).toContain("pass");
    if (least.endpoints > 0) expect(verdicts).toContain("absent");
  });

  test("finds what a newer version adds, and that it names something stored", async () => {
    const conversation = (await findingsOf("openai")).find(
      ({ name }) => name === "responses conversation",
    );
    expect(conversation).toMatchObject({ own: { verdict: "refuse" }, reason: expect.any(String) });
    const same = await findDrift(harness, "openai", { newest: INSTALLED, installed: INSTALLED });
    expect(same).toEqual([]);
  });
});

describe("the reader of types", () => {
  const types = readTypes(`
    import { Other } from "./other.js";
    /** A comment with { and ' in it. */
    export declare class Client { run(body: Item): Promise<void>; }
    export interface Base<T = string> { readonly id: string; note?: string | null; }
    export type Item = Message | Item.Call | { type: 'inline'; size: number };
    export interface Message extends Base { type: 'message'; content: string | Array<Part>; }
    export interface Part { kind: "a" | "b"; done: (value: string) => void; }
    export declare namespace Item {
      interface Call { type: 'call'; reason: Call.Reason; args: Array<Part>; }
      namespace Call { interface Reason { text: string } }
    }
    export declare enum Level { Low = "LOW", High = "HIGH" }
  `);
  const named = (name: string) => ({ kind: "name", name, scope: "" }) as const;

  test("finds the variants of a union, in a namespace too", () => {
    expect([...variantsOf(types, named("Item")).keys()]).toEqual(["message", "call", "inline"]);
  });

  test("makes values with what they must have, and with inherited members", () => {
    expect(sampleObject(types, named("Message"))).toEqual({
      id: "id_1",
      type: "message",
      content: "text",
    });
    expect(sampleObject(types, named("Item.Call"))).toEqual({
      type: "call",
      reason: { text: "text" },
      args: [{ kind: "a" }],
    });
    expect(sampleObject(types, named("Message"), 0, ["note"])).toHaveProperty("note", "text");
  });

  test("reads the words of an enumeration", () => {
    expect(literalsOf(types, named("Level"))).toEqual(["LOW", "HIGH"]);
  });
});
