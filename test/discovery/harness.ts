// Serves the discovery routes for given routes, and parses Markdown.

import { discoveryRoutes } from "../../src/discovery/discovery-routes.tsx";
import type { DiscoverySettings } from "../../src/discovery/discovery-settings.ts";
import type { Route } from "../../src/http/route.ts";
import { createRouter } from "../../src/http/router.ts";
import { builtInModels, catalogOf } from "../../src/models/catalog.ts";
import { settings as sampleSettings } from "./sample-routes.ts";

export interface DiscoverySite {
  readonly routes: readonly Route[];
  readonly get: (path: string, headers?: Readonly<Record<string, string>>) => Promise<Response>;
  readonly text: (path: string, headers?: Readonly<Record<string, string>>) => Promise<string>;
}

export function createSite(
  routes: readonly Route[],
  settings: DiscoverySettings = sampleSettings,
): DiscoverySite {
  const catalog = { current: () => catalogOf(builtInModels()) };
  const models = { catalog, isAvailable: () => true, providerName: (id: string) => id };
  const own = discoveryRoutes({
    routes,
    settings,
    models,
    hasSessionCookie: (cookies) => cookies?.includes("session=") === true,
  });
  const match = createRouter(own);
  const get: DiscoverySite["get"] = async (path, headers = {}) => {
    const found = match("GET", path);
    if (found.kind !== "route") throw new Error(`no route for ${path}`);
    const request = new Request(`${settings.baseUrl}${path}`, { headers });
    const response = await found.route.read?.({
      params: found.params,
      query: undefined,
      body: undefined,
      caller: undefined,
      now: 0,
      requestId: "req_1",
      clientIp: "127.0.0.1",
      headers: request.headers,
      request,
      bodyText: "",
    });
    if (!(response instanceof Response)) throw new Error(`${path} returned no Response`);
    return response;
  };
  return {
    routes: [...routes, ...own],
    get,
    text: async (path, headers) => (await get(path, headers)).text(),
  };
}

export interface MarkdownBlock {
  readonly kind: "heading" | "quote" | "code" | "list" | "table" | "prose";
  readonly depth: number;
  readonly text: string;
}

/** The blocks of a Markdown text, in order. */
export function parseBlocks(markdown: string): readonly MarkdownBlock[] {
  const parts = markdown.split(/^(```[\s\S]*?^```)$/m);
  return parts.flatMap((part, index) => {
    if (index % 2 === 1) return [{ kind: "code" as const, depth: 0, text: part }];
    return part
      .split(/\n{2,}/)
      .map((text) => text.trim())
      .filter((text) => text !== "")
      .map(parseBlock);
  });
}

function parseBlock(text: string): MarkdownBlock {
  const heading = /^(#+) (.+)$/.exec(text);
  if (heading !== null)
    return { kind: "heading", depth: heading[1]?.length ?? 0, text: heading[2] ?? "" };
  const lines = text.split("\n");
  const all = (start: RegExp): boolean => lines.every((line) => start.test(line));
  if (all(/^> /)) return { kind: "quote", depth: 0, text };
  if (all(/^(- |\d+\. )/)) return { kind: "list", depth: 0, text };
  return { kind: all(/^\|.*\|$/) ? "table" : "prose", depth: 0, text };
}

export interface CurlCommand {
  readonly method: string;
  readonly url: string;
  readonly text: string;
}

/** All curl commands in the shell blocks. */
export function curlCommands(markdown: string): readonly CurlCommand[] {
  const shell = parseBlocks(markdown).filter((block) => block.text.startsWith("```sh\n"));
  return shell.flatMap((block) =>
    [...block.text.matchAll(/^curl (?:\\\n|.)*$/gm)].map(([text]) => ({
      text,
      method: / -X (\w+)/.exec(text)?.[1] ?? "GET",
      url: /https?:\/\/[^\s'"]+/.exec(text)?.[0] ?? "",
    })),
  );
}
