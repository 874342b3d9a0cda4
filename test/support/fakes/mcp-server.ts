// A real MCP server on loopback, of both revisions, with tools that succeed, fail, and return what they should not.

import { McpServer, createMcpHandler } from "@modelcontextprotocol/server";
import { z } from "zod";

export interface TestMcpServer {
  readonly url: string;
  /** The bodies and headers of the requests. */
  readonly requests: {
    readonly method: string;
    readonly headers: Headers;
    readonly body: string;
  }[];
  /** While set, responds instead of the server, unless it returns nothing. */
  override:
    | ((request: Request) => Response | Promise<Response | undefined> | undefined)
    | undefined;
  readonly stop: () => Promise<void>;
}

export function startMcpServer(): TestMcpServer {
  const served = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    development: false,
    idleTimeout: 0,
    fetch: async (request) => {
      const body = await request.clone().text();
      server.requests.push({ method: request.method, headers: request.headers, body });
      const response = await server.override?.(request.clone());
      if (response !== undefined) return response;
      const handler = createMcpHandler(() =>
        createServer(request.headers.get("authorization") ?? ""),
      );
      return handler.fetch(request);
    },
  });
  const server: TestMcpServer = {
    url: `http://127.0.0.1:${served.port}/mcp`,
    requests: [],
    override: undefined,
    stop: () => served.stop(true),
  };
  return server;
}

function createServer(authorization: string): McpServer {
  const server = new McpServer({ name: "tides", version: "1" });
  const content = (text: string) => ({ content: [{ type: "text" as const, text }] });
  const query = { inputSchema: z.object({ place: z.string() }) };
  server.registerTool("high tide", { description: "When high tide is.", ...query }, ({ place }) =>
    content(`High tide at ${place} is at three.`),
  );
  server.registerTool("whoami", { inputSchema: z.object({}) }, () =>
    content(`You sent ${authorization}.`),
  );
  server.registerTool("fail", { inputSchema: z.object({}) }, () => ({
    ...content("There is no tide."),
    isError: true,
  }));
  server.registerTool("long", { inputSchema: z.object({}) }, () => content("a".repeat(50_000)));
  server.registerTool("picture", { inputSchema: z.object({}) }, () => ({
    content: [{ type: "image", data: "AAAA", mimeType: "image/png" }],
  }));
  return server;
}
