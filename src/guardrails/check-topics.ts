// Checks whether a request, or the reply to it, is about a blocked topic: one decisions call with a question for each topic, which
// the key of the request pays.

import { Fault } from "../base/fault.ts";
import type { GuardedCall, GuardedText, GuardPhase, GuardrailCheck } from "../base/guard.ts";
import { isObject, type JsonObject } from "../base/json.ts";
import { deniedFault } from "./denied-fault.ts";
import type { TopicSettings } from "./guardrails.ts";

export type Note = (action: GuardrailCheck["action"]) => void;

export interface Named<Settings> {
  readonly name: string;
  readonly settings: Settings;
}

export interface TopicCheck {
  readonly call: Pick<GuardedCall, "decide">;
  readonly phase: GuardPhase;
  /** Guardrail and text of checks of this call that allowed it; they are not paid twice. */
  readonly allowedTexts: Set<string>;
}

/** Returns the texts unchanged: a topic is denied, never rewritten. Throws the fault of a denial. */
export async function checkTopics(
  { call: { decide }, phase, allowedTexts }: TopicCheck,
  { name, settings }: Named<TopicSettings>,
  texts: readonly GuardedText[],
  note: Note,
): Promise<readonly string[]> {
  const unchanged = texts.map(({ text }) => text);
  const input = unchanged.join("\n\n");
  const checkedText = `${name} ${input}`;
  if (decide === undefined || input.trim() === "" || allowedTexts.has(checkedText)) {
    note("allowed");
    return unchanged;
  }
  const answers = await askAbout((body) => decide(body, phase), settings, input);
  if (answers instanceof Fault) {
    // Below 500 the key cannot pay for the check, which `on_failure` does not excuse. For a request the caller gets that error;
    // a reply is denied, because its caller has no check to correct.
    const isFailure = answers.status >= 500;
    if (!isFailure && phase === "input") throw answers;
    const isPassed = isFailure && settings.on_failure === "allow";
    note(isPassed ? "failed" : "denied");
    if (isPassed) return unchanged;
    throw deniedFault(name, phase, `its check failed: ${answers.publicMessage}`);
  }
  const topic = settings.topics.find((_, index) => (answers[index] ?? 1) >= settings.threshold);
  if (topic === undefined) {
    allowedTexts.add(checkedText);
    note("allowed");
    return unchanged;
  }
  note("denied");
  throw deniedFault(name, phase, `it is about "${topic}"`, "check");
}

/** The probability of each topic, or why there is none. */
async function askAbout(
  decide: (body: JsonObject) => Promise<JsonObject>,
  { model, topics }: TopicSettings,
  input: string,
): Promise<readonly number[] | Fault> {
  const questions = topics.map((topic, index) => ({
    type: "predicate",
    name: `topic_${index}`,
    instructions: `The text is about this topic: ${topic}`,
  }));
  try {
    const reply = await decide({ model, input, questions });
    const answers = questions.map(({ name }) => probabilityOf(reply, name));
    const found = answers.filter((answer) => answer !== undefined);
    return found.length === answers.length ? found : unansweredFault();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return error;
  }
}

function unansweredFault(): Fault {
  return new Fault("upstream_error", "a question of a topic has no answer", {
    message: "the model did not answer every question",
  });
}

function probabilityOf({ answers }: JsonObject, name: string): number | undefined {
  if (!Array.isArray(answers)) return undefined;
  const answer: unknown = answers.find((one: unknown) => isObject(one) && one["name"] === name);
  const probability = isObject(answer) ? answer["probability"] : undefined;
  return typeof probability === "number" ? probability : undefined;
}
