// The stage between hold and plan: finds the MCP servers of a request on the workspace's list, and lists their tools where the
// gateway calls them. The hold covers the definitions and the results at their largest.

import {
  INBOUND_WIRES,
  InvalidRequest,
  type McpServer,
  mcpServersOf,
  type McpToolLists,
} from "@postern/wires";
import { Fault, invalid } from "../../base/fault.ts";
import type { Log } from "../../base/log.ts";
import { parseHeaders } from "../../base/network/endpoint-headers.ts";
import { MINUTE_MS, SECOND_MS } from "../../base/time.ts";
import type { RateLimiter } from "../../http/guards/rate-limiter.ts";
import { matchesGlob } from "../../http/key-policy.ts";
import type { McpConnection, OpenMcpConnection } from "../remote-mcp/mcp-client.ts";
import { commonForm } from "../request/common-form.ts";
import { gatewayToolsOf, MCP_DEFINITION_BYTES, toolsOf } from "../request/tool-bounds.ts";
import type { Candidate } from "../routing/candidates.ts";
import { isStreamingApi } from "../translate/stream-transform.ts";
import type { CallMcp, HeldCall, OpenCall } from "./call.ts";

/** A server of the workspace's list. */
export interface AllowedMcpServer {
  readonly name: string;
  readonly url: string;
  /** Null for all tools. */
  readonly allowedTools: readonly string[] | null;
  /** Changes with each of its settings. */
  readonly updatedAt: number;
  /** Whether the list has secret headers for it. */
  readonly hasHeaders: boolean;
  readonly readHeaders: () => Readonly<Record<string, string>>;
}

export interface McpDeps {
  readonly findMcpServers: (accountId: string) => Promise<readonly AllowedMcpServer[]>;
  readonly openConnection: OpenMcpConnection;
  readonly now: () => number;
  readonly log: Log;
  readonly lists: ToolListCache;
  /** Limits how many lists of tools an account reads from servers in this process. */
  readonly limiter: Pick<RateLimiter, "take">;
}

/** A call whose servers do not reply costs nothing, so others could be flooded through the gateway. */
export const TOOL_LISTS_PER_MINUTE = 120;

type Tools = Awaited<ReturnType<McpConnection["listTools"]>>;

export interface ToolListCache {
  readonly find: (key: string, now: number) => Tools | undefined;
  readonly keep: (key: string, tools: Tools, now: number) => void;
}

const LISTS_MAX = 500;
/** A longer list is read for each call: few of its tools can be used. */
const KEPT_LIST_MAX_LENGTH = 4 * MCP_DEFINITION_BYTES;

export function createToolListCache(): ToolListCache {
  const lists = new Map<string, { readonly tools: Tools; readonly at: number }>();
  return {
    find: (key, now) => {
      const found = lists.get(key);
      return found !== undefined && Math.abs(now - found.at) < MINUTE_MS ? found.tools : undefined;
    },
    keep: (key, tools, now) => {
      lists.delete(key);
      if (JSON.stringify(tools).length > KEPT_LIST_MAX_LENGTH) return;
      if (lists.size >= LISTS_MAX) lists.delete(lists.keys().next().value ?? "");
      lists.set(key, { tools, at: now });
    },
  };
}

/** Returns undefined if there is nothing to do, and a fault if the candidate cannot have the servers. */
export function openMcpServers(
  deps: McpDeps,
  call: OpenCall,
  candidate: Candidate,
): Promise<Fault | undefined> | undefined {
  if (!call.request.hasMcp) return undefined;
  return openServers(deps, call, candidate).catch((error: unknown) => {
    if (error instanceof Fault) return error;
    if (error instanceof InvalidRequest) return invalid(error.path, error.message);
    throw error;
  });
}

/** Ends the sessions that the call began at servers. */
export async function closeMcpServers({ mcp }: Pick<HeldCall, "mcp">): Promise<void> {
  const connections = [...(mcp?.connections.values() ?? [])];
  await Promise.allSettled(connections.map((one) => one.close()));
}

async function openServers(
  deps: McpDeps,
  call: OpenCall,
  { model }: Candidate,
): Promise<Fault | undefined> {
  const { request } = call;
  const { accountId, policy } = call.input.caller;
  const found = serversIn(call);
  const servers = found ?? [];
  const entries = await deps.findMcpServers(accountId);
  const named = servers.map((server) => ({ server, entry: entryOf(server, entries) }));
  const allowed = policy?.mcpServers;
  for (const { server, entry } of named)
    if (allowed !== undefined && (entry === undefined || !matchesGlob(allowed, entry.name)))
      throw barredFault(server, allowed);
  if (allowed !== undefined && hasUnreadServers(request, found)) throw unreadFault(allowed);
  const hasSecrets = named.some(({ entry }) => entry?.hasHeaders === true);
  if (servers.length > 0 && (hasSecrets || gatewayToolsOf(request, model).mcp))
    call.mcp ??= await openAll(deps, call, named, hasSecrets);
  return undefined;
}

/** Undefined without any. Reading the request again for its plan costs less than a stage that passes it on. */
function serversIn({ request: { api, json, model } }: OpenCall): readonly McpServer[] | undefined {
  if (!isStreamingApi(api)) return undefined;
  const { postern: _postern, models: _models, provider: _provider, ...body } = json;
  const canonical = INBOUND_WIRES[api].readRequest({ ...body, model });
  return mcpServersOf(canonical, api)?.tool.servers;
}

/** Such as a connector of OpenAI, which has no URL, or a server in an API that has none: a provider may still connect to it. */
function hasUnreadServers(
  request: OpenCall["request"],
  found: readonly McpServer[] | undefined,
): boolean {
  const named = toolsOf(commonForm(request)).filter(({ type }) => type === "mcp");
  return found === undefined || named.length > found.length;
}

function entryOf(
  { url }: McpServer,
  entries: readonly AllowedMcpServer[],
): AllowedMcpServer | undefined {
  const own = URL.canParse(url) ? new URL(url).href : url;
  return entries.find((entry) => entry.url === own);
}

interface NamedServer {
  readonly server: McpServer;
  readonly entry: AllowedMcpServer | undefined;
}

async function openAll(
  deps: McpDeps,
  { input }: OpenCall,
  named: readonly NamedServer[],
  hasSecrets: boolean,
): Promise<CallMcp> {
  const connections = new Map<string, McpConnection>();
  const listing = named.map(async ({ server, entry }): Promise<readonly [string, Tools]> => {
    if (entry === undefined) throw unlistedFault(server);
    if (server.approvalPath !== undefined) throw approvalFault(server.approvalPath);
    if (connections.has(server.name))
      throw invalid(server.urlPath, `Two MCP servers have the name \`${server.name}\`.`);
    const headers = headersFor(server, entry);
    const { accountId } = input.caller;
    const connection = deps.openConnection({ url: entry.url, headers, signal: input.signal });
    connections.set(server.name, connection);
    const own = [accountId, entry.name, entry.updatedAt, JSON.stringify(headers)];
    const listed = { accountId, key: own.join(" "), connection, server };
    const tools = await listTools(deps, listed);
    return [server.name, tools.filter(({ name }) => isAllowedTool(name, server, entry))];
  });
  const lists: McpToolLists = new Map(await Promise.all(listing));
  const bytes = Buffer.byteLength(JSON.stringify([...lists]));
  const [first] = named;
  if (bytes > MCP_DEFINITION_BYTES && first !== undefined) throw tooLongFault(first.server, bytes);
  return { lists, connections, isRequired: hasSecrets, calls: [] };
}

function headersFor(
  { token, headers, urlPath }: McpServer,
  entry: AllowedMcpServer,
): Readonly<Record<string, string>> {
  const bearer = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const own = parseHeaders({ ...bearer, ...headers?.value }, headers?.path ?? urlPath);
  // Those of the list are the workspace's decision.
  return { ...own, ...entry.readHeaders() };
}

function isAllowedTool(
  name: string,
  { allowedTools: asked }: McpServer,
  { allowedTools: listed }: AllowedMcpServer,
): boolean {
  return asked?.includes(name) !== false && listed?.includes(name) !== false;
}

interface ListedServer {
  readonly accountId: string;
  readonly key: string;
  readonly connection: McpConnection;
  readonly server: McpServer;
}

async function listTools(
  { lists, limiter, now, log }: McpDeps,
  { accountId, key, connection, server: { name, urlPath } }: ListedServer,
): Promise<Tools> {
  const known = lists.find(key, now());
  if (known !== undefined) return known;
  const waitMs = limiter.take(accountId, now());
  if (waitMs > 0) throw tooManyListsFault(waitMs);
  try {
    const tools = await connection.listTools();
    lists.keep(key, tools, now());
    return tools;
  } catch {
    // The cause may quote headers.
    log.warn("MCP server did not list its tools", { server: name });
    throw new Fault("invalid_request", "MCP server did not list its tools", {
      message: `The MCP server \`${name}\` did not list its tools. Check that it runs at this URL, and that its token and headers are right.`,
      param: urlPath,
    });
  }
}

const LIST_STEP = {
  method: "GET",
  url: "/v1/mcp-servers",
  why: "List the MCP servers of the workspace.",
} as const;

function unlistedFault({ url, urlPath }: McpServer): Fault {
  return new Fault("invalid_request", "MCP server not on the list", {
    message: `The provider of this model does not connect to MCP servers, and the gateway connects only to those of the workspace. Add ${JSON.stringify(url)} with POST /v1/mcp-servers/{name}, or use a model of a provider that connects.`,
    param: urlPath,
    next: [LIST_STEP],
  });
}

function barredFault({ name, urlPath }: McpServer, allowed: readonly string[]): Fault {
  return policyFault(allowed, `\`${name}\` is none of them`, urlPath);
}

function unreadFault(allowed: readonly string[]): Fault {
  return policyFault(allowed, "the request names one without a URL that the gateway reads");
}

function policyFault(allowed: readonly string[], reason: string, param = "tools"): Fault {
  const which = allowed.length === 0 ? "no MCP servers" : `only the MCP servers ${allowed.join()}`;
  return new Fault("forbidden", "key policy: allowed_mcp_servers", {
    message: `This key may use ${which} of the workspace, and ${reason}. Use another key, or ask the owner of the account to change \`allowed_mcp_servers\` of this key.`,
    param,
    fields: { policy: "allowed_mcp_servers" },
  });
}

function approvalFault(path: string): Fault {
  return invalid(
    path,
    'The gateway calls the tools of this server without asking for approval. Set `require_approval` to "never".',
  );
}

function tooManyListsFault(waitMs: number): Fault {
  return new Fault("rate_limited", "too many lists of tools", {
    message: `The gateway lists the tools of MCP servers at most ${TOOL_LISTS_PER_MINUTE} times a minute for an account. Lists are kept for a minute: send the same headers in all calls.`,
    retryAfterSeconds: waitMs / SECOND_MS,
  });
}

function tooLongFault({ urlPath }: McpServer, bytes: number): Fault {
  return invalid(
    urlPath,
    `The definitions of the tools of MCP servers have ${bytes} bytes, and the gateway passes on at most ${MCP_DEFINITION_BYTES}. Name fewer tools in \`allowed_tools\`.`,
  );
}
