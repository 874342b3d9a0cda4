// Flags shared by the commands that change an account.

import { newId } from "../../base/id.ts";
import {
  type AccountChange,
  COMMAND_LINE_ACTOR,
  parseReason,
} from "../../operator/accounts/account-actions.ts";
import { booleanFlag, type CliEnv, type ParsedArgs, requiredFlag, stringFlag } from "../command.ts";

export const REASON_FLAG = requiredFlag(
  "<text>",
  "Recorded with the change; the account's owner can read it.",
);

export const ID_FLAG = stringFlag("<id>", "An idempotency key; any text.");

export const HTML_FLAG = booleanFlag("Print a page (HTML) to keep or to send.");

export const JSON_FLAG = booleanFlag("Print JSON.");

/** Throws if the reason is empty. */
export function readAction(args: ParsedArgs, cli: CliEnv): Omit<AccountChange, "accountId"> {
  const reason = parseReason(args.value("reason") ?? "");
  return { by: COMMAND_LINE_ACTOR, reason, network: null, now: cli.now() };
}

export function operationId(args: ParsedArgs, cli: CliEnv): string {
  return args.value("id") ?? newId("req", cli.now());
}
