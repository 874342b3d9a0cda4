// Browser scripts are typed functions of this code base, served as their own source text. A function of a script may use
// only the DOM and the other functions of its script.

/** The functions of one script; the last one starts it. */
type ScriptFunction = (...input: never[]) => unknown;

export function browserScript(functions: readonly ScriptFunction[]): string {
  const start = functions.at(-1);
  const declarations = functions.map((declared) => declared.toString()).join("\n");
  return `"use strict";(()=>{\n${declarations}\n${start?.name}();\n})();\n`;
}
