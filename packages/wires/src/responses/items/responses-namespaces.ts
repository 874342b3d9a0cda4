// This API groups tools in namespaces; the others have one flat list. There a tool's name is made of both names and is the
// same in every call of a conversation; replies are written with both names again.

import type { ToolCallPart } from "../../canonical/canonical-parts.ts";
import type {
  CustomTool,
  FunctionTool,
  NamespaceMembership,
  Tool,
} from "../../canonical/canonical-request.ts";
import { shortDigest } from "../../canonical/tools/call-ids.ts";
import { invalid } from "../../invalid-request.ts";
import type { JsonObject } from "../../json-fields.ts";

export type NamespacedTool = (FunctionTool | CustomTool) & { readonly member: NamespaceMembership };

/** Accepted by every provider. */
const NAME_MAX = 64;
const TOOL_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;

/** `namespace__name`. If that is not a valid name, a digest and as much of its end as fits. */
function flatName(namespace: string, name: string): string {
  const joined = `${namespace}__${name}`;
  if (TOOL_NAME.test(joined)) return joined;
  const head = `_${shortDigest(JSON.stringify([namespace, name]))}_`;
  return head + joined.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(head.length - NAME_MAX);
}

/** The namespace's description is added to its first tool only. */
export function toNamespacedTool(
  tool: FunctionTool | CustomTool,
  namespace: NamespaceMembership["namespace"],
  isFirst: boolean,
): NamespacedTool {
  const { name, description } = tool;
  const namespaceDescription = isFirst && namespace.description ? namespace.description : undefined;
  const fullDescription =
    namespaceDescription === undefined ? description : `${namespace.name}: ${namespaceDescription}`;
  return {
    ...tool,
    name: flatName(namespace.name, name),
    description:
      namespaceDescription !== undefined && description
        ? `${fullDescription}\n\n${description}`
        : fullDescription,
    member: { namespace, name, description },
  };
}

export function isNamespacedTool(tool: Tool): tool is NamespacedTool {
  return tool.type !== "native" && tool.member !== undefined;
}

/** Rejects names that are distinct in this API but equal in the flat list. */
export function rejectDuplicateNames(tools: readonly Tool[]): void {
  const seen = new Map<string, Tool>();
  for (const tool of tools) {
    if (tool.type === "native") continue;
    const duplicate = seen.get(tool.name);
    if (duplicate !== undefined && (isNamespacedTool(tool) || isNamespacedTool(duplicate)))
      throw invalid(
        tool.path,
        `\`${tool.path}\` and \`${duplicate.path}\` would have the same name, ${JSON.stringify(tool.name)}, at a provider without namespaces. Rename one of them.`,
      );
    seen.set(tool.name, tool);
  }
}

interface ToolIndex {
  /** By flat name. */
  readonly tools: ReadonlyMap<string, Tool>;
  /** By name in the namespace. */
  readonly members: ReadonlyMap<string, readonly NamespacedTool[]>;
}

// Cached: a conversation can have thousands of calls, and a request thousands of tools.
const TOOL_INDEXES = new WeakMap<readonly Tool[], ToolIndex>();

function toolIndexOf(tools: readonly Tool[]): ToolIndex {
  const cached = TOOL_INDEXES.get(tools);
  if (cached !== undefined) return cached;
  const members = new Map<string, NamespacedTool[]>();
  for (const tool of tools.filter(isNamespacedTool)) {
    const { name } = tool.member;
    const list = members.get(name);
    if (list === undefined) members.set(name, [tool]);
    else list.push(tool);
  }
  const index = { tools: new Map(tools.map((tool) => [tool.name, tool])), members };
  TOOL_INDEXES.set(tools, index);
  return index;
}

/** The flat name of a tool. A tool that was found by tool search has a namespace that the request does not list. */
export function flatToolName(
  tools: readonly Tool[],
  { name, namespace, path }: { name: string; namespace: string | undefined; path?: string },
): string {
  const index = toolIndexOf(tools);
  const plainTool = index.tools.get(name);
  const isPlainTool = plainTool !== undefined && !isNamespacedTool(plainTool);
  if (namespace !== undefined) {
    const flat = flatName(namespace, name);
    const member = index.tools.get(flat);
    return isPlainTool && (member === undefined || !isNamespacedTool(member)) ? name : flat;
  }
  const [only, ...others] = isPlainTool ? [] : (index.members.get(name) ?? []);
  if (others.length === 0) return only?.name ?? name;
  if (path === undefined) return name;
  throw invalid(
    `${path}.name`,
    `Several namespaces have a tool named ${JSON.stringify(name)}. Set \`${path}.namespace\`.`,
  );
}

/** The call with the tool's name and namespace. Calls that came over this API have a namespace already. */
export function toNamespacedCall<T extends Pick<ToolCallPart, "name" | "native">>(
  tools: readonly Tool[] | undefined,
  call: T,
): T {
  const own = call.native?.wire === "responses" ? call.native.fields : undefined;
  const { name, namespace } = namespacedNameOf(tools, call.name);
  return namespace === undefined || own?.["namespace"] !== undefined
    ? call
    : { ...call, name, native: { wire: "responses", fields: { ...own, namespace } } };
}

/** The name and namespace of a tool with this flat name. */
export function namespacedNameOf(
  tools: readonly Tool[] | undefined,
  name: string,
): { readonly name: string; readonly namespace?: string } {
  const tool = tools && toolIndexOf(tools).tools.get(name);
  return tool === undefined || !isNamespacedTool(tool)
    ? { name }
    : { name: tool.member.name, namespace: tool.member.namespace.name };
}

/** Writes the tools, and groups consecutive tools of a namespace. */
export function groupByNamespace(
  tools: readonly Tool[],
  write: (tool: Tool) => JsonObject | undefined,
): readonly JsonObject[] {
  const written: JsonObject[] = [];
  let open:
    | { readonly namespace: NamespaceMembership["namespace"]; readonly tools: JsonObject[] }
    | undefined;
  for (const tool of tools) {
    const one = write(tool);
    if (one === undefined) continue;
    if (!isNamespacedTool(tool)) {
      open = undefined;
      written.push(one);
      continue;
    }
    const { namespace } = tool.member;
    if (open?.namespace.name !== namespace.name) {
      open = { namespace, tools: [] };
      written.push({ type: "namespace", ...namespace, tools: open.tools });
    }
    open.tools.push(one);
  }
  return written;
}
