// What all commands that change an account have in common: a reason, a name against repetition, and who it was.

import { newId } from "../../base/id.ts";
import {
  type AccountChange,
  COMMAND_LINE_ACTOR,
  parseReason,
} from "../../operator/accounts/account-actions.ts";
import type { ParsedArgs, CliEnv } from "../command.ts";

export const REASON_FLAG = {
  type: "string",
  placeholder: "<text>",
  description: "Kept with the change, where the account's owner can read it.",
  required: true,
} as const;

export const ID_FLAG = {
  type: "string",
  placeholder: "<id>",
  description: "Makes a repetition harmless; any text.",
} as const;

export const JSON_FLAG = { type: "boolean", description: "Prints JSON, for programs." } as const;

/** Throws where the reason says nothing. */
export function readAction(args: ParsedArgs, cli: CliEnv): Omit<AccountChange, "accountId"> {
  const reason = parseReason(args.value("reason") ?? "");
  return { by: COMMAND_LINE_ACTOR, reason, network: null, now: cli.now() };
}

export function operationId(args: ParsedArgs, cli: CliEnv): string {
  return args.value("id") ?? newId("req", cli.now());
}
