// The documents that agents read fit a model's context: the sizes in docs/site/mcp.md, counted with OpenAI's tokenizer.

import { afterAll, describe, expect, test } from "bun:test";
import { countTokens } from "gpt-tokenizer";
import { endpointSlug } from "../../src/http/route.ts";
import { postModern } from "../mcp/raw-mcp.ts";
import { startGateway } from "../support/gateway.ts";
import { readText } from "../support/source/source-files.ts";
import { call, listAt } from "./api-client.ts";

const gateway = await startGateway();
afterAll(() => gateway.stop());

const rows = readText("docs/site/mcp.md").matchAll(/^\| (.+) \| ([\d,]+) \|$/gm);
const SIZES = new Map(
  [...rows].map(([, name = "", size = ""]) => [
    name.replaceAll("`", ""),
    Number(size.replaceAll(",", "")),
  ]),
);
const sizeOf = (name: string): number => {
  const size = SIZES.get(name);
  if (size === undefined) throw new Error(`no size of ${name} in docs/site/mcp.md`);
  return size;
};

const tokensOf = async (path: string): Promise<number> => {
  const { status, text } = await call(gateway, `GET ${path}`);
  expect(status).toBe(200);
  return countTokens(text);
};

describe("tokens", () => {
  test("of the documents are at most those of the table", async () => {
    const documents = [...SIZES.keys()].filter((name) => name.startsWith("/"));
    expect(documents.length).toBeGreaterThan(3);
    for (const path of documents)
      expect([path, (await tokensOf(path)) <= sizeOf(path)]).toEqual([path, true]);
    // What the specification of these documents asks for.
    expect([sizeOf("/auth.md"), sizeOf("/llms.txt")]).toEqual([7_500, 3_500]);
  });

  test("of the page of each endpoint are at most those of the table", async () => {
    const pages = gateway.server.routes
      .filter(({ hidden, dialect }) => hidden !== true && dialect !== "page")
      .map(({ id }) => `/docs/${endpointSlug(id)}.md`);
    expect(pages.length).toBeGreaterThan(40);
    const long: string[] = [];
    for (const page of pages) {
      const tokens = await tokensOf(page);
      if (tokens > sizeOf("The page of an endpoint")) long.push(`${page}: ${tokens}`);
    }
    expect(long).toEqual([]);
  });

  test("of all MCP tools with their schemas are at most those of the table", async () => {
    const { body } = await postModern(gateway, { method: "tools/list" });
    const tools = listAt(body, "result.tools");
    expect(tools.length).toBeGreaterThan(10);
    expect(countTokens(JSON.stringify(tools))).toBeLessThanOrEqual(sizeOf("The list of MCP tools"));
  });
});
