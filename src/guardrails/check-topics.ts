// Checks whether a request is about a blocked topic: one decisions call with a question for each topic, which the key of the
// request pays.

import { Fault } from "../base/fault.ts";
import type { GuardedCall, GuardedText, GuardrailCheck } from "../base/guard.ts";
import { isObject, type JsonObject } from "../base/json.ts";
import { deniedFault } from "./denied-fault.ts";
import type { TopicSettings } from "./guardrails.ts";

export type Note = (action: GuardrailCheck["action"]) => void;

export interface Named<Settings> {
  readonly name: string;
  readonly settings: Settings;
}

/** Returns the texts as they are. */
export async function checkTopics(
  { decide }: GuardedCall,
  { name, settings }: Named<TopicSettings>,
  texts: readonly GuardedText[],
  note: Note,
): Promise<readonly string[]> {
  const unchanged = texts.map(({ text }) => text);
  const input = unchanged.join("\n\n");
  if (decide === undefined || input.trim() === "") {
    note("allowed");
    return unchanged;
  }
  const answers = await askAbout(decide, settings, input);
  if (typeof answers === "string") {
    note(settings.on_failure === "allow" ? "failed" : "denied");
    if (settings.on_failure === "allow") return unchanged;
    throw deniedFault(name, "input", `its check failed: ${answers}`);
  }
  const topic = settings.topics.find((_, index) => (answers[index] ?? 1) >= settings.threshold);
  if (topic === undefined) {
    note("allowed");
    return unchanged;
  }
  note("denied");
  throw deniedFault(name, "input", `it is about "${topic}"`, "check");
}

/** The probability of each topic, or why there is none. */
async function askAbout(
  decide: NonNullable<GuardedCall["decide"]>,
  { model, topics }: TopicSettings,
  input: string,
): Promise<readonly number[] | string> {
  const questions = topics.map((topic, index) => ({
    type: "predicate",
    name: `topic_${index}`,
    instructions: `The text is about this topic: ${topic}`,
  }));
  try {
    const reply = await decide({ model, input, questions });
    const answers = questions.map(({ name }) => probabilityOf(reply, name));
    const found = answers.filter((answer) => answer !== undefined);
    return found.length === answers.length ? found : "it did not answer every question";
  } catch (error) {
    // A key without credits, or beyond its limit, skips no check.
    if (!(error instanceof Fault) || error.status < 500) throw error;
    return error.publicMessage;
  }
}

function probabilityOf({ answers }: JsonObject, name: string): number | undefined {
  if (!Array.isArray(answers)) return undefined;
  const answer: unknown = answers.find((one: unknown) => isObject(one) && one["name"] === name);
  const probability = isObject(answer) ? answer["probability"] : undefined;
  return typeof probability === "number" ? probability : undefined;
}
