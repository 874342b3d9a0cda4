// The documents that agents read fit a model's context. Counted with OpenAI's tokenizer.

import { afterAll, describe, expect, test } from "bun:test";
import { countTokens } from "gpt-tokenizer";
import { endpointSlug } from "../../src/http/route.ts";
import { postModern } from "../mcp/raw-mcp.ts";
import { startGateway } from "../support/gateway.ts";
import { call, listAt } from "./api-client.ts";

const gateway = await startGateway();
afterAll(() => gateway.stop());

const tokensOf = async (path: string): Promise<number> => {
  const { status, text } = await call(gateway, `GET ${path}`);
  expect(status).toBe(200);
  return countTokens(text);
};

describe("tokens", () => {
  test.each([
    ["/auth.md", 7_500],
    ["/llms.txt", 3_500],
    ["/.well-known/agent-skills/postern/SKILL.md", 1_100],
    ["/v1/models?limit=20&fields=id,pricing", 1_500],
  ])("of %s are at most %d", async (path, most) => {
    expect(await tokensOf(path)).toBeLessThanOrEqual(most);
  });

  test("of the page of each endpoint are at most 2500", async () => {
    const pages = gateway.server.routes
      .filter(({ hidden, dialect }) => hidden !== true && dialect !== "page")
      .map(({ id }) => `/docs/${endpointSlug(id)}.md`);
    expect(pages.length).toBeGreaterThan(40);
    const long: string[] = [];
    for (const page of pages) {
      const tokens = await tokensOf(page);
      if (tokens > 2_500) long.push(`${page}: ${tokens}`);
    }
    expect(long).toEqual([]);
  });

  test("of all MCP tools with their schemas are at most 5000", async () => {
    const { body } = await postModern(gateway, { method: "tools/list" });
    const tools = listAt(body, "result.tools");
    expect(tools.length).toBeGreaterThan(10);
    expect(countTokens(JSON.stringify(tools))).toBeLessThanOrEqual(5_000);
  });
});
