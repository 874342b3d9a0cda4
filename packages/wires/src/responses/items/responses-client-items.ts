// The items of calls and results of tools that OpenAI's API defines and the client runs. Other APIs get function calls, with
// the fields of the item as arguments.

import { arrayIn, isObject, type JsonObject, objectIn, stringIn } from "../../json-fields.ts";
import { isLocal } from "./responses-client-tools.ts";

export interface ClientCall {
  readonly name: string;
  readonly input: JsonObject;
}

/** Undefined for an item that is not such a call. */
export function readClientCall(item: JsonObject): ClientCall | undefined {
  const { type, action, actions, operation, environment } = item;
  switch (type) {
    case "shell_call":
      return isLocal(environment) ? callOf("shell", action) : undefined;
    case "local_shell_call": {
      const { type: _exec, ...input } = objectIn(action) ?? {};
      return callOf("local_shell", input);
    }
    case "apply_patch_call":
      return callOf("apply_patch", operation);
    case "computer_call":
      return callOf("computer", Array.isArray(actions) ? { actions } : action);
    case "tool_search_call":
      return item["execution"] === "client" ? callOf("tool_search", item["arguments"]) : undefined;
    default:
      return undefined;
  }
}

const RESULTS: ReadonlySet<unknown> = new Set([
  "shell_call_output",
  "local_shell_call_output",
  "apply_patch_call_output",
  "computer_call_output",
  "tool_search_output",
]);

export function isClientResult({ type }: JsonObject): boolean {
  return RESULTS.has(type);
}

export interface ClientResult {
  /** The result, as the content of a tool's output. */
  readonly output: unknown;
  readonly isError: boolean;
}

export function readClientResult({ type, output, status, tools }: JsonObject): ClientResult {
  const isError = status === "failed";
  switch (type) {
    case "apply_patch_call_output":
      return { output: stringIn(output) ?? (isError ? "The patch failed." : "Done."), isError };
    case "computer_call_output":
      return { output: [{ ...objectIn(output), type: "input_image" }], isError };
    case "tool_search_output": {
      const names = arrayIn(tools).map((tool) => stringIn(objectIn(tool)?.["name"]) ?? "");
      return { output: `Loaded the tools ${names.join(", ")}.`, isError };
    }
    default:
      return { output: stringIn(output) ?? JSON.stringify(output ?? []), isError };
  }
}

function callOf(name: string, input: unknown): ClientCall | undefined {
  return isObject(input) ? { name, input } : undefined;
}
