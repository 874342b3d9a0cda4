// Tools that OpenAI's API defines and the client runs, as functions for other APIs: their schemas, and the items of their calls.

import { arrayIn, isObject, type JsonObject, objectIn, stringIn } from "../../json-fields.ts";
import {
  applyPatchSchema,
  type ClientToolSchema,
  COMPUTER_ACTIONS,
  computerPreviewSchema,
  computerSchema,
  localShellSchema,
  PATCH_OPERATIONS,
  shellSchema,
} from "./responses-client-tool-schemas.ts";

export interface ClientTool {
  /** The name of the function. */
  readonly name: string;
  readonly schemaOf: (tool: JsonObject) => ClientToolSchema;
  /** The fields of the tool that are in the schema. */
  readonly fields: ReadonlySet<string>;
  /** The item of a call without its ids; undefined for arguments that do not fit it. */
  readonly writeCall: (input: JsonObject) => JsonObject | undefined;
}

const SHELL: ClientTool = {
  name: "shell",
  schemaOf: shellSchema,
  fields: new Set(["type", "environment"]),
  writeCall: ({ commands, timeout_ms = null, max_output_length = null }) =>
    isStringList(commands)
      ? {
          type: "shell_call",
          action: { commands, timeout_ms, max_output_length },
          environment: { type: "local" },
        }
      : undefined,
};

const LOCAL_SHELL: ClientTool = {
  name: "local_shell",
  schemaOf: localShellSchema,
  fields: new Set(["type"]),
  writeCall: ({ command, env, timeout_ms, working_directory, user }) =>
    isStringList(command)
      ? {
          type: "local_shell_call",
          action: {
            type: "exec",
            command,
            env: objectIn(env) ?? {},
            timeout_ms,
            working_directory,
            user,
          },
        }
      : undefined,
};

const APPLY_PATCH: ClientTool = {
  name: "apply_patch",
  schemaOf: applyPatchSchema,
  fields: new Set(["type"]),
  writeCall: ({ type, path, diff }) => {
    if (!isOneOf(type, PATCH_OPERATIONS) || typeof path !== "string") return undefined;
    if (type !== "delete_file" && typeof diff !== "string") return undefined;
    const operation = type === "delete_file" ? { type, path } : { type, path, diff };
    return { type: "apply_patch_call", operation };
  },
};

const COMPUTER: ClientTool = {
  name: "computer",
  schemaOf: computerSchema,
  fields: new Set(["type"]),
  writeCall: ({ actions }) => {
    const read = arrayIn(actions).map(readAction);
    const known = read.filter((action) => action !== undefined);
    if (known.length === 0 || known.length < read.length) return undefined;
    return { type: "computer_call", actions: known, pending_safety_checks: [] };
  },
};

const COMPUTER_PREVIEW: ClientTool = {
  name: "computer",
  schemaOf: computerPreviewSchema,
  fields: new Set("type display_width display_height environment".split(" ")),
  writeCall: (input) => {
    const action = readAction(input);
    return action && { type: "computer_call", action, pending_safety_checks: [] };
  },
};

const TOOL_SEARCH: ClientTool = {
  name: "tool_search",
  schemaOf: ({ description, parameters }) => ({
    description: stringIn(description) ?? "Searches for more tools and loads those that it finds.",
    parameters: {
      ...(objectIn(parameters) ?? { properties: { query: { type: "string" } } }),
      type: "object",
    },
  }),
  fields: new Set("type execution description parameters".split(" ")),
  writeCall: (input) => ({ type: "tool_search_call", execution: "client", arguments: input }),
};

/** The prefixes of the ids that OpenAI gives to the items of calls. */
export const CALL_ID_PREFIXES: Readonly<Record<string, string>> = {
  shell_call: "sh",
  local_shell_call: "lsh",
  apply_patch_call: "apc",
  computer_call: "cu",
  tool_search_call: "tsc",
};

/** Undefined for a tool that the provider runs, and for a tool that every API has. */
export function clientToolOf({ type, environment, execution }: JsonObject): ClientTool | undefined {
  switch (type) {
    case "shell":
      return isLocal(environment) ? SHELL : undefined;
    case "local_shell":
      return LOCAL_SHELL;
    case "apply_patch":
      return APPLY_PATCH;
    case "computer":
      return COMPUTER;
    case "computer_use_preview":
      return COMPUTER_PREVIEW;
    case "tool_search":
      return execution === "client" ? TOOL_SEARCH : undefined;
    default:
      return undefined;
  }
}

/** Without `environment`, OpenAI's shell runs on the client. */
export function isLocal(environment: unknown): boolean {
  return !isObject(environment) || environment["type"] === "local";
}

/** Adds fields that the item requires and that models often leave out. */
function readAction(value: unknown): JsonObject | undefined {
  if (!isObject(value) || !isOneOf(value["type"], COMPUTER_ACTIONS)) return undefined;
  if (value["type"] === "click") return { button: "left", ...value };
  return value["type"] === "scroll" ? { scroll_x: 0, scroll_y: 0, ...value } : value;
}

function isStringList(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "string");
}

function isOneOf(value: unknown, values: readonly string[]): value is string {
  return typeof value === "string" && values.includes(value);
}
