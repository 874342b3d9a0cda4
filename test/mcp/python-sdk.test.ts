// The official Python SDK, unmodified. Skipped where Python does not have it.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import path from "node:path";
import { type Json, listAt, textAt, valueAt } from "../spec/api-client.ts";
import { type Gateway, startGateway } from "../support/gateway.ts";
import { skipUnless } from "../support/skip.ts";
import { ROOT } from "../support/source/source-files.ts";

/** A Python that has the package `mcp`, such as that of a virtual environment. */
const PYTHON = process.env["POSTERN_TEST_PYTHON"] ?? "python3";
const SCRIPT = path.join(ROOT, "test/mcp/python-client.py");

function hasSdk(): boolean {
  try {
    return Bun.spawnSync([PYTHON, "-c", "from mcp import Client"]).exitCode === 0;
  } catch {
    return false;
  }
}

describe.skipIf(skipUnless(hasSdk(), `${PYTHON} lacks the package mcp 2: run \`pip install mcp\``))(
  "the Python SDK",
  () => {
    let gateway: Gateway;
    beforeAll(async () => {
      gateway = await startGateway();
    });
    afterAll(() => gateway.stop());

    for (const [mode, revision] of [
      ["auto", "2026-07-28"],
      ["legacy", "2025-11-25"],
    ] as const)
      test(`registers, calls a model and reads usage in revision ${revision}`, async () => {
        const child = Bun.spawn([PYTHON, SCRIPT, `${gateway.url}/mcp`, mode], { stderr: "pipe" });
        const [output, errors] = await Promise.all([
          new Response(child.stdout).text(),
          new Response(child.stderr).text(),
        ]);
        expect({ exitCode: await child.exited, errors }).toMatchObject({ exitCode: 0 });
        const result = JSON.parse(output) as Json;
        expect(result).toMatchObject({ revision, calls: 1 });
        expect(valueAt(result, "tools")).toContain("send_message");
        expect(textAt(result, "text")).toContain("hello hello");
        expect(listAt(result, "progress").length).toBeGreaterThan(0);
        expect(valueAt(result, "wrong_key.0")).toBe(true);
        expect(textAt(result, "wrong_key.1")).toContain('"tool":"create_account"');
        expect(textAt(result, "guide")).toContain("/v1/accounts");
      });
  },
);
