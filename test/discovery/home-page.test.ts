// The code on the home page runs against a real gateway.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { promisify } from "node:util";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { newestModels } from "../../src/discovery/home-models.tsx";
import { builtInModels, catalogOf } from "../../src/models/catalog.ts";
import { type Gateway, registerAccount, startGateway } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch-folder.ts";

const execute = promisify(execFile);

let gateway: Gateway;
let key: string;
let page: string;
let snippets: ReadonlyMap<string, string>;
beforeAll(async () => {
  gateway = await startGateway();
  ({ key } = await registerAccount(gateway));
  const response = await fetch(`${gateway.url}/`, { headers: { accept: "text/html" } });
  page = await response.text();
  const codes = [...page.matchAll(/<label for="start-\d">(.*?)<.*?<code>(.*?)<\/code>/gs)];
  snippets = new Map(codes.map(([, label = "", code = ""]) => [label, unescapeHtml(code)]));
});
afterAll(() => gateway.stop());

function unescapeHtml(text: string): string {
  return text
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&amp;", "&");
}

function snippet(label: string): string {
  const code = snippets.get(label);
  if (code === undefined)
    throw new Error(`no snippet ${label}: ${[...snippets.keys()].join(", ")}`);
  return code;
}

function value(code: string, pattern: RegExp): string {
  return pattern.exec(code)?.[1] ?? "";
}

async function runShell(code: string): Promise<string> {
  const env = { PATH: process.env["PATH"], POSTERN_API_KEY: key };
  return (await execute("bash", ["-ec", code], { env })).stdout;
}

describe("the home page", () => {
  test("creates an account and calls a model with its key in the first snippet", async () => {
    const cwd = scratchFolder("home-page");
    const env = { PATH: process.env["PATH"] };
    const { stdout } = await execute("bash", ["-ec", snippet("Agent")], { cwd, env });
    const [account, reply]: readonly unknown[] = JSON.parse(`[${stdout.replace("}{", "},{")}]`);
    expect(account).toMatchObject({ api_key: expect.stringContaining("-rt-") });
    expect(reply).toMatchObject({ object: "chat.completion" });
    rmSync(cwd, { recursive: true });
  });

  test("shows the newest models of each callable provider with their prices", () => {
    const catalog = { current: () => catalogOf(builtInModels()) };
    const callable = new Set(["openai", "anthropic"]);
    const now = Date.UTC(2026, 10, 23);
    const isAvailable = (provider: string): boolean => callable.has(provider);
    const deps = { catalog, isAvailable, providerName: (id: string) => id };
    const shown = newestModels(deps, now).map(({ model }) => model);
    expect(shown.map(({ owned_by }) => owned_by).toSorted()).toEqual([
      "anthropic",
      "anthropic",
      "openai",
      "openai",
    ]);
    for (const { pricing, supported } of shown) {
      expect(pricing["prompt"]).toBeString();
      expect(supported).toContain("tools");
    }
    const created = shown.map((model) => model.created);
    expect(created).toEqual(created.toSorted((one, other) => other - one));
  });

  test("links the models that it shows", () => {
    expect(page).toContain('<a href="/models/sim/echo">');
  });

  test("has the base URL and the model that OpenAI's SDK needs", async () => {
    const code = snippet("OpenAI SDK");
    const client = new OpenAI({ baseURL: value(code, /base_url="([^"]+)"/), apiKey: key });
    const reply = await client.chat.completions.create({
      model: value(code, /model="([^"]+)"/),
      max_tokens: 100,
      messages: [{ role: "user", content: "Hello" }],
    });
    expect(reply.choices[0]?.message.content).toBeString();
  });

  test("has the base URL and the model that Anthropic's SDK needs", async () => {
    const code = snippet("Anthropic SDK");
    const client = new Anthropic({ baseURL: value(code, /base_url="([^"]+)"/), apiKey: key });
    const message = await client.messages.create({
      model: value(code, /model="([^"]+)"/),
      max_tokens: 100,
      messages: [{ role: "user", content: "Hello" }],
    });
    expect(message.content[0]).toMatchObject({ type: "text" });
  });

  test("has the environment with which Claude Code sends its requests", async () => {
    const code = snippet("Claude Code").replace(
      /^claude --model (.*)$/m,
      `curl -sS "$ANTHROPIC_BASE_URL/v1/messages" -H "authorization: Bearer $ANTHROPIC_AUTH_TOKEN" -H "content-type: application/json" \\
        -d '{"model": "$1", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}'`,
    );
    expect(code).toContain("/v1/messages");
    expect(JSON.parse(await runShell(code))).toMatchObject({ type: "message" });
  });

  test.each([
    ["OpenAI SDK", "openai"],
    ["Anthropic SDK", "anthropic"],
  ])("has Python for %s that runs", async (label, module) => {
    const code = snippet(label);
    await execute("python3", ["-c", "import ast, sys; ast.parse(sys.argv[1])", code]);
    const isInstalled = await execute("python3", ["-c", `import ${module}`]).then(
      () => true,
      () => false,
    );
    if (!isInstalled) return console.log(`not run: python3 has no module ${module}`);
    const env = { PATH: process.env["PATH"], POSTERN_API_KEY: key };
    const { stdout } = await execute("python3", ["-c", code], { env });
    expect(stdout.trim()).not.toBe("");
  });
});
