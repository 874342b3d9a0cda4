// The published schemas of tools that OpenAI's API defines and the client runs, for models of other providers.
// Source: OpenAI's API description of 2026-08-21; for V4A diffs, its instructions for `apply_patch`, read on 2026-11-23.

import { arrayIn, type JsonObject, objectIn, stringIn } from "../../json-fields.ts";

export interface ClientToolSchema {
  readonly description: string;
  readonly parameters: JsonObject;
}

const COORDINATE = integer("In pixels.");
const TEXTS = { type: "array", items: { type: "string" } };
export const COMPUTER_ACTIONS: readonly string[] =
  "click double_click drag keypress move screenshot scroll type wait".split(" ");
export const PATCH_OPERATIONS: readonly string[] = ["create_file", "update_file", "delete_file"];

export function shellSchema({ environment }: JsonObject): ClientToolSchema {
  const skills = arrayIn(objectIn(environment)?.["skills"]).map((one) => {
    const { name, description, path } = objectIn(one) ?? {};
    return `${stringIn(name) ?? ""}: ${stringIn(description) ?? ""} (${stringIn(path) ?? ""})`;
  });
  return {
    description:
      "Runs shell commands on the user's machine and returns their output and exit codes." +
      (skills.length === 0
        ? ""
        : ` Skills, each with instructions in a folder:\n${skills.join("\n")}`),
    parameters: objectOf(["commands"], {
      commands: { ...TEXTS, description: "The commands, which can run at the same time." },
      timeout_ms: integer("The time limit in milliseconds."),
      max_output_length: integer("The most characters of output to return for each command."),
    }),
  };
}

export function localShellSchema(): ClientToolSchema {
  return {
    description: "Runs a command on the user's machine and returns its output.",
    parameters: objectOf(["command"], {
      command: {
        ...TEXTS,
        description: 'The program and its arguments, such as ["bash", "-c", "ls"].',
      },
      working_directory: text("The folder to run the command in."),
      env: {
        type: "object",
        additionalProperties: { type: "string" },
        description: "Environment variables.",
      },
      timeout_ms: integer("The time limit in milliseconds."),
      user: text("The user to run the command as."),
    }),
  };
}

export function applyPatchSchema(): ClientToolSchema {
  return {
    description: "Creates, changes or deletes one file of the user's project.",
    parameters: objectOf(["type", "path"], {
      type: choice(PATCH_OPERATIONS),
      path: text("The path of the file, relative to the project."),
      diff: text(
        "For `create_file`: the content, each line with + before it. For `update_file`: a V4A diff. Each change starts with a line of @@, " +
          "which can name the function or class that it is in. Lines to remove have - before them, lines to add +, and the lines around " +
          "them a space: three before and three after, as in the file. There are no line numbers.",
      ),
    }),
  };
}

export function computerSchema({
  display_width: width,
  display_height: height,
  environment,
}: JsonObject): ClientToolSchema {
  const display =
    typeof width === "number" && typeof height === "number"
      ? ` The display has ${width} x ${height} pixels.`
      : "";
  const system = typeof environment === "string" ? ` Its environment is ${environment}.` : "";
  return {
    description: `Controls the mouse and keyboard of a computer. The result is a screenshot.${display}${system}`,
    parameters: objectOf(["actions"], {
      actions: { type: "array", minItems: 1, items: objectOf(["type"], ACTION) },
    }),
  };
}

/** The preview takes one action in a call. */
export function computerPreviewSchema(tool: JsonObject): ClientToolSchema {
  return { ...computerSchema(tool), parameters: objectOf(["type"], ACTION) };
}

const ACTION: JsonObject = {
  type: choice(COMPUTER_ACTIONS),
  x: COORDINATE,
  y: COORDINATE,
  button: choice(["left", "right", "wheel", "back", "forward"]),
  scroll_x: integer("For `scroll`: the distance to the right, in pixels."),
  scroll_y: integer("For `scroll`: the distance down, in pixels."),
  text: text("For `type`."),
  keys: { ...TEXTS, description: "For `keypress`; for the mouse, the keys that are held." },
  path: {
    type: "array",
    items: objectOf(["x", "y"], { x: COORDINATE, y: COORDINATE }),
    description: "For `drag`.",
  },
};

function objectOf(required: readonly string[], properties: JsonObject): JsonObject {
  return { type: "object", properties, required };
}

function text(description: string): JsonObject {
  return { type: "string", description };
}

function integer(description: string): JsonObject {
  return { type: "integer", description };
}

function choice(values: readonly string[]): JsonObject {
  return { type: "string", enum: values };
}
