// What a caller sees of a guardrail that denied its request or the reply to it.

import { Fault } from "../base/fault.ts";
import type { GuardPhase } from "../base/guard.ts";

const CHARGED = {
  nothing: "Nothing was charged.",
  check: "Only the check was charged.",
} as const;

export function deniedFault(
  name: string,
  phase: GuardPhase,
  reason: string,
  charged: keyof typeof CHARGED = "nothing",
): Fault {
  const what = phase === "input" ? "request" : "reply";
  const why = reason === "" ? "" : `: ${reason}`;
  return new Fault("guardrail_denied", `guardrail ${name} denied the ${what}`, {
    message:
      phase === "input"
        ? `The guardrail "${name}" of this workspace denied this request${why}. ${CHARGED[charged]} Change the request, or ask the owner of the workspace about the guardrail.`
        : `The guardrail "${name}" of this workspace denied the reply to this request${why}. ${charged === "check" ? "The call and its checks were" : "The call was"} charged, because the model has answered. Change the request, or ask the owner of the workspace about the guardrail.`,
  });
}
