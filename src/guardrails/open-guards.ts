// Runs the guardrails of a workspace on the texts of a call, in order: each one checks the output of the one before it.

import {
  applyEdits,
  type Guard,
  type GuardedCall,
  type GuardedText,
  type GuardPhase,
  type GuardrailCheck,
  type OpenGuards,
  type PartResult,
  type StreamPart,
} from "../base/guard.ts";
import type { Db } from "../store/db.ts";
import { callHook, type CallHookDeps, type HookRequest } from "./call-hook.ts";
import { checkTopics, type Named, type Note } from "./check-topics.ts";
import { deniedFault } from "./denied-fault.ts";
import {
  type Guardrail,
  type HookSettings,
  listGuardrails,
  type PatternSettings,
} from "./guardrails.ts";
import {
  decidedLength,
  type Entity,
  findMatches,
  maskOf,
  type Match,
  MATCHES_MAX,
} from "./patterns.ts";

export interface OpenGuardsDeps extends CallHookDeps {
  readonly db: Db;
  readonly monotonicNow: () => number;
}

export function createOpenGuards(deps: OpenGuardsDeps): OpenGuards {
  return async (call, checks) => {
    const all = await listGuardrails(deps.db, call.accountId);
    const open = (phase: GuardPhase): Partial<Record<GuardPhase, Guard>> => {
      const guardrails = all.filter(({ settings }) => settings.phases.includes(phase));
      if (guardrails.length === 0) return {};
      const allowedTexts = new Set<string>();
      return { [phase]: guardOf({ deps, call, phase, checks, guardrails, allowedTexts }) };
    };
    return { ...open("input"), ...open("output") };
  };
}

interface OpenedGuard {
  readonly deps: OpenGuardsDeps;
  readonly call: GuardedCall;
  readonly phase: GuardPhase;
  readonly checks: GuardrailCheck[];
  readonly guardrails: readonly Guardrail[];
  /** By guardrail and text: the last events of a stream repeat what was checked, and each check of topics is paid. */
  readonly allowedTexts: Set<string>;
}

function guardOf(opened: OpenedGuard): Guard {
  return {
    isRemote: opened.guardrails.some(({ settings }) => settings.type !== "patterns"),
    checkAll: async (texts) => {
      let current = texts;
      for (const { name, settings } of opened.guardrails) {
        const from = opened.deps.monotonicNow();
        const note = (action: GuardrailCheck["action"]): void =>
          addCheck(opened, { name, action, from });
        const checked =
          settings.type === "patterns"
            ? checkPatterns(opened, { name, settings }, current, note)
            : settings.type === "topics"
              ? await checkTopics(opened, { name, settings }, current, note)
              : await runHook(opened, { name, settings }, { texts: current }, note);
        current = current.map(({ path }, index) => ({ path, text: checked[index] ?? "" }));
      }
      return current.map(({ text }) => text);
    },
    checkPart: (part) => checkPart(opened, part),
  };
}

function checkPatterns(
  { phase }: OpenedGuard,
  { name, settings: { entities, action } }: Named<PatternSettings>,
  texts: readonly GuardedText[],
  note: Note,
): readonly string[] {
  const found: (readonly Match[])[] = [];
  let left = MATCHES_MAX;
  for (const { text } of texts) {
    const matches = findMatches(text, entities, left);
    if (matches === undefined) {
      note("denied");
      throw deniedFault(name, phase, TOO_MANY);
    }
    left -= matches.length;
    found.push(matches);
  }
  const first = found.findIndex((matches) => matches.length > 0);
  if (first === -1) {
    note("allowed");
    return texts.map(({ text }) => text);
  }
  if (action === "deny") {
    note("denied");
    throw deniedFault(name, phase, foundReason(found[first]?.[0]?.entity, texts[first]?.path));
  }
  note("masked");
  return texts.map(({ text }, index) => applyEdits(text, (found[index] ?? []).map(maskOf)));
}

const TOO_MANY = `it contains more than ${MATCHES_MAX} matches`;

function foundReason(entity: Entity | undefined, path: string | undefined): string {
  const where = path === undefined ? "" : ` in \`${path}\``;
  return `it contains ${entity === undefined ? "a match" : `\`${entity}\``}${where}`;
}

async function runHook(
  opened: OpenedGuard,
  { name, settings }: Named<HookSettings>,
  request: Pick<HookRequest, "texts" | "isLast">,
  note: Note,
): Promise<readonly string[]> {
  const { call, phase } = opened;
  const verdict = await callHook(opened.deps, settings, {
    guardrail: name,
    call,
    phase,
    ...request,
  });
  const texts = request.texts.map(({ text }) => text);
  if (verdict.action === "allow") {
    note("allowed");
    return texts;
  }
  if (verdict.action === "rewrite") {
    note("rewritten");
    return verdict.texts;
  }
  if (verdict.action === "failed" && settings.on_failure === "allow") {
    note("failed");
    return texts;
  }
  note("denied");
  const reason =
    verdict.action === "failed" ? `its hook failed: ${verdict.reason}` : verdict.reason;
  throw deniedFault(name, phase, reason);
}

/** Patterns first: the others get the text as it is sent on. */
async function checkPart(
  opened: OpenedGuard,
  { text, checked, isLast }: StreamPart,
): Promise<PartResult> {
  const { guardrails, phase, deps } = opened;
  const from = deps.monotonicNow();
  const noteAs =
    (name: string) =>
    (action: GuardrailCheck["action"]): void => {
      addCheck(opened, { name, action, from });
    };
  const masking = guardrails.flatMap(({ name, settings }) =>
    settings.type === "patterns" ? [{ name, settings }] : [],
  );
  const entities = masking.flatMap(({ settings }) => settings.entities);
  const matches = findMatches(text, entities);
  const [firstMasking] = masking;
  if (matches === undefined) {
    const name = firstMasking?.name ?? "";
    noteAs(name)("denied");
    throw deniedFault(name, phase, TOO_MANY);
  }
  const decided = isLast ? text.length : Math.max(checked, decidedLength(text, matches));
  const decidedMatches = matches.filter(({ start }) => start >= checked && start < decided);
  for (const { name, settings } of masking) {
    const own = decidedMatches.find(({ entity }) => settings.entities.includes(entity));
    if (own !== undefined && settings.action === "deny") {
      noteAs(name)("denied");
      throw deniedFault(name, phase, foundReason(own.entity, undefined));
    }
    noteAs(name)(own === undefined ? "allowed" : "masked");
  }
  const edits = decidedMatches.map(maskOf);
  if (decided === checked) return { edits, decided };
  const texts = [{ path: "stream", text: applyEdits(text.slice(0, decided), edits) }];
  for (const { name, settings } of guardrails)
    if (settings.type === "topics")
      await checkTopics(opened, { name, settings }, texts, noteAs(name));
    else if (settings.type === "hook")
      await runHook(opened, { name, settings }, { texts, isLast }, noteAs(name));
  return { edits, decided };
}

/** One entry per guardrail and phase: of the parts of a stream, the sum of the times and the gravest action. */
function addCheck(
  { checks, phase, deps }: OpenedGuard,
  {
    name,
    action,
    from,
  }: { readonly name: string; readonly action: GuardrailCheck["action"]; readonly from: number },
): void {
  const ms = Math.round(deps.monotonicNow() - from);
  const index = checks.findIndex((check) => check.name === name && check.phase === phase);
  const before = checks[index];
  if (before === undefined) {
    checks.push({ name, phase, action, ms });
    return;
  }
  const isGraver = ACTIONS.indexOf(action) > ACTIONS.indexOf(before.action);
  checks[index] = { ...before, action: isGraver ? action : before.action, ms: before.ms + ms };
}

const ACTIONS: readonly GuardrailCheck["action"][] = [
  "allowed",
  "rewritten",
  "masked",
  "failed",
  "denied",
];
