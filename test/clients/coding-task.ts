// A coding task of five steps that a simulated model plays: read a file, edit it, run a command, start a sub-agent, and answer.
// Each client names its tools differently; what was done is read from the conversation, so that the script keeps no state.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import type { Script, ScriptedTurn } from "@postern/simulator";
import type { Json } from "../translation/support/harness.ts";

export const TASK = "main-task: fix the total in total.txt, then report.";
export const FINAL_TEXT = "final-report: the total is 42.";
export const SUBTASK = "side-task: count the lines of total.txt.";
const SUB_TEXT = "side-report: one line.";

type CallName = "read" | "edit" | "run" | "delegate" | "wait";
export interface ToolCall {
  readonly name: string;
  readonly input: Json | string | ((conversation: string) => Json);
}
type StepCalls = Partial<Record<CallName, readonly ToolCall[]>>;

/** The calls of a client's tools that do each step: the first of which the tool is offered. A step without a tool is left out. */
export type ClientTools = (file: string) => StepCalls;

/** The command of the third step, and what the sub-agent runs. */
export const COMMAND = "echo 'ran-command' > ran.txt";
const SUB_COMMAND = "echo 'ran-side-task' > side.txt";

export interface CodingTask {
  readonly folder: string;
  readonly script: Script;
  /** What the client did in its folder. */
  readonly results: () => Readonly<Record<string, string | undefined>>;
}

export function createCodingTask(parent: string, clientTools: ClientTools): CodingTask {
  const folder = path.join(parent, "project");
  mkdirSync(folder, { recursive: true });
  const file = path.join(folder, "total.txt");
  writeFileSync(file, "total: 41 wrong-total\n");
  const tools = clientTools(file);
  const script: Script = ({ segments, tools: offered }) =>
    nextTurn(segments.map(({ text }) => text).join("\n"), tools, offered);
  const read = (name: string): string | undefined => {
    try {
      return readFileSync(path.join(folder, name), "utf8").trim();
    } catch {
      return undefined;
    }
  };
  return {
    folder,
    script,
    results: () => ({
      edited: read("total.txt"),
      ran: read("ran.txt"),
      side: read("side.txt"),
    }),
  };
}

/** Undefined for a request that is no part of the task, such as one for a title. */
function nextTurn(
  prompt: string,
  steps: StepCalls,
  offered: readonly { readonly name: string }[],
): ScriptedTurn | undefined {
  const names = offered.map(({ name }) => name);
  const call = (calls: readonly ToolCall[] | undefined): ScriptedTurn => {
    for (const { name, input } of calls ?? []) {
      // A translation puts the namespace of a tool before its name.
      const found = names.find((one) => one === name || one.endsWith(`_${name}`));
      if (found === undefined) continue;
      const value = typeof input === "function" ? input(prompt) : input;
      const text = typeof value === "string" ? value : JSON.stringify(value);
      return { calls: [{ name: found, input: text }] };
    }
    return { text: `no tool for this step in: ${names.join(" ")}` };
  };
  if (!prompt.includes(TASK)) {
    if (!prompt.includes(SUBTASK)) return undefined;
    return prompt.includes("ran-side-task") ? { text: SUB_TEXT } : call(inSubAgent(steps.run));
  }
  if (!prompt.includes("wrong-total")) return call(steps.read);
  if (!prompt.includes("total: 42")) return call(steps.edit);
  if (!prompt.includes("ran-command")) return call(steps.run);
  if (!prompt.includes("side-task")) return call(steps.delegate);
  if (steps.wait !== undefined && !prompt.includes(SUB_TEXT)) return call(steps.wait);
  return { text: FINAL_TEXT };
}

function inSubAgent(calls: readonly ToolCall[] | undefined): readonly ToolCall[] | undefined {
  return calls?.map(({ name, input }) => {
    const text = JSON.stringify(input).replace(COMMAND, SUB_COMMAND);
    // The same value with another command.
    return { name, input: JSON.parse(text) as Json | string };
  });
}
