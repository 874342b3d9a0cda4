// Flags shared by the commands that change an account.

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
  description: "Recorded with the change; the account's owner can read it.",
  required: true,
} as const;

export const ID_FLAG = {
  type: "string",
  placeholder: "<id>",
  description: "An idempotency key; any text.",
} as const;

export const HTML_FLAG = {
  type: "boolean",
  description: "Print a page (HTML) to keep or to send.",
} as const;

export const JSON_FLAG = { type: "boolean", description: "Print JSON." } as const;

/** Throws if the reason is empty. */
export function readAction(args: ParsedArgs, cli: CliEnv): Omit<AccountChange, "accountId"> {
  const reason = parseReason(args.value("reason") ?? "");
  return { by: COMMAND_LINE_ACTOR, reason, network: null, now: cli.now() };
}

export function operationId(args: ParsedArgs, cli: CliEnv): string {
  return args.value("id") ?? newId("req", cli.now());
}
