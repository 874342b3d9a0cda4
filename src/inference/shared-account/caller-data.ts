// Fields of a request body that contain the caller's own data or a copy of an earlier reply: schemas, arguments, labels,
// citations. No provider resolves names in them, so they may contain what looks like a reference.

import { isObject, type JsonObject } from "../../base/json.ts";
import { ROOT } from "./reference-table.ts";

/** `parent` is the field that contains the object. */
type IsCallerData = (object: JsonObject, parent: string) => boolean;

const always: IsCallerData = () => true;
const inParent =
  (...parents: readonly string[]): IsCallerData =>
  (_, parent) =>
    parents.includes(parent);
const ofType =
  (pattern: RegExp): IsCallerData =>
  ({ type }) =>
    typeof type === "string" && pattern.test(type);
const hasTypeOrRole: IsCallerData = ({ type, role }) =>
  typeof type === "string" || typeof role === "string";
// The container's owner is checked with the request.
const ofCodeRun = ofType(/^(?:code_interpreter|shell)_call/);

function isSchema(value: unknown): boolean {
  return isObject(value) && value["type"] === "object" && isObject(value["properties"] ?? {});
}

const CALLER_DATA: ReadonlyMap<string, IsCallerData> = new Map<string, IsCallerData>([
  [
    "parameters",
    ({ type, parameters }, parent) =>
      type === "function" ||
      ["function", "functions", "functionDeclarations"].includes(parent) ||
      // Tools that the caller runs have a schema, too; the parameters of a provider's own tools are settings.
      isSchema(parameters),
  ],
  ["arguments", ({ name, type }) => typeof name === "string" || type === "tool_search_call"],
  ["args", inParent("functionCall")],
  ["response", inParent("functionResponse")],
  ["input", (object, parent) => parent === "toolUse" || ofType(/tool_use$/)(object, parent)],
  ["json", inParent("content", "inputSchema", "structured_outputs")],
  ["schema", inParent("json_schema", "format", "jsonSchema", "response_format", "output_format")],
  ["annotations", hasTypeOrRole],
  ["citations", hasTypeOrRole],
  ["action", ofType(/_call$/)],
  ["results", ofType(/^file_search_call$/)],
  ["outputs", ofCodeRun],
  ["search_results", hasTypeOrRole],
  ["container_id", ofCodeRun],
  ["environment", ofCodeRun],
  // Files that code wrote in an earlier call: the provider does not load them.
  ["file_id", ofType(/code_execution_output$/)],
  ["data", ofType(/^text$/)],
  ["url", ofType(/^web_(?:search|fetch)_/)],
  ["input_schema", always],
  ["output_schema", always],
  ["responseSchema", always],
  ["responseJsonSchema", always],
  ["_responseJsonSchema", always],
  ["labels", inParent(ROOT)],
  ["parametersJsonSchema", always],
  ["guided_json", always],
  ["input_examples", always],
  ["logit_bias", always],
  ["metadata", inParent(ROOT)],
  ["client_metadata", inParent(ROOT)],
  ["requestMetadata", inParent(ROOT)],
]);

export function isCallerData(field: string, object: JsonObject, parent: string): boolean {
  return CALLER_DATA.get(field)?.(object, parent) === true;
}
