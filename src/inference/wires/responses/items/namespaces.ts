// This API keeps tools in namespaces; the others have one list of names. There a tool is called by both names in one, the
// same in every call of a conversation, and a reply says both again.
import { invalid } from "../../../../base/fault.ts";
import { shortDigest } from "../../../canonical/call-ids.ts";
import type {
  CustomTool,
  FunctionTool,
  NamespaceMembership,
  Tool,
} from "../../../canonical/request.ts";
import type { ToolCallPart } from "../../../canonical/parts.ts";
import type { JsonObject } from "../../../../base/json.ts";

export type NamespacedTool = (FunctionTool | CustomTool) & { readonly member: NamespaceMembership };

/** What every provider takes for a name. */
const NAME_MAX = 64;
const TOOL_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/;

/** The one name for both. Where that is too long or has other characters, its end stands behind a digest of the whole. */
function flatName(namespace: string, name: string): string {
  const joined = `${namespace}__${name}`;
  if (TOOL_NAME.test(joined)) return joined;
  const head = `_${shortDigest(JSON.stringify([namespace, name]))}_`;
  return head + joined.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(head.length - NAME_MAX);
}

/** A tool as one of a namespace's. What the namespace is for is told once, with its first tool. */
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

/** Two that this API tells apart, and no other could. */
export function rejectDuplicateNames(tools: readonly Tool[]): void {
  const seen = new Map<string, Tool>();
  for (const tool of tools) {
    if (tool.type === "native") continue;
    const duplicate = seen.get(tool.name);
    if (duplicate !== undefined && (isNamespacedTool(tool) || isNamespacedTool(duplicate)))
      throw invalid(
        tool.path,
        `${tool.path} and ${duplicate.path} would both be called ${JSON.stringify(tool.name)} at this model's provider, which has no namespaces. Rename one of them.`,
      );
    seen.set(tool.name, tool);
  }
}

interface ToolIndex {
  /** By the names that they have elsewhere. */
  readonly tools: ReadonlyMap<string, Tool>;
  /** By the names that they have in their namespaces. */
  readonly members: ReadonlyMap<string, readonly NamespacedTool[]>;
}

// A conversation may call thousands of times, and a request offer thousands of tools: they are looked through once.
const TOOL_INDEXES = new WeakMap<readonly Tool[], ToolIndex>();

function toolIndexOf(tools: readonly Tool[]): ToolIndex {
  const known = TOOL_INDEXES.get(tools);
  if (known !== undefined) return known;
  const members = new Map<string, NamespacedTool[]>();
  for (const tool of tools.filter(isNamespacedTool)) {
    const { name } = tool.member;
    const list = members.get(name);
    if (list === undefined) members.set(name, [tool]);
    else list.push(tool);
  }
  const names = { tools: new Map(tools.map((tool) => [tool.name, tool])), members };
  TOOL_INDEXES.set(tools, names);
  return names;
}

/** What a tool is called elsewhere that this API calls so. A call of a tool that was searched for has a namespace of its own. */
export function flatToolName(
  tools: readonly Tool[],
  { name, namespace, path }: { name: string; namespace: string | undefined; path?: string },
): string {
  const names = toolIndexOf(tools);
  const plainTool = names.tools.get(name);
  const isPlainTool = plainTool !== undefined && !isNamespacedTool(plainTool);
  if (namespace !== undefined) {
    const flat = flatName(namespace, name);
    const member = names.tools.get(flat);
    return isPlainTool && (member === undefined || !isNamespacedTool(member)) ? name : flat;
  }
  const [only, ...others] = isPlainTool ? [] : (names.members.get(name) ?? []);
  if (others.length === 0) return only?.name ?? name;
  if (path === undefined) return name;
  throw invalid(
    `${path}.name`,
    `${JSON.stringify(name)} is a tool of several namespaces. Say which in ${path}.namespace.`,
  );
}

/** A call of a tool of a namespace as this API names it. One that came over this API says its namespace itself. */
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

/** The names by which this API calls the tool that is called so elsewhere. */
export function namespacedNameOf(
  tools: readonly Tool[] | undefined,
  name: string,
): { readonly name: string; readonly namespace?: string } {
  const tool = tools && toolIndexOf(tools).tools.get(name);
  return tool === undefined || !isNamespacedTool(tool)
    ? { name }
    : { name: tool.member.name, namespace: tool.member.namespace.name };
}

/** The tools in this API's form, those of a namespace within it again. */
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
