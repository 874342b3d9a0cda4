// Anthropic's MCP connector: servers in a field of the request, a tool for each, and calls with results in the reply.

import { addLoss, type Loss } from "../canonical/canonical-losses.ts";
import type { CanonicalRequest, NativeTool } from "../canonical/canonical-request.ts";
import type { McpReplyForm, McpRequestForm, McpServer } from "../canonical/tools/canonical-mcp.ts";
import { invalid } from "../invalid-request.ts";
import {
  arrayIn,
  isObject,
  type JsonObject,
  mustBeName,
  mustBeObject,
  objectIn,
  optionalArray,
  optionalBoolean,
  optionalObject,
  optionalString,
  parseObject,
  stringIn,
  unknownFields,
} from "../json-fields.ts";
import {
  addSettingLoss,
  otherToolFields,
  withNativeField,
  withoutNativeFields,
  withoutTool,
  withTool,
} from "../server-tool-fields.ts";
import { FOREIGN_MCP_USE, nativeBlock } from "./messages-server-calls.ts";

const SERVERS = "mcp_servers";
const TOOLSET = "mcp_toolset";
const SERVER_FIELDS: ReadonlySet<string> = new Set(
  "type name url authorization_token tool_configuration".split(" "),
);
const TOOLSET_FIELDS: ReadonlySet<string> = new Set(
  "type mcp_server_name default_config configs".split(" "),
);

const APPROVAL =
  'This provider calls the tools of a server without asking for approval. Set `require_approval` to "never".';

/** The beta that a request with MCP servers needs. */
const BETA = "mcp-client-2025-11-20";

export function betaOf(body: JsonObject): string | undefined {
  return body[SERVERS] === undefined ? undefined : BETA;
}

export const messagesMcp: McpRequestForm = {
  read(request) {
    const value = request.native?.wire === "messages" ? request.native.fields[SERVERS] : undefined;
    const listed = optionalArray(value, SERVERS);
    if (listed === undefined || listed.length === 0) return undefined;
    const losses: Loss[] = [];
    const toolsets = toolsetsOf(request);
    checkToolsets(toolsets, listed);
    const servers = listed.flatMap((one, at): readonly McpServer[] =>
      readServer(mustBeObject(one, `${SERVERS}[${at}]`), `${SERVERS}[${at}]`, toolsets, losses),
    );
    const rest = toolsets.reduce(withoutTool, withoutNativeFields(request, "messages", [SERVERS]));
    return { tool: { path: SERVERS, servers, losses }, rest };
  },
  write(request, { servers }, _target, losses) {
    const list = servers.map(({ name, url, urlPath, token, headers, approvalPath }) => {
      if (!/^https:/i.test(url)) addLoss(losses, urlPath, "This provider requires an https: URL.");
      addSettingLoss(losses, headers, "This provider sends only a bearer token to MCP servers.");
      if (approvalPath !== undefined) addLoss(losses, approvalPath, APPROVAL);
      return { type: "url", name, url, authorization_token: token };
    });
    const sent = withNativeField(request, "messages", { [SERVERS]: list }, losses);
    return servers.reduce(
      (before, server) => withTool(before, "messages", TOOLSET, toolsetOf(server)),
      sent,
    );
  },
};

function toolsetsOf({ tools = [] }: CanonicalRequest): readonly NativeTool[] {
  return tools.filter(
    (tool): tool is NativeTool =>
      tool.type === "native" && tool.wire === "messages" && tool.value["type"] === TOOLSET,
  );
}

function checkToolsets(toolsets: readonly NativeTool[], servers: readonly unknown[]): void {
  const names = new Set(servers.map((server) => objectIn(server)?.["name"]));
  const used = new Set<string>();
  for (const { value, path } of toolsets) {
    const at = `${path ?? "tools"}.mcp_server_name`;
    const name = mustBeName(value["mcp_server_name"], at);
    if (!names.has(name))
      throw invalid(at, `No server in \`${SERVERS}\` is named ${JSON.stringify(name)}.`);
    if (used.has(name))
      throw invalid(at, `Another toolset names the server ${JSON.stringify(name)}. Merge the two.`);
    used.add(name);
  }
}

function toolsetOf({ name, allowedTools }: McpServer): JsonObject {
  const base = { type: TOOLSET, mcp_server_name: name };
  if (allowedTools === undefined) return base;
  const configs = Object.fromEntries(allowedTools.map((one) => [one, { enabled: true }]));
  return { ...base, default_config: { enabled: false }, configs };
}

/** Empty for a server whose tools are all disabled. */
function readServer(
  server: JsonObject,
  path: string,
  toolsets: readonly NativeTool[],
  losses: Loss[],
): readonly McpServer[] {
  const name = mustBeName(server["name"], `${path}.name`);
  const url = mustBeName(server["url"], `${path}.url`);
  losses.push(...otherToolFields(unknownFields(server, SERVER_FIELDS), path, "messages"));
  const toolset = toolsets.find(({ value }) => value["mcp_server_name"] === name);
  const allowed =
    toolset === undefined ? legacyAllowedTools(server, path) : allowedBy(toolset, losses);
  if (allowed !== undefined && allowed.length === 0) return [];
  const token = optionalString(server["authorization_token"], `${path}.authorization_token`);
  return [{ name, url, urlPath: `${path}.url`, token, allowedTools: allowed }];
}

// The form of the API before 2025-11, in which the server itself lists its tools.
function legacyAllowedTools(server: JsonObject, path: string): readonly string[] | undefined {
  const at = `${path}.tool_configuration`;
  const settings = optionalObject(server["tool_configuration"], at);
  if (optionalBoolean(settings?.["enabled"], `${at}.enabled`) === false) return [];
  return optionalArray(settings?.["allowed_tools"], `${at}.allowed_tools`)?.map((one, index) =>
    mustBeName(one, `${at}.allowed_tools[${index}]`),
  );
}

function allowedBy(
  { value, path = "tools" }: NativeTool,
  losses: Loss[],
): readonly string[] | undefined {
  losses.push(...otherToolFields(unknownFields(value, TOOLSET_FIELDS), path, "messages"));
  const isEnabled = objectIn(value["default_config"])?.["enabled"] !== false;
  const configs = Object.entries(objectIn(value["configs"]) ?? {});
  const differing = configs.filter(([, config]) => {
    const { enabled = isEnabled } = isObject(config) ? config : {};
    return enabled !== isEnabled;
  });
  if (!isEnabled) return differing.map(([name]) => name);
  if (differing.length > 0)
    addLoss(losses, `${path}.configs`, "This provider supports only a list of allowed tools.");
  return undefined;
}

export const messagesMcpReply: McpReplyForm = {
  createReader() {
    const uses = new Map<unknown, JsonObject>();
    return ({ value }) => {
      const { type, id, tool_use_id: callId } = value;
      if (type === "mcp_tool_use") {
        uses.set(id, value);
        return { kind: "pending" };
      }
      const use = uses.get(callId);
      if (type !== "mcp_tool_result" || use === undefined) return undefined;
      const { content } = value;
      const texts = arrayIn(content).flatMap((one) => stringIn(objectIn(one)?.["text"]) ?? []);
      return {
        kind: "call",
        call: {
          server: stringIn(use["server_name"]) ?? "",
          name: stringIn(use["name"]) ?? "",
          arguments: JSON.stringify(use["input"] ?? {}),
          output: stringIn(content) ?? texts.join("\n"),
          isError: value["is_error"] === true,
        },
        isPartial: arrayIn(content).length > texts.length || undefined,
      };
    };
  },
  writeCall({ server, name, arguments: text, output, isError }, id) {
    const use = FOREIGN_MCP_USE + id;
    const input = parseObject(text) ?? {};
    return [
      nativeBlock({ type: "mcp_tool_use", id: use, name, server_name: server, input }),
      nativeBlock({
        type: "mcp_tool_result",
        tool_use_id: use,
        is_error: isError,
        content: [{ type: "text", text: output, citations: [] }],
      }),
    ];
  },
};
