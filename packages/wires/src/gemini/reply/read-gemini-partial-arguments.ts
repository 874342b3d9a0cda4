// Vertex may stream a tool call's arguments as values at paths: `{jsonPath: "$.items[0].name", stringValue: "Ap"}`.

import { arrayIn, isObject, type JsonObject, stringIn } from "../../json-fields.ts";

type Node = Record<string, unknown> | unknown[];

const PATH_STEPS_MAX = 64;
const INDEX_MAX = 10_000;
const PATH_STEP = /\.([^.[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/g;

/** Merges one chunk's values into the arguments. A string is appended to the string that its path already has. */
export function addPartialArguments(into: Record<string, unknown>, partial: unknown): void {
  for (const piece of arrayIn(partial)) {
    if (!isObject(piece)) continue;
    const steps = pathSteps(stringIn(piece["jsonPath"]) ?? "");
    const value = valueOf(piece);
    if (steps.length > 0 && value !== undefined) setAtPath(into, steps, value);
  }
}

function pathSteps(path: string): readonly (string | number)[] {
  const steps: (string | number)[] = [];
  for (const [, plain, index, single, double] of path.matchAll(PATH_STEP)) {
    if (index !== undefined) steps.push(Math.min(Number(index), INDEX_MAX));
    else steps.push((plain ?? single ?? double ?? "").replaceAll(/\\(.)/g, "$1"));
  }
  return steps.slice(0, PATH_STEPS_MAX);
}

function valueOf(piece: JsonObject): unknown {
  if ("nullValue" in piece) return null;
  return piece["stringValue"] ?? piece["numberValue"] ?? piece["boolValue"];
}

function setAtPath(
  root: Record<string, unknown>,
  steps: readonly (string | number)[],
  value: unknown,
): void {
  let node: Node = root;
  for (const [index, step] of steps.entries()) {
    const current = get(node, step);
    if (index === steps.length - 1) {
      const isAppended = typeof current === "string" && typeof value === "string";
      set(node, step, isAppended ? current + value : value);
      return;
    }
    const next: Node = isNode(current) ? current : typeof steps[index + 1] === "number" ? [] : {};
    if (next !== current) set(node, step, next);
    node = next;
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null;
}

function get(node: Node, step: string | number): unknown {
  if (Array.isArray(node)) return typeof step === "number" ? node[step] : undefined;
  return Object.hasOwn(node, step) ? node[step] : undefined;
}

function set(node: Node, step: string | number, value: unknown): void {
  if (!Array.isArray(node))
    Object.defineProperty(node, step, {
      value,
      enumerable: true,
      writable: true,
      configurable: true,
    });
  else if (typeof step === "number") node[step] = value;
}
