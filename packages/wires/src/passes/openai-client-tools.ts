// Tools that OpenAI's API defines and the client runs, for a provider of another API: functions in the request, and their
// calls in the reply as items of OpenAI's API.

import { addLoss, type Loss } from "../canonical/canonical-losses.ts";
import type {
  CanonicalRequest,
  NativeTool,
  Tool,
  ToolChoice,
} from "../canonical/canonical-request.ts";
import { checkSchema } from "../canonical/check-request.ts";
import { arrayIn, isObject, parseObject, stringIn, unknownFields } from "../json-fields.ts";
import { type ClientTool, clientToolOf } from "../responses/items/responses-client-tools.ts";
import { flatToolName } from "../responses/items/responses-namespaces.ts";
import { otherToolFields } from "../server-tool-fields.ts";
import type { CallHead, ChangedRequest, OpenCall, StepContext } from "./translation-step.ts";

/** By the name of the function. */
type SentClientTools = ReadonlyMap<string, ClientTool>;

export function openAiToolsAsFunctions(
  request: CanonicalRequest,
  { losses }: StepContext,
): ChangedRequest {
  const sent = new Map<string, ClientTool>();
  const { tools, toolChoice } = request;
  if (tools === undefined) return { request };
  const names = new Set(tools.flatMap((tool) => (tool.type === "native" ? [] : [tool.name])));
  const written = tools.flatMap((tool): readonly Tool[] => {
    const definition = definitionOf(tool);
    if (definition === undefined || tool.type !== "native") return [tool];
    const { name } = definition;
    if (names.has(name)) {
      addLoss(
        losses,
        tool.path ?? "tools",
        `Another tool of the request is named \`${name}\`, the name under which this tool is sent to the provider.`,
      );
      return [];
    }
    names.add(name);
    sent.set(name, definition);
    return [toFunction(tool, definition, losses)];
  });
  if (sent.size === 0) return { request };
  return {
    request: { ...request, tools: written, toolChoice: choiceOf(toolChoice, written, sent) },
    createUndo: () => ({ openCall: (head) => openCall(head, sent) }),
  };
}

function definitionOf(tool: Tool): ClientTool | undefined {
  return tool.type === "native" && tool.wire === "responses" ? clientToolOf(tool.value) : undefined;
}

function toFunction({ value, path }: NativeTool, definition: ClientTool, losses: Loss[]): Tool {
  const { description, parameters } = definition.schemaOf(value);
  // A search for tools has the caller's own schema.
  checkSchema(parameters, `${path ?? "tools"}.parameters`);
  const rest = unknownFields(value, definition.fields);
  losses.push(...otherToolFields(rest, path ?? "tools", "responses"));
  return { type: "function", name: definition.name, description, parameters, path };
}

function choiceOf(
  choice: ToolChoice | undefined,
  tools: readonly Tool[],
  sent: SentClientTools,
): ToolChoice | undefined {
  if (choice?.type !== "native" || choice.wire !== "responses") return choice;
  const { value } = choice;
  if (value["type"] !== "allowed_tools") {
    const name = chosenName(value, tools, sent);
    return name === undefined ? choice : { type: "tool", name };
  }
  const allowed = arrayIn(value["tools"]).map((tool) => chosenName(tool, tools, sent));
  const names = allowed.filter((name) => name !== undefined);
  if (names.length < allowed.length) return choice;
  return { type: "allowed", mode: value["mode"] === "required" ? "required" : "auto", names };
}

/** Undefined for a tool that the provider runs. */
function chosenName(
  chosen: unknown,
  tools: readonly Tool[],
  sent: SentClientTools,
): string | undefined {
  if (!isObject(chosen)) return undefined;
  const { type, namespace } = chosen;
  const isNamed = type === "function" || type === "custom";
  const name = isNamed
    ? stringIn(chosen["name"])
    : clientToolOf({ ...chosen, execution: "client" })?.name;
  if (name === undefined) return undefined;
  if (!isNamed) return sent.has(name) ? name : undefined;
  return flatToolName(tools, { name, namespace: stringIn(namespace) });
}

/** The item depends on the whole arguments. If they do not fit one, the caller gets a function call. */
function openCall(head: CallHead, sent: SentClientTools): OpenCall | undefined {
  const definition = sent.get(head.name);
  if (definition === undefined) return undefined;
  let text = "";
  return {
    push(more) {
      text += more;
      return "";
    },
    end() {
      const input = head.custom === true ? undefined : parseObject(text);
      return { head: { ...head, item: input && definition.writeCall(input) }, text };
    },
  };
}
