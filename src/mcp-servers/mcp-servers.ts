// The MCP servers that a workspace allows in its calls, with secret headers. It owns the table mcp_server.

import { authorize } from "../accounts/members.ts";
import { type Act, recordAuditEntry } from "../activity/audit.ts";
import {
  decrypt,
  type DerivedKey,
  deriveKey,
  encrypt,
  type MasterSecret,
} from "../base/crypto/encryption.ts";
import { Fault, invalid } from "../base/fault.ts";
import { parseHeaders } from "../base/network/endpoint-headers.ts";
import { type EndpointDeps, parseEndpoint } from "../base/network/public-endpoint.ts";
import { integer, type Reader, type Row, text, textOrNull, type Tx } from "../store/db.ts";
import type { EncryptedColumn } from "../store/reencrypt-rows.ts";

const SERVERS_MAX = 20;
const HEADER_PURPOSE = "mcp-server-headers/v1";

export type Headers = Readonly<Record<string, string>>;

export interface McpServerSettings {
  readonly url: string;
  /** Null for all tools. */
  readonly allowed_tools: readonly string[] | null;
}

export interface McpServer extends McpServerSettings {
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly headerNames: readonly string[];
  readonly sealed: string | null;
}

export interface NewMcpServer {
  readonly name: string;
  readonly settings: McpServerSettings;
  /** Undefined to keep those of the same URL. */
  readonly headers: Headers | undefined;
}

/** Creates the server, or replaces its settings. */
export async function saveMcpServer(
  tx: Tx,
  act: Act,
  { name, settings, headers }: NewMcpServer,
  { master, allowLoopback }: EndpointDeps,
): Promise<McpServer> {
  const { accountId, now } = act;
  await authorize(tx, act, "mcp_servers.change");
  // Serializes concurrent changes, so that the counts are exact.
  await tx.lockMany("account", "id", [accountId]);
  const all = await listMcpServers(tx, accountId);
  const others = all.filter((one) => one.name !== name);
  const endpoint = parseEndpoint(settings.url.trim(), allowLoopback);
  if (typeof endpoint === "string") throw invalid("url", `\`url\` ${endpoint}.`);
  const url = endpoint.url.href;
  const same = others.find((one) => one.url === url);
  if (same !== undefined) throw sameUrl(same.name);
  if (others.length >= SERVERS_MAX) throw tooMany();
  const { headerNames, sealed } =
    headers === undefined
      ? keptHeaders(
          all.find((one) => one.name === name),
          url,
        )
      : sealHeaders(headers, keyOf(master), binding(accountId, name));
  const row = JSON.stringify({ url, allowed_tools: settings.allowed_tools, headerNames });
  await tx.run(
    `insert into mcp_server (account_id, name, created_at, updated_at, settings, sealed) values (?, ?, ?, ?, ?, ?)
     on conflict (account_id, name) do update set updated_at = excluded.updated_at, settings = excluded.settings, sealed = excluded.sealed`,
    [accountId, name, now, now, row, sealed],
  );
  // The path or the query of a URL can contain a secret.
  const { allowed_tools } = settings;
  const detail = { host: endpoint.url.host, allowed_tools, headers: headerNames };
  await recordAuditEntry(tx, { ...act, action: "mcp_server.saved", target: name, detail });
  return getMcpServer(tx, accountId, name);
}

type SealedHeaders = Pick<McpServer, "headerNames" | "sealed">;

function sealHeaders(headers: Headers, key: DerivedKey, bound: string): SealedHeaders {
  const checked = parseHeaders(headers, "headers");
  const headerNames = Object.keys(checked);
  const sealed = headerNames.length === 0 ? null : encrypt(key, bound, JSON.stringify(checked));
  return { headerNames, sealed };
}

/** Headers are only ever sent to the URL for which they were given. */
function keptHeaders(former: McpServer | undefined, url: string): SealedHeaders {
  if (former === undefined || former.headerNames.length === 0)
    return { headerNames: [], sealed: null };
  if (former.url !== url)
    throw invalid(
      "headers",
      "The secret headers of this server belong to its former URL. Enter them again for the new URL, or remove them: the API takes `headers: {}`.",
    );
  return former;
}

export async function deleteMcpServer(tx: Tx, act: Act, name: string): Promise<void> {
  await authorize(tx, act, "mcp_servers.change");
  const deleted = await tx.run("delete from mcp_server where account_id = ? and name = ?", [
    act.accountId,
    name,
  ]);
  if (deleted === 0) throw noSuchServer(name);
  await recordAuditEntry(tx, { ...act, action: "mcp_server.deleted", target: name });
}

export async function getMcpServer(
  reader: Reader,
  accountId: string,
  name: string,
): Promise<McpServer> {
  const row = await reader.get("select * from mcp_server where account_id = ? and name = ?", [
    accountId,
    name,
  ]);
  if (row === undefined) throw noSuchServer(name);
  return toServer(row);
}

export async function listMcpServers(
  reader: Reader,
  accountId: string,
): Promise<readonly McpServer[]> {
  const rows = await reader.all("select * from mcp_server where account_id = ? order by name", [
    accountId,
  ]);
  return rows.map(toServer);
}

/** As a model call needs them. */
export async function findCallServers(reader: Reader, accountId: string, master: MasterSecret) {
  const servers = await listMcpServers(reader, accountId);
  return servers.map(({ name, url, allowed_tools: allowedTools, updatedAt, sealed }) => ({
    name,
    url,
    allowedTools,
    updatedAt,
    hasHeaders: sealed !== null,
    readHeaders: (): Headers =>
      sealed === null
        ? {}
        : // Safe because only `saveMcpServer` writes this column.
          (JSON.parse(decrypt(keyOf(master), binding(accountId, name), sealed)) as Headers),
  }));
}

/** For the rotation of the master secret. */
export const MCP_SERVER_HEADERS: EncryptedColumn = {
  table: "mcp_server",
  column: "sealed",
  key: ["account_id", "name"],
  reads: [],
  deriveKey: keyOf,
  associatedData: (row) => binding(text(row, "account_id"), text(row, "name")),
};

function keyOf(master: MasterSecret): DerivedKey {
  return deriveKey(master, HEADER_PURPOSE);
}

function binding(accountId: string, name: string): string {
  return `mcp-server/v1|${accountId}|${name}`;
}

const LIST_STEP = {
  method: "GET",
  url: "/v1/mcp-servers",
  why: "List the MCP servers of the workspace.",
} as const;

function sameUrl(name: string): Fault {
  return new Fault("conflict", "MCP server with the same URL", {
    message: `The MCP server "${name}" of this workspace has this URL. Change it instead.`,
    param: "url",
    next: [LIST_STEP],
  });
}

function tooMany(): Fault {
  return new Fault("conflict", "too many MCP servers", {
    message: `A workspace can have ${SERVERS_MAX} MCP servers. Delete one first.`,
    next: [LIST_STEP],
  });
}

function noSuchServer(name: string): Fault {
  return new Fault("not_found", "no such MCP server", {
    message: `This workspace has no MCP server "${name}". List them with GET /v1/mcp-servers.`,
    param: "name",
    next: [LIST_STEP],
  });
}

function toServer(row: Row): McpServer {
  // Safe because only `saveMcpServer` writes this column.
  const settings = JSON.parse(text(row, "settings")) as McpServerSettings & {
    readonly headerNames: readonly string[];
  };
  return {
    ...settings,
    name: text(row, "name"),
    createdAt: integer(row, "created_at"),
    updatedAt: integer(row, "updated_at"),
    sealed: textOrNull(row, "sealed"),
  };
}
