// Anthropic's tools that the client runs: their definition is part of Claude. Other models get the published schema as a
// function, and calls and results have the same form.
// Source: platform.claude.com/docs/en/agents-and-tools/tool-use, read on 2026-11-23.

import type {
  CanonicalRequest,
  FunctionTool,
  NativeTool,
  Tool,
} from "../canonical/canonical-request.ts";
import { isObject, type JsonObject } from "../json-fields.ts";

interface ClientTool {
  readonly type: RegExp;
  readonly describe: (tool: JsonObject) => string;
  readonly properties: (tool: JsonObject) => JsonObject;
  readonly required: readonly string[];
}

/** From this version on, the editor inserts `insert_text` and not `new_str`. */
const EDITOR_WITH_INSERT_TEXT = "text_editor_20250728";
const EDITOR_WITHOUT_UNDO = "text_editor_20250429";
const COMPUTER_WITH_ZOOM = "computer_20251124";

const POINT = { type: "array", items: { type: "integer" }, description: "[x, y] in pixels." };
const FIRST_ACTIONS =
  "key type mouse_move left_click left_click_drag right_click middle_click double_click screenshot cursor_position";
const LATER_ACTIONS = "left_mouse_down left_mouse_up scroll hold_key wait triple_click";

const CLIENT_TOOLS: readonly ClientTool[] = [
  {
    type: /^bash_\d{8}$/,
    describe: () => "Runs commands in a bash session that keeps its state between calls.",
    properties: () => ({
      command: text("The command to run. Required unless the session is restarted."),
      restart: { type: "boolean", description: "Restarts the session." },
    }),
    required: [],
  },
  {
    type: /^text_editor_\d{8}$/,
    describe: ({ max_characters: limit }) =>
      "Views, creates and edits text files." +
      (typeof limit === "number" ? ` A view is cut off after ${limit} characters.` : ""),
    properties: ({ type }) => {
      const hasInsertText = isSince(type, EDITOR_WITH_INSERT_TEXT);
      const undo = isSince(type, EDITOR_WITHOUT_UNDO) ? [] : ["undo_edit"];
      return {
        command: choice(["view", "create", "str_replace", "insert", ...undo]),
        path: text("The path of the file, or of a directory to view."),
        ...fileProperties(hasInsertText),
      };
    },
    required: ["command", "path"],
  },
  {
    type: /^memory_\d{8}$/,
    describe: () =>
      "Reads and changes the files of a memory directory, /memories, which outlasts the conversation. View it before other work.",
    properties: () => ({
      command: choice(["view", "create", "str_replace", "insert", "delete", "rename"]),
      path: text("The path below /memories. For all commands except `rename`."),
      ...fileProperties(true),
      old_path: text("For `rename`."),
      new_path: text("For `rename`."),
    }),
    required: ["command"],
  },
  {
    type: /^computer_\d{8}$/,
    describe: ({ display_width_px: width, display_height_px: height }) =>
      `Controls the mouse and keyboard of a computer and takes screenshots. The display has ${String(width)} x ${String(height)} pixels.`,
    properties: ({ type, enable_zoom: zoom }) => {
      const hasZoom = isSince(type, COMPUTER_WITH_ZOOM) && zoom === true;
      return {
        action: choice(actionsOf(type, hasZoom)),
        coordinate: POINT,
        start_coordinate: POINT,
        text: text("For `type`; the keys for `key` and `hold_key`, such as ctrl+s."),
        scroll_direction: choice(["up", "down", "left", "right"]),
        scroll_amount: { type: "integer" },
        duration: { type: "number", description: "In seconds, for `hold_key` and `wait`." },
        ...(hasZoom && {
          region: { ...POINT, description: "For `zoom`: [x0, y0, x1, y1] in pixels." },
        }),
      };
    },
    required: ["action"],
  },
];

/** The request with functions in place of these tools, for a wire that does not have them. */
export function clientToolsAsFunctions(request: CanonicalRequest): {
  readonly request: CanonicalRequest;
} {
  const tools = request.tools?.map((tool): Tool => {
    const definition = definitionOf(tool);
    return definition === undefined || tool.type !== "native" ? tool : toFunction(tool, definition);
  });
  return { request: tools === undefined ? request : { ...request, tools } };
}

/** The computer tool in the form of versions before the toolset, as a function of this API; undefined for another tool. */
export function computerToolAsFunction(value: JsonObject): JsonObject | undefined {
  const { type, name, cache_control } = value;
  if (!/^computer_\d{8}$/.test(String(type)) || typeof name !== "string") return undefined;
  const tool: NativeTool = { type: "native", wire: "messages", name, value };
  const definition = definitionOf(tool);
  if (definition === undefined) return undefined;
  const { description, parameters } = toFunction(tool, definition);
  return { name, description, input_schema: parameters, cache_control };
}

function definitionOf(tool: Tool): ClientTool | undefined {
  if (tool.type !== "native" || tool.wire !== "messages") return undefined;
  return CLIENT_TOOLS.find(({ type }) => type.test(String(tool.value["type"])));
}

function toFunction({ name, value, path }: NativeTool, definition: ClientTool): FunctionTool {
  return {
    type: "function",
    name,
    description: definition.describe(value),
    parameters: {
      type: "object",
      properties: definition.properties(value),
      required: definition.required,
    },
    cache: isObject(value["cache_control"]) ? {} : undefined,
    path,
  };
}

function fileProperties(hasInsertText: boolean): JsonObject {
  return {
    view_range: {
      type: "array",
      items: { type: "integer" },
      description: "For `view`: the first and the last line; -1 is the end of the file.",
    },
    file_text: text("For `create`: the content."),
    old_str: text("For `str_replace`: the text to replace, which must be unique."),
    new_str: text(
      hasInsertText
        ? "For `str_replace`: the replacement."
        : "For `str_replace`: the replacement. For `insert`: the text.",
    ),
    insert_line: {
      type: "integer",
      description: "For `insert`: the line after which to insert; 0 is the beginning.",
    },
    ...(hasInsertText && { insert_text: text("For `insert`: the text.") }),
  };
}

function actionsOf(type: unknown, hasZoom: boolean): readonly string[] {
  const later = type === "computer_20241022" ? [] : LATER_ACTIONS.split(" ");
  return [...FIRST_ACTIONS.split(" "), ...later, ...(hasZoom ? ["zoom"] : [])];
}

/** Versions end in their date, so they sort by it. */
function isSince(type: unknown, version: string): boolean {
  return typeof type === "string" && type >= version;
}

function text(description: string): JsonObject {
  return { type: "string", description };
}

function choice(values: readonly string[]): JsonObject {
  return { type: "string", enum: values };
}
